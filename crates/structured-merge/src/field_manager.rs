//! The effect of a write on an object and its managers, like the API server's field manager: [`FieldManager`].
//!
//! The layers, from the outside in: the version check, the upgrade from client-side apply, the manager
//! `before-first-apply`, the limit on updaters, the manager's identity, time stamps, unowned metadata, and the merge
//! itself.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use apimachinery::time::{self, TimeForm};
use serde_json::{Value, json};

use crate::builtin;
use crate::convert::{ConvertError, Converter};
use crate::field_set::FieldSet;
use crate::go;
use crate::managed_fields::{self, DecodeError, Encoded, Managed, Manager, Operation, Owned};
use crate::path::{self, PathElement};
use crate::schema::Schema;
use crate::typed::{self, Duplicates};
use crate::updater::{OwnedByOther, UpdateError, Updater};

mod cap;
mod client;
mod last_applied;

/// The properties of a kind that a [`FieldManager`] needs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The group of the objects; empty for the core group.
    pub group: String,
    /// The version of the request.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The written subresource; empty for the resource itself.
    pub subresource: String,
    /// The type of the kind in each version, by apiVersion.
    pub schemas: BTreeMap<String, Schema>,
    /// The fields that writers never own, by apiVersion.
    pub reset_fields: BTreeMap<String, FieldSet>,
    /// The converter between versions; `None` if versions differ only in their names.
    pub converter: Option<Arc<dyn Converter>>,
}

/// Tracks the owners of the fields of objects of one kind, for writes through one version and subresource.
///
/// ```
/// use serde_json::json;
/// use structured_merge::FieldManager;
///
/// let manager = FieldManager::builtin("", "v1", "ConfigMap").unwrap();
/// let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "1"}});
/// let live = manager.apply(None, &config, "me", false, "2026-01-01T00:00:00Z").unwrap();
/// assert_eq!(live["metadata"]["managedFields"][0]["fieldsV1"], json!({"f:data": {"f:k": {}}}));
///
/// let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "2"}});
/// let error = manager.apply(Some(&live), &theirs, "you", false, "2026-01-01T00:00:01Z").unwrap_err();
/// assert_eq!(error.to_string(), "Apply failed with 1 conflict: conflict with \"me\": .data.k");
/// ```
#[derive(Clone, Debug)]
pub struct FieldManager {
    settings: Settings,
    api_version: String,
    /// An empty object of the kind.
    empty: Value,
    converter: Arc<dyn Converter>,
}

/// The reason why an apply was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// Other managers own fields that the applier changes: a 409 with the reason `Conflict` and a cause for each field.
    #[error("{0}")]
    Conflict(Conflicts),
    /// A 400 with the reason `BadRequest`.
    #[error("{0}")]
    BadRequest(String),
    /// A 500 without a reason: the applied object does not match its type, or an object could not be converted.
    #[error("{0}")]
    Internal(String),
}

/// The conflicts of an apply: the fields that it changes and other managers own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflicts {
    /// The message of the Status.
    pub message: String,
    /// The causes of the Status, each with the reason `FieldManagerConflict`.
    pub causes: Vec<Conflict>,
}

/// One field that an applier changes and another manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The field, such as `.spec.replicas`.
    pub field: String,
    /// The owner, such as `conflict with "kubectl" using apps/v1`.
    pub message: String,
}

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The metadata fields that are never owned.
static NEVER_OWNED: LazyLock<FieldSet> = LazyLock::new(|| {
    let mut set = FieldSet::default();
    ["apiVersion", "kind", "metadata"]
        .iter()
        .for_each(|name| set.insert(&[PathElement::field(name)]));
    let metadata = [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ];
    for name in metadata {
        set.insert(&[PathElement::field("metadata"), PathElement::field(name)]);
    }
    set
});

/// A temporary manager, which separates the fields of a write from those that its manager already owns.
static THIS_WRITE: LazyLock<Manager> =
    LazyLock::new(|| Manager::new("current-operation", Operation::Update, "", ""));

impl FieldManager {
    /// Returns the field manager of a kind.
    pub fn new(settings: Settings) -> Self {
        let api_version = api_version(&settings.group, &settings.version);
        let mut empty = builtin::types()
            .for_kind(&settings.group, &settings.version, &settings.kind)
            .map_or_else(|| json!({}), builtin::Type::zero);
        empty["apiVersion"] = api_version.as_str().into();
        empty["kind"] = settings.kind.as_str().into();
        let known = settings.schemas.keys().cloned().collect();
        let converter = settings
            .converter
            .clone()
            .unwrap_or_else(|| Arc::new(Renaming { known }));
        Self {
            settings,
            api_version,
            empty,
            converter,
        }
    }

    /// Returns the field manager of a built-in kind without reset fields.
    pub fn builtin(group: &str, version: &str, kind: &str) -> Option<Self> {
        let schema = Schema::builtin(group, version, kind)?;
        Some(Self::new(Settings {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            subresource: String::new(),
            schemas: BTreeMap::from([(api_version(group, version), schema)]),
            reset_fields: BTreeMap::new(),
            converter: None,
        }))
    }

    /// Returns the field manager of the `autoscaling/v1` Scale of a resource, for writes through `scale`.
    pub fn scale() -> Self {
        let schema = Schema::builtin("autoscaling", "v1", "Scale");
        Self::new(Settings {
            group: "autoscaling".to_owned(),
            version: "v1".to_owned(),
            kind: "Scale".to_owned(),
            subresource: "scale".to_owned(),
            schemas: schema
                .map(|schema| ("autoscaling/v1".to_owned(), schema))
                .into_iter()
                .collect(),
            reset_fields: BTreeMap::new(),
            converter: None,
        })
    }

    /// Replaces the empty object of the kind, for servers with better information than the types. A client does not own
    /// a field that the server always writes and that the client leaves empty.
    #[must_use]
    pub fn with_empty(mut self, empty: Value) -> Self {
        self.empty = empty;
        self
    }

    /// Replaces the converter between the versions of the kind, for the writes of one request.
    #[must_use]
    pub fn with_converter(mut self, converter: Arc<dyn Converter>) -> Self {
        self.converter = converter;
        self
    }

    fn updater(&self) -> Updater<'_> {
        Updater {
            schemas: &self.settings.schemas,
            reset_fields: &self.settings.reset_fields,
            converter: &*self.converter,
        }
    }

    // === impl FieldManager: writes other than apply ===

    /// Sets the managedFields of an object before a write other than an apply stores it. `live` is the stored object,
    /// or `None` for a create; `now` is RFC 3339 with whole seconds. It never fails: if the managers cannot be
    /// computed, because the live object no longer matches its schema, the managedFields are removed.
    pub fn update(&self, live: Option<&Value>, mut new: Value, manager: &str, now: &str) -> Value {
        let own = managed_fields::take_entries(&mut new);
        let (managed, encoded) = self.managed_before_update(live, own);
        let is_create =
            live.is_none_or(|live| live["metadata"]["uid"].as_str().unwrap_or_default().is_empty());
        let managed = if managed.owners.is_empty() && !is_create {
            Ok(managed)
        } else {
            self.tracked_update(live.unwrap_or(&self.empty), &new, managed, manager, now)
        };
        // Missing managedFields are better than wrong ones.
        let entries = managed
            .map(|managed| managed.encode_with(encoded))
            .unwrap_or_default();
        managed_fields::set_entries(&mut new, entries);
        new
    }

    /// Returns the managers of the written object, which clients can edit, or else those of the live object.
    fn managed_before_update(&self, live: Option<&Value>, own: Option<Vec<Value>>) -> (Managed, Encoded) {
        let live = live.and_then(managed_fields::entries).unwrap_or_default();
        let of_live = || (Managed::decode(live).unwrap_or_default(), Encoded::new());
        if own.as_deref().is_some_and(is_reset) && self.settings.subresource.is_empty() {
            return Default::default();
        }
        let own = own.filter(|own| self.settings.subresource.is_empty() || own == live);
        match Managed::decode_owned(own.unwrap_or_default()) {
            Ok(managed) if !managed.0.owners.is_empty() => managed,
            _ => of_live(),
        }
    }

    fn tracked_update(
        &self,
        live: &Value,
        new: &Value,
        managed: Managed,
        name: &str,
        now: &str,
    ) -> Result<Managed, UpdateError> {
        let name = if name.is_empty() { "unknown" } else { name };
        let manager = Manager::new(
            name,
            Operation::Update,
            &self.api_version,
            &self.settings.subresource,
        );
        let Managed { owners, mut times } = managed;
        for object in [new, live] {
            self.validate(object).map_err(UpdateError::Compare)?;
        }
        let mut owners = self
            .updater()
            .update(live, new, &self.api_version, owners, &THIS_WRITE)?;
        let taken = owners
            .remove(&*THIS_WRITE)
            .map(|owned| owned.fields.difference(&NEVER_OWNED));
        if let Some(fields) = taken.filter(|fields| !fields.is_empty()) {
            let fields = match owners.get(&manager) {
                Some(before) => fields.union(&before.fields),
                None => fields,
            };
            let owned = Owned {
                fields: Arc::new(fields),
                api_version: self.api_version.clone(),
                applied: false,
            };
            owners.insert(manager.clone(), owned);
            times.insert(manager, now.into());
        }
        Ok(cap::cap_updaters(Managed { owners, times }))
    }

    fn validate(&self, object: &Value) -> Result<(), typed::TypedErrors> {
        let Some(schema) = self.settings.schemas.get(&self.api_version) else {
            return Ok(());
        };
        typed::validate(schema, object, Duplicates::Allowed)
    }

    // === impl FieldManager: apply ===

    /// Merges an applied configuration into the live object (`None` for a create); returns the object with its
    /// managedFields. The caller handles defaults, validation and storage. If only time stamps differ
    /// ([`managed_fields::equal_but_for_times`]), the caller must not store the object.
    ///
    /// # Errors
    /// See [`ApplyError`].
    pub fn apply(
        &self,
        live: Option<&Value>,
        config: &Value,
        manager: &str,
        force: bool,
        now: &str,
    ) -> Result<Value, ApplyError> {
        let live = live.unwrap_or(&self.empty);
        let managed = Managed::decode(managed_fields::entries(live).unwrap_or_default())
            .map_err(|error| ApplyError::Internal(undecodable(&error)))?;
        self.check_kind(config)?;
        let apply = Apply {
            live,
            config,
            manager,
            now,
        };
        let before = managed.clone();
        let result = match self.apply_tracked(&apply, managed, force) {
            Err(Refusal::Conflicts(conflicts)) if manager == last_applied::KUBECTL => {
                let conflicts = last_applied::remaining(self, live, conflicts);
                if conflicts.is_empty() {
                    self.apply_tracked(&apply, before.clone(), true)
                } else {
                    Err(Refusal::Conflicts(conflicts))
                }
            }
            result => result,
        };
        let (object, managed) = result.map_err(|refusal| match refusal {
            Refusal::Conflicts(conflicts) => ApplyError::Conflict(describe(&conflicts)),
            Refusal::Error(error) => error,
        })?;
        let unchanged = object.is_none() && managed == before;
        let mut object = object.unwrap_or_else(|| live.clone());
        if manager == last_applied::KUBECTL {
            last_applied::synchronize(&mut object, config);
        }
        if !unchanged {
            managed_fields::set_entries(&mut object, managed.encode());
        }
        Ok(object)
    }

    fn check_kind(&self, config: &Value) -> Result<(), ApplyError> {
        let (group, version, kind) = kind_of(config);
        let expected = &self.settings;
        if (group, version, kind) == (&expected.group, &expected.version, &expected.kind) {
            return Ok(());
        }
        Err(ApplyError::BadRequest(format!(
            "invalid object type: {group}/{version}, Kind={kind}"
        )))
    }

    fn apply_tracked(
        &self,
        apply: &Apply<'_>,
        mut managed: Managed,
        force: bool,
    ) -> Result<(Option<Value>, Managed), Refusal> {
        if managed.owners.is_empty() {
            let context = "failed to create manager for existing fields";
            self.validate(apply.live).map_err(|error| {
                let object = identify(apply.live);
                internal(format!(
                    "{context}: failed to convert new object ({object}) to smd typed: {error}"
                ))
            })?;
            managed = self
                .tracked_update(&self.empty, apply.live, managed, "before-first-apply", apply.now)
                .map_err(|error| internal(format!("{context}: {error}")))?;
        }
        self.check_types(apply)?;
        let name = if apply.manager.is_empty() {
            "unknown"
        } else {
            apply.manager
        };
        let manager = Manager::new(name, Operation::Apply, "", &self.settings.subresource);
        let Managed { owners, mut times } = managed;
        let applied = self.updater().apply(
            apply.live,
            apply.config,
            &self.api_version,
            owners,
            &manager,
            force,
        );
        let (object, mut owners) = applied.map_err(|error| match error {
            UpdateError::Conflicts(conflicts) => Refusal::Conflicts(conflicts),
            other => internal(other.to_string()),
        })?;
        if let Some(owned) = owners.get_mut(&manager) {
            owned.fields = Arc::new(owned.fields.difference(&NEVER_OWNED));
            if owned.fields.is_empty() {
                owners.remove(&manager);
            }
        }
        if object.is_some() {
            times.insert(manager, apply.now.into());
        }
        Ok((object, Managed { owners, times }))
    }

    fn check_types(&self, apply: &Apply<'_>) -> Result<(), Refusal> {
        let managers = apply.config["metadata"]["managedFields"].as_array();
        if managers.is_some_and(|managers| managers.iter().all(is_manager)) {
            let error = ApplyError::BadRequest("metadata.managedFields must be nil".to_owned());
            return Err(Refusal::Error(error));
        }
        let Some(schema) = self.settings.schemas.get(&self.api_version) else {
            return Ok(());
        };
        let failed = |what: &str, object: &Value, errors: typed::TypedErrors| {
            internal(format!(
                "failed to create typed {what} object ({}): {errors}",
                identify(object)
            ))
        };
        if let Some(fault) = managers_fault(apply.config) {
            return Err(internal(format!(
                "failed to create typed patch object ({}): .metadata.managedFields{fault}",
                identify(apply.config)
            )));
        }
        typed::validate(schema, apply.config, Duplicates::Refused)
            .map_err(|errors| failed("patch", apply.config, errors))?;
        typed::validate(schema, apply.live, Duplicates::Allowed)
            .map_err(|errors| failed("live", apply.live, errors))
    }
}

/// Returns the type error of the managed fields, which the schemas do not describe.
fn managers_fault(config: &Value) -> Option<String> {
    match &config["metadata"]["managedFields"] {
        Value::Null => None,
        Value::Array(entries) => {
            let is_wrong = |(_, entry): &(usize, &Value)| !(entry.is_object() || entry.is_null());
            let (index, entry) = entries.iter().enumerate().find(is_wrong)?;
            Some(format!("[{index}]: expected map, got &{{{}}}", go::plain(entry)))
        }
        other => Some(format!(": expected list, got &{{{}}}", go::plain(other))),
    }
}

/// One apply request.
struct Apply<'a> {
    live: &'a Value,
    config: &'a Value,
    manager: &'a str,
    now: &'a str,
}

/// The reason why an apply failed, before conflicts are formatted.
enum Refusal {
    Conflicts(Vec<OwnedByOther>),
    Error(ApplyError),
}

fn internal(message: String) -> Refusal {
    Refusal::Error(ApplyError::Internal(message))
}

fn undecodable(error: &DecodeError) -> String {
    format!("failed to decode managed fields: {error}")
}

/// Returns true for `[]` or `[{}]`, with which a client removes all managers.
fn is_reset(entries: &[Value]) -> bool {
    match entries {
        [] => true,
        [only] => only.as_object().is_some_and(serde_json::Map::is_empty),
        _ => false,
    }
}

/// The maximum size of the causes of a conflict, in bytes. Each field below many long keys has a path with these keys.
const CAUSE_BYTES_MAX: usize = 4 << 20;

/// Formats the conflicts, up to the size limit.
fn describe(conflicts: &[OwnedByOther]) -> Conflicts {
    let total: usize = conflicts.iter().map(|conflict| conflict.fields.len()).sum();
    let mut causes: Vec<Conflict> = Vec::new();
    let mut lines = Vec::new();
    let mut size = 0;
    for OwnedByOther { manager, fields } in conflicts {
        let owner = manager.describe();
        lines.push(format!("conflicts with {owner}:"));
        let shown = fields.try_for_each_path(|path| {
            if size > CAUSE_BYTES_MAX {
                return Err(());
            }
            let field = path::display(path);
            let message = format!("conflict with {owner}");
            size += size_of::<Conflict>() + field.len() + message.len();
            lines.push(format!("- {field}"));
            causes.push(Conflict { field, message });
            Ok(())
        });
        if shown.is_err() {
            lines.push(format!("and {} more", total - causes.len()));
            break;
        }
    }
    let message = match causes.as_slice() {
        [only] if total == 1 => format!("Apply failed with 1 conflict: {}: {}", only.message, only.field),
        _ => format!("Apply failed with {total} conflicts: {}", lines.join("\n")),
    };
    Conflicts { message, causes }
}

fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

/// Returns the group, version and kind of an object; all empty if its apiVersion is invalid.
fn kind_of(object: &Value) -> (&str, &str, &str) {
    let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    match api_version.split_once('/') {
        None => ("", api_version, kind),
        Some((_, version)) if version.contains('/') => ("", "", ""),
        Some((group, version)) => (group, version, kind),
    }
}

/// Formats the identity of an object for error messages: `NAMESPACE/NAME; GROUP/VERSION, Kind=KIND`.
fn identify(object: &Value) -> String {
    let metadata = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
    let (group, version, kind) = kind_of(object);
    format!(
        "{}/{}; {group}/{version}, Kind={kind}",
        metadata("namespace"),
        metadata("name")
    )
}

/// A converter for versions that differ only in their names.
#[derive(Debug)]
struct Renaming {
    known: Vec<String>,
}

/// Returns true for a valid entry of `managedFields`. The API server ignores a list that has invalid entries.
fn is_manager(entry: &Value) -> bool {
    let texts = ["manager", "operation", "apiVersion", "fieldsType", "subresource"];
    let is_text = |name: &&str| matches!(entry[name], Value::Null | Value::String(_));
    let is_time = match &entry["time"] {
        Value::Null => true,
        Value::String(text) => time::canonical(text, TimeForm::Seconds).is_ok(),
        _ => false,
    };
    entry.is_object() && texts.iter().all(is_text) && is_time
}

impl Converter for Renaming {
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError> {
        if !self.known.iter().any(|known| known == api_version) {
            return Err(ConvertError::MissingVersion);
        }
        let mut object = object.clone();
        if let Some(object) = object.as_object_mut() {
            object.insert("apiVersion".to_owned(), api_version.into());
        }
        Ok(object)
    }
}
