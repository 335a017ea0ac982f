impl Defaulter<{{ kind }}> for {{ kind }}Webhook {
    /// Fills in what the author of an object left out, before it is checked and stored.
    ///
    /// It may be called twice for one request, so it must change nothing of its own result.
{{ signature("    async fn default(", ["&self", "_: &AdmissionRequest", "object: &mut " ~ kind], ") -> Result<(), Denied> {") }}
        // TODO: fill in defaults that the schema cannot say, such as those that depend on other fields.
        let _ = object;
        Ok(())
    }
}
