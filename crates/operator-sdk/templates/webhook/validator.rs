impl Validator<{{ kind }}> for {{ kind }}Webhook {
    /// Checks an object that is about to be created.
{{ signature("    async fn validate_create(", ["&self", "_: &AdmissionRequest", "object: &" ~ kind], ") -> Result<Warnings, Denied> {") }}
        // TODO: check rules that the schema cannot express, and return the reason:
        //     return Err(Denied::new("spec.size: must be odd"));
        let _ = object;
        Ok(Warnings::new())
    }

    /// Checks an object that is about to be updated.
{{ signature("    async fn validate_update(", ["&self", "request: &AdmissionRequest", "old: &" ~ kind, "new: &" ~ kind], ") -> Result<Warnings, Denied> {") }}
        // TODO: check that immutable fields are unchanged.
        let _ = old;
        self.validate_create(request, new).await
    }
}
