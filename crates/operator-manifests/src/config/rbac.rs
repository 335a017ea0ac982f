//! `config/rbac`: the operator's service account and its bindings, the roles for leader election and metrics, and roles
//! for users.

use serde_json::{Value, json};

use super::{ConfigTree, Kind, MANAGER_ROLE, Operator};
use crate::render;

const FOLDER: &str = "config/rbac";
const API_VERSION: &str = "rbac.authorization.k8s.io/v1";

pub(super) fn add(tree: &mut ConfigTree, operator: &Operator) {
    let account = json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": operator.metadata("controller-manager"),
    });
    tree.resource(FOLDER, "service_account.yaml", &account, &[]);
    tree.entry(FOLDER, "resources", json!("role.yaml"));
    tree.files
        .insert(format!("{FOLDER}/role_binding.yaml"), manager_bindings(operator));
    tree.entry(FOLDER, "resources", json!("role_binding.yaml"));
    add_leader_election(tree, operator);
    if operator.metrics {
        add_metrics(tree, operator);
    }
    for kind in operator.defined() {
        for access in &ACCESS {
            let file = format!("{}_{}_role.yaml", kind.prefix("_"), access.word);
            let comment = format!(
                "{}\nFor users of the API: bind them to it. The operator does not use it.",
                access.sentence.replace("{plural}", &kind.plural)
            );
            tree.resource(
                FOLDER,
                &file,
                &access_role(operator, kind, access),
                &[("", &comment)],
            );
        }
    }
}

/// Returns the bindings of the operator's role. An operator that issues its own certificates needs a Secret in its
/// namespace and the cluster-scoped webhook configurations, so it has both a Role and a ClusterRole.
fn manager_bindings(operator: &Operator) -> String {
    let mut scopes = vec![Scope::of(operator.namespaced)];
    if operator.manages_certificates() {
        scopes.push(Scope::of(!operator.namespaced));
    }
    let bindings: Vec<Value> = scopes
        .into_iter()
        .map(|scope| binding(operator, scope, "manager-rolebinding", MANAGER_ROLE))
        .collect();
    match bindings.as_slice() {
        [one] => render::yaml(one),
        several => render::documents(several),
    }
}

#[derive(Clone, Copy)]
enum Scope {
    Cluster,
    Namespace,
}

fn add_leader_election(tree: &mut ConfigTree, operator: &Operator) {
    let rules = json!([
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "verbs": ["create", "get", "update"],
        },
        {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
    ]);
    let name = "leader-election-role";
    let role = role(operator, Scope::Namespace, name, &rules);
    let comment = "Permissions for the leader election, in the namespace of the operator only.";
    tree.resource(FOLDER, "leader_election_role.yaml", &role, &[("", comment)]);
    let binding = binding(operator, Scope::Namespace, "leader-election-rolebinding", name);
    tree.resource(FOLDER, "leader_election_role_binding.yaml", &binding, &[]);
}

fn add_metrics(tree: &mut ConfigTree, operator: &Operator) {
    let review = |group: &str, resource: &str| json!({"apiGroups": [group], "resources": [resource], "verbs": ["create"]});
    let rules = json!([
        review("authentication.k8s.io", "tokenreviews"),
        review("authorization.k8s.io", "subjectaccessreviews"),
    ]);
    let auth = role(operator, Scope::Cluster, "metrics-auth-role", &rules);
    let comment = "Permits the operator to ask the API server if a client may read its metrics.";
    tree.resource(FOLDER, "metrics_auth_role.yaml", &auth, &[("", comment)]);
    let binding = binding(
        operator,
        Scope::Cluster,
        "metrics-auth-rolebinding",
        "metrics-auth-role",
    );
    tree.resource(FOLDER, "metrics_auth_role_binding.yaml", &binding, &[]);
    let rules = json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]);
    let reader = role(operator, Scope::Cluster, "metrics-reader", &rules);
    let comment =
        "Permits reading the metrics. It has no binding yet: bind the service account of Prometheus.";
    tree.resource(FOLDER, "metrics_reader_role.yaml", &reader, &[("", comment)]);
}

/// The user roles of a kind: admin, editor and viewer.
struct Access {
    word: &'static str,
    sentence: &'static str,
    verbs: &'static [&'static str],
}

const ACCESS: [Access; 3] = [
    Access {
        word: "admin",
        sentence: "Permits all operations on {plural}.",
        verbs: &["*"],
    },
    Access {
        word: "editor",
        sentence: "Permits creating, changing and deleting {plural}.",
        verbs: &["create", "delete", "get", "list", "patch", "update", "watch"],
    },
    Access {
        word: "viewer",
        sentence: "Permits reading {plural}.",
        verbs: &["get", "list", "watch"],
    },
];

fn access_role(operator: &Operator, kind: &Kind, access: &Access) -> Value {
    let rule = |resource: String, verbs: &[&str]| json!({"apiGroups": [kind.api_group], "resources": [resource], "verbs": verbs});
    let rules = json!([
        rule(kind.plural.clone(), access.verbs),
        rule(format!("{}/status", kind.plural), &["get"]),
    ]);
    let name = format!("{}-{}-role", kind.prefix("-"), access.word);
    role(operator, Scope::of(operator.namespaced), &name, &rules)
}

fn role(operator: &Operator, scope: Scope, name: &str, rules: &Value) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": scope.role(),
        "metadata": scope.metadata(operator, name),
        "rules": rules,
    })
}

fn binding(operator: &Operator, scope: Scope, name: &str, role: &str) -> Value {
    json!({
        "apiVersion": API_VERSION,
        "kind": format!("{}Binding", scope.role()),
        "metadata": scope.metadata(operator, name),
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": scope.role(), "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": "controller-manager", "namespace": "system"}],
    })
}

// === impl Scope ===

impl Scope {
    fn of(namespaced: bool) -> Self {
        if namespaced {
            Self::Namespace
        } else {
            Self::Cluster
        }
    }

    fn role(self) -> &'static str {
        match self {
            Self::Cluster => "ClusterRole",
            Self::Namespace => "Role",
        }
    }

    fn metadata(self, operator: &Operator, name: &str) -> Value {
        match self {
            Self::Cluster => operator.cluster_metadata(name),
            Self::Namespace => operator.metadata(name),
        }
    }
}
