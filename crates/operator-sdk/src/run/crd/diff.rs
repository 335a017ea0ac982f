//! `crd diff`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};
use structural_schema::crd::diff::{self, Change, Severity};

use super::counted;
use super::source::{self, SourceError, Text};
use crate::args::{ClusterArgs, DiffArgs, OutputArg};
use crate::failure::Failure;
use crate::process::api::Api;
use crate::process::git;
use crate::report::Report;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// CRDs by name.
type Definitions = BTreeMap<String, Value>;

/// The changes of one CRD.
struct Changed {
    name: String,
    changes: Vec<Change>,
}

/// Runs `operator-sdk crd diff`.
pub(crate) fn diff(args: &DiffArgs, report: &Report) -> Result<ExitCode, Failure> {
    let mut old = definitions(&args.old, &args.cluster)?;
    let mut new = definitions(&args.new, &args.cluster)?;
    // A cluster also has CRDs of other projects. Those that the other side does not have are ignored.
    if args.old == "cluster" {
        old.retain(|name, _| new.contains_key(name));
    } else if args.new == "cluster" {
        new.retain(|name, _| old.contains_key(name));
    }
    let changed = compare(&old, &new);
    let count = |severity| {
        let changes = changed.iter().flat_map(|changed| &changed.changes);
        changes.filter(|change| change.severity == severity).count()
    };
    let (breaking, safe) = (count(Severity::Breaking), count(Severity::Safe));
    match args.output {
        OutputArg::Text => print(&changed, (breaking, safe), report),
        OutputArg::Json => {
            let document = json!({"definitions": changed.iter().map(as_json).collect::<Vec<_>>(), "breaking": breaking, "safe": safe});
            report.line(&format!("{document:#}"));
        }
    }
    Ok(super::exit_code(breaking > 0))
}

fn compare(old: &Definitions, new: &Definitions) -> Vec<Changed> {
    let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let whole = |severity, what: &str, why| {
        vec![Change {
            severity,
            path: ".".to_owned(),
            what: what.to_owned(),
            why,
        }]
    };
    names
        .into_iter()
        .map(|name| Changed {
            name: name.clone(),
            changes: match (old.get(name), new.get(name)) {
                (Some(old), Some(new)) => diff::diff(old, new),
                (Some(_), None) => whole(
                    Severity::Breaking,
                    "definition removed",
                    "deleting it deletes all of its objects",
                ),
                _ => whole(Severity::Safe, "definition added", "nothing depends on it yet"),
            },
        })
        .filter(|changed| !changed.changes.is_empty())
        .collect()
}

fn print(changed: &[Changed], (breaking, safe): (usize, usize), report: &Report) {
    for Changed { name, changes } in changed {
        report.line(name);
        for change in changes {
            let Change {
                severity,
                path,
                what,
                why,
            } = change;
            report.line(&format!("  {:<8}  {path}: {what}", severity.as_str()));
            report.line(&format!("            {why}"));
        }
    }
    if changed.is_empty() {
        report.line("no changes");
    } else {
        report.line(&format!("{}, {safe} safe", counted(breaking, "breaking change")));
    }
}

fn as_json(changed: &Changed) -> Value {
    let changes: Vec<Value> = changed
        .changes
        .iter()
        .map(|change| {
            json!({"severity": change.severity.as_str(), "path": change.path, "what": change.what, "why": change.why})
        })
        .collect();
    json!({"name": changed.name, "changes": changes})
}

/// Returns the CRDs of one side.
fn definitions(side: &str, cluster: &ClusterArgs) -> Result<Definitions, Failure> {
    if side == "cluster" {
        return in_cluster(cluster);
    }
    let texts = match side.strip_prefix("git:").and_then(|rest| rest.split_once(':')) {
        Some((revision, path)) => git::files(revision, path)?
            .into_iter()
            .filter(|(name, _)| {
                name == path || [".yaml", ".yml", ".json"].iter().any(|end| name.ends_with(end))
            })
            .map(|(file, text)| Text { file, text })
            .collect(),
        None => source::read(&[PathBuf::from(side)])?,
    };
    let mut found = Definitions::new();
    for text in texts {
        for object in source::objects(&text)? {
            if object.is_definition() {
                found.insert(object.text("/metadata/name").to_owned(), object.value);
            }
        }
    }
    if found.is_empty() {
        return Err(SourceError::Nothing {
            what: "CustomResourceDefinition",
            place: side.to_owned(),
        }
        .into());
    }
    Ok(found)
}

fn in_cluster(cluster: &ClusterArgs) -> Result<Definitions, Failure> {
    super::super::block_on(async {
        let api = Api::infer(cluster.kubeconfig.as_deref(), cluster.context.as_deref()).await?;
        let list = api.get(DEFINITIONS).await?.unwrap_or_default();
        let items = list.get("items").and_then(Value::as_array).cloned();
        let named = items.unwrap_or_default().into_iter().filter_map(|item| {
            let name = item.pointer("/metadata/name")?.as_str()?.to_owned();
            Some((name, item))
        });
        Ok(named.collect())
    })
}
