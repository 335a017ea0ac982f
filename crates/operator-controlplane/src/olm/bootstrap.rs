//! The installation of OLM itself: CRDs, namespaces, groups, and the objects that `olm status` expects.

use serde_json::{Value, json};

use super::NAMESPACE;
use super::definitions::definitions;
use super::kinds::{CSV, OLM_CONFIG, OPERATOR_GROUP};
use crate::engine::Controller;
use crate::kind::{self, CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT, Kind};
use crate::object::Object;
use crate::objects::Key;
use crate::plan::{Action, Plan, World, create};

/// The version of OLM that the controllers implement.
pub const VERSION: &str = "0.46.0";

/// Returns the controller, which runs once at the start.
pub(crate) fn controller() -> Controller {
    Controller {
        name: "olm-bootstrap",
        keys: |_, _, _| {},
        plan: Box::new(plan),
        initial: vec![Key::new("", NAMESPACE)],
    }
}

pub(super) fn plan(world: &World<'_>, _: &Key) -> Plan {
    let missing = |kind: &Kind, object: &Value| {
        world
            .objects
            .get(kind, object.namespace(), object.name())
            .is_none()
    };
    let definitions: Vec<Action> = definitions()
        .into_iter()
        .filter(|definition| missing(&CUSTOM_RESOURCE_DEFINITION, definition))
        .map(|definition| create(&CUSTOM_RESOURCE_DEFINITION, definition, None))
        .collect();
    if !definitions.is_empty() {
        return Plan::actions(definitions);
    }
    let actions = objects()
        .into_iter()
        .filter(|(kind, object)| missing(kind, object))
        .map(|(kind, object)| create(kind, object, None));
    Plan::actions(actions.collect())
}

fn objects() -> Vec<(&'static Kind, Value)> {
    let namespace = |name: &str| (&*kind::NAMESPACE, json!({"metadata": {"name": name}}));
    let group = |namespace: &str, name: &str, spec: Value| {
        let metadata = json!({"name": name, "namespace": namespace});
        (&*OPERATOR_GROUP, json!({"metadata": metadata, "spec": spec}))
    };
    vec![
        namespace(NAMESPACE),
        namespace("operators"),
        namespace(super::v1::NAMESPACE),
        group("operators", "global-operators", json!({})),
        group(
            NAMESPACE,
            "olm-operators",
            json!({"targetNamespaces": [NAMESPACE]}),
        ),
        (&*OLM_CONFIG, json!({"metadata": {"name": "cluster"}, "spec": {}})),
        (&*DEPLOYMENT, deployment("olm-operator")),
        (&*DEPLOYMENT, deployment("catalog-operator")),
        (&*CSV, package_server()),
    ]
}

/// Returns a Deployment that represents a controller of this process.
fn deployment(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": name}},
        "spec": spec(name),
    })
}

fn spec(name: &str) -> Value {
    json!({
        "replicas": 1,
        "selector": {"matchLabels": {"app": name}},
        "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": name, "image": format!("olm.invalid/embedded:v{VERSION}")}]},
        },
    })
}

fn package_server() -> Value {
    let modes = [
        "OwnNamespace",
        "SingleNamespace",
        "MultiNamespace",
        "AllNamespaces",
    ];
    let modes: Vec<Value> = modes
        .iter()
        .map(|mode| json!({"type": mode, "supported": true}))
        .collect();
    let deployments = json!([{"name": "packageserver", "spec": spec("packageserver")}]);
    json!({
        "metadata": {
            "name": "packageserver", "namespace": NAMESPACE, "labels": {"olm.version": format!("v{VERSION}")},
        },
        "spec": {
            "displayName": "Package Server",
            "description": "Represents an Operator package that is available from a given CatalogSource which will \
                resolve to a ClusterServiceVersion.",
            "version": VERSION,
            "minKubeVersion": "1.11.0",
            "installModes": modes,
            "install": {"strategy": "deployment", "spec": {"deployments": deployments}},
        },
    })
}
