//! Tests of OLM v1 on the embedded control plane, through its API.
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of these tests fail as the tests do"
)]

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use operator_apiserver::ApiServer;
use operator_apiserver::client::{Client, DeleteOptions, Gvr, Patch};
use operator_controlplane::{ControlPlane, Options};
use serde_json::{Value, json};

const NAMESPACE: &str = "default";
const SYSTEM: &str = "olmv1-system";

struct Stage {
    client: Client,
    _control_plane: ControlPlane,
}

fn core(resource: &str) -> Gvr {
    Gvr::new("", "v1", resource)
}

fn extensions() -> Gvr {
    Gvr::new("olm.operatorframework.io", "v1", "clusterextensions")
}

fn catalogs() -> Gvr {
    Gvr::new("olm.operatorframework.io", "v1", "clustercatalogs")
}

fn deployments() -> Gvr {
    Gvr::new("apps", "v1", "deployments")
}

fn definitions() -> Gvr {
    Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions")
}

fn rbac(resource: &str) -> Gvr {
    Gvr::new("rbac.authorization.k8s.io", "v1", resource)
}

impl Stage {
    async fn start() -> Self {
        let server = ApiServer::builder().build().unwrap();
        let client = server.client();
        let options = Options {
            olm: true,
            ..Options::default()
        };
        let stage = Self {
            _control_plane: ControlPlane::start(&client, options),
            client,
        };
        stage.until(&core("namespaces"), "", SYSTEM, |_| true).await;
        stage
    }

    async fn until(
        &self,
        gvr: &Gvr,
        namespace: &str,
        name: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Arc<Value> {
        let (revision, _) = self.client.snapshot();
        let mut watch = self.client.watch(revision);
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        loop {
            let object = self.client.get(gvr, namespace, name).await;
            if let Ok(object) = &object
                && wanted(object)
            {
                return object.clone();
            }
            let event = tokio::time::timeout_at(deadline, watch.next()).await;
            assert!(event.is_ok(), "{name} not as wanted: {object:#?}");
        }
    }

    async fn until_gone(&self, gvr: &Gvr, namespace: &str, name: &str) {
        let (revision, _) = self.client.snapshot();
        let mut watch = self.client.watch(revision);
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        while let Ok(object) = self.client.get(gvr, namespace, name).await {
            let event = tokio::time::timeout_at(deadline, watch.next()).await;
            assert!(event.is_ok(), "{name} not gone: {object:#?}");
        }
    }

    async fn exists(&self, gvr: &Gvr, namespace: &str, name: &str) -> bool {
        self.client.get(gvr, namespace, name).await.is_ok()
    }

    /// Creates a ClusterCatalog with documents.
    async fn offer(&self, documents: &[Value]) {
        let text: String = documents
            .iter()
            .map(|document| format!("---\n{document}\n"))
            .collect();
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        let data = json!({"extraFBC": STANDARD.encode(encoder.finish().unwrap())});
        if self.exists(&core("configmaps"), SYSTEM, "cat").await {
            let patch = Patch::Merge(json!({"binaryData": data}));
            let patched = self
                .client
                .patch(&core("configmaps"), SYSTEM, "cat", None, patch)
                .await;
            patched.unwrap();
            return;
        }
        let source = json!({"type": "Image", "image": {"ref": "example.com/cat:latest"}});
        let catalog = json!({"metadata": {"name": "cat"}, "spec": {"source": source}});
        let catalog = self.client.create(&catalogs(), "", catalog).await.unwrap();
        let owner = json!({
            "apiVersion": "olm.operatorframework.io/v1", "kind": "ClusterCatalog", "name": "cat",
            "uid": catalog["metadata"]["uid"],
        });
        let part = json!({
            "metadata": {
                "name": "cat", "annotations": {"olm.contentEncoding": "gzip+base64"}, "ownerReferences": [owner],
            },
            "binaryData": data,
        });
        self.client
            .create(&core("configmaps"), SYSTEM, part)
            .await
            .unwrap();
    }

    async fn extend(&self, catalog: Value, others: Value) {
        let mut spec =
            json!({"namespace": NAMESPACE, "source": {"sourceType": "Catalog", "catalog": catalog}});
        for (name, value) in others.as_object().unwrap() {
            spec[name] = value.clone();
        }
        let extension = json!({"metadata": {"name": "cache"}, "spec": spec});
        self.client.create(&extensions(), "", extension).await.unwrap();
    }

    async fn patch(&self, spec: Value) {
        let patch = Patch::Merge(json!({"spec": spec}));
        self.client
            .patch(&extensions(), "", "cache", None, patch)
            .await
            .unwrap();
    }

    async fn installed(&self, version: &str) -> Arc<Value> {
        self.until(&extensions(), "", "cache", |extension| {
            text(extension, "/status/install/bundle/version") == version
                && message(extension, "Progressing") == ("Succeeded", "Desired state reached")
        })
        .await
    }
}

/// Returns the response of an HTTP server.
async fn get(url: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = tokio::net::TcpStream::connect(host).await.unwrap();
    let request = format!("GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Returns the reason and the message of a condition.
fn message<'a>(object: &'a Value, kind: &str) -> (&'a str, &'a str) {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    let found = conditions.find(|condition| condition["type"] == kind);
    found.map_or(("", ""), |found| {
        (text(found, "/reason"), text(found, "/message"))
    })
}

fn csv(version: &str) -> Value {
    let rules = |resource: &str| json!([{"apiGroups": [""], "resources": [resource], "verbs": ["get"]}]);
    let mode = |name: &str, supported: bool| json!({"type": name, "supported": supported});
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": format!("cache.v{version}")},
        "spec": {
            "displayName": "Cache", "version": version,
            "customresourcedefinitions": {"owned": [{"name": "caches.example.com", "version": "v1", "kind": "Cache"}]},
            "installModes": [
                mode("AllNamespaces", true), mode("SingleNamespace", true), mode("OwnNamespace", true),
                mode("MultiNamespace", false),
            ],
            "install": {"strategy": "deployment", "spec": {
                "deployments": [{"name": "cache-controller", "spec": {
                    "replicas": 1, "selector": {"matchLabels": {"app": "cache"}},
                    "template": {"metadata": {"labels": {"app": "cache"}}, "spec": {
                        "serviceAccountName": "cache-sa",
                        "containers": [{"name": "manager", "image": format!("example.com/cache:{version}")}],
                    }},
                }}],
                "permissions": [{"serviceAccountName": "cache-sa", "rules": rules("configmaps")}],
                "clusterPermissions": [{"serviceAccountName": "cache-sa", "rules": rules("nodes")}],
            }},
        },
    })
}

fn crd(maximum: i64) -> Value {
    let size = json!({"type": "integer", "maximum": maximum});
    let spec = json!({"type": "object", "properties": {"size": size}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "caches.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Cache", "listKind": "CacheList", "plural": "caches", "singular": "cache"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    })
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}})
}

fn bundle(csv: &Value, others: &[Value]) -> Value {
    let version = text(csv, "/spec/version");
    let mut properties =
        vec![json!({"type": "olm.package", "value": {"packageName": "cache", "version": version}})];
    for object in others.iter().chain([csv]) {
        let data = STANDARD.encode(object.to_string());
        properties.push(json!({"type": "olm.bundle.object", "value": {"data": data}}));
    }
    json!({
        "schema": "olm.bundle", "name": text(csv, "/metadata/name"), "package": "cache",
        "image": format!("example.com/cache-bundle:{version}"), "properties": properties,
    })
}

/// Returns a package in which each entry replaces the previous one.
fn package(bundles: Vec<Value>) -> Vec<Value> {
    let mut entries: Vec<Value> = Vec::new();
    for bundle in &bundles {
        let before = entries
            .last()
            .map_or("", |before| text(before, "/name"))
            .to_owned();
        entries.push(json!({"name": bundle["name"], "replaces": before}));
    }
    let mut documents = vec![
        json!({"schema": "olm.package", "name": "cache", "defaultChannel": "alpha"}),
        json!({"schema": "olm.channel", "package": "cache", "name": "alpha", "entries": entries}),
    ];
    documents.extend(bundles);
    documents
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extension_is_installed_upgraded_and_deleted() {
    let stage = Stage::start().await;
    let first = bundle(&csv("0.1.0"), &[crd(5), config_map("first")]);
    stage.offer(&package(vec![first.clone()])).await;
    let catalog = stage
        .until(&catalogs(), "", "cat", |catalog| {
            message(catalog, "Serving").0 == "Available"
        })
        .await;
    assert_eq!(
        message(&catalog, "Progressing"),
        (
            "Succeeded",
            "Successfully unpacked and stored content from resolved source"
        )
    );
    assert_eq!(
        text(
            &catalog,
            "/metadata/labels/olm.operatorframework.io~1metadata.name"
        ),
        "cat"
    );
    assert!(text(&catalog, "/status/resolvedSource/image/ref").starts_with("example.com/cat@sha256:"));
    let base = text(&catalog, "/status/urls/base").to_owned();
    let packages = get(&format!("{base}/api/v1/metas?schema=olm.package")).await;
    assert!(packages.starts_with("HTTP/1.1 200"), "{packages}");
    assert!(packages.contains("content-type: application/jsonl"), "{packages}");
    let body = packages.split_once("\r\n\r\n").unwrap().1;
    let document: Value = serde_json::from_str(body).unwrap();
    assert_eq!(document["name"], "cache");
    let all = get(&format!("{base}/api/v1/all")).await;
    assert_eq!(all.split_once("\r\n\r\n").unwrap().1.lines().count(), 3);
    let none = get(&format!("{base}x/api/v1/all")).await;
    assert!(none.starts_with("HTTP/1.1 404"), "{none}");
    stage.extend(json!({"packageName": "cache"}), json!({})).await;
    let installed = stage.installed("0.1.0").await;
    assert_eq!(
        message(&installed, "Installed"),
        (
            "Succeeded",
            "Installed bundle example.com/cache-bundle:0.1.0 successfully"
        )
    );
    assert_eq!(
        message(&installed, "Deprecated"),
        ("NotDeprecated", "not deprecated")
    );
    assert_eq!(text(&installed, "/status/activeRevisions/0/name"), "cache-1");
    let deployment = stage
        .client
        .get(&deployments(), NAMESPACE, "cache-controller")
        .await
        .unwrap();
    assert_eq!(
        deployment.pointer("/spec/template/metadata/annotations/olm.targetNamespaces"),
        Some(&json!(""))
    );
    let owner = text(
        &deployment,
        "/metadata/labels/olm.operatorframework.io~1owner-name",
    );
    assert_eq!(owner, "cache");
    assert!(stage.exists(&core("configmaps"), NAMESPACE, "first").await);
    let selector = "olm.operatorframework.io/owner-name=cache";
    let roles = stage
        .client
        .list(&rbac("clusterroles"), "", selector)
        .await
        .unwrap();
    assert_eq!(roles.items.len(), 2, "both permissions apply to all namespaces");

    // An edited object is restored; a deleted one is created again.
    let edit = Patch::Merge(json!({"spec": {"replicas": 4}}));
    let edited = stage
        .client
        .patch(&deployments(), NAMESPACE, "cache-controller", None, edit)
        .await;
    edited.unwrap();
    stage
        .until(&deployments(), NAMESPACE, "cache-controller", |deployment| {
            deployment["spec"]["replicas"] == 1
        })
        .await;
    let deleted = stage
        .client
        .delete(&core("configmaps"), NAMESPACE, "first", DeleteOptions::default())
        .await;
    deleted.unwrap();
    stage
        .until(&core("configmaps"), NAMESPACE, "first", |_| true)
        .await;

    // The next version lowers a maximum, which is not a safe change.
    let second = bundle(&csv("0.2.0"), &[crd(3), config_map("second")]);
    stage.offer(&package(vec![first, second])).await;
    let refused = stage
        .until(&extensions(), "", "cache", |extension| {
            message(extension, "Progressing").0 == "Retrying"
        })
        .await;
    assert_eq!(
        message(&refused, "Progressing").1,
        "error for resolved bundle \"cache.v0.2.0\" with version \"0.2.0\": validating upgrade for CRD \
         \"caches.example.com\": CustomResourceDefinition caches.example.com failed upgrade safety validation. \
         \"ChangeValidator\" validation failed: version \"v1\", field \"^.spec.size\": maximum lowered from 5 to 3"
    );
    assert_eq!(message(&refused, "Installed").0, "Succeeded");
    assert!(!stage.exists(&core("configmaps"), NAMESPACE, "second").await);
    stage
        .patch(json!({"install": {"preflight": {"crdUpgradeSafety": {"enforcement": "None"}}}}))
        .await;
    let upgraded = stage.installed("0.2.0").await;
    assert_eq!(text(&upgraded, "/status/activeRevisions/0/name"), "cache-2");
    let deployment = stage
        .client
        .get(&deployments(), NAMESPACE, "cache-controller")
        .await
        .unwrap();
    assert_eq!(
        text(&deployment, "/spec/template/spec/containers/0/image"),
        "example.com/cache:0.2.0"
    );
    assert!(stage.exists(&core("configmaps"), NAMESPACE, "second").await);
    stage.until_gone(&core("configmaps"), NAMESPACE, "first").await;
    stage.until_gone(&core("secrets"), SYSTEM, "cache-1").await;

    let deleted = stage
        .client
        .delete(&extensions(), "", "cache", DeleteOptions::default())
        .await;
    deleted.unwrap();
    stage.until_gone(&definitions(), "", "caches.example.com").await;
    stage
        .until_gone(&deployments(), NAMESPACE, "cache-controller")
        .await;
    stage.until_gone(&core("secrets"), SYSTEM, "cache-2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_are_reported_until_they_are_corrected() {
    let stage = Stage::start().await;
    stage.extend(json!({"packageName": "cache"}), json!({})).await;
    let progressing = |reason: &'static str, wanted: &'static str| {
        move |extension: &Value| message(extension, "Progressing") == (reason, wanted)
    };
    let missing = "no bundles found for package \"cache\"";
    let extension = stage
        .until(&extensions(), "", "cache", progressing("Retrying", missing))
        .await;
    assert_eq!(
        message(&extension, "Installed"),
        ("Failed", "No bundle installed")
    );
    assert_eq!(
        message(&extension, "BundleDeprecated"),
        ("Absent", "no bundle installed yet")
    );

    let foreign = json!({"metadata": {"name": "extra"}, "data": {}});
    stage
        .client
        .create(&core("configmaps"), NAMESPACE, foreign)
        .await
        .unwrap();
    stage
        .offer(&package(vec![bundle(
            &csv("0.1.0"),
            &[crd(5), config_map("extra")],
        )]))
        .await;
    let taken = "error for resolved bundle \"cache.v0.1.0\" with version \"0.1.0\": ConfigMap default/extra exists and \
                 does not belong to the ClusterExtension cache";
    stage
        .until(&extensions(), "", "cache", progressing("Retrying", taken))
        .await;
    assert!(!stage.exists(&definitions(), "", "caches.example.com").await);
    stage
        .patch(json!({"config": {"configType": "Inline", "inline": {"watchNamespaces": "x"}}}))
        .await;
    let invalid = "error for resolved bundle \"cache.v0.1.0\" with version \"0.1.0\": invalid ClusterExtension \
                   configuration: invalid configuration: unknown field \"watchNamespaces\"";
    stage
        .until(
            &extensions(),
            "",
            "cache",
            progressing("InvalidConfiguration", invalid),
        )
        .await;

    let inline = json!({"watchNamespaces": null, "watchNamespace": "kube-public"});
    stage.patch(json!({"config": {"inline": inline}})).await;
    let deleted = stage
        .client
        .delete(&core("configmaps"), NAMESPACE, "extra", DeleteOptions::default())
        .await;
    deleted.unwrap();
    stage.installed("0.1.0").await;
    let deployment = stage
        .client
        .get(&deployments(), NAMESPACE, "cache-controller")
        .await
        .unwrap();
    assert_eq!(
        deployment.pointer("/spec/template/metadata/annotations/olm.targetNamespaces"),
        Some(&json!("kube-public"))
    );
    let roles = stage
        .client
        .list(&rbac("roles"), "kube-public", "")
        .await
        .unwrap();
    let owned = roles
        .items
        .iter()
        .filter(|role| text(role, "/metadata/name").starts_with("cache.v0.1.0-cache-sa-"));
    assert_eq!(owned.count(), 1);

    // An unavailable catalog is not used; the installed bundle stays.
    let patch = Patch::Merge(json!({"spec": {"availabilityMode": "Unavailable"}}));
    stage
        .client
        .patch(&catalogs(), "", "cat", None, patch)
        .await
        .unwrap();
    let catalog = stage
        .until(&catalogs(), "", "cat", |catalog| {
            message(catalog, "Serving").0 == "UserSpecifiedUnavailable"
        })
        .await;
    assert!(catalog.pointer("/status/urls").is_none());
    let extension = stage
        .until(&extensions(), "", "cache", |extension| {
            message(extension, "Deprecated").0 == "DeprecationStatusUnknown"
        })
        .await;
    assert_eq!(message(&extension, "Progressing").0, "Succeeded");
    assert_eq!(message(&extension, "Installed").0, "Succeeded");
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_get_a_service_and_a_certificate() {
    let stage = Stage::start().await;
    let mut csv = csv("0.1.0");
    csv["spec"]["webhookdefinitions"] = json!([{
        "type": "ValidatingAdmissionWebhook", "generateName": "vcache.kb.io", "deploymentName": "cache-controller",
        "containerPort": 443, "targetPort": 9443, "webhookPath": "/validate", "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore",
        "rules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["caches"], "operations": ["CREATE"]}],
    }]);
    stage.offer(&package(vec![bundle(&csv, &[crd(5)])])).await;
    stage
        .extend(json!({"packageName": "cache", "version": "~0.1"}), json!({}))
        .await;
    stage.installed("0.1.0").await;
    let webhooks = Gvr::new(
        "admissionregistration.k8s.io",
        "v1",
        "validatingwebhookconfigurations",
    );
    let configuration = stage.client.get(&webhooks, "", "vcache.kb.io").await.unwrap();
    let secret = stage
        .client
        .get(&core("secrets"), NAMESPACE, "cache-controller-service-cert")
        .await
        .unwrap();
    let authority = text(&configuration, "/webhooks/0/clientConfig/caBundle");
    assert!(!authority.is_empty());
    assert_eq!(authority, text(&secret, "/data/olmCAKey"));
    assert_eq!(
        text(&configuration, "/webhooks/0/clientConfig/service/name"),
        "cache-controller-service"
    );
    assert!(
        stage
            .exists(&core("services"), NAMESPACE, "cache-controller-service")
            .await
    );
    let deleted = stage
        .client
        .delete(&extensions(), "", "cache", DeleteOptions::default())
        .await;
    deleted.unwrap();
    stage.until_gone(&webhooks, "", "vcache.kb.io").await;
    stage
        .until_gone(&core("secrets"), NAMESPACE, "cache-controller-service-cert")
        .await;
}
