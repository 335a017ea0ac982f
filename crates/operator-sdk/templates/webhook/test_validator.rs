#[tokio::test]
async fn a_valid_object_is_taken() -> Result<()> {
    let (webhook, request) = ({{ kind }}Webhook, AdmissionRequest::default());
    let object = sample();
    let created = webhook.validate_create(&request, &object).await;
    assert!(created.is_ok(), "{created:?}");
    // TODO: check that what is wrong is refused, with the field in the message.
    let updated = webhook.validate_update(&request, &object, &object).await;
    assert!(updated.is_ok(), "{updated:?}");
    Ok(())
}
