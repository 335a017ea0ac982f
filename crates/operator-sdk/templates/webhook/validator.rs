impl Validator<{{ kind }}> for {{ kind }}Webhook {
    /// Checks an object that is about to be created.
{{ signature("    async fn validate_create(", ["&self", "_: &AdmissionRequest", "object: &" ~ kind], ") -> Result<Warnings, Denied> {") }}
        // TODO: check what the schema cannot say, and refuse with what is wrong:
        //     return Err(Denied::new("spec.size: must be odd"));
        let _ = object;
        Ok(Warnings::new())
    }

    /// Checks a change.
{{ signature("    async fn validate_update(", ["&self", "request: &AdmissionRequest", "old: &" ~ kind, "new: &" ~ kind], ") -> Result<Warnings, Denied> {") }}
        // TODO: check what may change, too.
        let _ = old;
        self.validate_create(request, new).await
    }
}
