//! The conditions of ClusterCatalogs and ClusterExtensions.

use operator_olm::catalog::Deprecation;
use serde_json::{Value, json};

use crate::object::Object;
use crate::olm::set_condition;

/// The reason why an extension does not progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// The operation is retried.
    Retrying(String),
    /// Only a change of the specification can resolve it.
    Invalid(String),
}

/// Sets a condition of an object in a status.
pub(super) fn put(
    status: &mut Value,
    object: &Value,
    kind: &str,
    state: &str,
    reason: &str,
    message: &str,
    now: &Value,
) {
    let mut conditions = status.items("/conditions").to_vec();
    let condition = json!({
        "type": kind, "status": state, "reason": reason, "message": message, "observedGeneration": object.generation(),
    });
    set_condition(&mut conditions, condition, now);
    status["conditions"] = json!(conditions);
}

/// Sets the conditions about deprecations. `known` is `None` if no catalog has the package.
pub(super) fn put_deprecations(
    status: &mut Value,
    extension: &Value,
    installed: &str,
    known: Option<&[Deprecation]>,
    now: &Value,
) {
    const UNKNOWN: (&str, &str, &str) = (
        "Unknown",
        "DeprecationStatusUnknown",
        "deprecation status unknown: catalog data unavailable",
    );
    const ABSENT: (&str, &str, &str) = ("Unknown", "Absent", "no bundle installed yet");
    let channels = extension.items("/spec/source/catalog/channels");
    let messages = |schema: &str, applies: &dyn Fn(&str) -> bool| -> Vec<&str> {
        let entries = known.unwrap_or_default().iter();
        entries
            .filter(|entry| entry.schema == schema && applies(&entry.name))
            .map(|entry| entry.message.as_str())
            .collect()
    };
    let parts = [
        (
            "PackageDeprecated",
            "package not deprecated",
            messages("olm.package", &|_| true),
        ),
        (
            "ChannelDeprecated",
            "channel not deprecated",
            messages("olm.channel", &|name| {
                channels.iter().any(|channel| channel == name)
            }),
        ),
        (
            "BundleDeprecated",
            "bundle not deprecated",
            messages("olm.bundle", &|name| !installed.is_empty() && name == installed),
        ),
    ];
    let all: Vec<&str> = parts
        .iter()
        .flat_map(|(_, _, messages)| messages.iter().copied())
        .collect();
    for (kind, not, messages) in [("Deprecated", "not deprecated", all)].into_iter().chain(parts) {
        let joined = messages.join("\n");
        let (state, reason, message) = if kind == "BundleDeprecated" && installed.is_empty() {
            ABSENT
        } else if known.is_none() {
            UNKNOWN
        } else if messages.is_empty() {
            ("False", "NotDeprecated", not)
        } else {
            ("True", "Deprecated", joined.as_str())
        };
        put(status, extension, kind, state, reason, message, now);
    }
}
