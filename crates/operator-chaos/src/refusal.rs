//! The responses of an API server to requests that it does not process. `tests/legality.rs` compares them with
//! recordings.

use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::call::{Call, qualified};
use crate::plan::Cause;

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
/// The user in messages about permissions.
const USER: &str = "system:serviceaccount:default:operator";
const TIMEOUT: &str = "Timeout: request did not complete within the allotted timeout";
const STARTING: &str =
    "the request has been made before all known HTTP paths have been installed, please try again";

/// A response of a server that did not process the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: u16,
    content_type: &'static str,
    retry_after: Option<u32>,
    body: String,
}

impl Refusal {
    /// Returns the response with a status code to a call.
    pub(crate) fn of(code: u16, call: &Call) -> Self {
        match code {
            404 => Self::text(404, None, "404 page not found\n"),
            409 => Self::conflict(call),
            429 => Self::text(429, Some(1), "Too many requests, please try again later.\n"),
            503 => {
                let mut status = status(503, "ServiceUnavailable", STARTING);
                status["details"] = json!({"retryAfterSeconds": 5});
                Self {
                    retry_after: Some(5),
                    ..Self::json(503, &status)
                }
            }
            // The server's timeout filter writes the status without its kind.
            504 => Self {
                code,
                content_type: TEXT,
                retry_after: None,
                body: json!({
                    "metadata": {}, "status": "Failure", "message": TIMEOUT, "reason": "Timeout", "details": {},
                    "code": 504,
                })
                .to_string(),
            },
            // An error of the storage has no reason.
            _ => Self::json(
                500,
                &json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                    "message": "etcdserver: leader changed", "code": 500,
                }),
            ),
        }
    }

    /// Returns the response during an outage, or `None` if the connection fails without a response.
    pub(crate) fn during(cause: Cause, call: &Call) -> Option<Self> {
        match cause {
            Cause::Webhook => Some(Self::webhook_down()),
            Cause::Permission => Some(Self::forbidden(call)),
            Cause::Server => None,
        }
    }

    fn conflict(call: &Call) -> Self {
        let resource = qualified(&call.resource, &call.group);
        let message = format!(
            "Operation cannot be fulfilled on {resource} \"{}\": the object has been modified; please apply your changes to \
             the latest version and try again",
            call.name
        );
        let mut status = status(409, "Conflict", &message);
        status["details"] = details(call);
        Self::json(409, &status)
    }

    fn forbidden(call: &Call) -> Self {
        let verb = match call.verb.as_str() {
            "apply" => "patch",
            verb => verb,
        };
        let subject = match call.name.as_str() {
            name if verb == "create" || name.is_empty() => qualified(&call.resource, &call.group),
            name => format!("{} \"{name}\"", qualified(&call.resource, &call.group)),
        };
        let resource = match call.subresource.as_str() {
            "" => call.resource.clone(),
            subresource => format!("{}/{subresource}", call.resource),
        };
        let scope = match call.namespace.as_str() {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace \"{namespace}\""),
        };
        let message = format!(
            "{subject} is forbidden: User \"{USER}\" cannot {verb} resource \"{resource}\" in API group \"{}\" {scope}",
            call.group
        );
        let mut status = status(403, "Forbidden", &message);
        status["details"] = details(call);
        if verb == "create"
            && let Some(details) = status["details"].as_object_mut()
        {
            details.remove("name");
        }
        Self::json(403, &status)
    }

    fn webhook_down() -> Self {
        let cause = "failed calling webhook \"chaos.operator-sdk.dev\": failed to call webhook: Post \
                     \"https://webhook.default.svc:443/validate?timeout=10s\": dial tcp 10.0.0.20:443: connect: connection \
                     refused";
        let mut status = status(500, "InternalError", &format!("Internal error occurred: {cause}"));
        status["details"] = json!({"causes": [{"message": cause}]});
        Self::json(500, &status)
    }

    fn json(code: u16, status: &Value) -> Self {
        Self {
            code,
            content_type: JSON,
            retry_after: None,
            body: status.to_string(),
        }
    }

    fn text(code: u16, retry_after: Option<u32>, body: &str) -> Self {
        Self {
            code,
            content_type: TEXT,
            retry_after,
            body: body.to_owned(),
        }
    }

    /// Returns the HTTP response.
    pub(crate) fn response(self) -> Response<String> {
        let mut response = Response::new(self.body);
        *response.status_mut() = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// Returns the error event of a watch whose version is older than the history.
pub(crate) fn expired() -> Value {
    json!({"type": "ERROR", "object": status(410, "Expired", "too old resource version")})
}

/// Returns the status for an object that does not exist.
pub(crate) fn not_found(call: &Call) -> Value {
    let message = format!(
        "{} \"{}\" not found",
        qualified(&call.resource, &call.group),
        call.name
    );
    let mut status = status(404, "NotFound", &message);
    status["details"] = details(call);
    status
}

fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": reason,
        "code": code,
    })
}

fn details(call: &Call) -> Value {
    let mut details = json!({"kind": call.resource});
    if !call.group.is_empty() {
        details["group"] = call.group.clone().into();
    }
    if !call.name.is_empty() {
        details["name"] = call.name.clone().into();
    }
    details
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a recorded response of kube-apiserver.
    fn recorded(name: &str) -> Value {
        let all: Value =
            serde_json::from_str(include_str!("../tests/recorded/faults.json")).unwrap_or_default();
        all[name].clone()
    }

    fn answer(refusal: Refusal) -> Value {
        let response = refusal.response();
        let text =
            |name: &http::HeaderName| response.headers().get(name).and_then(|value| value.to_str().ok());
        let body: Value =
            serde_json::from_str(response.body()).unwrap_or_else(|_| response.body().clone().into());
        let mut headers = json!({"content-type": text(&CONTENT_TYPE)});
        if let Some(seconds) = text(&RETRY_AFTER) {
            headers["retry-after"] = seconds.into();
        }
        json!({"status": response.status().as_u16(), "headers": headers, "body": body})
    }

    fn call(verb: &str, group: &str, resource: &str, name: &str) -> Call {
        Call {
            verb: verb.to_owned(),
            group: group.to_owned(),
            version: "v1".to_owned(),
            resource: resource.to_owned(),
            subresource: String::new(),
            namespace: "default".to_owned(),
            name: name.to_owned(),
            target: String::new(),
            accepts_any_version: false,
            continues: false,
        }
    }

    /// Replaces the parts of a recorded response that depend on the request.
    fn with(recorded: &Value, replacements: &[(&str, &str)]) -> Value {
        let text = replacements
            .iter()
            .fold(recorded.to_string(), |text, (from, to)| text.replace(from, to));
        serde_json::from_str(&text).unwrap_or_default()
    }

    #[test]
    fn errors_equal_those_of_kube_apiserver() {
        let create = call("create", "", "configmaps", "a");
        let update = call("update", "", "configmaps", "a");
        let cases = [
            (404, &create, "unknownResourceWrite"),
            (409, &update, "conflict"),
            (429, &create, "overload"),
            (503, &create, "starting"),
            (504, &create, "timeout"),
        ];
        for (code, call, name) in cases {
            assert_eq!(answer(Refusal::of(code, call)), recorded(name), "{name}");
        }
        assert_eq!(
            answer(Refusal::of(504, &call("get", "", "configmaps", "a"))),
            recorded("timeoutOfRead")
        );
        let missing = call("get", "", "configmaps", "missing");
        assert_eq!(not_found(&missing), recorded("notFound")["body"]);
        // The write that got the recorded 504 was processed later.
        assert_eq!(recorded("afterTimeout"), json!({"status": 200, "name": "late"}));
    }

    #[test]
    fn outages_answer_as_kube_apiserver() {
        let cases = [
            (call("create", "", "configmaps", "x"), "forbiddenCreate"),
            (call("list", "apps", "deployments", ""), "forbiddenList"),
            (call("apply", "apps", "deployments", "db"), "forbiddenPatch"),
        ];
        for (call, name) in cases {
            let found = Refusal::during(Cause::Permission, &call).map(answer);
            assert_eq!(found, Some(with(&recorded(name), &[("jane", USER)])), "{name}");
        }
        let down = with(
            &recorded("webhookDown"),
            &[
                ("check.example.com", "chaos.operator-sdk.dev"),
                (
                    "https://127.0.0.1:9/validate?timeout=2s",
                    "https://webhook.default.svc:443/validate?timeout=10s",
                ),
                ("127.0.0.1:9", "10.0.0.20:443"),
            ],
        );
        let found = Refusal::during(Cause::Webhook, &call("update", "", "configmaps", "a"));
        assert_eq!(found.map(answer), Some(down));
        assert_eq!(
            Refusal::during(Cause::Server, &call("get", "", "pods", "a")),
            None
        );
    }
}
