//! Requests as the `spec` of a SubjectAccessReview.

use serde_json::{Map, Value, json};

use super::Attributes;

/// Returns the `spec` of a `v1` SubjectAccessReview about a request.
pub(super) fn spec_of(asked: &Attributes<'_>) -> Value {
    let mut spec = json!({});
    if asked.is_resource {
        let mut attributes = texts([
            ("namespace", asked.namespace),
            ("verb", asked.verb),
            ("group", asked.group),
            ("version", asked.version),
            ("resource", asked.resource),
            ("subresource", asked.subresource),
            ("name", asked.name),
        ]);
        if let Some(selectors) = asked.selectors {
            selectors.write(&mut attributes);
        }
        spec["resourceAttributes"] = attributes;
    } else {
        spec["nonResourceAttributes"] = texts([("path", asked.path), ("verb", asked.verb)]);
    }
    let user = asked.user;
    for (field, text) in [("user", &user.name), ("uid", &user.uid)] {
        if !text.is_empty() {
            spec[field] = text.as_str().into();
        }
    }
    if !user.groups.is_empty() {
        spec["groups"] = user.groups.clone().into();
    }
    if !user.extra.is_empty() {
        spec["extra"] = json!(user.extra);
    }
    spec
}

fn texts<const N: usize>(fields: [(&str, &str); N]) -> Value {
    let given = fields.into_iter().filter(|(_, text)| !text.is_empty());
    let fields: Map<String, Value> = given.map(|(name, text)| (name.to_owned(), text.into())).collect();
    fields.into()
}
