//! The webhook server of a manager and its certificates.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::CustomResourceExt;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use operator_envtest::{Backend, TestEnv};
use operator_runtime::certificates::{Certificates, ManagedCertificates, TlsVersion};
use operator_runtime::manager::ManagerOptions;
use operator_runtime::prelude::*;
use operator_runtime::webhook::{
    AdmissionHandler, AdmissionRequest, AdmissionResponse, Conversion, Convertible, Defaulter, Denied,
    Validator, Warnings, Webhook, WebhookOptions,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{self, Bench, Widget, WidgetSpec, in_time, run};

const MUTATE: &str = "/mutate-example-com-v1-widget";
const VALIDATE: &str = "/validate-example-com-v1-widget";

pub(crate) struct WidgetWebhook;

impl Defaulter<Widget> for WidgetWebhook {
    async fn default(&self, _: &AdmissionRequest, widget: &mut Widget) -> Result<(), Denied> {
        widget.spec.size = widget.spec.size.max(1);
        Ok(())
    }
}

impl Validator<Widget> for WidgetWebhook {
    async fn validate_create(&self, _: &AdmissionRequest, widget: &Widget) -> Result<Warnings, Denied> {
        match widget.spec.size {
            size if size > 9 => Err(Denied::new("too large")),
            _ => Ok(Warnings::new()),
        }
    }

    async fn validate_update(
        &self,
        request: &AdmissionRequest,
        _: &Widget,
        new: &Widget,
    ) -> Result<Warnings, Denied> {
        self.validate_create(request, new).await
    }
}

/// Returns the manifests of an operator with this webhook.
fn described(webhook: Webhook<Widget>) -> Value {
    let operator = Operator::new("tester").webhook(webhook);
    serde_json::from_str(&operator.manifests()).unwrap()
}

fn webhook() -> Webhook<Widget> {
    Webhook::new().defaulter(WidgetWebhook).validator(WidgetWebhook)
}

async fn manager(bench: &Bench, change: impl FnOnce(&mut ManagerOptions)) -> Manager {
    let mut options = ManagerOptions {
        health_probe_bind_address: "127.0.0.1:0".to_owned(),
        webhook_bind_address: "127.0.0.1:0".to_owned(),
        ..ManagerOptions::from(bench.client.clone())
    };
    change(&mut options);
    Manager::new("tester", options).await.unwrap()
}

/// Sends a review of a widget of this size, as an API server that trusts `authority` does.
async fn review(manager: &Manager, host: &str, authority: &str, path: &str, size: i32) -> Result<Value> {
    let mut widget = json!(Widget::new("w", WidgetSpec { size }));
    widget["metadata"] = json!({"name": "w"});
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {"uid": "u-1", "operation": "CREATE", "object": widget},
    });
    let answer = post(manager.webhook_address().unwrap(), host, authority, path, &review).await?;
    Ok(answer["response"].clone())
}

async fn post(address: SocketAddr, host: &str, authority: &str, path: &str, body: &Value) -> Result<Value> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = tokio::net::TcpStream::connect(address).await?;
    let name = ServerName::try_from(host.to_owned())?;
    let mut stream = tokio_rustls::TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await?;
    let body = body.to_string();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    in_time(stream.read_to_string(&mut answer)).await?;
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    Ok(serde_json::from_str(body)?)
}

#[tokio::test]
async fn manager_serves_webhooks_before_its_caches_are_filled() {
    let bench = Bench::without_widgets();
    let certificates = Certificates::self_signed(["webhooks.test"]).unwrap();
    let authority = certificates.authority().unwrap();
    let manager = manager(&bench, |options| {
        options.webhook_certificates = certificates.into();
    })
    .await;
    assert_eq!(manager.webhook_address(), None, "nobody listens without webhooks");
    manager.add_webhook(webhook()).unwrap();
    // Its cache cannot be filled, because widgets are not defined.
    let (reconciler, _told) = support::plain_teller();
    manager
        .add_controller(Controller::by_key(Watch::<Widget>::new(), reconciler))
        .unwrap();
    let running = run(&manager);

    let ask = async |path, size| {
        review(&manager, "webhooks.test", &authority, path, size)
            .await
            .unwrap()
    };
    assert_eq!(ask(VALIDATE, 3).await["allowed"], true);
    let denied = ask(VALIDATE, 10).await;
    assert_eq!(
        (&denied["allowed"], &denied["status"]["message"]),
        (&false.into(), &"too large".into())
    );
    assert_eq!(ask(MUTATE, 0).await["patchType"], "JSONPatch");
    let (code, text) = support::probe(&manager, "/readyz/webhook").await;
    assert_eq!((code, text.as_str()), (200, "ok"));
    let metrics = manager.metrics().to_text();
    let counted =
        format!("controller_runtime_webhook_requests_total{{webhook=\"{VALIDATE}\",code=\"200\"}} 2");
    assert!(metrics.contains(&counted), "{metrics}");
    running.end().await.unwrap();
    let late = manager.add_webhook(webhook()).unwrap_err();
    assert_eq!(
        late.to_string(),
        "can't accept new runnable as stop procedure is already engaged"
    );
}

/// A validator that denies everything.
struct Gate;

impl AdmissionHandler for Gate {
    async fn handle(&self, _: AdmissionRequest) -> AdmissionResponse {
        AdmissionResponse::denied(Denied::new("the gate is shut"))
    }
}

#[tokio::test]
async fn webhooks_added_to_a_running_manager_are_served() {
    let bench = Bench::without_widgets();
    let certificates = Certificates::self_signed(["webhooks.test"]).unwrap();
    let authority = certificates.authority().unwrap();
    let manager = manager(&bench, |options| {
        options.webhook_certificates = certificates.into();
    })
    .await;
    let running = run(&manager);
    in_time(manager.elected()).await;
    assert_eq!(manager.webhook_address(), None);
    let ask = async |path| {
        review(&manager, "webhooks.test", &authority, path, 0)
            .await
            .unwrap()
    };
    // The first webhook starts the server, which the next one uses.
    manager.add_webhook(webhook()).unwrap();
    assert_eq!(ask(MUTATE).await["patchType"], "JSONPatch");
    manager.add_admission_handler("/gate", Gate).unwrap();
    assert_eq!(ask("/gate").await["status"]["message"], "the gate is shut");
    assert_eq!(ask(VALIDATE).await["allowed"], true);
    let error = manager.add_admission_handler("/gate", Gate).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("webhook path \"/gate\" is already in use"),
        "{error}"
    );
    let metrics = manager.metrics().to_text();
    for path in ["/gate", MUTATE] {
        let counted =
            format!("controller_runtime_webhook_requests_total{{webhook=\"{path}\",code=\"200\"}} 1");
        assert!(metrics.contains(&counted), "{metrics}");
    }
    let (code, _) = support::probe(&manager, "/readyz/webhook").await;
    assert_eq!(code, 200);
    running.end().await.unwrap();
}

#[tokio::test]
async fn ca_bundle_is_written_for_late_webhooks() {
    let bench = Bench::without_widgets();
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(bench.client.clone());
    configurations
        .create(&PostParams::default(), &configuration("there"))
        .await
        .unwrap();
    let managed = ManagedCertificates::new("default", "webhook-ca");
    let manager = manager(&bench, |options| options.webhook_certificates = managed.into()).await;
    manager.add_admission_handler("/gate", Gate).unwrap();
    let running = run(&manager);
    in_time(async {
        while support::probe(&manager, "/readyz/webhook").await.0 != 200 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    manager.add_webhook(webhook()).unwrap();
    let bundle = bundle_of(&configurations, "there", |_| true).await;
    let answer = review(&manager, "webhook-service.default.svc", &bundle, MUTATE, 3).await;
    assert_eq!(answer.unwrap()["allowed"], true);
    running.end().await.unwrap();
}

/// A validator that allows everything.
struct Open;

impl AdmissionHandler for Open {
    async fn handle(&self, _: AdmissionRequest) -> AdmissionResponse {
        AdmissionResponse::allowed()
    }
}

#[tokio::test]
async fn webhook_server_serves_all_handlers_and_has_a_readiness_check() {
    let bench = Bench::without_widgets();
    let certificates = Certificates::self_signed(["webhooks.test"]).unwrap();
    let authority = certificates.authority().unwrap();
    let manager = manager(&bench, |options| {
        options.webhook_certificates = certificates.into();
    })
    .await;
    manager.add_admission_handler("/open", Open).unwrap();
    let raw = async |_| http::Response::new(http_body_util::Full::from(r#"{"raw":true}"#));
    manager.add_webhook_handler("/raw", raw).unwrap();
    let taken = manager.add_admission_handler("/raw", Open).unwrap_err();
    assert!(taken.to_string().contains("\"/raw\""), "{taken}");
    let none = manager.add_admission_handler("/raw/", Open).unwrap_err();
    assert!(none.to_string().contains("\"/raw/\""), "{none}");
    let address = manager.webhook_address().unwrap();
    let running = run(&manager);
    let ask = async |path, body| {
        post(address, "webhooks.test", &authority, path, &body)
            .await
            .unwrap()
    };
    let review = json!({"apiVersion": "admission.k8s.io/v1", "request": {"uid": "u"}});
    assert_eq!(ask("/open", review).await["response"]["allowed"], true);
    assert_eq!(ask("/raw", json!({})).await["raw"], true);
    let (code, text) = support::probe(&manager, "/readyz/webhook").await;
    assert_eq!((code, text.as_str()), (200, "ok"));
    running.end().await.unwrap();
}

#[tokio::test]
async fn missing_client_authority_is_an_error() {
    let bench = Bench::without_widgets();
    let manager = manager(&bench, |options| {
        options.webhook_client_authority = Some("no-such-file".into());
    })
    .await;
    manager.add_webhook(webhook()).unwrap();
    let error = in_time(manager.run_until(std::future::pending()))
        .await
        .unwrap_err();
    assert!(format!("{error:?}{error}").contains("no-such-file"), "{error}");
}

#[tokio::test]
async fn server_with_client_certificates_rejects_others_and_is_ready() {
    let bench = Bench::without_widgets();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("client-ca.crt");
    let clients = Certificates::self_signed(["clients.test"]).unwrap();
    std::fs::write(&file, clients.authority().unwrap()).unwrap();
    let certificates = Certificates::self_signed(["webhooks.test"]).unwrap();
    let authority = certificates.authority().unwrap();
    let manager = manager(&bench, |options| {
        options.min_tls_version = TlsVersion::Tls13;
        options.webhook_certificates = certificates.into();
        options.webhook_client_authority = Some(file.clone());
    })
    .await;
    manager.add_webhook(webhook()).unwrap();
    let running = run(&manager);
    in_time(async {
        while support::probe(&manager, "/readyz/webhook").await.0 != 200 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let refused = review(&manager, "webhooks.test", &authority, VALIDATE, 3).await;
    assert!(refused.is_err(), "nobody without a certificate is answered");
    running.end().await.unwrap();
}

#[tokio::test]
async fn webhooks_are_not_served_if_disabled() {
    let bench = Bench::without_widgets();
    let manager = manager(&bench, |options| options.webhook_bind_address = "0".to_owned()).await;
    manager.add_webhook(webhook()).unwrap();
    assert!(
        manager.add_webhook(webhook()).is_err(),
        "the paths are taken all the same"
    );
    assert_eq!(manager.webhook_address(), None);
    let running = run(&manager);
    assert_eq!(support::probe(&manager, "/readyz/webhook").await.0, 404);
    running.end().await.unwrap();
}

#[tokio::test]
async fn invalid_webhooks_are_errors() {
    let bench = Bench::without_widgets();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let manager = manager(&bench, |options| options.webhook_bind_address = address.clone()).await;
    let error = manager.add_webhook(webhook()).unwrap_err();
    assert!(error.to_string().contains("--webhook-port"), "{error}");
    drop(taken);
    manager.add_webhook(webhook()).unwrap();
    let error = manager.add_webhook(webhook()).unwrap_err();
    assert!(error.to_string().contains(MUTATE), "{error}");
}

/// Returns a configuration of four webhooks: of this operator, of others in another and in the same namespace, and with
/// another path.
fn configuration(name: &str) -> MutatingWebhookConfiguration {
    let entry = |name: &str, service: &str, namespace: &str, path: &str| {
        json!({
            "name": name,
            "clientConfig": {"service": {"name": service, "namespace": namespace, "path": path}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "failurePolicy": "Ignore",
        })
    };
    let entries = [
        entry("ours.example.com", "tester-webhook-service", "default", MUTATE),
        entry(
            "others.example.com",
            "tester-webhook-service",
            "kube-system",
            MUTATE,
        ),
        entry(
            "same-namespace.example.com",
            "other-webhook-service",
            "default",
            MUTATE,
        ),
        entry(
            "unknown.example.com",
            "tester-webhook-service",
            "default",
            "/unknown",
        ),
    ];
    serde_json::from_value(json!({"metadata": {"name": name}, "webhooks": entries})).unwrap()
}

fn bundles(configuration: &MutatingWebhookConfiguration) -> Vec<Option<String>> {
    let webhooks = configuration.webhooks.iter().flatten();
    let bundles = webhooks.map(|webhook| webhook.client_config.ca_bundle.clone());
    bundles
        .map(|bundle| bundle.map(|pem| String::from_utf8(pem.0).unwrap()))
        .collect()
}

/// Waits until the webhook of this operator has a bundle for which `wanted` returns true.
async fn bundle_of(
    api: &Api<MutatingWebhookConfiguration>,
    name: &str,
    wanted: impl Fn(&str) -> bool,
) -> String {
    let is_there = |configuration: Option<&MutatingWebhookConfiguration>| {
        let first = configuration.and_then(|configuration| bundles(configuration).remove(0));
        first.is_some_and(|bundle| wanted(&bundle))
    };
    let found = in_time(await_condition(api.clone(), name, is_there))
        .await
        .unwrap()
        .unwrap();
    let bundles = bundles(&found);
    assert_eq!(bundles[1..], [None, None, None], "only ours are written");
    bundles[0].clone().unwrap()
}

#[tokio::test]
async fn operator_issues_certificates_and_writes_the_ca_bundle() {
    let bench = Bench::new().await;
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(bench.client.clone());
    let create = async |configuration: &MutatingWebhookConfiguration| {
        configurations
            .create(&PostParams::default(), configuration)
            .await
            .unwrap()
    };
    create(&configuration("before")).await;
    let mut injected = configuration("injected");
    let annotation = ("cert-manager.io/inject-ca-from".to_owned(), "a/b".to_owned());
    injected.metadata.annotations = Some([annotation].into());
    create(&injected).await;
    let managed = ManagedCertificates::new("default", "webhook-ca");
    let manager = manager(&bench, |options| options.webhook_certificates = managed.into()).await;
    manager.add_webhook(webhook()).unwrap();
    let running = run(&manager);

    let bundle = bundle_of(&configurations, "before", |_| true).await;
    let answer = review(&manager, "webhook-service.default.svc", &bundle, MUTATE, 3).await;
    assert_eq!(answer.unwrap()["allowed"], true);
    let other = review(&manager, "webhook-service.other.svc", &bundle, MUTATE, 3).await;
    assert!(other.is_err(), "the certificate is for one namespace");

    // Configurations that are created late or reset also get it.
    create(&configuration("late")).await;
    assert_eq!(bundle_of(&configurations, "late", |_| true).await, bundle);
    let emptied = configurations.get("before").await.unwrap();
    let emptied = MutatingWebhookConfiguration {
        webhooks: configuration("before").webhooks,
        ..emptied
    };
    configurations
        .replace("before", &PostParams::default(), &emptied)
        .await
        .unwrap();
    assert_eq!(bundle_of(&configurations, "before", |_| true).await, bundle);
    let injected = configurations.get("injected").await.unwrap();
    assert_eq!(
        bundles(&injected),
        [None, None, None, None],
        "cert-manager's is left to it"
    );
    running.end().await.unwrap();
}

#[tokio::test]
async fn authority_is_renewed_without_a_gap() {
    let bench = Bench::new().await;
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(bench.client.clone());
    configurations
        .create(&PostParams::default(), &configuration("widgets"))
        .await
        .unwrap();
    let mut managed = ManagedCertificates::new("default", "webhook-ca");
    managed.check_every = Duration::from_millis(20);
    let manager = manager(&bench, |options| options.webhook_certificates = managed.into()).await;
    manager.add_webhook(webhook()).unwrap();
    let running = run(&manager);
    let old = bundle_of(&configurations, "widgets", |_| true).await;

    let secrets: Api<Secret> = Api::default_namespaced(bench.client.clone());
    let over = json!({"metadata": {"annotations": {"operator-sdk/renew-after": "2020-01-01T00:00:00Z"}}});
    secrets
        .patch("webhook-ca", &PatchParams::default(), &Patch::Merge(over))
        .await
        .unwrap();
    let both = bundle_of(&configurations, "widgets", |bundle| *bundle != *old).await;
    assert!(both.ends_with(&old), "the old one is trusted on");
    let stored = secrets.get("webhook-ca").await.unwrap().data.unwrap();
    assert_eq!(stored["ca.crt"], ByteString(both.clone().into_bytes()));

    // The server changes to the new authority, and is still trusted.
    let new = both.strip_suffix(&old).unwrap();
    let ask = async |authority: &str| review(&manager, "s.default.svc", authority, MUTATE, 3).await;
    in_time(async {
        while ask(new).await.is_err() {
            assert_eq!(ask(&both).await.unwrap()["allowed"], true);
        }
    })
    .await;
    running.end().await.unwrap();
}

/// A cluster that calls these webhooks, and whose widgets have a colour, which the operator's type lacks.
async fn asked(webhook: impl Fn() -> Webhook<Widget>) -> (TestEnv, support::Running) {
    let mut crd = json!(Widget::crd());
    let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["spec"]["properties"]["colour"] = json!({"type": "string"});
    let env = TestEnv::builder().backend(Backend::Embedded).crds([crd]);
    let env = env.start().await.unwrap();
    let certificates = Certificates::self_signed(["127.0.0.1"]).unwrap();
    let authority = certificates.authority().unwrap();
    let described = described(webhook());
    let manager = Manager::new(
        "tester",
        ManagerOptions {
            webhook_bind_address: "127.0.0.1:0".to_owned(),
            webhook_certificates: certificates.into(),
            ..ManagerOptions::from(env.client())
        },
    )
    .await
    .unwrap();
    manager.add_webhook(webhook()).unwrap();
    let running = run(&manager);
    let directory = tempfile::tempdir().unwrap();
    for (kind, field) in [
        ("MutatingWebhookConfiguration", "mutatingWebhooks"),
        ("ValidatingWebhookConfiguration", "validatingWebhooks"),
    ] {
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "widgets"},
            "webhooks": described[field],
        });
        let file = directory.path().join(format!("{kind}.yaml"));
        std::fs::write(file, configuration.to_string()).unwrap();
    }
    let address = manager.webhook_address().unwrap();
    env.install_webhooks(directory.path(), address, &authority)
        .await
        .unwrap();
    (env, running)
}

/// Creates a red widget of this size, and returns its spec.
async fn created_red(env: &TestEnv, size: i32) -> Result<Value, kube::Error> {
    let widgets: Api<DynamicObject> =
        Api::default_namespaced_with(env.client(), &ApiResource::erase::<Widget>(&()));
    let mut widget = json!(Widget::new(&format!("w{size}"), WidgetSpec { size }));
    widget["spec"]["colour"] = "red".into();
    let widget = serde_json::from_value(widget).unwrap();
    let created = widgets.create(&PostParams::default(), &widget).await?;
    Ok(created.data["spec"].clone())
}

#[tokio::test]
async fn webhooks_are_called_and_unknown_fields_are_kept() {
    let (env, running) = asked(webhook).await;
    let spec = created_red(&env, 0).await.unwrap();
    assert_eq!(spec, json!({"size": 1, "colour": "red"}));
    let refused = created_red(&env, 10).await.unwrap_err().to_string();
    let words = r#"admission webhook "vwidget-v1.kb.io" denied the request: too large"#;
    assert!(refused.contains(words), "{refused}");
    running.end().await.unwrap();
    // The server has stopped, and the failure policy is `Fail`.
    let refused = created_red(&env, 3).await.unwrap_err().to_string();
    assert!(
        refused.contains(r#"failed calling webhook "mwidget-v1.kb.io""#),
        "{refused}"
    );
    env.stop().await;
}

#[tokio::test]
async fn unknown_fields_are_removed_on_request() {
    struct Strict;

    impl Defaulter<Widget> for Strict {
        async fn default(&self, request: &AdmissionRequest, widget: &mut Widget) -> Result<(), Denied> {
            WidgetWebhook.default(request, widget).await
        }

        fn options(&self) -> WebhookOptions {
            WebhookOptions {
                remove_unknown_fields: true,
                ..WebhookOptions::default()
            }
        }
    }

    let webhook = || Webhook::new().defaulter(Strict).validator(WidgetWebhook);
    let (env, running) = asked(webhook).await;
    assert_eq!(created_red(&env, 0).await.unwrap(), json!({"size": 1}));
    running.end().await.unwrap();
    env.stop().await;
}

/// The previous version of [`Widget`], which has `length` instead of `size`.
mod v1alpha1 {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
    #[kube(group = "example.com", version = "v1alpha1", kind = "Widget", namespaced)]
    pub(super) struct WidgetSpec {
        pub(super) length: i32,
    }
}

impl Convertible for v1alpha1::Widget {
    type Hub = Widget;

    fn convert_to(self) -> Result<Widget> {
        let size = self.spec.length;
        let mut hub = Widget::new("", WidgetSpec { size });
        hub.metadata = self.metadata;
        Ok(hub)
    }

    fn convert_from(hub: Widget) -> Result<Self> {
        let length = hub.spec.size;
        let mut spoke = Self::new("", v1alpha1::WidgetSpec { length });
        spoke.metadata = hub.metadata;
        Ok(spoke)
    }
}

#[tokio::test]
async fn conversion_of_a_definition_is_served_and_trusted() {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

    let bench = Bench::new().await;
    let webhook = || webhook().conversion(Conversion::new().spoke::<v1alpha1::Widget>());
    let described = described(webhook());
    let mut conversion = described["conversions"][0]["conversion"].clone();
    assert_eq!(described["conversions"][0]["crd"], "widgets.example.com");
    conversion["webhook"]["clientConfig"]["service"]["namespace"] = "default".into();
    let crds: Api<CustomResourceDefinition> = Api::all(bench.client.clone());
    let patch = Patch::Merge(json!({"spec": {"conversion": conversion}}));
    crds.patch("widgets.example.com", &PatchParams::default(), &patch)
        .await
        .unwrap();

    let managed = ManagedCertificates::new("default", "webhook-ca");
    let manager = manager(&bench, |options| options.webhook_certificates = managed.into()).await;
    manager.add_webhook(webhook()).unwrap();
    let running = run(&manager);
    let bundle = |crd: Option<&CustomResourceDefinition>| {
        let conversion = crd?.spec.conversion.as_ref()?.webhook.as_ref()?;
        conversion.client_config.as_ref()?.ca_bundle.clone()
    };
    let is_trusted = |crd: Option<&CustomResourceDefinition>| bundle(crd).is_some();
    let crd = in_time(await_condition(crds, "widgets.example.com", is_trusted))
        .await
        .unwrap();
    let bundle = String::from_utf8(bundle(crd.as_ref()).unwrap().0).unwrap();

    let mut widget = json!(Widget::new("w", WidgetSpec { size: 3 }));
    widget["metadata"]["uid"] = "u".into();
    let review = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "u-1", "desiredAPIVersion": "example.com/v1alpha1", "objects": [widget]},
    });
    let address = manager.webhook_address().unwrap();
    let answer = post(
        address,
        "webhook-service.default.svc",
        &bundle,
        "/convert",
        &review,
    )
    .await
    .unwrap();
    let converted = &answer["response"]["convertedObjects"][0];
    assert_eq!(converted["spec"], json!({"length": 3}), "{answer}");
    running.end().await.unwrap();
}

/// Installs widgets in two versions with the conversion of the operator. The older version is stored.
async fn install_old_widgets(client: &kube::Client, described: &Value) {
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

    let versions = vec![Widget::crd(), v1alpha1::Widget::crd()];
    let mut crd = json!(kube::core::crd::merge_crds(versions, "v1alpha1").unwrap());
    crd["spec"]["conversion"] = described["conversions"][0]["conversion"].clone();
    crd["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["namespace"] = "default".into();
    let crd: CustomResourceDefinition = serde_json::from_value(crd).unwrap();
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    crds.create(&PostParams::default(), &crd).await.unwrap();
}

/// Directs the Service of the operator to its pod when that is ready, as a cluster does.
async fn route_when_ready(bench: &Bench, manager: &Manager) {
    while support::probe(manager, "/readyz").await.0 != 200 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    bench
        .network
        .route_service("webhook-service", manager.webhook_address().unwrap());
}

#[tokio::test]
async fn pod_becomes_ready_while_its_lists_need_its_conversion() {
    let bench = Bench::without_widgets();
    let webhook = || webhook().conversion(Conversion::new().spoke::<v1alpha1::Widget>());
    install_old_widgets(&bench.client, &described(webhook())).await;
    let old: Api<v1alpha1::Widget> = Api::default_namespaced(bench.client.clone());
    let widget = v1alpha1::Widget::new("a", v1alpha1::WidgetSpec { length: 3 });
    old.create(&PostParams::default(), &widget).await.unwrap();
    // The only replica starts, and its cache needs the objects in the newer version.
    let managed = ManagedCertificates::new("default", "webhook-ca");
    let options = operator_runtime::cache::CacheOptions {
        watch_backoff: operator_runtime::cache::WatchBackoff {
            min: Duration::from_millis(5),
            max: Duration::from_millis(20),
        },
        ..Default::default()
    };
    let manager = manager(&bench, |all| {
        all.webhook_certificates = managed.into();
        all.cache_options = options;
    });
    let manager = manager.await;
    manager.add_webhook(webhook()).unwrap();
    let (reconciler, mut told) = support::plain_teller();
    manager
        .add_controller(Controller::by_key(Watch::<Widget>::new(), reconciler))
        .unwrap();
    let running = run(&manager);
    in_time(route_when_ready(&bench, &manager)).await;
    told.until("a", Some(3)).await;
    running.end().await.unwrap();
}
