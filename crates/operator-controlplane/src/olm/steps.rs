//! The steps of an InstallPlan: the objects of a bundle in creation order.

use operator_olm::catalog::objects;
use serde_json::{Value, json};

use super::names::{hash, hashed};
use super::resolve::Candidate;
use crate::object::{Object, set};

/// The label of roles with the hash of their rules.
const PERMISSIONS: &str = "olm.permissions.hash";
const RBAC: &str = "rbac.authorization.k8s.io";

/// Returns the steps of a bundle in a namespace.
///
/// # Errors
/// Returns an error if the bundle has no ClusterServiceVersion, or an object is invalid.
pub(crate) fn steps(candidate: &Candidate, namespace: &str) -> Result<Vec<Value>, String> {
    let mut objects = objects(&candidate.bundle)?;
    let Some(at) = objects
        .iter()
        .position(|object| object.text("/kind") == "ClusterServiceVersion")
    else {
        return Err(format!(
            "bundle {} has neither an image nor objects with a ClusterServiceVersion",
            candidate.bundle.name
        ));
    };
    let csv = prepared(objects.remove(at), candidate, namespace);
    let (definitions, others): (Vec<Value>, Vec<Value>) = objects
        .into_iter()
        .partition(|object| object.text("/kind") == "CustomResourceDefinition");
    let permissions = permissions(&csv, namespace);
    let all = std::iter::once(csv.clone())
        .chain(definitions)
        .chain(others)
        .chain(permissions);
    Ok(all.map(|object| step(&csv, candidate, &object)).collect())
}

/// Returns the step that creates a Subscription for a dependency.
pub(crate) fn subscription_step(csv: &str, candidate: &Candidate, namespace: &str) -> Value {
    let source = &candidate.source;
    let package = &candidate.bundle.package;
    let name = format!(
        "{package}-{}-{}-{}",
        candidate.channel, source.name, source.namespace
    );
    let object = json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "Subscription",
        "metadata": {"name": name, "namespace": namespace, "labels": {super::MANAGED: "true"}},
        "spec": {
            "name": package,
            "channel": candidate.channel,
            "source": source.name,
            "sourceNamespace": source.namespace,
            "startingCSV": candidate.bundle.name,
            "installPlanApproval": "Automatic",
        },
    });
    let named = json!({"metadata": {"name": csv}});
    step(&named, candidate, &object)
}

fn step(csv: &Value, candidate: &Candidate, object: &Value) -> Value {
    let (group, version) = match object.text("/apiVersion").split_once('/') {
        Some((group, version)) => (group, version),
        None => ("", object.text("/apiVersion")),
    };
    json!({
        "resolving": csv.name(),
        "resource": {
            "group": group,
            "version": version,
            "kind": object.text("/kind"),
            "name": object.name(),
            "sourceName": candidate.source.name,
            "sourceNamespace": candidate.source.namespace,
            "manifest": object.to_string(),
        },
        "status": "Unknown",
    })
}

/// Returns the ClusterServiceVersion to create, with its namespace, its properties, and the name of the replaced one.
fn prepared(mut csv: Value, candidate: &Candidate, namespace: &str) -> Value {
    set(&mut csv, &["metadata", "namespace"], namespace.into());
    let properties = candidate.bundle.properties.iter();
    let properties: Vec<Value> = properties
        .filter(|property| property.kind != "olm.bundle.object" && property.kind != "olm.csv.metadata")
        .map(|property| json!({"type": property.kind, "value": property.value}))
        .collect();
    let text = json!({"properties": properties}).to_string();
    set(
        &mut csv,
        &["metadata", "annotations", "operatorframework.io/properties"],
        text.into(),
    );
    if candidate.replaces.is_empty() {
        crate::object::unset(&mut csv, &["spec", "replaces"]);
    } else {
        set(
            &mut csv,
            &["spec", "replaces"],
            candidate.replaces.as_str().into(),
        );
    }
    csv
}

/// Returns the service accounts, roles and bindings of the permissions of a ClusterServiceVersion.
fn permissions(csv: &Value, namespace: &str) -> Vec<Value> {
    let mut found: Vec<Value> = Vec::new();
    let strategy = "/spec/install/spec";
    let local = csv.items(&format!("{strategy}/permissions")).iter();
    let cluster = csv.items(&format!("{strategy}/clusterPermissions")).iter();
    let mut accounts: Vec<&str> = local
        .clone()
        .chain(cluster.clone())
        .map(|permission| permission.text("/serviceAccountName"))
        .collect();
    accounts.sort_unstable();
    accounts.dedup();
    for account in accounts {
        let of_account = |permission: &&Value| permission.text("/serviceAccountName") == account;
        if account != "default" {
            found.push(json!({
                "apiVersion": "v1", "kind": "ServiceAccount",
                "metadata": {"name": account, "namespace": namespace},
            }));
        }
        let subject = json!([{"kind": "ServiceAccount", "name": account, "namespace": namespace}]);
        for permission in local.clone().filter(of_account) {
            let hash = hash(permission);
            let name = hashed(&format!("{}-{account}", csv.name()), &hash);
            let metadata = json!({"name": name, "namespace": namespace, "labels": {PERMISSIONS: hash}});
            found.extend(pair("Role", "RoleBinding", &metadata, permission, &subject));
        }
        for permission in cluster.clone().filter(of_account) {
            let hash = hash(permission);
            let name = hashed(csv.name(), &hash);
            let mut metadata =
                json!({"name": name, "labels": super::owner_labels("ClusterServiceVersion", csv)});
            metadata["labels"][PERMISSIONS] = hash.into();
            found.extend(pair(
                "ClusterRole",
                "ClusterRoleBinding",
                &metadata,
                permission,
                &subject,
            ));
        }
    }
    found
}

fn pair(role: &str, binding: &str, metadata: &Value, permission: &Value, subjects: &Value) -> [Value; 2] {
    let version = format!("{RBAC}/v1");
    [
        json!({"apiVersion": version, "kind": role, "metadata": metadata, "rules": permission.items("/rules")}),
        json!({
            "apiVersion": version, "kind": binding, "metadata": metadata, "subjects": subjects,
            "roleRef": {"apiGroup": RBAC, "kind": role, "name": metadata["name"]},
        }),
    ]
}
