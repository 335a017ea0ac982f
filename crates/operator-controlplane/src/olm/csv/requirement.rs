//! Requirements: CRDs, service accounts with their permissions, native APIs, and the version of the cluster.

use operator_olm::catalog::version::Version;
use serde_json::{Value, json};

use super::Member;
use crate::kind::{CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT, SERVICE_ACCOUNT};
use crate::object::Object;
use crate::olm::kinds::{API_SERVICE, CSV};
use crate::olm::rules::allowed;

/// The version of the embedded API server.
const SERVER: &str = "1.36.2";

/// The statuses of all requirements.
pub(super) struct Outcome {
    pub(super) met: bool,
    pub(super) statuses: Vec<Value>,
}

pub(super) fn check(member: &Member<'_>) -> Outcome {
    let mut statuses = vec![version(member.csv)];
    statuses.retain(|status| !status.is_null());
    let definitions = "/spec/customresourcedefinitions";
    for list in ["owned", "required"] {
        let described = member.csv.items(&format!("{definitions}/{list}")).iter();
        statuses.extend(described.map(|described| definition(member, described)));
    }
    for list in ["owned", "required"] {
        let described = member.csv.items(&format!("/spec/apiservicedefinitions/{list}"));
        statuses.extend(
            described
                .iter()
                .map(|described| api_service(member, described, list == "owned")),
        );
    }
    statuses.extend(native(member));
    statuses.extend(accounts(member));
    let met = statuses
        .iter()
        .all(|status| matches!(status.text("/status"), "Present" | "DeploymentFound"));
    Outcome { met, statuses }
}

fn status(group: &str, version: &str, kind: &str, name: &str, status: &str, message: &str) -> Value {
    json!({
        "group": group, "version": version, "kind": kind, "name": name, "status": status, "message": message,
    })
}

fn version(csv: &Value) -> Value {
    let minimum = csv.text("/spec/minKubeVersion");
    if minimum.is_empty() {
        return Value::Null;
    }
    let (state, message) = match (Version::parse(minimum), Version::parse(SERVER)) {
        (Err(_), _) => ("PresentNotSatisfied", "CSV version parsing error".to_owned()),
        (_, Err(_)) => ("PresentNotSatisfied", "Server version parsing error".to_owned()),
        (Ok(wanted), Ok(server)) if wanted > server => (
            "PresentNotSatisfied",
            format!(
                "CSV version requirement not met: minKubeVersion ({minimum}) > server version ({SERVER})"
            ),
        ),
        _ => (
            "Present",
            format!("CSV minKubeVersion ({minimum}) less than server version (v{SERVER})"),
        ),
    };
    status(
        "operators.coreos.com",
        "v1alpha1",
        CSV.name,
        csv.name(),
        state,
        &message,
    )
}

fn definition(member: &Member<'_>, described: &Value) -> Value {
    let name = described.text("/name");
    let kind = &CUSTOM_RESOURCE_DEFINITION;
    let of = |state: &str, message: &str| {
        status(
            &kind.gvr.group,
            &kind.gvr.version,
            kind.name,
            name,
            state,
            message,
        )
    };
    let Some(found) = member.objects().get(kind, "", name) else {
        return of("NotPresent", "CRD is not present");
    };
    let version = described.text("/version");
    let served = found
        .items("/spec/versions")
        .iter()
        .any(|known| known.text("/name") == version && known.flag("/served"));
    if !served {
        return of("NotPresent", "CRD version not served");
    }
    if !found.is_condition_true("Established") {
        return of(
            "PresentNotAvailable",
            "CRD is present but the Established condition is False (not available)",
        );
    }
    let mut present = of("Present", "CRD is present and Established condition is true");
    present["uuid"] = found.uid().into();
    present
}

fn api_service(member: &Member<'_>, described: &Value, owned: bool) -> Value {
    let (group, version) = (described.text("/group"), described.text("/version"));
    let name = format!("{version}.{group}");
    let of = |state: &str| status("apiregistration.k8s.io", "v1", "APIService", &name, state, "");
    if owned {
        let deployment = described.text("/deploymentName");
        let deployments = member.csv.items("/spec/install/spec/deployments");
        let found = deployments.iter().any(|known| known.text("/name") == deployment)
            || member
                .objects()
                .get(&DEPLOYMENT, member.csv.namespace(), deployment)
                .is_some();
        return of(if found {
            "DeploymentFound"
        } else {
            "DeploymentNotFound"
        });
    }
    let found = member.objects().get(&API_SERVICE, "", &name);
    of(match found {
        None => "NotPresent",
        Some(service) if service.is_condition_true("Available") => "Present",
        Some(_) => "PresentNotAvailable",
    })
}

fn native(member: &Member<'_>) -> Vec<Value> {
    let wanted = member.csv.items("/spec/nativeAPIs");
    if wanted.is_empty() {
        return Vec::new();
    }
    let resources = (member.world.resources)();
    let is_served = |api: &Value| {
        resources.iter().any(|served| {
            served.gvr.group == api.text("/group")
                && served.gvr.version == api.text("/version")
                && served.kind == api.text("/kind")
        })
    };
    wanted
        .iter()
        .map(|api| {
            let (state, message) = match is_served(api) {
                true => ("Present", "Native API exists"),
                false => ("NotPresent", "Native API does not exist"),
            };
            let (group, version, kind) = (api.text("/group"), api.text("/version"), api.text("/kind"));
            status(group, version, kind, "", state, message)
        })
        .collect()
}

/// Returns each service account with its rules.
fn accounts(member: &Member<'_>) -> Vec<Value> {
    let csv = member.csv;
    let namespace = csv.namespace();
    let local = csv.items("/spec/install/spec/permissions");
    let cluster = csv.items("/spec/install/spec/clusterPermissions");
    let mut names: Vec<&str> = local
        .iter()
        .chain(cluster)
        .map(|permission| permission.text("/serviceAccountName"))
        .collect();
    names.sort_unstable();
    names.dedup();
    names
        .into_iter()
        .map(|name| {
            let of = |state: &str, message: &str| status("", "v1", "ServiceAccount", name, state, message);
            let Some(account) = member.objects().get(&SERVICE_ACCOUNT, namespace, name) else {
                return of("NotPresent", "Service account does not exist");
            };
            let owners = account.items("/metadata/ownerReferences").iter();
            let mut owners = owners.filter(|owner| owner.text("/kind") == CSV.name).peekable();
            let is_shared = |owner: &Value| {
                owner.text("/uid") == csv.uid() || owner.text("/name") == csv.text("/spec/replaces")
            };
            if owners.peek().is_some() && !owners.any(is_shared) {
                return of(
                    "PresentNotSatisfied",
                    "Service account is owned by another ClusterServiceVersion",
                );
            }
            let mut dependents = Vec::new();
            for (permissions, scope, kind) in
                [(local, Some(namespace), "namespaced"), (cluster, None, "cluster")]
            {
                let own = permissions
                    .iter()
                    .filter(|permission| permission.text("/serviceAccountName") == name);
                for rule in own.flat_map(|permission| permission.items("/rules")) {
                    let met = allowed(member.objects(), (namespace, name), scope, rule);
                    dependents.push(json!({
                        "group": "rbac.authorization.k8s.io", "version": "v1", "kind": "PolicyRule",
                        "status": if met { "Satisfied" } else { "NotSatisfied" },
                        "message": format!("{kind} rule:{rule}"),
                    }));
                }
            }
            let met = dependents
                .iter()
                .all(|dependent| dependent.text("/status") == "Satisfied");
            let mut found = match met {
                true => of("Present", ""),
                false => of(
                    "PresentNotSatisfied",
                    "Policy rule not satisfied for service account",
                ),
            };
            found["dependents"] = json!(dependents);
            found["uuid"] = account.uid().into();
            found
        })
        .collect()
}
