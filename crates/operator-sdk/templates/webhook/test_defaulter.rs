{% if not foreign %}
#[tokio::test]
async fn defaults_are_set_before_an_object_is_stored() -> Result<()> {
    let env = start().await?;
    let objects: Api<{{ kind }}> = {{ "Api::default_namespaced" if namespaced else "Api::all" }}(env.client());
    // Without a response of the webhook, the API server would reject the object.
    let stored = objects.create(&PostParams::default(), &sample()?).await?;
    // TODO: check the defaults, such as:
    //     assert_eq!(stored.spec.size, 3);
    assert!(stored.metadata.uid.is_some());
    env.stop().await;
    Ok(())
}

{% endif %}
#[tokio::test]
async fn defaulting_is_idempotent() -> Result<()> {
    let webhook = {{ kind }}Webhook;
    let request = AdmissionRequest::default();
    let mut object = sample(){{ "" if foreign else "?" }};
    let first = webhook.default(&request, &mut object).await;
    assert!(first.is_ok(), "{first:?}");
{% if foreign %}
    // TODO: check the defaults.
{% endif %}
    let once = serde_json::to_value(&object)?;
    let second = webhook.default(&request, &mut object).await;
    assert!(second.is_ok(), "{second:?}");
    assert_eq!(serde_json::to_value(&object)?, once);
    Ok(())
}
