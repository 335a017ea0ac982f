#[tokio::test]
async fn a_valid_object_is_taken() -> Result<()> {
    let (webhook, request) = ({{ kind }}Webhook, AdmissionRequest::default());
    let object = sample();
    webhook.validate_create(&request, &object).await?;
    // TODO: check that what is wrong is refused, with the field in the message.
    webhook.validate_update(&request, &object, &object).await?;
    Ok(())
}
