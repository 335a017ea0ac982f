//! AdmissionReviews: requests, responses, and errors of invalid responses.

use apimachinery::object;
use serde_json::{Map, Value, json};

use crate::status::Status;

/// A supported version of `admission.k8s.io`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReviewVersion {
    V1,
    V1Beta1,
}

/// The response of a webhook.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Verdict {
    pub(super) allowed: bool,
    /// The Status of the response, with its optional fields.
    pub(super) result: Value,
    pub(super) warnings: Vec<String>,
    /// A JSON patch in base64.
    pub(super) patch: Option<String>,
}

impl Verdict {
    pub(super) fn allowed() -> Self {
        Self {
            allowed: true,
            ..Self::default()
        }
    }
}

impl ReviewVersion {
    /// Returns the first supported version in a webhook's list.
    pub(super) fn first_known(webhook: &Value) -> Option<Self> {
        let list = webhook.get("admissionReviewVersions")?.as_array()?;
        list.iter().find_map(|version| match version.as_str()? {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        })
    }

    fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "admission.k8s.io/v1",
            Self::V1Beta1 => "admission.k8s.io/v1beta1",
        }
    }

    /// Returns the AdmissionReview of a request.
    pub(super) fn request(
        self,
        uid: &str,
        mut request: Map<String, Value>,
        object: Option<Value>,
        old: Option<Value>,
    ) -> Value {
        request.insert("uid".to_owned(), uid.into());
        request.insert("object".to_owned(), object.unwrap_or(Value::Null));
        request.insert("oldObject".to_owned(), old.unwrap_or(Value::Null));
        json!({"kind": "AdmissionReview", "apiVersion": self.api_version(), "request": request})
    }

    /// Parses the response.
    ///
    /// # Errors
    /// Returns an error if the response is not a valid AdmissionReview.
    pub(super) fn verdict(self, uid: &str, mutating: bool, answer: &Value) -> Result<Verdict, String> {
        let response = answer.get("response").filter(|response| response.is_object());
        let response = response.ok_or("webhook response was absent")?;
        let text = |field: &str| object::text(response, &[field]);
        if self == Self::V1 {
            if text("uid") != uid {
                return Err(format!("expected response.uid={uid:?}, got {:?}", text("uid")));
            }
            self.check_kind(answer)?;
        }
        let patch = match mutating {
            true => self.patch(response)?,
            false if self == Self::V1 => no_patch(response)?,
            false => None,
        };
        let warnings = response.get("warnings").and_then(Value::as_array);
        let warnings = warnings.into_iter().flatten().filter_map(Value::as_str);
        Ok(Verdict {
            allowed: response.get("allowed") == Some(&Value::Bool(true)),
            result: response.get("status").cloned().unwrap_or(Value::Null),
            warnings: warnings.map(str::to_owned).collect(),
            patch,
        })
    }

    fn check_kind(self, answer: &Value) -> Result<(), String> {
        let (version, kind) = (
            object::text(answer, &["apiVersion"]),
            object::text(answer, &["kind"]),
        );
        let wanted = self.api_version();
        if version == wanted && kind == "AdmissionReview" {
            return Ok(());
        }
        // A version without a group is shown with the slash after the empty group.
        let slash = if version.contains('/') { "" } else { "/" };
        Err(format!(
            "expected webhook response of {wanted}, Kind=AdmissionReview, got {slash}{version}, Kind={kind}"
        ))
    }

    /// Returns the patch; it has a type, and `v1beta1` supports only one.
    fn patch(self, response: &Value) -> Result<Option<String>, String> {
        let patch = Some(object::text(response, &["patch"])).filter(|patch| !patch.is_empty());
        let patch_type = response.get("patchType").and_then(Value::as_str);
        match (patch, patch_type) {
            (Some(_), None) if self == Self::V1 => {
                Err("webhook returned response.patch but not response.patchType".to_owned())
            }
            (None, Some(_)) if self == Self::V1 => {
                Err("webhook returned response.patchType but not response.patch".to_owned())
            }
            (Some(_), Some("")) => Err("webhook returned invalid response.patchType of \"\"".to_owned()),
            (Some(_), Some(other)) if other != "JSONPatch" => {
                Err(format!("unsupported patch type {other:?}"))
            }
            (patch, _) => Ok(patch.map(str::to_owned)),
        }
    }
}

fn no_patch(response: &Value) -> Result<Option<String>, String> {
    if !object::text(response, &["patch"]).is_empty() {
        return Err("validating webhook may not return response.patch".to_owned());
    }
    if response.get("patchType").is_some_and(|kind| !kind.is_null()) {
        return Err("validating webhook may not return response.patchType".to_owned());
    }
    Ok(None)
}

/// Returns the error of a request that a webhook rejects: the webhook's Status, with its name before the message.
pub(super) fn denial(webhook: &str, result: &Value) -> Status {
    let by = format!("admission webhook {webhook:?} denied the request");
    let text = |field: &str| object::text(result, &[field]);
    let message = match (text("message"), text("reason")) {
        ("", "") => format!("{by} without explanation"),
        ("", reason) => format!("{by}: {reason}"),
        (message, _) => format!("{by}: {message}"),
    };
    let code = result.get("code").and_then(Value::as_u64);
    let code = code
        .and_then(|code| u16::try_from(code).ok())
        .filter(|code| *code >= 400);
    let code = code.unwrap_or(400);
    let state = match text("status") {
        "" | "Success" => "Failure",
        other => other,
    };
    let mut body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": state, "message": message, "code": code,
    });
    for field in ["reason", "details"] {
        if let Some(value) = result
            .get(field)
            .filter(|value| !value.is_null() && **value != "")
        {
            body[field] = value.clone();
        }
    }
    Status { code, body }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn problem(mutating: bool, answer: &Value) -> String {
        ReviewVersion::V1.verdict("u", mutating, answer).unwrap_err()
    }

    fn answer(response: &Value) -> Value {
        json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response})
    }

    #[test]
    fn invalid_answers_are_distinguished() {
        for (mutating, found, expected) in [
            (false, json!({}), "webhook response was absent"),
            (
                false,
                answer(&json!({"uid": "x"})),
                "expected response.uid=\"u\", got \"x\"",
            ),
            (
                false,
                json!({"kind": "Pod", "apiVersion": "v1", "response": {"uid": "u"}}),
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /v1, Kind=Pod",
            ),
            (
                true,
                answer(&json!({"uid": "u", "patch": "W10="})),
                "webhook returned response.patch but not response.patchType",
            ),
            (
                true,
                answer(&json!({"uid": "u", "patchType": "JSONPatch"})),
                "webhook returned response.patchType but not response.patch",
            ),
            (
                false,
                answer(&json!({"uid": "u", "patch": "W10="})),
                "validating webhook may not return response.patch",
            ),
        ] {
            assert_eq!(problem(mutating, &found), expected);
        }
    }

    #[test]
    fn rejections_name_the_webhook_and_are_never_a_success() {
        for (result, code, message) in [
            (
                Value::Null,
                400,
                "admission webhook \"w\" denied the request without explanation",
            ),
            (
                json!({"code": 200, "status": "Success", "reason": "Because"}),
                400,
                "admission webhook \"w\" denied the request: Because",
            ),
            (
                json!({"code": 403, "message": "no", "reason": "Forbidden"}),
                403,
                "admission webhook \"w\" denied the request: no",
            ),
        ] {
            let status = denial("w", &result);
            assert_eq!((status.code, status.message()), (code, message));
            assert_eq!(status.body["status"], "Failure");
        }
    }
}
