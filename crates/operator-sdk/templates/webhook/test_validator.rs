{% if foreign %}
#[tokio::test]
async fn a_valid_object_is_accepted() -> Result<()> {
    let webhook = {{ kind }}Webhook;
    let request = AdmissionRequest::default();
    let object = sample();
    let created = webhook.validate_create(&request, &object).await;
    assert!(created.is_ok(), "{created:?}");
    // TODO: check that invalid objects are rejected, with the field in the message.
    let updated = webhook.validate_update(&request, &object, &object).await;
    assert!(updated.is_ok(), "{updated:?}");
    Ok(())
}
{% else %}
#[tokio::test]
async fn a_valid_object_is_accepted() -> Result<()> {
    let env = start().await?;
    let objects: Api<{{ kind }}> = {{ "Api::default_namespaced" if namespaced else "Api::all" }}(env.client());
    let created = objects.create(&PostParams::default(), &sample()?).await?;
    let name = created.metadata.name.unwrap_or_default();
    let changed = env
        .update(&objects, &name, |object| {
            let annotations = object.metadata.annotations.get_or_insert_default();
            annotations.insert("changed".to_owned(), "yes".to_owned());
        })
        .await?;
    assert!(changed.metadata.annotations.is_some());

    // TODO: check that invalid objects are rejected, with the field in the message:
    //     let mut invalid = sample()?;
    //     invalid.metadata.name = Some("invalid".to_owned());
    //     invalid.spec.size = 2;
    //     let rejected = objects.create(&PostParams::default(), &invalid).await;
    //     let message = rejected.expect_err("the size is even").to_string();
    //     assert!(message.contains("spec.size: must be odd"), "{message}");
    env.stop().await;
    Ok(())
}
{% endif %}
