//! The roles and bindings that every cluster begins with, as of Kubernetes 1.36.
//!
//! What kubelets, controllers of the control plane and add-ons use is left out: nothing of it runs beside the
//! embedded server as a user of its own.

use serde_json::{Map, Value, json};

/// A cluster role.
struct Role {
    name: &'static str,
    /// The role gathers the rules of all roles that aggregate to this one.
    gathers: Option<&'static str>,
    /// The role that this one aggregates to.
    aggregates_to: Option<&'static str>,
    rules: &'static [Rule],
}

/// Verbs on resources of one group, or on paths.
#[derive(PartialEq)]
struct Rule {
    verbs: &'static [&'static str],
    group: &'static str,
    resources: &'static [&'static str],
    names: &'static [&'static str],
    urls: &'static [&'static str],
}

const fn allow(
    verbs: &'static [&'static str],
    group: &'static str,
    resources: &'static [&'static str],
) -> Rule {
    Rule {
        verbs,
        group,
        resources,
        names: &[],
        urls: &[],
    }
}

const fn named(
    verbs: &'static [&'static str],
    group: &'static str,
    resources: &'static [&'static str],
    names: &'static [&'static str],
) -> Rule {
    Rule {
        names,
        ..allow(verbs, group, resources)
    }
}

const fn paths(verbs: &'static [&'static str], urls: &'static [&'static str]) -> Rule {
    Rule {
        urls,
        ..allow(verbs, "", &[])
    }
}

const fn role(name: &'static str, rules: &'static [Rule]) -> Role {
    Role {
        name,
        gathers: None,
        aggregates_to: None,
        rules,
    }
}

const fn part(name: &'static str, aggregates_to: &'static str, rules: &'static [Rule]) -> Role {
    Role {
        aggregates_to: Some(aggregates_to),
        ..role(name, rules)
    }
}

const fn whole(name: &'static str, aggregates_to: Option<&'static str>) -> Role {
    Role {
        gathers: Some(name),
        aggregates_to,
        ..role(name, &[])
    }
}

const ALL: &[&str] = &["*"];
const CREATE: &[&str] = &["create"];
const GET: &[&str] = &["get"];
const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];
const READ_WRITE: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];
const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";
const CERTIFICATES: &str = "certificates.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";

const HEALTH: &[&str] = &["/healthz", "/livez", "/readyz", "/version", "/version/"];
const DISCOVERY: &[&str] = &[
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/healthz",
    "/livez",
    "/openapi",
    "/openapi/*",
    "/readyz",
    "/version",
    "/version/",
];
const MONITORING: &[&str] = &[
    "/healthz",
    "/healthz/*",
    "/livez",
    "/livez/*",
    "/metrics",
    "/metrics/slis",
    "/readyz",
    "/readyz/*",
];
const ISSUER: &[&str] = &[
    "/.well-known/openid-configuration",
    "/.well-known/openid-configuration/",
    "/openid/v1/jwks",
    "/openid/v1/jwks/",
];

const ROLES: &[Role] = &[
    whole("admin", None),
    role("cluster-admin", &[allow(ALL, "*", ALL), paths(ALL, ALL)]),
    whole("edit", Some("admin")),
    part(
        "system:aggregate-to-admin",
        "admin",
        &[
            allow(CREATE, AUTHORIZATION, &["localsubjectaccessreviews"]),
            allow(READ_WRITE, RBAC, &["rolebindings", "roles"]),
        ],
    ),
    part("system:aggregate-to-edit", "edit", EDIT),
    part("system:aggregate-to-view", "view", VIEW),
    role(
        "system:auth-delegator",
        &[
            allow(CREATE, AUTHENTICATION, &["tokenreviews"]),
            allow(CREATE, AUTHORIZATION, &["subjectaccessreviews"]),
        ],
    ),
    role(
        "system:basic-user",
        &[
            allow(
                CREATE,
                AUTHORIZATION,
                &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
            ),
            allow(CREATE, AUTHENTICATION, &["selfsubjectreviews"]),
        ],
    ),
    role(
        "system:certificates.k8s.io:kube-apiserver-client-approver",
        &[named(
            &["approve"],
            CERTIFICATES,
            &["signers"],
            &["kubernetes.io/kube-apiserver-client"],
        )],
    ),
    role(
        "system:certificates.k8s.io:kube-apiserver-client-kubelet-approver",
        &[named(
            &["approve"],
            CERTIFICATES,
            &["signers"],
            &["kubernetes.io/kube-apiserver-client-kubelet"],
        )],
    ),
    role(
        "system:certificates.k8s.io:kubelet-serving-approver",
        &[named(
            &["approve"],
            CERTIFICATES,
            &["signers"],
            &["kubernetes.io/kubelet-serving"],
        )],
    ),
    role(
        "system:certificates.k8s.io:legacy-unknown-approver",
        &[named(
            &["approve"],
            CERTIFICATES,
            &["signers"],
            &["kubernetes.io/legacy-unknown"],
        )],
    ),
    role("system:discovery", &[paths(GET, DISCOVERY)]),
    role("system:monitoring", &[paths(GET, MONITORING)]),
    role("system:public-info-viewer", &[paths(GET, HEALTH)]),
    role("system:service-account-issuer-discovery", &[paths(GET, ISSUER)]),
    whole("view", Some("edit")),
];

const EDIT: &[Rule] = &[
    allow(
        READ,
        "",
        &[
            "pods/attach",
            "pods/exec",
            "pods/portforward",
            "pods/proxy",
            "secrets",
            "services/proxy",
        ],
    ),
    allow(&["impersonate"], "", &["serviceaccounts"]),
    allow(
        WRITE,
        "",
        &[
            "pods",
            "pods/attach",
            "pods/exec",
            "pods/portforward",
            "pods/proxy",
        ],
    ),
    allow(CREATE, "", &["pods/eviction"]),
    allow(
        WRITE,
        "",
        &[
            "configmaps",
            "events",
            "persistentvolumeclaims",
            "replicationcontrollers",
            "replicationcontrollers/scale",
            "secrets",
            "serviceaccounts",
            "services",
            "services/proxy",
        ],
    ),
    allow(CREATE, "", &["serviceaccounts/token"]),
    allow(
        WRITE,
        "apps",
        &[
            "daemonsets",
            "deployments",
            "deployments/rollback",
            "deployments/scale",
            "replicasets",
            "replicasets/scale",
            "statefulsets",
            "statefulsets/scale",
        ],
    ),
    allow(WRITE, "autoscaling", &["horizontalpodautoscalers"]),
    allow(WRITE, "batch", &["cronjobs", "jobs"]),
    allow(
        WRITE,
        "extensions",
        &[
            "daemonsets",
            "deployments",
            "deployments/rollback",
            "deployments/scale",
            "ingresses",
            "networkpolicies",
            "replicasets",
            "replicasets/scale",
            "replicationcontrollers/scale",
        ],
    ),
    allow(WRITE, "policy", &["poddisruptionbudgets"]),
    allow(WRITE, "networking.k8s.io", &["ingresses", "networkpolicies"]),
    allow(READ_WRITE, "coordination.k8s.io", &["leases"]),
    allow(
        WRITE,
        "resource.k8s.io",
        &["resourceclaims", "resourceclaimtemplates"],
    ),
];

const VIEW: &[Rule] = &[
    allow(
        READ,
        "",
        &[
            "configmaps",
            "endpoints",
            "persistentvolumeclaims",
            "persistentvolumeclaims/status",
            "pods",
            "replicationcontrollers",
            "replicationcontrollers/scale",
            "serviceaccounts",
            "services",
            "services/status",
        ],
    ),
    allow(
        READ,
        "",
        &[
            "bindings",
            "events",
            "limitranges",
            "namespaces/status",
            "pods/log",
            "pods/status",
            "replicationcontrollers/status",
            "resourcequotas",
            "resourcequotas/status",
        ],
    ),
    allow(READ, "", &["namespaces"]),
    allow(READ, "discovery.k8s.io", &["endpointslices"]),
    allow(
        READ,
        "apps",
        &[
            "controllerrevisions",
            "daemonsets",
            "daemonsets/status",
            "deployments",
            "deployments/scale",
            "deployments/status",
            "replicasets",
            "replicasets/scale",
            "replicasets/status",
            "statefulsets",
            "statefulsets/scale",
            "statefulsets/status",
        ],
    ),
    allow(
        READ,
        "autoscaling",
        &["horizontalpodautoscalers", "horizontalpodautoscalers/status"],
    ),
    allow(
        READ,
        "batch",
        &["cronjobs", "cronjobs/status", "jobs", "jobs/status"],
    ),
    allow(
        READ,
        "extensions",
        &[
            "daemonsets",
            "daemonsets/status",
            "deployments",
            "deployments/scale",
            "deployments/status",
            "ingresses",
            "ingresses/status",
            "networkpolicies",
            "replicasets",
            "replicasets/scale",
            "replicasets/status",
            "replicationcontrollers/scale",
        ],
    ),
    allow(
        READ,
        "policy",
        &["poddisruptionbudgets", "poddisruptionbudgets/status"],
    ),
    allow(
        READ,
        "networking.k8s.io",
        &["ingresses", "ingresses/status", "networkpolicies"],
    ),
    allow(
        READ,
        "resource.k8s.io",
        &[
            "resourceclaims",
            "resourceclaims/status",
            "resourceclaimtemplates",
        ],
    ),
];

/// Which groups have which cluster role; the binding has its name.
const BINDINGS: &[(&str, &[&str])] = &[
    ("cluster-admin", &["system:masters"]),
    ("system:basic-user", &["system:authenticated"]),
    ("system:discovery", &["system:authenticated"]),
    ("system:monitoring", &["system:monitoring"]),
    (
        "system:public-info-viewer",
        &["system:authenticated", "system:unauthenticated"],
    ),
    (
        "system:service-account-issuer-discovery",
        &["system:serviceaccounts"],
    ),
];

/// The cluster roles, as objects.
pub(super) fn cluster_roles() -> impl Iterator<Item = Value> {
    ROLES.iter().map(cluster_role)
}

/// The bindings of the cluster roles, as objects.
pub(super) fn cluster_role_bindings() -> impl Iterator<Item = Value> {
    BINDINGS.iter().map(|(name, groups)| {
        let subject = |group: &&str| json!({"kind": "Group", "apiGroup": RBAC, "name": group});
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding",
            "metadata": metadata(name, None),
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
            "subjects": groups.iter().map(subject).collect::<Vec<_>>(),
        })
    })
}

fn cluster_role(role: &Role) -> Value {
    let mut object = json!({
        "apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole",
        "metadata": metadata(role.name, role.aggregates_to),
        "rules": rules(role).into_iter().map(rule).collect::<Vec<_>>(),
    });
    if let Some(gathered) = role.gathers {
        object["aggregationRule"] = json!({
            "clusterRoleSelectors": [{"matchLabels": {aggregation_label(gathered): "true"}}],
        });
    }
    object
}

/// The rules of a role. One that gathers has those of the roles that aggregate to it, by name and each rule once: what
/// the controller that gathers them would come to.
fn rules(role: &Role) -> Vec<&'static Rule> {
    let Some(whole) = role.gathers else {
        return role.rules.iter().collect();
    };
    let mut parts: Vec<&Role> = ROLES
        .iter()
        .filter(|part| part.aggregates_to == Some(whole))
        .collect();
    parts.sort_by_key(|part| part.name);
    let mut gathered = Vec::new();
    for rule in parts.into_iter().flat_map(rules) {
        if !gathered.contains(&rule) {
            gathered.push(rule);
        }
    }
    gathered
}

fn aggregation_label(role: &str) -> String {
    format!("{RBAC}/aggregate-to-{role}")
}

fn metadata(name: &str, aggregates_to: Option<&str>) -> Value {
    let mut labels = Map::new();
    labels.insert("kubernetes.io/bootstrapping".to_owned(), "rbac-defaults".into());
    if let Some(role) = aggregates_to {
        labels.insert(aggregation_label(role), "true".into());
    }
    json!({
        "name": name, "labels": labels,
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    })
}

fn rule(rule: &Rule) -> Value {
    if !rule.urls.is_empty() {
        return json!({"verbs": rule.verbs, "nonResourceURLs": rule.urls});
    }
    let mut json = json!({"verbs": rule.verbs, "apiGroups": [rule.group], "resources": rule.resources});
    if !rule.names.is_empty() {
        json["resourceNames"] = json!(rule.names);
    }
    json
}
