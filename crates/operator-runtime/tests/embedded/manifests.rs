//! The manifests of an operator, and the record of its requests in tests on a control plane.

use crate::support::{Widget, WidgetSpec, in_time};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, PostParams};
use kube::{CustomResource, CustomResourceExt};
use operator_envtest::TestEnv;
use operator_runtime::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

struct Copier;

impl KeyReconciler for Copier {
    async fn reconcile(&self, request: Request, ctx: KeyContext) -> Result<Action> {
        let Some(widget) = ctx.get::<Widget>(&request).await? else {
            return Ok(Action::done());
        };
        let mut config = ConfigMap::default();
        config.metadata.name = Some(request.name().to_owned());
        ctx.apply_owned(&*widget, config).await?;
        let ready = Condition::available(true, "Copied", "the ConfigMap is there");
        ctx.update_status(&widget, |status| {
            status.conditions.set(ready.clone());
        })
        .await?;
        Ok(Action::done())
    }
}

fn setup(manager: &Manager) -> Result<()> {
    manager.add_controller(
        Controller::by_key(Watch::<Widget>::new(), Copier)
            .owns::<ConfigMap>()
            .watches(Watch::<Secret>::new().map(|_| Vec::new())),
    )?;
    Ok(())
}

fn said(operator: Operator) -> Value {
    serde_json::from_str(&operator.manifests()).unwrap()
}

fn operator(setup: impl FnOnce(&Manager) -> Result<()> + 'static) -> Operator {
    Operator::new("copier").part(setup)
}

fn implied(reason: &str, group: &str, resource: &str, verbs: &[&str]) -> Value {
    json!({"reason": reason, "apiGroups": [group], "resources": [resource], "verbs": verbs})
}

#[test]
fn rules_follow_from_the_controllers() {
    let manifests = said(operator(setup).crd::<Widget>());
    let reading = ["get", "list", "watch"];
    let wanted = json!([
        implied("Controller::<Widget>", "example.com", "widgets", &reading),
        implied(
            "Controller::<Widget>",
            "example.com",
            "widgets/status",
            &["get", "patch", "update"]
        ),
        implied(
            "Controller::<Widget>",
            "example.com",
            "widgets/finalizers",
            &["update"]
        ),
        implied("owns::<ConfigMap>", "", "configmaps", &reading),
        implied(
            "owns::<ConfigMap>",
            "",
            "configmaps",
            &["create", "delete", "patch", "update"]
        ),
        implied("watches::<Secret>", "", "secrets", &reading),
        implied("events", "events.k8s.io", "events", &["create", "patch"]),
    ]);
    assert_eq!(manifests["impliedRules"], wanted);
    assert_eq!(manifests["rules"], json!([]));
}

#[tokio::test]
async fn foreign_kind_implies_no_status_rules() {
    let setup = |manager: &Manager| -> Result<()> {
        manager.add_controller(Controller::by_key(Watch::<Deployment>::new(), Copier))?;
        Ok(())
    };
    let manifests = said(operator(setup)).to_string();
    assert!(manifests.contains("deployments/finalizers"), "{manifests}");
    assert!(!manifests.contains("deployments/status"), "{manifests}");
}

#[test]
fn failing_setup_is_a_problem() {
    let fails = |_: &Manager| Err(operator_runtime::Error::msg("no such file"));
    let manifests = said(operator(fails));
    assert_eq!(
        manifests["problems"],
        json!([{"type": "setup", "message": "no such file"}])
    );
}

/// An enum without a structural schema.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
enum Backend {
    Disk { size: i64 },
    Memory { size: String },
}

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Store", namespaced)]
struct StoreSpec {
    backend: Backend,
}

#[test]
fn type_without_a_definition_is_a_problem_with_its_schema() {
    let manifests = said(Operator::new("copier").crd::<Store>());
    assert_eq!(manifests["crds"], json!([]));
    let problem = &manifests["problems"][0];
    assert!(
        problem["type"].as_str().unwrap().ends_with("::Store"),
        "{problem}"
    );
    assert_ne!(problem["message"], "");
    let schema = &manifests["schemas"][0];
    assert_eq!(
        (&schema["crd"], &schema["version"]),
        (&json!("stores.example.com"), &json!("v1"))
    );
    assert_eq!(
        schema["schema"]["$defs"]["StoreSpec"]["properties"]["backend"]["$ref"],
        "#/$defs/Backend"
    );
}

#[tokio::test]
async fn requests_of_the_manager_are_recorded() {
    let records = tempfile::tempdir().unwrap();
    let env = TestEnv::builder()
        .crds([Widget::crd()])
        .record_requests(records.path())
        .start()
        .await
        .unwrap();
    let manager = Manager::new("copier", env.client()).await.unwrap();
    setup(&manager).unwrap();
    let running = tokio::spawn(manager.run_until(std::future::pending()));
    let widgets: Api<Widget> = Api::default_namespaced(env.client());
    let widget = Widget::new("one", WidgetSpec { size: 1 });
    widgets.create(&PostParams::default(), &widget).await.unwrap();
    let ready = env.eventually(&widgets, "one", |widget| {
        let status = widget.status.as_ref();
        status.is_some_and(|status| status.conditions.is_true("Available"))
    });
    in_time(ready).await.unwrap();
    running.abort();

    let program = records.path().join("embedded");
    let files: Vec<_> = std::fs::read_dir(program).unwrap().collect();
    assert_eq!(files.len(), 1, "one file a test: {files:?}");
    let path = files.into_iter().next().unwrap().unwrap().path();
    assert!(
        path.to_string_lossy()
            .ends_with("/manifests.requests_of_the_manager_are_recorded.json")
    );
    let record: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let has = |wanted: Value| {
        let mut asked = record["requested"].as_array().unwrap().iter();
        asked.any(|asked| *asked == wanted)
    };
    let (group, resource, namespace) = ("example.com", "widgets", "default");
    assert!(
        has(json!({"verb": "watch", "group": group, "resource": resource})),
        "{record}"
    );
    let config =
        |verb: &str| json!({"verb": verb, "resource": "configmaps", "namespace": namespace, "name": "one"});
    assert!(has(config("patch")), "{record}");
    assert!(
        has(config("create")),
        "an apply that creates needs both: {record}"
    );
    assert!(
        has(json!({
            "verb": "patch", "group": group, "resource": resource, "subresource": "status",
            "namespace": namespace, "name": "one",
        })),
        "{record}"
    );
    let all = record.to_string();
    assert!(
        !all.contains("customresourcedefinitions"),
        "the environment's own: {all}"
    );
    assert!(
        !has(json!({"verb": "create", "group": group, "resource": resource, "namespace": namespace})),
        "the test's own: {all}"
    );
    env.stop().await;
}
