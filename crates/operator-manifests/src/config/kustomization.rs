//! The initial content of the kustomizations of the tree.

use serde_json::{Value, json};

use super::{DEFAULT, Operator};
use crate::kustomize::{self, EditError};
use crate::render;

/// One entry of a kustomization.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The kustomization.
    pub path: String,
    /// The list that contains the entry: `resources`, `patches`, `configurations`, `replacements`.
    pub key: &'static str,
    /// The entry.
    pub value: Value,
}

/// The initial content of each kustomization except `config/default`.
const HEADS: [(&str, &str); 9] = [
    (
        "config/crd/kustomization.yaml",
        "The kinds of this operator; the files under bases/ are generated.",
    ),
    (
        "config/manager/kustomization.yaml",
        "The Deployment of the operator.",
    ),
    (
        "config/rbac/kustomization.yaml",
        "The service account of the operator and its permissions; role.yaml is generated.\nThe following roles are for users of each kind. They have no bindings.",
    ),
    (
        "config/samples/kustomization.yaml",
        "An example object of each kind.",
    ),
    (
        "config/prometheus/kustomization.yaml",
        "The metrics and the alerts of the operator, for the Prometheus operator.",
    ),
    (
        "config/network-policy/kustomization.yaml",
        "Network policies: they select the clients of the operator's servers.",
    ),
    (
        "config/webhook/kustomization.yaml",
        "The webhooks and the Service in front of them; manifests.yaml is generated.",
    ),
    (
        "config/certmanager/kustomization.yaml",
        "The certificates of the operator's servers, made by cert-manager.",
    ),
    (
        "config/scorecard/kustomization.yaml",
        "The tests that the scorecard runs on a bundle.",
    ),
];

/// Returns a new kustomization with these entries.
///
/// # Errors
/// Entries of a tree always fit; the fallback is for entries of another form.
pub fn kustomization<'a>(
    operator: &Operator,
    path: &str,
    entries: impl IntoIterator<Item = &'a Entry>,
) -> Result<String, EditError> {
    let mut text = if path == DEFAULT {
        default_head(operator)
    } else {
        HEADS
            .iter()
            .find(|(there, _)| *there == path)
            .map(|(_, head)| head.lines().map(|line| format!("# {line}\n")).collect())
            .unwrap_or_default()
    };
    for entry in entries {
        if let Some(edited) = kustomize::add_entry(&text, entry.key, &entry.value)? {
            text = edited;
        }
    }
    Ok(text)
}

fn default_head(operator: &Operator) -> String {
    let head = json!({
        "namePrefix": format!("{}-", operator.project),
        "namespace": format!("{}-system", operator.project),
    });
    let comments = [
        (
            "",
            "All objects of the operator: `kubectl apply -k config/default`.\n`operator-sdk edit` adds and removes parts, and keeps your own entries.\n",
        ),
        (
            "/namePrefix",
            "The prefix of all names, so that several operators can share a cluster.",
        ),
    ];
    render::commented(&head, &comments)
}
