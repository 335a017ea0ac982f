//! Properties that hold for any input of a server; shared by the fuzz targets and the test `fuzz`.
//!
//! Every input is sent to the same few objects. The server always responds; an error is a Status with a code below 500.

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

/// Sends a method, a header and a path with a query, each in a line, and a body.
pub(crate) fn request(bytes: &[u8]) {
    let mut lines = bytes.splitn(4, |byte| *byte == b'\n');
    let mut line = || lines.next().unwrap_or_default();
    let (method, header, path, body) = (line(), line(), line(), line());
    let mut builder = Request::builder().method(method).uri(path);
    let colon = header.iter().position(|byte| *byte == b':');
    if let Some((name, value)) = colon.and_then(|colon| header.split_at_checked(colon)) {
        builder = builder.header(name, value.get(1..).unwrap_or_default());
    }
    send(builder, body);
}

/// Sends a patch; the first bytes select its type and the kind of object.
pub(crate) fn patch(bytes: &[u8]) {
    let Some((choice, patch)) = bytes.split_first() else {
        return;
    };
    let choice = usize::from(*choice);
    let object = [CONFIG_MAPS, DEPLOYMENTS, WIDGETS][choice / PATCHES.len() % 3];
    let request = Request::patch(format!("{object}/a?fieldManager=fuzz"))
        .header("content-type", PATCHES[choice % PATCHES.len()]);
    send(request, patch);
}

/// Sends a label selector and a field selector.
pub(crate) fn selector(bytes: &[u8]) {
    let mut parts = bytes.splitn(2, |byte| *byte == 0);
    let mut part = || escaped(parts.next().unwrap_or_default());
    let query = format!("labelSelector={}&fieldSelector={}", part(), part());
    for collection in [CONFIG_MAPS, WIDGETS] {
        send(Request::get(format!("{collection}?{query}")), b"");
    }
}

/// Sends a continue token, or its content.
pub(crate) fn continue_token(bytes: &[u8]) {
    for token in [escaped(bytes), BASE64_URL_SAFE_NO_PAD.encode(bytes)] {
        for limit in [0, 1] {
            let path = format!("{CONFIG_MAPS}?limit={limit}&continue={token}");
            send(Request::get(path), b"");
        }
    }
}

/// Sends a protobuf message with and without the envelope; the first byte selects the kind of object.
pub(crate) fn protobuf(bytes: &[u8]) {
    let Some((choice, message)) = bytes.split_first() else {
        return;
    };
    let path = COLLECTIONS[usize::from(*choice) % COLLECTIONS.len()];
    for body in [[b"k8s\0", message].concat(), enveloped(message)] {
        let request = Request::post(path).header("content-type", "application/vnd.kubernetes.protobuf");
        send(request, &body);
    }
}

/// Sends YAML as a create and as an apply; the first byte selects the kind of object.
pub(crate) fn yaml(bytes: &[u8]) {
    let Some((choice, text)) = bytes.split_first() else {
        return;
    };
    let path = COLLECTIONS[usize::from(*choice) % COLLECTIONS.len()];
    let create = Request::post(path).header("content-type", "application/yaml");
    send(create, text);
    let apply = Request::patch(format!("{path}/a?fieldManager=fuzz"))
        .header("content-type", "application/apply-patch+yaml");
    send(apply, text);
}

/// Returns `runtime.Unknown` with a message in field 2 and its length.
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

/// Sends a request. One that is invalid, such as one with too long a URL, is rejected before it reaches the server.
fn send(request: http::request::Builder, body: &[u8]) {
    if let Ok(request) = request.body(Full::new(Bytes::copy_from_slice(body))) {
        answer(request);
    }
}

/// A server with a few objects.
struct Target {
    runtime: Runtime,
    server: ApiServer,
}

thread_local! {
    /// The server for the inputs, replaced after an input has changed an object.
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

/// Sends a request to a server, and checks the response.
fn answer(request: Request<Full<Bytes>>) {
    let target = TARGET.take().unwrap_or_else(Target::new);
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let code = target.runtime.block_on(check(target.server.clone(), request));
    if is_read || code >= 400 {
        TARGET.set(Some(target));
    }
}

/// Checks the response, and returns its status code.
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

/// Sends JSON with strict validation as a create and as an update; the first byte selects the kind of object.
pub(crate) fn json(bytes: &[u8]) {
    let Some((choice, text)) = bytes.split_first() else {
        return;
    };
    let path = COLLECTIONS[usize::from(*choice) % COLLECTIONS.len()];
    for request in [
        Request::post(format!("{path}?fieldValidation=Strict")),
        Request::put(format!("{path}/a?fieldValidation=Warn")),
    ] {
        send(request.header("content-type", "application/json"), text);
    }
}

/// Sends the headers of a negotiation: `Accept`, `Content-Type` and `User-Agent`, each in a line.
pub(crate) fn headers(bytes: &[u8]) {
    let mut lines = bytes.splitn(3, |byte| *byte == b'\n');
    let mut line = || lines.next().unwrap_or_default();
    let (accept, media, agent) = (line(), line(), line());
    for (method, path) in [
        (Method::GET, CONFIG_MAPS),
        (Method::POST, CONFIG_MAPS),
        (Method::GET, WIDGETS),
        (Method::POST, WIDGETS),
        (Method::GET, "/openapi/v3"),
        (Method::GET, "/apis"),
    ] {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("accept", accept)
            .header("content-type", media)
            .header("user-agent", agent);
        if let Ok(request) = request.body(Full::new(Bytes::from_static(b"{}"))) {
            answer(request);
        }
    }
}

/// Sends a quantity and a time, separated by a zero byte.
pub(crate) fn quantity(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (quantity, time) = text.split_once('\0').unwrap_or((&text, &text));
    let resources = json!({"limits": {"cpu": quantity, "memory": quantity}, "requests": {"cpu": quantity}});
    let container = json!({"name": "c", "image": "i", "resources": resources});
    let objects = [
        (
            "/api/v1/namespaces/default/pods",
            json!({"metadata": {"name": "p"}, "spec": {"containers": [container]}}),
        ),
        (
            "/api/v1/namespaces/default/resourcequotas",
            json!({"metadata": {"name": "q"}, "spec": {"hard": {"cpu": quantity}}}),
        ),
        (
            "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            json!({"metadata": {"name": "l", "creationTimestamp": time}, "spec": {"renewTime": time, "leaseDurationSeconds": 1}}),
        ),
        (
            "/apis/batch/v1/namespaces/default/cronjobs",
            json!({"metadata": {"name": "c"}, "spec": {"schedule": time, "timeZone": quantity}}),
        ),
    ];
    for (path, object) in objects {
        let request = Request::post(format!("{path}?dryRun=All")).header("content-type", "application/json");
        send(request, object.to_string().as_bytes());
    }
}

/// Name and contents of a file.
type StoredFile = (String, Vec<u8>);

thread_local! {
    /// The files of a data directory with a few objects.
    static JOURNAL: Cell<Option<Vec<StoredFile>>> = const { Cell::new(None) };
}

fn files_of(directory: &std::path::Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(directory).expect("the directory can be read");
    let read = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.expect("the directory can be read");
        let bytes = std::fs::read(entry.path()).ok()?;
        Some((entry.file_name().to_string_lossy().into_owned(), bytes))
    };
    let mut files: Vec<_> = entries.filter_map(read).collect();
    files.sort();
    files
}

/// Changes files of a data directory: each change has four bytes for the file, the offset (two bytes) and the new
/// byte. A server opens the damaged directory, or returns an error.
pub(crate) fn journal(bytes: &[u8]) {
    let open = |directory: &std::path::Path| ApiServer::builder().seed(1).data_directory(directory).build();
    let files = JOURNAL.take().unwrap_or_else(|| {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let server = open(directory.path()).expect("a new directory can be opened");
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime can be made");
        runtime.block_on(populate(&server));
        drop(server);
        files_of(directory.path())
    });
    let mut damaged = files.clone();
    let count = damaged.len().max(1);
    for edit in bytes.chunks_exact(4).take(64) {
        if let Some((_, content)) = damaged.get_mut(usize::from(edit[0]) % count) {
            // Offsets count from the end, so that the last records are checked most thoroughly.
            let back = usize::from(u16::from_le_bytes([edit[1], edit[2]]));
            let at = content.len().saturating_sub(back + 1);
            match edit[0] >> 6 {
                0 => content.truncate(at),
                1 => content.insert(at.min(content.len()), edit[3]),
                _ => content
                    .iter_mut()
                    .skip(at)
                    .take(1)
                    .for_each(|byte| *byte = edit[3]),
            }
        }
    }
    JOURNAL.set(Some(files));
    let directory = tempfile::tempdir().expect("a directory can be made");
    for (name, content) in damaged {
        std::fs::write(directory.path().join(name), content).expect("a file can be written");
    }
    let _ = open(directory.path()).map_err(|error| assert!(!error.to_string().is_empty()));
}
