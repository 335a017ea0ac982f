//! Tests of Operator Lifecycle Manager on the embedded control plane, through its API.
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of these tests fail as the tests do"
)]

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use operator_apiserver::ApiServer;
use operator_apiserver::client::{Client, DeleteOptions, Gvr, Patch};
use operator_controlplane::{ControlPlane, Delays, Options};
use serde_json::{Value, json};

const NAMESPACE: &str = "default";
const OLM: &str = "operators.coreos.com";

struct Stage {
    client: Client,
    _control_plane: ControlPlane,
}

fn olm(version: &str, resource: &str) -> Gvr {
    Gvr::new(OLM, version, resource)
}

fn csvs() -> Gvr {
    olm("v1alpha1", "clusterserviceversions")
}

fn subscriptions() -> Gvr {
    olm("v1alpha1", "subscriptions")
}

fn install_plans() -> Gvr {
    olm("v1alpha1", "installplans")
}

impl Stage {
    /// Starts a control plane with OLM.
    async fn start() -> Self {
        Self::start_with(Delays::default()).await
    }

    async fn start_with(delays: Delays) -> Self {
        let server = ApiServer::builder().build().unwrap();
        let client = server.client();
        let options = Options {
            olm: true,
            delays,
            ..Options::default()
        };
        let stage = Self {
            _control_plane: ControlPlane::start(&client, options),
            client,
        };
        stage
            .until(&csvs(), "olm", "packageserver", |csv| phase(csv) == "Succeeded")
            .await;
        stage
    }

    /// Waits until an object satisfies a condition. Prints the object if that takes too long.
    async fn until(
        &self,
        gvr: &Gvr,
        namespace: &str,
        name: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Arc<Value> {
        let (revision, _) = self.client.snapshot();
        let mut watch = self.client.watch(revision);
        let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
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

    /// Waits until an object is deleted.
    async fn until_gone(&self, gvr: &Gvr, namespace: &str, name: &str) {
        let (revision, _) = self.client.snapshot();
        let mut watch = self.client.watch(revision);
        let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
        while let Ok(object) = self.client.get(gvr, namespace, name).await {
            let event = tokio::time::timeout_at(deadline, watch.next()).await;
            assert!(event.is_ok(), "{name} not gone: {object:#?}");
        }
    }

    async fn create(&self, gvr: &Gvr, namespace: &str, object: Value) -> Arc<Value> {
        self.client.create(gvr, namespace, object).await.unwrap()
    }

    async fn patch(&self, gvr: &Gvr, name: &str, patch: Value) {
        let patch = Patch::Merge(patch);
        self.client
            .patch(gvr, NAMESPACE, name, None, patch)
            .await
            .unwrap();
    }

    async fn delete(&self, gvr: &Gvr, name: &str) {
        let options = DeleteOptions::default();
        self.client.delete(gvr, NAMESPACE, name, options).await.unwrap();
    }

    /// Creates a CatalogSource with its content in a ConfigMap.
    async fn catalog(&self, documents: &[Value]) {
        let text = documents
            .iter()
            .map(|document| format!("---\n{document}\n"))
            .collect::<String>();
        let config_maps = Gvr::new("", "v1", "configmaps");
        let object = json!({"metadata": {"name": "content"}, "data": {"catalog.yaml": text}});
        if self.client.get(&config_maps, NAMESPACE, "content").await.is_ok() {
            self.patch(&config_maps, "content", json!({"data": object["data"]}))
                .await;
            return;
        }
        self.create(&config_maps, NAMESPACE, object).await;
        let source = json!({
            "metadata": {"name": "cat"},
            "spec": {"sourceType": "configmap", "configMap": "content", "displayName": "Cat", "publisher": "us"},
        });
        self.create(&olm("v1alpha1", "catalogsources"), NAMESPACE, source)
            .await;
    }

    async fn group(&self, spec: Value) {
        let object = json!({"metadata": {"name": "og"}, "spec": spec});
        self.create(&olm("v1", "operatorgroups"), NAMESPACE, object).await;
    }

    async fn subscribe(&self, spec: Value) {
        let mut object = json!({
            "metadata": {"name": "sub"},
            "spec": {"name": "cache", "channel": "alpha", "source": "cat", "sourceNamespace": NAMESPACE},
        });
        for (name, value) in spec.as_object().unwrap() {
            object["spec"][name] = value.clone();
        }
        self.create(&subscriptions(), NAMESPACE, object).await;
    }

    async fn succeeded(&self, name: &str) -> Arc<Value> {
        self.until(&csvs(), NAMESPACE, name, |csv| phase(csv) == "Succeeded")
            .await
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn phase(csv: &Value) -> &str {
    text(csv, "/status/phase")
}

fn csv(version: &str) -> Value {
    let rules =
        json!([{"apiGroups": ["example.com"], "resources": ["caches", "caches/status"], "verbs": ["*"]}]);
    let modes: Vec<Value> = [
        "OwnNamespace",
        "SingleNamespace",
        "MultiNamespace",
        "AllNamespaces",
    ]
    .iter()
    .map(|mode| json!({"type": mode, "supported": *mode != "MultiNamespace"}))
    .collect();
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": format!("cache.v{version}"), "annotations": {"capabilities": "Basic Install"}},
        "spec": {
            "displayName": "Cache", "version": version, "provider": {"name": "us"},
            "customresourcedefinitions": {"owned": [{"name": "caches.example.com", "version": "v1", "kind": "Cache"}]},
            "installModes": modes,
            "install": {"strategy": "deployment", "spec": {
                "deployments": [{"name": "cache-controller", "spec": {
                    "replicas": 1, "selector": {"matchLabels": {"app": "cache"}},
                    "template": {"metadata": {"labels": {"app": "cache"}}, "spec": {
                        "serviceAccountName": "cache-sa",
                        "containers": [{"name": "manager", "image": format!("example.com/cache:{version}")}],
                    }},
                }}],
                "permissions": [{"serviceAccountName": "cache-sa", "rules": [
                    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create"]},
                ]}],
                "clusterPermissions": [{"serviceAccountName": "cache-sa", "rules": rules}],
            }},
        },
    })
}

fn crd() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
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

fn bundle(csv: &Value, others: &[Value]) -> Value {
    let version = text(csv, "/spec/version");
    let mut properties = vec![
        json!({"type": "olm.package", "value": {"packageName": "cache", "version": version}}),
        json!({"type": "olm.gvk", "value": {"group": "example.com", "version": "v1", "kind": "Cache"}}),
    ];
    for object in others.iter().chain([csv]) {
        let data = STANDARD.encode(object.to_string());
        properties.push(json!({"type": "olm.bundle.object", "value": {"data": data}}));
    }
    json!({
        "schema": "olm.bundle", "name": text(csv, "/metadata/name"), "package": "cache", "image": "",
        "properties": properties,
    })
}

#[expect(clippy::needless_pass_by_value, reason = "callers pass literals")]
fn channel(entries: Value) -> Value {
    json!({"schema": "olm.channel", "package": "cache", "name": "alpha", "entries": entries})
}

fn package() -> Value {
    json!({"schema": "olm.package", "name": "cache", "defaultChannel": "alpha"})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_installs_an_operator_and_its_upgrades() {
    let stage = Stage::start().await;
    let first = bundle(&csv("0.1.0"), &[crd()]);
    stage
        .catalog(&[
            package(),
            channel(json!([{"name": "cache.v0.1.0"}])),
            first.clone(),
        ])
        .await;
    let sources = olm("v1alpha1", "catalogsources");
    stage
        .until(&sources, NAMESPACE, "cat", |source| {
            text(source, "/status/connectionState/lastObservedState") == "READY"
        })
        .await;
    let packages = Gvr::new("packages.operators.coreos.com", "v1", "packagemanifests");
    let manifest = stage
        .until(&packages, NAMESPACE, "cache", |manifest| {
            text(manifest, "/status/channels/0/currentCSV") == "cache.v0.1.0"
        })
        .await;
    assert_eq!(text(&manifest, "/status/catalogSource"), "cat");
    stage.group(json!({})).await;
    stage
        .subscribe(json!({"config": {"env": [{"name": "A", "value": "b"}]}}))
        .await;
    let installed = stage.succeeded("cache.v0.1.0").await;
    let history: Vec<(&str, &str)> = installed
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .unwrap()
        .iter()
        .map(|entry| (text(entry, "/phase"), text(entry, "/reason")))
        .collect();
    assert_eq!(history.first(), Some(&("Pending", "RequirementsUnknown")));
    assert_eq!(
        history[history.len() - 4..],
        [
            ("InstallReady", "AllRequirementsMet"),
            ("Installing", "InstallSucceeded"),
            ("Installing", "InstallWaiting"),
            ("Succeeded", "InstallSucceeded"),
        ],
        "{history:?}"
    );
    assert_eq!(
        installed.pointer("/metadata/annotations/olm.targetNamespaces"),
        Some(&json!(""))
    );
    let deployments = Gvr::new("apps", "v1", "deployments");
    let deployment = stage
        .client
        .get(&deployments, NAMESPACE, "cache-controller")
        .await
        .unwrap();
    let env =
        json!([{"name": "OPERATOR_CONDITION_NAME", "value": "cache.v0.1.0"}, {"name": "A", "value": "b"}]);
    assert_eq!(
        deployment.pointer("/spec/template/spec/containers/0/env"),
        Some(&env)
    );
    let subscription = stage
        .until(&subscriptions(), NAMESPACE, "sub", |subscription| {
            text(subscription, "/status/state") == "AtLatestKnown"
        })
        .await;
    assert_eq!(text(&subscription, "/status/installedCSV"), "cache.v0.1.0");
    let plan = text(&subscription, "/status/installPlanRef/name").to_owned();
    stage
        .until(&install_plans(), NAMESPACE, &plan, |plan| {
            phase(plan) == "Complete"
        })
        .await;
    // All namespaces are targets, so each has a copy.
    let copy = stage
        .until(&csvs(), "kube-public", "cache.v0.1.0", |copy| {
            phase(copy) == "Succeeded"
        })
        .await;
    assert_eq!(text(&copy, "/status/reason"), "Copied");
    stage
        .until(
            &olm("v2", "operatorconditions"),
            NAMESPACE,
            "cache.v0.1.0",
            |_| true,
        )
        .await;

    let second = bundle(&csv("0.2.0"), &[crd()]);
    let entries = json!([{"name": "cache.v0.1.0"}, {"name": "cache.v0.2.0", "replaces": "cache.v0.1.0"}]);
    stage.catalog(&[package(), channel(entries), first, second]).await;
    let upgraded = stage.succeeded("cache.v0.2.0").await;
    assert_eq!(text(&upgraded, "/spec/replaces"), "cache.v0.1.0");
    stage.until_gone(&csvs(), NAMESPACE, "cache.v0.1.0").await;
    stage.until_gone(&csvs(), "kube-public", "cache.v0.1.0").await;
    let deployment = stage
        .client
        .get(&deployments, NAMESPACE, "cache-controller")
        .await
        .unwrap();
    assert_eq!(
        text(&deployment, "/spec/template/spec/containers/0/image"),
        "example.com/cache:0.2.0"
    );

    stage.delete(&subscriptions(), "sub").await;
    stage.delete(&csvs(), "cache.v0.2.0").await;
    stage
        .until_gone(&deployments, NAMESPACE, "cache-controller")
        .await;
    stage.until_gone(&csvs(), "kube-public", "cache.v0.2.0").await;
    let roles = Gvr::new("rbac.authorization.k8s.io", "v1", "clusterroles");
    let left = || async {
        let roles = stage.client.list(&roles, "", "").await.unwrap().items;
        roles
            .iter()
            .any(|role| text(role, "/metadata/labels/olm.owner") == "cache.v0.2.0")
    };
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    let (revision, _) = stage.client.snapshot();
    let mut watch = stage.client.watch(revision);
    while left().await {
        assert!(
            tokio::time::timeout_at(deadline, watch.next()).await.is_ok(),
            "cluster roles are left"
        );
    }
    let definitions = Gvr::new("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    assert!(
        stage
            .client
            .get(&definitions, "", "caches.example.com")
            .await
            .is_ok()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manual_plan_waits_and_a_wrong_install_mode_is_reported() {
    let stage = Stage::start().await;
    let bundle = bundle(&csv("0.1.0"), &[crd()]);
    stage
        .catalog(&[package(), channel(json!([{"name": "cache.v0.1.0"}])), bundle])
        .await;
    stage
        .group(json!({"targetNamespaces": ["default", "kube-public"]}))
        .await;
    stage
        .subscribe(json!({"installPlanApproval": "Manual", "startingCSV": "cache.v0.1.0"}))
        .await;
    let subscription = stage
        .until(&subscriptions(), NAMESPACE, "sub", |subscription| {
            text(subscription, "/status/state") == "UpgradePending"
        })
        .await;
    let plan = text(&subscription, "/status/installPlanRef/name").to_owned();
    stage
        .until(&install_plans(), NAMESPACE, &plan, |plan| {
            phase(plan) == "RequiresApproval"
        })
        .await;
    assert!(
        stage
            .client
            .get(&csvs(), NAMESPACE, "cache.v0.1.0")
            .await
            .is_err()
    );
    stage
        .patch(&install_plans(), &plan, json!({"spec": {"approved": true}}))
        .await;
    let failed = stage
        .until(&csvs(), NAMESPACE, "cache.v0.1.0", |csv| phase(csv) == "Failed")
        .await;
    assert_eq!(text(&failed, "/status/reason"), "UnsupportedOperatorGroup");
    assert_eq!(
        text(&failed, "/status/message"),
        "MultiNamespace InstallModeType not supported, cannot configure to watch 2 namespaces"
    );
    stage
        .patch(
            &olm("v1", "operatorgroups"),
            "og",
            json!({"spec": {"targetNamespaces": ["kube-public"]}}),
        )
        .await;
    stage.succeeded("cache.v0.1.0").await;
    let roles = Gvr::new("rbac.authorization.k8s.io", "v1", "roles");
    let copied = stage
        .client
        .list(&roles, "kube-public", "olm.copiedFrom=default")
        .await;
    assert_eq!(copied.unwrap().items.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_package_and_a_missing_group_are_reported() {
    let stage = Stage::start().await;
    let bundle = bundle(&csv("0.1.0"), &[crd()]);
    stage
        .catalog(&[package(), channel(json!([{"name": "cache.v0.1.0"}])), bundle])
        .await;
    stage.subscribe(json!({"name": "other"})).await;
    let message = |wanted: &'static str| {
        move |subscription: &Value| {
            let conditions = subscription
                .pointer("/status/conditions")
                .and_then(Value::as_array);
            conditions
                .into_iter()
                .flatten()
                .any(|condition| text(condition, "/message") == wanted)
        }
    };
    let missing = message("expected 1 OperatorGroup in the namespace, found 0");
    stage.until(&subscriptions(), NAMESPACE, "sub", missing).await;
    stage.group(json!({})).await;
    let unknown = message(
        "constraints not satisfiable: no operators found in package other in the catalog referenced by subscription \
         sub, subscription sub exists",
    );
    stage.until(&subscriptions(), NAMESPACE, "sub", unknown).await;
}

/// Returns the condition of a type, if the Subscription has it.
fn condition<'a>(subscription: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = subscription.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|found| text(found, "/type") == kind)
}

/// Returns true if a Subscription has a condition with the status True.
fn has(subscription: &Value, kind: &str) -> bool {
    condition(subscription, kind).is_some_and(|found| text(found, "/status") == "True")
}

/// Returns the message of the condition BundleUnpackFailed; empty if it is missing.
fn unpack_failure(subscription: &Value) -> &str {
    condition(subscription, "BundleUnpackFailed").map_or("", |found| text(found, "/message"))
}

const BUNDLE_IMAGE: &str = "registry.example.com/cache:v0.1.0";

impl Stage {
    /// Subscribes to a bundle in an image that does not exist, and returns the name of the Job that unpacks it.
    async fn subscribe_to_image(&self) -> String {
        let bundle = json!({
            "schema": "olm.bundle", "name": "cache.v0.1.0", "package": "cache", "image": BUNDLE_IMAGE,
            "properties": [{"type": "olm.package", "value": {"packageName": "cache", "version": "0.1.0"}}],
        });
        self.catalog(&[package(), channel(json!([{"name": "cache.v0.1.0"}])), bundle])
            .await;
        self.group(json!({})).await;
        let (revision, _) = self.client.snapshot();
        let mut watch = self.client.watch(revision);
        self.subscribe(json!({})).await;
        loop {
            let event = watch.next().await.unwrap();
            if event.gvr.resource == "jobs" {
                return text(&event.object, "/metadata/name").to_owned();
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bundle_that_cannot_be_unpacked_is_reported_and_unpacked_again() {
    let hour = Duration::from_secs(3600);
    let stage = Stage::start_with(Delays {
        job: hour,
        ..Delays::default()
    })
    .await;
    let job = stage.subscribe_to_image().await;
    let unpacking = |subscription: &Value| {
        has(subscription, "BundleUnpacking") && !has(subscription, "BundleUnpackFailed")
    };
    stage.until(&subscriptions(), NAMESPACE, "sub", unpacking).await;
    let jobs = Gvr::new("batch", "v1", "jobs");
    stage
        .patch(&jobs, &job, json!({"spec": {"activeDeadlineSeconds": 1}}))
        .await;
    let failed = |subscription: &Value| has(subscription, "BundleUnpackFailed");
    let subscription = stage.until(&subscriptions(), NAMESPACE, "sub", failed).await;
    assert!(!has(&subscription, "BundleUnpacking"));
    assert_eq!(
        unpack_failure(&subscription),
        format!(
            "Bundle unpacking failed - DeadlineExceeded: Job was active longer than specified deadline. Check the image \
             {BUNDLE_IMAGE}, and delete the configmap {job} in the namespace default to unpack it again"
        )
    );
    // The InstallPlan needs the objects of the bundle.
    assert_eq!(subscription.pointer("/status/installPlanRef"), None);
    let plans = stage.client.list(&install_plans(), NAMESPACE, "").await.unwrap();
    assert!(plans.items.is_empty());

    stage.delete(&Gvr::new("", "v1", "configmaps"), &job).await;
    stage.until(&subscriptions(), NAMESPACE, "sub", unpacking).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unpack_job_without_a_program_is_reported() {
    let stage = Stage::start().await;
    stage.subscribe_to_image().await;
    let failed = |subscription: &Value| has(subscription, "BundleUnpackFailed");
    let subscription = stage.until(&subscriptions(), NAMESPACE, "sub", failed).await;
    let message = unpack_failure(&subscription);
    let reason = "Bundle unpacking failed - BundleNotUnpacked: the unpack job has written no objects";
    assert!(message.starts_with(reason), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_get_certificates_and_an_edited_deployment_is_put_back() {
    let stage = Stage::start().await;
    let mut csv = csv("0.1.0");
    csv["spec"]["webhookdefinitions"] = json!([{
        "type": "ValidatingAdmissionWebhook", "generateName": "vcache.kb.io", "deploymentName": "cache-controller",
        "containerPort": 443, "targetPort": 9443, "webhookPath": "/validate", "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore",
        "rules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["caches"], "operations": ["CREATE"]}],
    }]);
    let bundle = bundle(&csv, &[crd()]);
    stage
        .catalog(&[package(), channel(json!([{"name": "cache.v0.1.0"}])), bundle])
        .await;
    stage.group(json!({"targetNamespaces": ["default"]})).await;
    stage.subscribe(json!({})).await;
    stage.succeeded("cache.v0.1.0").await;
    let secrets = Gvr::new("", "v1", "secrets");
    let secret = stage
        .client
        .get(&secrets, NAMESPACE, "cache-controller-service-cert")
        .await
        .unwrap();
    let webhooks = Gvr::new(
        "admissionregistration.k8s.io",
        "v1",
        "validatingwebhookconfigurations",
    );
    let configurations = stage
        .client
        .list(&webhooks, "", "olm.owner=cache.v0.1.0")
        .await
        .unwrap();
    let [configuration] = configurations.items.as_slice() else {
        panic!("{configurations:?}")
    };
    let authority = text(configuration, "/webhooks/0/clientConfig/caBundle");
    assert_eq!(authority, text(&secret, "/data/olmCAKey"));
    assert!(text(configuration, "/metadata/name").starts_with("vcache.kb.io-"));

    let deployments = Gvr::new("apps", "v1", "deployments");
    stage
        .patch(&deployments, "cache-controller", json!({"spec": {"replicas": 3}}))
        .await;
    stage
        .until(&deployments, NAMESPACE, "cache-controller", |deployment| {
            deployment.pointer("/spec/replicas") == Some(&json!(1))
        })
        .await;
    stage.succeeded("cache.v0.1.0").await;
    stage.delete(&deployments, "cache-controller").await;
    stage
        .until(&deployments, NAMESPACE, "cache-controller", |_| true)
        .await;
    stage.delete(&csvs(), "cache.v0.1.0").await;
    stage
        .until_gone(&webhooks, "", text(configuration, "/metadata/name"))
        .await;
    stage
        .until_gone(&secrets, NAMESPACE, "cache-controller-service-cert")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owned_api_is_registered_and_removed_with_its_operator() {
    let stage = Stage::start().await;
    let mut csv = csv("0.1.0");
    csv["spec"]["apiservicedefinitions"] = json!({"owned": [{
        "name": "stats", "group": "stats.example.com", "version": "v1", "kind": "Stats",
        "deploymentName": "cache-controller", "containerPort": 5443,
    }]});
    let bundle = bundle(&csv, &[crd()]);
    stage
        .catalog(&[package(), channel(json!([{"name": "cache.v0.1.0"}])), bundle])
        .await;
    stage.group(json!({})).await;
    stage.subscribe(json!({})).await;
    stage.succeeded("cache.v0.1.0").await;
    let services = Gvr::new("apiregistration.k8s.io", "v1", "apiservices");
    let service = stage
        .client
        .get(&services, "", "v1.stats.example.com")
        .await
        .unwrap();
    assert_eq!(text(&service, "/spec/service/name"), "cache-controller-service");
    assert_eq!(service.pointer("/spec/service/port"), Some(&json!(5443)));
    let secrets = Gvr::new("", "v1", "secrets");
    let secret = stage
        .client
        .get(&secrets, NAMESPACE, "cache-controller-service-cert")
        .await
        .unwrap();
    assert_eq!(text(&service, "/spec/caBundle"), text(&secret, "/data/olmCAKey"));
    // A deleted APIService is created again.
    let options = DeleteOptions::default();
    stage
        .client
        .delete(&services, "", "v1.stats.example.com", options)
        .await
        .unwrap();
    stage.until(&services, "", "v1.stats.example.com", |_| true).await;
    stage.succeeded("cache.v0.1.0").await;
    stage.delete(&csvs(), "cache.v0.1.0").await;
    stage.until_gone(&services, "", "v1.stats.example.com").await;
}
