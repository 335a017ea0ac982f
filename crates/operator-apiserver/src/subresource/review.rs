//! Reviews: kinds that are created and answered, and never stored.

use http::StatusCode;
use serde_json::{Value, json};

use crate::call::{Answer, Call};
use crate::negotiate::Form;
use crate::registry::Definition;
use crate::status::{self, Status};

/// Whether a resource is a question rather than a thing.
pub(crate) fn is_review(definition: &Definition) -> bool {
    !definition.is_custom() && definition.verbs == ["create"]
}

/// Answers a review.
pub(crate) fn serve(
    call: &Call,
    definition: &Definition,
    form: Form,
    mut review: Value,
) -> Result<Answer, Status> {
    let user = &call.user;
    let status = match definition.subject.resource.as_str() {
        "selfsubjectreviews" => json!({
            "userInfo": {"username": user.name, "groups": user.groups},
        }),
        "selfsubjectaccessreviews" => json!({"allowed": user.is_master()}),
        "subjectaccessreviews" | "localsubjectaccessreviews" => {
            let masters = review
                .pointer("/spec/groups")
                .and_then(Value::as_array)
                .is_some_and(|groups| groups.iter().any(|group| group == "system:masters"));
            json!({"allowed": masters})
        }
        "selfsubjectrulesreviews" => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }),
        "tokenreviews" => json!({"user": {}}),
        _ => return Err(status::method_not_allowed()),
    };
    let created = crate::object::meta(&review, "creationTimestamp").is_none();
    if created && definition.subject.resource == "selfsubjectreviews" {
        let now = crate::clock::rfc3339(std::time::SystemTime::now());
        crate::object::set_meta(&mut review, "creationTimestamp", Some(now.into()));
    }
    review["status"] = status;
    Ok(Answer::object(StatusCode::CREATED, &review, form))
}
