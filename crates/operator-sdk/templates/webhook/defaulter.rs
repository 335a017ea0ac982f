impl Defaulter<{{ kind }}> for {{ kind }}Webhook {
    /// Sets the defaults of an object, before it is validated and stored.
    ///
    /// It may be called twice for one request, so it must be idempotent.
{{ signature("    async fn default(", ["&self", "_: &AdmissionRequest", "object: &mut " ~ kind], ") -> Result<(), Denied> {") }}
        // TODO: set defaults that the schema cannot express, such as those that depend on other fields.
        let _ = object;
        Ok(())
    }
}
