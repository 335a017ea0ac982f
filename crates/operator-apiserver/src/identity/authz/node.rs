//! The Node authorizer: the permissions of a kubelet that follow from the pods on its node.
//!
//! Every request reads the store.

use std::sync::LazyLock;

use serde_json::Value;

use super::{Attributes, Decision, Rule};
use crate::identity::authn;
use crate::store::Store;
use builtin_kinds::cluster_objects;
use builtin_kinds::tree::{at, list, text};

const LEASES: &str = "kube-node-lease";

/// Decides on the request of a kubelet; returns no opinion on other users.
pub(super) fn authorize(store: &Store, asked: &Attributes<'_>) -> Decision {
    let Some(node) = authn::node_name(asked.user) else {
        return Decision::default();
    };
    if !asked.is_resource {
        return by_rules(asked);
    }
    let graph = Graph { store, node };
    let verdict = match (asked.group, asked.resource) {
        ("", "secrets") => graph.may_read(asked, Graph::has_secret),
        ("", "configmaps") => graph.may_read(asked, Graph::has_config_map),
        ("", "persistentvolumeclaims") if asked.subresource == "status" => {
            graph.may_update_status(asked, Graph::has_claim)
        }
        ("", "persistentvolumeclaims") => graph.may_get(asked, Graph::has_claim),
        ("", "persistentvolumes") => graph.may_get(asked, Graph::has_volume),
        ("resource.k8s.io", "resourceclaims") => graph.may_get(asked, Graph::has_resource_claim),
        ("storage.k8s.io", "volumeattachments") => graph.may_get(asked, Graph::has_attachment),
        ("", "serviceaccounts") if asked.subresource == "token" || asked.verb != "get" => {
            graph.may_create_token(asked)
        }
        ("", "serviceaccounts") => graph.may_get(asked, Graph::has_account),
        ("coordination.k8s.io", "leases") => graph.may_use_lease(asked),
        ("storage.k8s.io", "csinodes") => graph.may_use_own(
            asked,
            "can only get, create, update, patch, or delete a CSINode",
            "can only access CSINode with the same name as the requesting node",
        ),
        ("resource.k8s.io", "resourceslices") => graph.may_use_slice(asked),
        ("", "nodes") => graph.may_use_node(asked),
        ("", "pods") => graph.may_use_pod(asked),
        _ => return by_rules(asked),
    };
    match verdict {
        Ok(()) => Decision::allow(""),
        Err(reason) => Decision {
            reason,
            ..Decision::default()
        },
    }
}

/// Decides by the rules of every kubelet, those of the role `system:node`.
fn by_rules(asked: &Attributes<'_>) -> Decision {
    static RULES: LazyLock<Vec<Rule>> =
        LazyLock::new(|| cluster_objects::node_rules().iter().map(Rule::read).collect());
    if RULES.iter().any(|rule| rule.allows(asked)) {
        return Decision::allow("");
    }
    Decision::default()
}

/// The objects that are related to a node.
struct Graph<'a> {
    store: &'a Store,
    node: &'a str,
}

/// The error is the reason why a request is not allowed; it may be empty.
type Verdict = Result<(), String>;

fn only(allowed: bool, why: &str) -> Verdict {
    if allowed { Ok(()) } else { Err(why.to_owned()) }
}

impl Graph<'_> {
    // === verbs ===

    fn related(&self, asked: &Attributes<'_>, is_related: fn(&Self, &str, &str) -> bool) -> Verdict {
        only(!asked.name.is_empty(), "No Object name found")?;
        only(
            is_related(self, asked.namespace, asked.name),
            &format!(
                "no relationship found between node '{}' and this object",
                self.node
            ),
        )
    }

    fn may_read(&self, asked: &Attributes<'_>, is_related: fn(&Self, &str, &str) -> bool) -> Verdict {
        let reads = matches!(asked.verb, "get" | "list" | "watch");
        only(reads, "can only read resources of this type")?;
        only(asked.subresource.is_empty(), "cannot read subresource")?;
        only(
            !asked.namespace.is_empty(),
            "can only read namespaced object of this type",
        )?;
        self.related(asked, is_related)
    }

    fn may_get(&self, asked: &Attributes<'_>, is_related: fn(&Self, &str, &str) -> bool) -> Verdict {
        only(
            asked.verb == "get",
            "can only get individual resources of this type",
        )?;
        only(asked.subresource.is_empty(), "cannot get subresource")?;
        self.related(asked, is_related)
    }

    fn may_update_status(
        &self,
        asked: &Attributes<'_>,
        is_related: fn(&Self, &str, &str) -> bool,
    ) -> Verdict {
        let updates = matches!(asked.verb, "update" | "patch");
        only(updates, "can only get individual resources of this type")?;
        self.related(asked, is_related)
    }

    fn may_create_token(&self, asked: &Attributes<'_>) -> Verdict {
        let creates = asked.verb == "create" && asked.subresource == "token";
        only(
            creates,
            "can only get individual resources of this type, or create tokens for them",
        )?;
        self.related(asked, Self::has_account)
    }

    fn may_use_lease(&self, asked: &Attributes<'_>) -> Verdict {
        let is_known = matches!(asked.verb, "get" | "create" | "update" | "patch" | "delete");
        only(
            is_known,
            "can only get, create, update, patch, or delete a node lease",
        )?;
        only(
            asked.namespace == LEASES,
            &format!("can only access leases in the {LEASES:?} system namespace"),
        )?;
        only(
            asked.verb == "create" || asked.name == self.node,
            "can only access node lease with the same name as the requesting node",
        )
    }

    fn may_use_own(&self, asked: &Attributes<'_>, verbs: &str, names: &str) -> Verdict {
        let is_known = matches!(asked.verb, "get" | "create" | "update" | "patch" | "delete");
        only(is_known, verbs)?;
        only(asked.verb == "create" || asked.name == self.node, names)
    }

    fn may_use_slice(&self, asked: &Attributes<'_>) -> Verdict {
        match asked.verb {
            "create" => Ok(()),
            "get" | "update" | "patch" | "delete" => self.related(asked, Self::has_slice),
            "list" | "watch" | "deletecollection" => only(
                asked.selected_node == self.node,
                "can only list/watch/deletecollection resourceslices with nodeName field selector",
            ),
            _ => Err(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection"
                    .to_owned(),
            ),
        }
    }

    fn may_use_node(&self, asked: &Attributes<'_>) -> Verdict {
        match (asked.subresource, asked.verb) {
            // The plug-in NodeRestriction limits these verbs to the node's own object.
            ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Ok(()),
            ("", "get" | "list" | "watch") => match asked.name {
                name if name == self.node => Ok(()),
                "" => Err(format!(
                    "node '{}' cannot read all nodes, only its own Node object",
                    self.node
                )),
                name => Err(format!(
                    "node '{}' cannot read '{name}', only its own Node object",
                    self.node
                )),
            },
            _ => Err(String::new()),
        }
    }

    fn may_use_pod(&self, asked: &Attributes<'_>) -> Verdict {
        match (asked.subresource, asked.verb) {
            ("", "get") => self.related(asked, Self::has_pod),
            ("", "list" | "watch") => only(
                asked.selected_node == self.node,
                "can only list/watch pods with spec.nodeName field selector",
            ),
            // The plug-in NodeRestriction limits these verbs to the pods of the node.
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => Ok(()),
            _ => Err(String::new()),
        }
    }

    // === objects ===

    /// Returns true if the function returns true for a pod of the node in a namespace.
    fn any_pod(&self, namespace: &str, mut found: impl FnMut(&Value) -> bool) -> bool {
        let prefix = match namespace {
            "" => String::new(),
            namespace => format!("{namespace}/"),
        };
        let pods = self.store.list("pods", &prefix).objects;
        pods.iter()
            .map(|pod| &*pod.value)
            .filter(|pod| text(pod, &["spec", "nodeName"]) == self.node)
            .any(&mut found)
    }

    fn has_pod(&self, namespace: &str, name: &str) -> bool {
        let pod = self.store.get("pods", &format!("{namespace}/{name}"));
        pod.is_some_and(|pod| text(&pod.value, &["spec", "nodeName"]) == self.node)
    }

    fn has_secret(&self, namespace: &str, name: &str) -> bool {
        self.any_pod(namespace, |pod| refers_to(pod, SECRET, name))
            || self.any_volume(|volume| secrets_of_volume(volume).contains(&(namespace, name)))
    }

    fn has_config_map(&self, namespace: &str, name: &str) -> bool {
        self.any_pod(namespace, |pod| refers_to(pod, CONFIG_MAP, name))
    }

    fn has_account(&self, namespace: &str, name: &str) -> bool {
        self.any_pod(namespace, |pod| {
            text(pod, &["spec", "serviceAccountName"]) == name
        })
    }

    fn has_claim(&self, namespace: &str, name: &str) -> bool {
        self.any_pod(namespace, |pod| claims(pod).any(|claim| claim == name))
    }

    fn has_volume(&self, _: &str, name: &str) -> bool {
        self.any_volume(|volume| text(volume, &["metadata", "name"]) == name)
    }

    /// Returns true if the function returns true for a volume that is bound to a claim of the node's pods.
    fn any_volume(&self, found: impl Fn(&Value) -> bool) -> bool {
        let volumes = self.store.list("persistentvolumes", "").objects;
        volumes.iter().map(|volume| &*volume.value).any(|volume| {
            let claim = |field: &str| text(volume, &["spec", "claimRef", field]);
            !claim("name").is_empty() && found(volume) && self.has_claim(claim("namespace"), claim("name"))
        })
    }

    fn has_attachment(&self, _: &str, name: &str) -> bool {
        let attachment = self.store.get("volumeattachments.storage.k8s.io", name);
        attachment.is_some_and(|attachment| text(&attachment.value, &["spec", "nodeName"]) == self.node)
    }

    fn has_slice(&self, _: &str, name: &str) -> bool {
        let slice = self.store.get("resourceslices.resource.k8s.io", name);
        slice.is_some_and(|slice| text(&slice.value, &["spec", "nodeName"]) == self.node)
    }

    fn has_resource_claim(&self, namespace: &str, name: &str) -> bool {
        self.any_pod(namespace, |pod| {
            let given = list(pod, &["spec", "resourceClaims"]).iter();
            let made = list(pod, &["status", "resourceClaimStatuses"]).iter();
            let mut names = given.chain(made).map(|claim| text(claim, &["resourceClaimName"]));
            names.any(|claim| claim == name)
        })
    }
}

/// Returns the claims of a pod, including those of its ephemeral volumes.
fn claims(pod: &Value) -> impl Iterator<Item = String> {
    let name = text(pod, &["metadata", "name"]);
    list(pod, &["spec", "volumes"]).iter().filter_map(move |volume| {
        if at(volume, &["ephemeral"]).is_object() {
            return Some(format!("{name}-{}", text(volume, &["name"])));
        }
        let claim = text(volume, &["persistentVolumeClaim", "claimName"]);
        (!claim.is_empty()).then(|| claim.to_owned())
    })
}

/// The paths of a pod's references to objects of one kind.
struct References {
    /// Paths in `env` and `envFrom` of a container.
    environment: [&'static [&'static str]; 2],
    /// Paths in a volume.
    volumes: &'static [&'static [&'static str]],
    /// The path in a source of a projected volume.
    projected: &'static [&'static str],
    pulls: bool,
}

const SECRET: &References = &References {
    environment: [&["valueFrom", "secretKeyRef", "name"], &["secretRef", "name"]],
    volumes: &[
        &["secret", "secretName"],
        &["azureFile", "secretName"],
        &["cephfs", "secretRef", "name"],
        &["cinder", "secretRef", "name"],
        &["csi", "nodePublishSecretRef", "name"],
        &["flexVolume", "secretRef", "name"],
        &["iscsi", "secretRef", "name"],
        &["rbd", "secretRef", "name"],
        &["scaleIO", "secretRef", "name"],
        &["storageos", "secretRef", "name"],
    ],
    projected: &["secret", "name"],
    pulls: true,
};

const CONFIG_MAP: &References = &References {
    environment: [
        &["valueFrom", "configMapKeyRef", "name"],
        &["configMapRef", "name"],
    ],
    volumes: &[&["configMap", "name"]],
    projected: &["configMap", "name"],
    pulls: false,
};

/// Returns the kind of an object that a pod refers to, if there is one.
pub(crate) fn refers_to_any(pod: &Value) -> Option<&'static str> {
    let names = |references: &References| refers(pod, references, |name| !name.is_empty());
    if names(SECRET) {
        Some("secrets")
    } else if names(CONFIG_MAP) {
        Some("configmaps")
    } else {
        None
    }
}

fn refers_to(pod: &Value, references: &References, name: &str) -> bool {
    refers(pod, references, |found| found == name)
}

fn refers(pod: &Value, references: &References, is_wanted: impl Fn(&str) -> bool) -> bool {
    let is_wanted = &is_wanted;
    let has = |value: &Value, path: &[&str]| {
        let name = text(value, path);
        !name.is_empty() && is_wanted(name)
    };
    let [env, env_from] = references.environment;
    let in_containers = ["containers", "initContainers", "ephemeralContainers"]
        .iter()
        .flat_map(|field| list(pod, &["spec", field]))
        .any(|container| {
            list(container, &["env"]).iter().any(|one| has(one, env))
                || list(container, &["envFrom"]).iter().any(|one| has(one, env_from))
        });
    let in_volumes = || {
        list(pod, &["spec", "volumes"]).iter().any(|volume| {
            references.volumes.iter().any(|path| has(volume, path))
                || list(volume, &["projected", "sources"])
                    .iter()
                    .any(|source| has(source, references.projected))
        })
    };
    let pulls = || {
        references.pulls
            && list(pod, &["spec", "imagePullSecrets"])
                .iter()
                .any(|secret| has(secret, &["name"]))
    };
    in_containers || in_volumes() || pulls()
}

/// Returns the secrets that a kubelet needs to mount a volume, with their namespaces.
fn secrets_of_volume(volume: &Value) -> Vec<(&str, &str)> {
    let references = [
        ["csi", "controllerPublishSecretRef"],
        ["csi", "nodeStageSecretRef"],
        ["csi", "nodePublishSecretRef"],
        ["csi", "nodeExpandSecretRef"],
        ["cephfs", "secretRef"],
        ["cinder", "secretRef"],
        ["flexVolume", "secretRef"],
        ["iscsi", "secretRef"],
        ["rbd", "secretRef"],
        ["scaleIO", "secretRef"],
    ];
    let mut secrets: Vec<(&str, &str)> = Vec::new();
    for [source, field] in references {
        let reference = at(volume, &["spec", source, field]);
        if reference.is_object() {
            let namespace = match text(reference, &["namespace"]) {
                "" => text(volume, &["spec", "claimRef", "namespace"]),
                given => given,
            };
            secrets.push((namespace, text(reference, &["name"])));
        }
    }
    let azure = at(volume, &["spec", "azureFile"]);
    if azure.is_object() {
        secrets.push((text(azure, &["secretNamespace"]), text(azure, &["secretName"])));
    }
    secrets
}
