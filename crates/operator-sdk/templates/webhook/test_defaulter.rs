#[tokio::test]
async fn defaults_stay_when_they_are_there() -> Result<()> {
    let (webhook, request) = ({{ kind }}Webhook, AdmissionRequest::default());
    let mut object = sample();
    let first = webhook.default(&request, &mut object).await;
    assert!(first.is_ok(), "{first:?}");
    // TODO: check what was filled in.
    let once = serde_json::to_value(&object)?;
    let second = webhook.default(&request, &mut object).await;
    assert!(second.is_ok(), "{second:?}");
    assert_eq!(serde_json::to_value(&object)?, once);
    Ok(())
}
