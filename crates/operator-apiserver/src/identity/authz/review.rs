//! Requests as the `spec` of a SubjectAccessReview.

use apimachinery::object;
use serde_json::{Map, Value, json};

use super::Attributes;
use crate::identity::authn::User;

/// Returns the user that the `spec` of a SubjectAccessReview is about.
pub(crate) fn user_of(spec: &Value) -> User {
    let list = |value: Option<&Value>| -> Vec<String> {
        let items = value.and_then(Value::as_array).into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let extra = spec.get("extra").and_then(Value::as_object);
    User {
        name: object::text(spec, &["user"]).to_owned(),
        uid: object::text(spec, &["uid"]).to_owned(),
        groups: list(spec.get("groups")),
        extra: extra
            .into_iter()
            .flatten()
            .map(|(key, values)| (key.clone(), list(Some(values))))
            .collect(),
    }
}

/// Returns the request of a user that the `spec` of an access review describes, without its selectors.
pub(crate) fn asked_by<'a>(user: &'a User, spec: &'a Value) -> Attributes<'a> {
    let is_resource = spec
        .get("resourceAttributes")
        .is_some_and(|attributes| !attributes.is_null());
    let resource = |field: &str| object::text(spec, &["resourceAttributes", field]);
    let path = |field: &str| object::text(spec, &["nonResourceAttributes", field]);
    Attributes {
        user,
        verb: if is_resource {
            resource("verb")
        } else {
            path("verb")
        },
        is_resource,
        group: resource("group"),
        resource: resource("resource"),
        subresource: resource("subresource"),
        namespace: resource("namespace"),
        name: resource("name"),
        path: path("path"),
        version: match resource("version") {
            "" => "*",
            version => version,
        },
        selected_node: "",
        selectors: None,
    }
}

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
