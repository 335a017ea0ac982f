// SPDX-License-Identifier: Apache-2.0

//! Defaults and checks of Website objects of version v1, and the conversion from other versions.

use operator_runtime::webhook::{
    AdmissionRequest, Conversion, Defaulter, Denied, Validator, Warnings, Webhook,
};

use crate::api::v1::Website;

/// The admission webhooks of Website.
#[derive(Clone, Copy, Debug, Default)]
pub struct WebsiteWebhook;

/// Returns the webhooks of Website.
pub fn webhook() -> Webhook<Website> {
    Webhook::new()
        .defaulter(WebsiteWebhook)
        .validator(WebsiteWebhook)
        .conversion(Conversion::new().spoke::<crate::api::v1alpha1::Website>())
}

// ANCHOR: default
impl Defaulter<Website> for WebsiteWebhook {
    /// Sets the number of replicas, whose default depends on another field.
    async fn default(&self, _: &AdmissionRequest, object: &mut Website) -> Result<(), Denied> {
        let replicas = if object.spec.host.is_some() { 2 } else { 1 };
        object.spec.replicas.get_or_insert(replicas);
        Ok(())
    }
}
// ANCHOR_END: default

// ANCHOR: validate
impl Validator<Website> for WebsiteWebhook {
    /// Validates a new object.
    async fn validate_create(
        &self,
        _: &AdmissionRequest,
        object: &Website,
    ) -> Result<Warnings, Denied> {
        if let Some(host) = object.spec.host.as_deref().filter(|host| !is_host(host)) {
            let message = format!("spec.host: Invalid value: {host:?}: must be a DNS name");
            return Err(Denied::new(message));
        }
        if let Some(name) = object.spec.pages.keys().find(|name| !is_file_name(name)) {
            let message = format!("spec.pages: Invalid value: {name:?}: must be a file name");
            return Err(Denied::new(message));
        }
        let mut warnings = Warnings::new();
        if !object.spec.pages.contains_key("index.html") {
            warnings.push("spec.pages: index.html is missing".to_owned());
        }
        Ok(warnings)
    }

    /// Validates a change.
    async fn validate_update(
        &self,
        request: &AdmissionRequest,
        _: &Website,
        new: &Website,
    ) -> Result<Warnings, Denied> {
        self.validate_create(request, new).await
    }
}

/// Returns true for DNS names: lower-case labels of letters, digits and dashes, separated by dots.
fn is_host(host: &str) -> bool {
    let is_label = |label: &str| {
        let is_character = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let is_long = label.is_empty() || label.len() > 63;
        !is_long
            && label.chars().all(is_character)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    host.len() <= 253 && host.split('.').all(is_label)
}

/// Returns true for valid keys of a ConfigMap.
fn is_file_name(name: &str) -> bool {
    let is_character = |c: char| c.is_ascii_alphanumeric() || ['-', '_', '.'].contains(&c);
    !name.is_empty() && !name.starts_with('.') && name.chars().all(is_character)
}
// ANCHOR_END: validate
