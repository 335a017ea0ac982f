//! What must hold for any bytes that reach a server; shared by the fuzz targets and a test that tries some.
//!
//! Every input meets the same few objects. Whatever it is, the server answers; an error is a Status
//! that does not blame the server.

use std::cell::Cell;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use operator_apiserver::ApiServer;
use operator_apiserver::client::Gvr;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const COLLECTIONS: [&str; 8] = [
    CONFIG_MAPS,
    DEPLOYMENTS,
    WIDGETS,
    "/api/v1/namespaces/default/pods",
    "/api/v1/namespaces/default/services",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/batch/v1/namespaces/default/cronjobs",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
];
const PATCHES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

/// A method, a header and a path with a query, each in a line, and a body.
pub(crate) fn request(bytes: &[u8]) {
    let mut lines = bytes.splitn(4, |byte| *byte == b'\n');
    let mut line = || lines.next().unwrap_or_default();
    let (method, header, path, body) = (line(), line(), line(), line());
    let mut builder = Request::builder().method(method).uri(path);
    let colon = header.iter().position(|byte| *byte == b':');
    if let Some((name, value)) = colon.and_then(|colon| header.split_at_checked(colon)) {
        builder = builder.header(name, value.get(1..).unwrap_or_default());
    }
    // What is no request is refused before it reaches the server.
    if let Ok(request) = builder.body(Full::new(Bytes::copy_from_slice(body))) {
        answer(request);
    }
}

/// The kind of patch and of object, and the patch.
pub(crate) fn patch(bytes: &[u8]) {
    let Some((choice, patch)) = bytes.split_first() else {
        return;
    };
    let choice = usize::from(*choice);
    let object = [CONFIG_MAPS, DEPLOYMENTS, WIDGETS][choice / PATCHES.len() % 3];
    let request = Request::patch(format!("{object}/a?fieldManager=fuzz"))
        .header("content-type", PATCHES[choice % PATCHES.len()]);
    answer(with_body(request, patch));
}

/// A label selector and a field selector.
pub(crate) fn selector(bytes: &[u8]) {
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    let mut part = || escaped(parts.next().unwrap_or_default());
    let query = format!("labelSelector={}&fieldSelector={}", part(), part());
    for collection in [CONFIG_MAPS, WIDGETS] {
        answer(with_body(Request::get(format!("{collection}?{query}")), b""));
    }
}

/// A continue token, or what it says.
pub(crate) fn continue_token(bytes: &[u8]) {
    for token in [escaped(bytes), BASE64_URL_SAFE_NO_PAD.encode(bytes)] {
        for limit in [0, 1] {
            let path = format!("{CONFIG_MAPS}?limit={limit}&continue={token}");
            answer(with_body(Request::get(path), b""));
        }
    }
}

/// The kind of object, and its message with and without the envelope.
pub(crate) fn protobuf(bytes: &[u8]) {
    let Some((choice, message)) = bytes.split_first() else {
        return;
    };
    let path = COLLECTIONS[usize::from(*choice) % COLLECTIONS.len()];
    for body in [[b"k8s\0", message].concat(), enveloped(message)] {
        let request = Request::post(path).header("content-type", "application/vnd.kubernetes.protobuf");
        answer(with_body(request, &body));
    }
}

/// The kind of object, and its text; as an apply too.
pub(crate) fn yaml(bytes: &[u8]) {
    let Some((choice, text)) = bytes.split_first() else {
        return;
    };
    let path = COLLECTIONS[usize::from(*choice) % COLLECTIONS.len()];
    let create = Request::post(path).header("content-type", "application/yaml");
    answer(with_body(create, text));
    let apply = Request::patch(format!("{path}/a?fieldManager=fuzz"))
        .header("content-type", "application/apply-patch+yaml");
    answer(with_body(apply, text));
}

/// `runtime.Unknown` with a message in it: field 2, of a length.
fn enveloped(message: &[u8]) -> Vec<u8> {
    let mut body = b"k8s\0\x12".to_vec();
    let mut length = message.len();
    while length >= 0x80 {
        body.push((length & 0x7f | 0x80) as u8);
        length >>= 7;
    }
    body.push(length as u8);
    body.extend_from_slice(message);
    body
}

fn escaped(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("%{byte:02x}")).collect()
}

fn with_body(request: http::request::Builder, body: &[u8]) -> Request<Full<Bytes>> {
    request
        .body(Full::new(Bytes::copy_from_slice(body)))
        .expect("a request of our own is one")
}

/// A server with a few objects in it.
struct Target {
    runtime: Runtime,
    server: ApiServer,
}

thread_local! {
    /// Serves one input after the other, until one of them has changed something.
    static TARGET: Cell<Option<Target>> = const { Cell::new(None) };
}

impl Target {
    fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime can be made");
        let server = ApiServer::builder()
            .seed(1)
            .build()
            .expect("a server in memory can be made");
        runtime.block_on(populate(&server));
        Self { runtime, server }
    }
}

/// Sends a request to a server, and checks what it says.
fn answer(request: Request<Full<Bytes>>) {
    let target = TARGET.take().unwrap_or_else(Target::new);
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let code = target.runtime.block_on(check(target.server.clone(), request));
    if is_read || code >= 400 {
        TARGET.set(Some(target));
    }
}

/// The code of the answer.
async fn check(server: ApiServer, request: Request<Full<Bytes>>) -> u16 {
    let shown = format!("{} {}", request.method(), request.uri());
    let is_head = request.method() == Method::HEAD;
    let Ok(response) = server.oneshot(request).await;
    let code = response.status().as_u16();
    assert!((200..600).contains(&code), "{shown}: {code}");
    let media = response.headers().get("content-type");
    let is_json = media.is_some_and(|media| media == "application/json");
    if code < 400 || is_head || !is_json {
        return code;
    }
    let Ok(body) = response.into_body().collect().await;
    let bytes = body.to_bytes();
    let status: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    assert_eq!(
        status["kind"],
        "Status",
        "{shown}: {}",
        String::from_utf8_lossy(&bytes)
    );
    assert_ne!(status["reason"], "InternalError", "{shown}: {status}");
    code
}

async fn populate(server: &ApiServer) {
    let labels = json!({"app": "a", "tier": "b"});
    let meta = json!({"name": "a", "labels": labels, "annotations": {"note": "n"}});
    let objects = [
        (
            "",
            "v1",
            "configmaps",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"k": "v"}}),
        ),
        (
            "",
            "v1",
            "configmaps",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}),
        ),
        (
            "apps",
            "v1",
            "deployments",
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta,
                "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]},
                }},
            }),
        ),
        (
            "apiextensions.k8s.io",
            "v1",
            "customresourcedefinitions",
            json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "widgets.example.com"},
                "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
                    "versions": [{"name": "v1", "served": true, "storage": true,
                        "selectableFields": [{"jsonPath": ".spec.color"}],
                        "subresources": {"status": {}},
                        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object",
                            "properties": {
                                "color": {"type": "string", "default": "red"},
                                "sizes": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                                    "items": {"type": "object", "required": ["name"], "properties": {
                                        "name": {"type": "string"}, "size": {"type": "integer", "maximum": 9}}}},
                            },
                            "x-kubernetes-validations": [{"rule": "self.color != 'none'"}],
                        }}}},
                    }]},
            }),
        ),
        (
            "example.com",
            "v1",
            "widgets",
            json!({
                "apiVersion": "example.com/v1", "kind": "Widget", "metadata": meta,
                "spec": {"sizes": [{"name": "s", "size": 1}]},
            }),
        ),
    ];
    for (group, version, resource, object) in objects {
        let namespace = if resource == "customresourcedefinitions" {
            ""
        } else {
            "default"
        };
        let (client, gvr) = (server.client(), Gvr::new(group, version, resource));
        let created = client.create(&gvr, namespace, object).await;
        created.expect("the first objects are sound");
    }
}
