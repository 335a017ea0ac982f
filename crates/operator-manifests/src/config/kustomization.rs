//! The kustomizations of the tree without entries.

use serde_json::{Value, json};

use super::{DEFAULT, Operator};
use crate::kustomize::{self, EditError};
use crate::render;

/// One entry of a kustomization.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The kustomization.
    pub path: String,
    /// The list that has it: `resources`, `patches`, `configurations`, `replacements`.
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
    ("config/manager/kustomization.yaml", "The operator itself."),
    (
        "config/rbac/kustomization.yaml",
        "The account that the operator runs as, and what it may do; role.yaml is generated.\nBehind these are roles for people, for each kind; they are bound to nobody.",
    ),
    (
        "config/samples/kustomization.yaml",
        "One object of each kind, to try the operator with.",
    ),
    (
        "config/prometheus/kustomization.yaml",
        "The metrics and the alerts of the operator, for the Prometheus operator.",
    ),
    (
        "config/network-policy/kustomization.yaml",
        "Who may talk to the operator's servers.",
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
            "Everything that a cluster needs to run the operator: `kubectl apply -k config/default`.\nParts come and go with `operator-sdk edit`; entries of your own stay.\n",
        ),
        (
            "/namePrefix",
            "The prefix of every name, so that several operators share a cluster.",
        ),
    ];
    render::commented(&head, &comments)
}
