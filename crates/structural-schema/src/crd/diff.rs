//! The changes between two revisions of a CRD, and their effect on existing objects and clients ([`diff`]).
//!
//! A change is *safe* if every object that the old CRD accepts is accepted by the new one, keeps its fields, and is
//! served at the same paths. Otherwise it is *breaking*. Ratcheting, which tolerates unchanged values on an update,
//! does not make a change safe: new objects and changed values are still rejected.

mod schema;

use apimachinery::field::Path;
use serde_json::Value;

use super::{flag, text_at, versions};
use crate::node::{self, Node};

/// The effect of a change on existing objects and clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Existing objects or clients may no longer work.
    Breaking,
    /// Existing objects and clients continue to work.
    Safe,
}

impl Severity {
    /// Returns `breaking` or `safe`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Breaking => "breaking",
            Self::Safe => "safe",
        }
    }
}

/// One difference between two CRDs.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The effect.
    pub severity: Severity,
    /// The path of the change, in the new CRD if it exists there: `spec.scope`, `v1: spec.size`. Fields of objects have
    /// the name of the version, and their path in the object.
    pub path: String,
    /// The change, such as `type changed from string to integer`.
    pub what: String,
    /// The reason why the change is safe or breaking.
    pub why: &'static str,
}

/// Returns all differences between two CustomResourceDefinitions (`apiextensions.k8s.io/v1` JSON) that affect objects
/// or clients.
///
/// Descriptions, titles, examples and the labels of the CRD are not compared.
///
/// ```
/// use serde_json::json;
/// use structural_schema::crd::diff::{Severity, diff};
/// let crd = |maximum: i64| json!({"spec": {"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
///     "type": "object", "properties": {"size": {"type": "integer", "maximum": maximum}}}}}]}});
/// let changes = diff(&crd(5), &crd(3));
/// assert_eq!((changes[0].severity, changes[0].path.as_str()), (Severity::Breaking, "v1: size"));
/// assert_eq!(changes[0].what, "maximum lowered from 5 to 3");
/// assert!(diff(&crd(5), &crd(5)).is_empty());
/// ```
pub fn diff(old: &Value, new: &Value) -> Vec<Change> {
    let (mut old, mut new) = (old.clone(), new.clone());
    super::default(&mut old);
    super::default(&mut new);
    let mut changes = Changes::default();
    names(&old, &new, &mut changes);
    conversion(&old, &new, &mut changes);
    unknown_fields(&old, &new, &mut changes);
    storage(&old, &new, &mut changes);
    for before in versions(&old) {
        match find(&new, text_at(before, "/name")) {
            Some(after) => version(before, after, &mut changes),
            None => changes.breaking(
                format!("spec.versions[{}]", text_at(before, "/name")),
                "version removed",
                "requests for the version get 404, and objects stored in it cannot be read",
            ),
        }
    }
    for after in versions(&new) {
        if find(&old, text_at(after, "/name")).is_none() {
            changes.safe(
                format!("spec.versions[{}]", text_at(after, "/name")),
                "version added",
                "the other versions are served as before",
            );
        }
    }
    changes.0
}

/// Returns the changes between two schemas (`openAPIV3Schema`) of the same version. Paths are paths of fields in
/// objects.
///
/// An invalid schema is reported as a breaking change.
pub fn diff_schemas(old: &Value, new: &Value) -> Vec<Change> {
    let mut changes = Changes::default();
    schemas(old, new, "", &mut changes);
    changes.0
}

#[derive(Default)]
struct Changes(Vec<Change>);

impl Changes {
    fn add(
        &mut self,
        severity: Severity,
        path: impl Into<String>,
        what: impl Into<String>,
        why: &'static str,
    ) {
        self.0.push(Change {
            severity,
            path: path.into(),
            what: what.into(),
            why,
        });
    }

    fn breaking(&mut self, path: impl Into<String>, what: impl Into<String>, why: &'static str) {
        self.add(Severity::Breaking, path, what, why);
    }

    fn safe(&mut self, path: impl Into<String>, what: impl Into<String>, why: &'static str) {
        self.add(Severity::Safe, path, what, why);
    }

    /// Reports any change of a value as breaking.
    fn compare(&mut self, path: &str, old: &str, new: &str, why: &'static str) {
        if old != new {
            self.breaking(path, changed("", old, new), why);
        }
    }
}

/// Formats a change as `type changed from "a" to "b"`, or as `added` or `removed` if one of the values is missing.
fn changed(name: &str, old: &str, new: &str) -> String {
    let space = if name.is_empty() { "" } else { " " };
    match (old, new) {
        ("", new) => format!("{name}{space}added: {new}"),
        (old, "") => format!("{name}{space}removed, it was {old}"),
        (old, new) => format!("{name}{space}changed from {old} to {new}"),
    }
}

fn find<'v>(crd: &'v Value, name: &str) -> Option<&'v Value> {
    versions(crd)
        .iter()
        .find(|version| text_at(version, "/name") == name)
}

fn names(old: &Value, new: &Value, changes: &mut Changes) {
    const CLIENTS: &str = "clients use the old name, and a server rejects the change";
    const CONVENIENCE: &str = "scripts that use the name fail";
    for (path, why) in [
        ("spec.group", CLIENTS),
        ("spec.names.plural", CLIENTS),
        ("spec.names.kind", CLIENTS),
        (
            "spec.names.listKind",
            "clients that check the kind of a list reject it",
        ),
        ("spec.names.singular", CONVENIENCE),
        (
            "spec.scope",
            "all paths and permissions change, and a server rejects the change",
        ),
    ] {
        let pointer = format!("/{}", path.replace('.', "/"));
        changes.compare(path, text_at(old, &pointer), text_at(new, &pointer), why);
    }
    for (path, pointer) in [
        ("spec.names.shortNames", "/spec/names/shortNames"),
        ("spec.names.categories", "/spec/names/categories"),
    ] {
        let list = |crd: &Value| -> Vec<String> {
            let items = crd.pointer(pointer).and_then(Value::as_array);
            let texts = items.into_iter().flatten().filter_map(Value::as_str);
            texts.map(str::to_owned).collect()
        };
        let (before, after) = (list(old), list(new));
        for name in before.iter().filter(|name| !after.contains(name)) {
            changes.breaking(path, format!("{name} removed"), CONVENIENCE);
        }
        for name in after.iter().filter(|name| !before.contains(name)) {
            changes.safe(
                path,
                format!("{name} added"),
                "the resource has an additional name",
            );
        }
    }
}

fn conversion(old: &Value, new: &Value, changes: &mut Changes) {
    let path = "spec.conversion";
    let strategy = |crd| text_at(crd, "/spec/conversion/strategy");
    match (strategy(old), strategy(new)) {
        ("Webhook", "None") if versions(new).len() > 1 => changes.breaking(
            path,
            "strategy changed from Webhook to None",
            "fields that differ between the versions are lost",
        ),
        (before, after) if before != after => changes.safe(
            path,
            changed("strategy", before, after),
            "objects keep all fields that they had",
        ),
        _ if old.pointer("/spec/conversion/webhook") != new.pointer("/spec/conversion/webhook") => {
            changes.safe(
                path,
                "webhook changed",
                "conversion requests go to another address",
            );
        }
        _ => {}
    }
}

fn unknown_fields(old: &Value, new: &Value, changes: &mut Changes) {
    let preserves = |crd: &Value| crd.pointer("/spec/preserveUnknownFields") == Some(&Value::Bool(true));
    let path = "spec.preserveUnknownFields";
    match (preserves(old), preserves(new)) {
        (true, false) => changes.breaking(
            path,
            "unknown fields are pruned from now on",
            "stored objects lose them",
        ),
        (false, true) => changes.breaking(
            path,
            "unknown fields are kept",
            "a server rejects the change in apiextensions.k8s.io/v1",
        ),
        _ => {}
    }
}

fn storage(old: &Value, new: &Value, changes: &mut Changes) {
    let storage = |crd| super::storage_version(crd).and_then(Value::as_str).unwrap_or("");
    let (before, after) = (storage(old), storage(new));
    if before == after {
        return;
    }
    let what = changed("storage version", before, after);
    if find(old, after).is_none_or(|version| !flag(version, "served")) {
        let why = "after a rollback, the old definition cannot read the new objects: serve the version first, and store it in a later release";
        changes.breaking("spec.versions", what, why);
    } else if loses_fields(find(new, before), find(new, after))
        && text_at(new, "/spec/conversion/strategy") != "Webhook"
    {
        let why = "fields that exist only in the old storage version are lost without a conversion webhook";
        changes.breaking("spec.versions", what, why);
    } else {
        let why = "objects are migrated as they are written; status.storedVersions keeps the old version until all are";
        changes.safe("spec.versions", what, why);
    }
}

/// Returns true if values of one schema have fields that the other schema prunes.
pub(super) fn loses(from: &Node, to: &Node) -> bool {
    schema::loses_fields(from, to)
}

/// Returns true if the schema of one version has fields that another version would prune.
fn loses_fields(from: Option<&Value>, to: Option<&Value>) -> bool {
    let schema = |version: Option<&Value>| {
        let source = version?.pointer("/schema/openAPIV3Schema")?;
        node::parse(source).ok()
    };
    match (schema(from), schema(to)) {
        (Some(from), Some(to)) => schema::loses_fields(&from, &to),
        _ => false,
    }
}

fn version(old: &Value, new: &Value, changes: &mut Changes) {
    let name = text_at(new, "/name");
    let path = format!("spec.versions[{name}]");
    match (flag(old, "served"), flag(new, "served")) {
        (true, false) => changes.breaking(
            path.as_str(),
            "no longer served",
            "requests for the version get 404",
        ),
        (false, true) => changes.safe(path.as_str(), "served", "clients can use an additional version"),
        _ => {}
    }
    if flag(old, "deprecated") != flag(new, "deprecated")
        || old.get("deprecationWarning") != new.get("deprecationWarning")
    {
        let why = "clients get a warning, and nothing else changes";
        changes.safe(path.as_str(), "deprecation changed", why);
    }
    subresources(old, new, &path, changes);
    columns(old, new, &path, changes);
    selectable_fields(old, new, &path, changes);
    let schema = |version: &Value| {
        version
            .pointer("/schema/openAPIV3Schema")
            .cloned()
            .unwrap_or(Value::Null)
    };
    schemas(&schema(old), &schema(new), &format!("{name}: "), changes);
}

fn schemas(old: &Value, new: &Value, prefix: &str, changes: &mut Changes) {
    if old == new {
        return;
    }
    match (node::parse(old), node::parse(new)) {
        (Ok(before), Ok(after)) => {
            let found = schema::diff((&before, old), (&after, new));
            changes.0.extend(found.into_iter().map(|change| Change {
                path: format!("{prefix}{}", shown(&change.path)),
                ..change
            }));
        }
        _ => changes.breaking(
            format!("{prefix}schema"),
            "schema changed, and one of the two cannot be read",
            "the effect on objects is unknown",
        ),
    }
}

/// Formats the path; the root is `.`.
fn shown(path: &str) -> &str {
    if path.is_empty() { "." } else { path }
}

fn subresources(old: &Value, new: &Value, path: &str, changes: &mut Changes) {
    let path = Path::new(path).child("subresources");
    let get = |version: &Value, name: &str| {
        let found = version.get("subresources")?.get(name)?;
        found.is_object().then(|| found.clone())
    };
    match (get(old, "status"), get(new, "status")) {
        (None, Some(_)) => changes.breaking(
            path.child("status").as_str(),
            "subresource added",
            "writes of the object ignore status from now on: clients must write to /status",
        ),
        (Some(_), None) => changes.breaking(
            path.child("status").as_str(),
            "subresource removed",
            "writes to /status get 404",
        ),
        _ => {}
    }
    let scale = path.child("scale");
    match (get(old, "scale"), get(new, "scale")) {
        (None, Some(_)) => changes.safe(
            scale.as_str(),
            "subresource added",
            "replicas can also be read and written through /scale",
        ),
        (Some(_), None) => changes.breaking(
            scale.as_str(),
            "subresource removed",
            "autoscalers and `kubectl scale` fail",
        ),
        (before, after) if before != after => changes.breaking(
            scale.as_str(),
            "paths changed",
            "autoscalers read and write other fields",
        ),
        _ => {}
    }
}

fn columns(old: &Value, new: &Value, path: &str, changes: &mut Changes) {
    let columns = |version: &Value| {
        let list = version.get("additionalPrinterColumns").and_then(Value::as_array);
        list.cloned().unwrap_or_default()
    };
    if columns(old) != columns(new) {
        changes.safe(
            Path::new(path).child("additionalPrinterColumns").as_str(),
            "printer columns changed",
            "only the output of `kubectl get` changes",
        );
    }
}

fn selectable_fields(old: &Value, new: &Value, path: &str, changes: &mut Changes) {
    let path = Path::new(path).child("selectableFields");
    let fields = |version: &Value| -> Vec<String> {
        let list = version.get("selectableFields").and_then(Value::as_array);
        let texts = list
            .into_iter()
            .flatten()
            .map(|field| text_at(field, "/jsonPath").to_owned());
        texts.collect()
    };
    let (before, after) = (fields(old), fields(new));
    for field in before.iter().filter(|field| !after.contains(field)) {
        let why = "lists and watches that select by the field are rejected";
        changes.breaking(path.as_str(), format!("{field} removed"), why);
    }
    for field in after.iter().filter(|field| !before.contains(field)) {
        changes.safe(
            path.as_str(),
            format!("{field} added"),
            "lists and watches can select by an additional field",
        );
    }
}
