#[tokio::test]
async fn defaults_stay_when_they_are_there() -> Result<()> {
    let (webhook, request) = ({{ kind }}Webhook, AdmissionRequest::default());
    let mut object = sample();
    webhook.default(&request, &mut object).await?;
    // TODO: check what was filled in.
    let once = serde_json::to_value(&object)?;
    webhook.default(&request, &mut object).await?;
    assert_eq!(serde_json::to_value(&object)?, once);
    Ok(())
}
