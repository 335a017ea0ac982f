use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::CustomResource;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::*;
use crate::error::Result;
use crate::metrics::Metrics;

#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(group = "cache.example.com", version = "v1", kind = "Memcached", namespaced)]
#[kube(derive = "PartialEq")]
struct MemcachedSpec {
    size: i32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    image: Option<String>,
}

/// The older version, which has `replicas` instead of `size`.
mod v1alpha1 {
    use super::*;

    #[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[kube(
        group = "cache.example.com",
        version = "v1alpha1",
        kind = "Memcached",
        namespaced
    )]
    pub(super) struct MemcachedSpec {
        pub(super) replicas: i32,
    }
}

struct MemcachedWebhook;

impl Defaulter<Memcached> for MemcachedWebhook {
    async fn default(&self, request: &AdmissionRequest, memcached: &mut Memcached) -> Result<(), Denied> {
        if request.user_info.username.as_deref() == Some("mallory") {
            return Err(Denied::new("not you"));
        }
        memcached
            .spec
            .image
            .get_or_insert_with(|| "memcached:1.6".to_owned());
        Ok(())
    }
}

impl Validator<Memcached> for MemcachedWebhook {
    async fn validate_create(&self, _: &AdmissionRequest, memcached: &Memcached) -> Result<Warnings, Denied> {
        match memcached.spec.size {
            13 => panic!("superstition"),
            size if size % 2 == 0 => {
                let error = FieldError::invalid("spec.size", size, "must be odd");
                Err(Denied::invalid::<Memcached>("sample", [error]))
            }
            1 => Ok(vec!["one is lonely".to_owned()]),
            _ => Ok(Warnings::new()),
        }
    }

    async fn validate_update(
        &self,
        _: &AdmissionRequest,
        old: &Memcached,
        new: &Memcached,
    ) -> Result<Warnings, Denied> {
        if new.spec.size < old.spec.size {
            return Err(Denied::new("shrinking loses data"));
        }
        Ok(Warnings::new())
    }

    async fn validate_delete(&self, _: &AdmissionRequest, memcached: &Memcached) -> Result<Warnings, Denied> {
        let _: i32 = memcached.spec.image.as_deref().unwrap_or("1").parse()?;
        Ok(Warnings::new())
    }
}

/// A [`MemcachedWebhook`] with options.
struct WithOptions(WebhookOptions);

impl Defaulter<Memcached> for WithOptions {
    async fn default(&self, request: &AdmissionRequest, memcached: &mut Memcached) -> Result<(), Denied> {
        MemcachedWebhook.default(request, memcached).await
    }

    fn options(&self) -> WebhookOptions {
        self.0.clone()
    }
}

impl Validator<Memcached> for WithOptions {
    async fn validate_create(
        &self,
        request: &AdmissionRequest,
        memcached: &Memcached,
    ) -> Result<Warnings, Denied> {
        MemcachedWebhook.validate_create(request, memcached).await
    }

    async fn validate_update(
        &self,
        request: &AdmissionRequest,
        old: &Memcached,
        new: &Memcached,
    ) -> Result<Warnings, Denied> {
        MemcachedWebhook.validate_update(request, old, new).await
    }

    fn options(&self) -> WebhookOptions {
        self.0.clone()
    }
}

impl Convertible for v1alpha1::Memcached {
    type Hub = Memcached;

    fn convert_to(self) -> Result<Memcached> {
        assert_ne!(self.spec.replicas, 13, "superstition");
        let size = self.spec.replicas;
        let annotations = self.metadata.annotations.clone();
        let image = annotations.and_then(|annotations| annotations.get("image").cloned());
        let mut hub = Memcached::new("", MemcachedSpec { size, image });
        hub.metadata = self.metadata;
        hub.metadata.annotations = None;
        Ok(hub)
    }

    fn convert_from(hub: Memcached) -> Result<Self> {
        let mut spoke = Self::new(
            "",
            v1alpha1::MemcachedSpec {
                replicas: hub.spec.size,
            },
        );
        spoke.metadata = hub.metadata;
        spoke.metadata.annotations = hub.spec.image.map(|image| [("image".to_owned(), image)].into());
        Ok(spoke)
    }
}

fn webhook() -> Webhook<Memcached> {
    Webhook::new()
        .defaulter(MemcachedWebhook)
        .validator(MemcachedWebhook)
        .conversion(Conversion::new().spoke::<v1alpha1::Memcached>())
}

/// Returns a server to which `add` was applied.
fn with(add: impl FnOnce(&WebhookServer) -> Result<(), WebhookError>) -> WebhookServer {
    let server = WebhookServer::new();
    add(&server).unwrap();
    server
}

fn server(metrics: &Metrics) -> WebhookServer {
    let server = with(|server| server.add(webhook()));
    let server = server.metrics(metrics.clone());
    server.count();
    server
}

const MUTATE: &str = "/mutate-cache-example-com-v1-memcached";
const VALIDATE: &str = "/validate-cache-example-com-v1-memcached";

async fn post(server: &WebhookServer, path: &str, body: impl Into<Bytes>) -> (StatusCode, Value) {
    let request = Request::post(path).header(header::CONTENT_TYPE, "application/json; charset=utf-8");
    let answer = server.answer(request.body(Full::new(body.into())).unwrap()).await;
    let code = answer.status();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&body).unwrap_or_default())
}

fn memcached(spec: &Value) -> Value {
    json!({"apiVersion": "cache.example.com/v1", "kind": "Memcached", "metadata": {"name": "sample"}, "spec": spec})
}

fn served<K: crate::Object>(webhook: Webhook<K>) -> WebhookServer {
    counted(with(|server| server.add(webhook)))
}

fn counted(server: WebhookServer) -> WebhookServer {
    server.count();
    server
}

/// Returns the response to a review.
async fn review(path: &str, request: &Value) -> Value {
    review_by(&server(&Metrics::default()), path, request).await
}

async fn review_by(server: &WebhookServer, path: &str, request: &Value) -> Value {
    let mut request = request.clone();
    request["uid"] = "u-1".into();
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    let (code, answer) = post(server, path, review.to_string()).await;
    assert_eq!(code, StatusCode::OK);
    assert_eq!(
        (&answer["apiVersion"], &answer["kind"]),
        (&json!("admission.k8s.io/v1"), &json!("AdmissionReview"))
    );
    assert_eq!(answer["response"]["uid"], "u-1");
    answer["response"].clone()
}

async fn created(path: &str, spec: &Value) -> Value {
    review(path, &json!({"operation": "CREATE", "object": memcached(spec)})).await
}

#[test]
fn paths_are_those_of_controller_runtime() {
    let server = server(&Metrics::default());
    assert_eq!(server.paths().collect::<Vec<_>>(), ["/convert", MUTATE, VALIDATE]);
    assert_eq!(mutate_path::<ConfigMap>(), "/mutate--v1-configmap");
}

#[tokio::test]
async fn defaults_are_a_patch_of_the_request() {
    let response = created(MUTATE, &json!({"size": 3, "novelty": true})).await;
    assert_eq!(
        (&response["allowed"], &response["patchType"]),
        (&json!(true), &json!("JSONPatch"))
    );
    let patch: k8s_openapi::ByteString = serde_json::from_value(response["patch"].clone()).unwrap();
    let patch: Value = serde_json::from_slice(&patch.0).unwrap();
    assert_eq!(
        patch,
        json!([{"op": "add", "path": "/spec/image", "value": "memcached:1.6"}])
    );
}

#[tokio::test]
async fn complete_object_gets_no_patch() {
    let response = created(MUTATE, &json!({"size": 3, "image": "x"})).await;
    assert_eq!(response, json!({"uid": "u-1", "allowed": true}));
}

#[tokio::test]
async fn deletions_have_no_defaults() {
    let response = review(MUTATE, &json!({"operation": "DELETE", "object": null})).await;
    assert_eq!(response["allowed"], true);
}

#[tokio::test]
async fn denial_of_a_defaulter_is_forbidden() {
    let request = json!({"operation": "CREATE", "userInfo": {"username": "mallory"}, "object": memcached(&json!({"size": 3}))});
    let response = review(MUTATE, &request).await;
    let status = json!({"status": "Failure", "code": 403, "message": "not you", "reason": "Forbidden"});
    assert_eq!(
        (&response["allowed"], &response["status"]),
        (&json!(false), &status)
    );
}

#[tokio::test]
async fn validators_warn_and_deny() {
    assert_eq!(
        created(VALIDATE, &json!({"size": 3})).await,
        json!({"uid": "u-1", "allowed": true})
    );
    assert_eq!(
        created(VALIDATE, &json!({"size": 1})).await["warnings"],
        json!(["one is lonely"])
    );

    let response = created(VALIDATE, &json!({"size": 4})).await;
    assert_eq!(response["allowed"], false);
    let status = &response["status"];
    assert_eq!(
        (&status["code"], &status["reason"]),
        (&json!(422), &json!("Invalid"))
    );
    let message =
        r#"Memcached.cache.example.com "sample" is invalid: spec.size: Invalid value: 4: must be odd"#;
    assert_eq!(status["message"], message);
    let cause = json!({"reason": "FieldValueInvalid", "message": "Invalid value: 4: must be odd", "field": "spec.size"});
    assert_eq!(status["details"]["causes"], json!([cause]));
}

#[tokio::test]
async fn updates_see_both_objects_and_deletions_the_old_one() {
    let (small, large) = (memcached(&json!({"size": 3})), memcached(&json!({"size": 5})));
    let grown = review(
        VALIDATE,
        &json!({"operation": "UPDATE", "oldObject": small, "object": large}),
    )
    .await;
    assert_eq!(grown["allowed"], true);
    let shrunk = review(
        VALIDATE,
        &json!({"operation": "UPDATE", "oldObject": large, "object": small}),
    )
    .await;
    assert_eq!(shrunk["status"]["message"], "shrinking loses data");
    let odd = memcached(&json!({"size": 3, "image": "x"}));
    let deleted = review(VALIDATE, &json!({"operation": "DELETE", "oldObject": odd})).await;
    assert_eq!(deleted["status"]["message"], "invalid digit found in string");
}

#[tokio::test]
async fn object_of_another_shape_is_a_bad_request() {
    let response = created(VALIDATE, &json!({"size": "many"})).await;
    assert_eq!(
        (&response["allowed"], &response["status"]["code"]),
        (&json!(false), &json!(400))
    );
    let response = review(VALIDATE, &json!({"operation": "CREATE"})).await;
    assert_eq!(
        response["status"]["message"],
        "the request has no object to decode"
    );
}

#[tokio::test]
async fn panic_is_answered_and_counted() {
    let metrics = Metrics::default();
    let server = server(&metrics);
    let request = json!({"uid": "u-2", "operation": "CREATE", "object": memcached(&json!({"size": 13}))});
    let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    let (_, answer) = post(&server, VALIDATE, body.to_string()).await;
    assert_eq!(answer["response"]["uid"], "u-2");
    assert_eq!(answer["response"]["status"]["code"], 500);
    assert_eq!(
        answer["response"]["status"]["message"],
        "panic: superstition [recovered]"
    );
    let text = metrics.to_text();
    assert!(text.contains("controller_runtime_webhook_panics_total 1"));
    assert!(text.contains(&format!(
        "controller_runtime_webhook_requests_total{{webhook=\"{VALIDATE}\",code=\"200\"}} 1"
    )));
    assert!(text.contains(&format!(
        "controller_runtime_webhook_requests_in_flight{{webhook=\"{VALIDATE}\"}} 0"
    )));
}

#[tokio::test]
async fn invalid_reviews_are_rejected() {
    let server = server(&Metrics::default());
    for body in ["", "{", "{}", "[]"] {
        let (code, answer) = post(&server, MUTATE, body).await;
        assert_eq!(
            (code, &answer["response"]["allowed"]),
            (StatusCode::BAD_REQUEST, &json!(false)),
            "{body}"
        );
        assert_eq!(
            post(&server, "/convert", body).await.0,
            StatusCode::BAD_REQUEST,
            "{body}"
        );
    }
    assert_eq!(post(&server, "/other", "{}").await.0, StatusCode::NOT_FOUND);
    let (code, answer) = post(&server, MUTATE, vec![b' '; 7 * 1024 * 1024 + 1]).await;
    assert_eq!(code, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(
        answer["response"]["status"]["message"],
        "request entity is too large; limit is 7340032 bytes"
    );
    let request = Request::post(MUTATE).body(Full::new(Bytes::from("{}"))).unwrap();
    assert_eq!(
        server.answer(request).await.status(),
        StatusCode::BAD_REQUEST,
        "no content type"
    );
    let request = Request::get(MUTATE).body(Full::<Bytes>::default()).unwrap();
    assert_eq!(
        server.answer(request).await.status(),
        StatusCode::METHOD_NOT_ALLOWED
    );
}

#[tokio::test]
async fn old_reviews_are_answered_in_their_version() {
    let review = json!({"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview",
                        "request": {"uid": "u", "operation": "DELETE"}});
    let (_, answer) = post(&server(&Metrics::default()), MUTATE, review.to_string()).await;
    assert_eq!(answer["apiVersion"], "admission.k8s.io/v1beta1");
}

fn old(replicas: i32) -> Value {
    json!({
        "apiVersion": "cache.example.com/v1alpha1",
        "kind": "Memcached",
        "metadata": {"name": "sample", "uid": "1", "unheard-of": true, "annotations": {"image": "x"}},
        "spec": {"replicas": replicas},
    })
}

async fn converted(server: &WebhookServer, objects: &[Value], version: &str) -> Value {
    let request = json!({"uid": "u-3", "desiredAPIVersion": version, "objects": objects});
    let review =
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request});
    let (code, answer) = post(server, "/convert", review.to_string()).await;
    assert_eq!(
        (code, &answer["kind"]),
        (StatusCode::OK, &json!("ConversionReview"))
    );
    assert_eq!(answer["response"]["uid"], "u-3");
    answer["response"].clone()
}

#[tokio::test]
async fn objects_are_converted_through_the_hub() {
    let server = server(&Metrics::default());
    let new = json!({
        "apiVersion": "cache.example.com/v1",
        "kind": "Memcached",
        "metadata": {"name": "sample", "uid": "1", "unheard-of": true},
        "spec": {"size": 3, "image": "x"},
    });
    let response = converted(&server, &[old(3), new.clone()], "cache.example.com/v1").await;
    assert_eq!(response["result"]["status"], "Success");
    assert_eq!(response["convertedObjects"], json!([new, new]));
    let response = converted(&server, &[new], "cache.example.com/v1alpha1").await;
    assert_eq!(response["convertedObjects"], json!([old(3)]));
}

#[tokio::test]
async fn failed_conversion_has_a_message() {
    let server = server(&Metrics::default());
    let response = converted(&server, &[old(3)], "cache.example.com/v2").await;
    let message = r#"unknown version "cache.example.com/v2" of Memcached.cache.example.com"#;
    assert_eq!(response["result"]["message"], message);
    assert_eq!(response["convertedObjects"], json!([]));
    let other = json!({"apiVersion": "a/v1", "kind": "B"});
    let response = converted(&server, &[other], "a/v2").await;
    assert_eq!(response["result"]["message"], "no conversion of B.a");
}

#[tokio::test]
async fn panic_of_a_conversion_is_answered_and_counted() {
    let metrics = Metrics::default();
    let response = converted(&server(&metrics), &[old(13)], "cache.example.com/v1").await;
    assert_eq!(response["result"]["status"], "Failure");
    assert!(
        metrics
            .to_text()
            .contains("controller_runtime_conversion_webhook_panics_total 1")
    );
}

#[test]
fn round_trips_find_lost_fields() {
    let spoke: v1alpha1::Memcached = serde_json::from_value(old(3)).unwrap();
    assert_eq!(round_trip(&spoke), Ok(()));
    let hub = Memcached::new(
        "sample",
        MemcachedSpec {
            size: 3,
            image: Some("x".to_owned()),
        },
    );
    assert_eq!(hub_round_trip::<v1alpha1::Memcached>(&hub), Ok(()));

    // Removing an annotation leaves an empty map.
    let mut emptied = spoke.clone();
    emptied.metadata.annotations = Some(std::collections::BTreeMap::new());
    assert_eq!(round_trip(&emptied), Ok(()));

    let mut annotated = spoke;
    annotated.metadata.annotations = Some([("kept".to_owned(), "no".to_owned())].into());
    let lossy = round_trip(&annotated).unwrap_err();
    assert!(lossy.field.starts_with("/metadata/annotations"), "{lossy}");
    assert_eq!(lossy.after, "");
}

#[test]
fn status_of_an_api_server_is_kept() {
    let status = kube::core::Status::failure("quota exceeded", "TooManyRequests").with_code(429);
    let denied = Denied::from(kube::Error::Api(status.clone().boxed()));
    assert_eq!(*denied.into_parts().0, status);
    let denied = Denied::from(crate::Error::from(kube::Error::Api(status.clone().boxed())));
    assert_eq!(*denied.into_parts().0, status);
    assert_eq!(Denied::from(crate::Error::msg("no")).into_parts().0.code, 403);
}

#[tokio::test]
async fn defaulter_can_remove_unknown_fields() {
    let options = WebhookOptions {
        remove_unknown_fields: true,
        ..WebhookOptions::default()
    };
    let webhook = Webhook::<Memcached>::new().defaulter(WithOptions(options));
    let response = review_by(
        &served(webhook),
        MUTATE,
        &json!({"operation": "CREATE", "object": memcached(&json!({"size": 3, "novelty": true}))}),
    )
    .await;
    let patch: k8s_openapi::ByteString = serde_json::from_value(response["patch"].clone()).unwrap();
    let patch: Value = serde_json::from_slice(&patch.0).unwrap();
    let wanted = json!([
        {"op": "add", "path": "/spec/image", "value": "memcached:1.6"},
        {"op": "remove", "path": "/spec/novelty"},
    ]);
    assert_eq!(patch, wanted);
}

#[tokio::test]
async fn connections_are_not_validated() {
    let response = review(VALIDATE, &json!({"operation": "CONNECT"})).await;
    assert_eq!(response["allowed"], true);
}

/// A validator that denies with a warning.
struct Wary;

impl Validator<Memcached> for Wary {
    async fn validate_create(&self, request: &AdmissionRequest, _: &Memcached) -> Result<Warnings, Denied> {
        let tenant = request.extensions.get::<Tenant>().map_or("", |tenant| tenant.0);
        Err(Denied::new(format!("not for {tenant:?}")).warnings(["read the manual".to_owned()]))
    }

    async fn validate_update(
        &self,
        request: &AdmissionRequest,
        _: &Memcached,
        new: &Memcached,
    ) -> Result<Warnings, Denied> {
        self.validate_create(request, new).await
    }
}

#[derive(Clone)]
struct Tenant(&'static str);

#[tokio::test]
async fn validators_see_extensions_and_warn_with_denials() {
    let webhook = Webhook::<Memcached>::new()
        .validator(Wary)
        .with_context(|http, extensions| {
            if http.headers.contains_key(header::CONTENT_TYPE) && http.uri.path() == VALIDATE {
                extensions.insert(Tenant("acme"));
            }
        });
    let request = json!({"operation": "CREATE", "object": memcached(&json!({"size": 3}))});
    let response = review_by(&served(webhook), VALIDATE, &request).await;
    assert_eq!(response["status"]["message"], r#"not for "acme""#);
    assert_eq!(response["warnings"], json!(["read the manual"]));
}

#[tokio::test]
async fn requests_have_a_span() {
    use std::sync::{Arc, Mutex};

    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = seen.clone();
    let webhook = Webhook::<Memcached>::new()
        .validator(MemcachedWebhook)
        .span(move |request| {
            told.lock().unwrap().push(request.uid.clone());
            tracing::Span::none()
        });
    let request = json!({"operation": "CREATE", "object": memcached(&json!({"size": 3}))});
    assert_eq!(
        review_by(&served(webhook), VALIDATE, &request).await["allowed"],
        true
    );
    assert_eq!(*seen.lock().unwrap(), ["u-1"]);
}

#[tokio::test]
async fn panic_that_is_not_recovered_ends_the_request_and_is_counted() {
    let options = WebhookOptions {
        recover_panics: false,
        ..WebhookOptions::default()
    };
    let metrics = Metrics::default();
    let webhook = Webhook::<Memcached>::new().validator(WithOptions(options));
    let server = with(|server| server.add(webhook));
    let server = server.metrics(metrics.clone());
    server.count();
    let request = json!({"uid": "u-1", "operation": "CREATE", "object": memcached(&json!({"size": 13}))});
    let body = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    let answer = tokio::spawn(async move { post(&server, VALIDATE, body.to_string()).await }).await;
    assert!(answer.unwrap_err().is_panic());
    let text = metrics.to_text();
    assert!(
        text.contains("controller_runtime_webhook_panics_total 1"),
        "{text}"
    );
    let in_flight = format!("controller_runtime_webhook_requests_in_flight{{webhook=\"{VALIDATE}\"}} 0");
    assert!(text.contains(&in_flight), "{text}");
}

#[tokio::test]
async fn raw_handlers_answer_in_any_way() {
    let metrics = Metrics::default();
    let echo = async |request: Request<Bytes>| {
        assert!(!request.body().is_empty(), "nothing to say");
        http::Response::builder()
            .status(418)
            .body(Full::new(request.into_body()))
            .unwrap()
    };
    let server = with(|server| server.add_raw("/echo", echo)).metrics(metrics.clone());
    server.count();
    let ask = async |body: &'static str| {
        let request = Request::put("/echo").body(Full::new(Bytes::from(body))).unwrap();
        let answer = server.answer(request).await;
        let code = answer.status().as_u16();
        (code, answer.into_body().collect().await.unwrap().to_bytes())
    };
    assert_eq!(ask("hello").await, (418, Bytes::from("hello")));
    assert_eq!(
        ask("").await,
        (500, Bytes::from("panic: nothing to say [recovered]\n"))
    );
    let text = metrics.to_text();
    let counted = "controller_runtime_webhook_requests_total{webhook=\"/echo\",code=\"418\"} 1";
    assert!(text.contains(counted), "{text}");
}

/// The API server converts whole lists at once.
#[tokio::test]
async fn conversions_may_be_larger_than_admissions() {
    let server = server(&Metrics::default());
    let review = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "u", "desiredAPIVersion": "cache.example.com/v1", "objects": [old(3)]},
    });
    let mut body = vec![b' '; 8 * 1024 * 1024];
    body.extend(review.to_string().into_bytes());
    let (code, answer) = post(&server, "/convert", body).await;
    assert_eq!(code, StatusCode::OK);
    assert_eq!(answer["response"]["result"]["status"], "Success", "{answer}");
}

#[tokio::test]
async fn lists_are_converted_item_by_item() {
    let server = server(&Metrics::default());
    let list = |items: &[Value]| json!({"apiVersion": "cache.example.com/v1alpha1", "kind": "MemcachedList", "metadata": {}, "items": items});
    let response = converted(&server, &[list(&[old(3), old(5)])], "cache.example.com/v1").await;
    let converted_list = &response["convertedObjects"][0];
    assert_eq!(converted_list["apiVersion"], "cache.example.com/v1");
    let sizes: Vec<_> = converted_list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["spec"]["size"])
        .collect();
    assert_eq!(json!(sizes), json!([3, 5]));

    let mut broken = old(5);
    broken["spec"]["replicas"] = "many".into();
    let response = converted(&server, &[list(&[old(3), broken])], "cache.example.com/v1").await;
    let message = response["result"]["message"].as_str().unwrap();
    assert!(message.starts_with("items[1]: "), "{message}");
}

/// A certificate authority that signs the certificates of clients.
struct ClientAuthority {
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
    pem: String,
}

impl ClientAuthority {
    fn new() -> Self {
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let issuer = rcgen::Issuer::new(params, key);
        Self { issuer, pem }
    }

    fn issue(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (vec![certificate.der().clone()], key.into())
    }
}

#[tokio::test]
async fn clients_without_a_required_certificate_are_rejected() {
    use crate::certificates::{CertificateError, Certificates, TlsOptions, TlsVersion};

    let clients = ClientAuthority::new();
    let mut tls = TlsOptions::default();
    tls.min_version = TlsVersion::Tls13;
    let none = tls.require_clients_of("");
    assert!(matches!(
        none,
        Err(CertificateError::NoPem("the client authority", _))
    ));
    tls.require_clients_of(&clients.pem).unwrap();
    let server = with(|server| server.add_admission("/open", Open)).tls(tls);
    let certificates = Certificates::self_signed(["webhooks.system.svc"]).unwrap();
    let authority = certificates.authority().unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = tokio_util::sync::CancellationToken::new();
    let serving = tokio::spawn(server.serve(listener, certificates, stop.clone()));
    let ask = async |client: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>, versions| {
        let config = client_config(&authority, client, versions);
        try_post_securely(address, config, "/open").await
    };
    let known = ask(Some(clients.issue()), rustls::ALL_VERSIONS).await.unwrap();
    assert!(known.starts_with("HTTP/1.1 200 OK"), "{known}");
    assert!(ask(None, rustls::ALL_VERSIONS).await.is_err());
    assert!(
        ask(Some(ClientAuthority::new().issue()), rustls::ALL_VERSIONS)
            .await
            .is_err()
    );
    assert!(
        ask(Some(clients.issue()), &[&rustls::version::TLS12])
            .await
            .is_err()
    );
    stop.cancel();
    serving.await.unwrap().unwrap();
}

/// An endpoint that waits for a signal before it answers.
struct Gate {
    entered: tokio::sync::mpsc::UnboundedSender<()>,
    open: std::sync::Arc<tokio::sync::Notify>,
}

impl AdmissionHandler for Gate {
    async fn handle(&self, _: AdmissionRequest) -> AdmissionResponse {
        self.entered.send(()).unwrap();
        self.open.notified().await;
        AdmissionResponse::allowed()
    }
}

/// Returns a client that trusts the authority, with a certificate or without.
fn client_config(
    authority: &str,
    client: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> rustls::ClientConfig {
    use rustls::pki_types::pem::PemObject as _;

    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap())
        .unwrap();
    let config = rustls::ClientConfig::builder_with_provider(std::sync::Arc::new(
        rustls::crypto::ring::default_provider(),
    ))
    .with_protocol_versions(versions)
    .unwrap()
    .with_root_certificates(roots);
    match client {
        Some((chain, key)) => config.with_client_auth_cert(chain, key).unwrap(),
        None => config.with_no_client_auth(),
    }
}

/// Sends a review over TLS, and returns the whole response.
async fn try_post_securely(
    address: std::net::SocketAddr,
    config: rustls::ClientConfig,
    path: &str,
) -> std::io::Result<String> {
    use rustls::pki_types::ServerName;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    let stream = tokio::net::TcpStream::connect(address).await?;
    let name = ServerName::try_from("webhooks.system.svc").unwrap();
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
    let mut stream = connector.connect(name, stream).await?;
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                        "request": {"uid": "u-4", "operation": "DELETE"}})
    .to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: webhooks\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        review.len()
    );
    stream.write_all((head + &review).as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// Sends a review over TLS, trusting the authority.
async fn post_securely(address: std::net::SocketAddr, authority: &str, path: &str) -> String {
    let config = client_config(authority, None, rustls::ALL_VERSIONS);
    try_post_securely(address, config, path).await.unwrap()
}

#[tokio::test]
async fn running_request_is_answered_before_the_server_stops() {
    use crate::certificates::Certificates;

    let (entered, mut waiting) = tokio::sync::mpsc::unbounded_channel();
    let open = std::sync::Arc::new(tokio::sync::Notify::new());
    let gate = Gate {
        entered,
        open: open.clone(),
    };
    let server = with(|server| server.add_admission("/gate", gate));
    let certificates = Certificates::self_signed(["webhooks.system.svc"]).unwrap();
    let authority = certificates.authority().unwrap().to_owned();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = tokio_util::sync::CancellationToken::new();
    let serving = tokio::spawn(server.serve(listener, certificates, stop.clone()));

    let request = tokio::spawn(async move { post_securely(address, &authority, "/gate").await });
    waiting.recv().await.unwrap();
    stop.cancel();
    open.notify_one();
    let answer = request.await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(answer.contains(r#""uid":"u-4","allowed":true"#), "{answer}");
    serving.await.unwrap().unwrap();
}

/// A validator that allows everything.
struct Open;

impl AdmissionHandler for Open {
    async fn handle(&self, _: AdmissionRequest) -> AdmissionResponse {
        AdmissionResponse::allowed()
    }
}

#[test]
fn path_is_unique_and_valid() {
    let server = || with(|server| server.add(webhook()));
    let taken = |path: &str| Err(WebhookError::DuplicatePath(path.to_owned()));
    assert_eq!(server().add(webhook()), taken(MUTATE));
    assert_eq!(server().add_admission("/convert", Open), taken("/convert"));
    for path in ["", "gate", "/gate/", "//gate", "/gate?x", "/ga te"] {
        let refused = server().add_admission(path, Open);
        assert_eq!(refused, Err(WebhookError::InvalidPath(path.to_owned())));
    }
    assert!(server().add_admission("/a-gate/of_2", Open).is_ok());
}

#[test]
fn description_matches_the_handlers() {
    let service =
        |path: &str| json!({"service": {"name": "webhook-service", "namespace": "system", "path": path}});
    let entry = |name: &str, path: &str| {
        json!({
            "admissionReviewVersions": ["v1"],
            "clientConfig": service(path),
            "failurePolicy": "Fail",
            "name": name,
            "rules": [{
                "apiGroups": ["cache.example.com"],
                "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["memcacheds"],
            }],
            "sideEffects": "None",
        })
    };
    let webhook_of_conversion =
        json!({"conversionReviewVersions": ["v1"], "clientConfig": service("/convert")});
    let wanted = json!({
        "mutatingWebhooks": [entry("mmemcached-v1.kb.io", MUTATE)],
        "validatingWebhooks": [entry("vmemcached-v1.kb.io", VALIDATE)],
        "conversions": [{
            "crd": "memcacheds.cache.example.com",
            "conversion": {"strategy": "Webhook", "webhook": webhook_of_conversion},
        }],
    });
    assert_eq!(json!(webhook().describe()), wanted);
}

#[test]
fn options_are_in_the_description() {
    let options = WebhookOptions {
        name: Some("status.example.com".to_owned()),
        path: Some("/status".to_owned()),
        resources: vec!["memcacheds/status".to_owned()],
        operations: vec![Operation::Delete],
        failure_policy: FailurePolicy::Ignore,
        match_policy: MatchPolicy::Exact,
        side_effects: SideEffects::NoneOnDryRun,
        timeout_seconds: Some(5),
        reinvocation_policy: ReinvocationPolicy::IfNeeded,
        object_selector: Some(serde_json::from_value(json!({"matchLabels": {"a": "b"}})).unwrap()),
        ..WebhookOptions::default()
    };
    let webhook = Webhook::<Memcached>::new().defaulter(WithOptions(options));
    assert_eq!(webhook.paths().collect::<Vec<_>>(), ["/status"]);
    let entry = &webhook.describe().mutating_webhooks[0];
    assert_eq!(entry["name"], "status.example.com");
    assert_eq!(entry["clientConfig"]["service"]["path"], "/status");
    assert_eq!(entry["rules"][0]["resources"], json!(["memcacheds/status"]));
    assert_eq!(entry["rules"][0]["operations"], json!(["DELETE"]));
    let rest = [
        "failurePolicy",
        "matchPolicy",
        "sideEffects",
        "timeoutSeconds",
        "reinvocationPolicy",
    ];
    let rest: Vec<_> = rest.iter().map(|field| &entry[*field]).collect();
    assert_eq!(
        json!(rest),
        json!(["Ignore", "Exact", "NoneOnDryRun", 5, "IfNeeded"])
    );
    assert_eq!(entry["objectSelector"], json!({"matchLabels": {"a": "b"}}));
}
