//! Field ownership: updates `metadata.managedFields` with structured-merge.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::object;
use serde_json::{Map, Value, json};
use structured_merge::scale::{self, ReplicasPaths};
use structured_merge::{
    ApplyError, ConvertError, Converter, FieldManager, FieldSet, PathElement, Schema, Settings,
};

use crate::codec::protobuf::go_order;
use crate::resource::crd::conversion;
use crate::resource::crd::conversion_memo::ConversionMemo;
use crate::resource::{Definition, Source};
use crate::status::{self, Status};
use crate::write::Write;

/// Records the fields that a create (without `live`) or an update changed.
pub(crate) fn update(now: &str, write: &Write, live: Option<&Value>, object: &mut Value) {
    let Some(manager) = manager(write) else {
        return;
    };
    let new = std::mem::take(object);
    *object = manager.update(live, new, &write.manager, now);
}

/// Returns the error for a configuration that does not fit the Go struct of its kind.
pub(crate) fn unconverted(write: &Write, config: &Value, why: &str) -> Status {
    let name = object::name(config);
    let namespace = object::text(config, &["metadata", "namespace"]);
    let subject = &write.definition.subject;
    let gvk = format!(
        "{}/{}, Kind={}",
        subject.group, write.definition.version, subject.kind
    );
    status::plain(format!(
        "failed to convert new object ({namespace}/{name}; {gvk}) to proper version: unable to convert unstructured object to {gvk}: {why}"
    ))
}

/// Merges a configuration into the live object by server-side apply.
pub(crate) fn apply(
    now: &str,
    write: &Write,
    live: Option<&Value>,
    config: &Value,
    force: bool,
) -> Result<Value, Status> {
    let Some(manager) = manager(write) else {
        return Err(status::internal("the kind has no field manager"));
    };
    let mut applied = manager
        .apply(live, config, &write.manager, force, now)
        .map_err(refusal)?;
    let Some(kind) = write.definition.builtin_type() else {
        return Ok(applied);
    };
    let convert = |object: &mut Value| {
        let converted = builtin_kinds::unstructured::convert(kind, object, &go_order::position);
        converted.map_err(|why| unconverted(write, config, &why))
    };
    // The configuration only still has managers if they could not be converted.
    if config["metadata"]["managedFields"].is_array() {
        convert(&mut config.clone())?;
    }
    convert(&mut applied)?;
    Ok(applied)
}

fn refusal(error: ApplyError) -> Status {
    match error {
        ApplyError::Conflict(conflicts) => {
            let causes = conflicts
                .causes
                .into_iter()
                .map(|conflict| (conflict.message, conflict.field))
                .collect();
            status::apply_conflict(&conflicts.message, causes)
        }
        ApplyError::BadRequest(why) => status::bad_request(why),
        ApplyError::Internal(why) => status::plain(why),
    }
}

/// Returns true if two versions of an object are equal except for the times of their managed fields.
pub(crate) fn equal_but_times(a: &Value, b: &Value) -> bool {
    structured_merge::managed_fields::equal_but_for_times(a, b)
}

fn manager(write: &Write) -> Option<Cow<'_, FieldManager>> {
    let definition = &write.definition;
    let manager = definition
        .field_managers
        .get(&write.subresource, || make(definition, &write.subresource))?;
    let Source::Custom(version) = &definition.source else {
        return Some(Cow::Borrowed(manager));
    };
    if !conversion::has_webhook(definition) {
        return Some(Cow::Borrowed(manager));
    }
    let converter = WebhookVersions {
        versions: CustomVersions(version.merge_schemas.keys().cloned().collect()),
        hub: version.api_version.clone(),
        conversions: write.conversions.clone(),
    };
    Some(Cow::Owned(manager.clone().with_converter(Arc::new(converter))))
}

fn make(definition: &Definition, subresource: &str) -> FieldManager {
    let manager = FieldManager::new(settings(definition, subresource));
    match &definition.source {
        Source::Builtin { .. } => manager.with_empty(definition.empty_object()),
        Source::Custom(_) => manager,
    }
}

/// The maximum length of the name of a field manager, and of a subresource in managedFields, in bytes.
const MANAGER_LENGTH_MAX: usize = 128;
const SUBRESOURCE_LENGTH_MAX: usize = 256;

/// Checks the name of a field manager.
pub(crate) fn validate_manager(path: impl Fn() -> Path, name: &str) -> ErrorList {
    let mut errors = ErrorList::new();
    if name.len() > MANAGER_LENGTH_MAX {
        errors.push(Error::too_long(path(), MANAGER_LENGTH_MAX));
    }
    for (index, character) in name
        .char_indices()
        .filter(|(_, character)| character.is_control())
    {
        let why = format!(
            "invalid character U+{:04X} (at position {index})",
            u32::from(character)
        );
        let mut error = Error::invalid(path(), name.into(), why);
        error.value = Some(apimachinery::go::quote(name));
        errors.push(error);
    }
    errors
}

/// Checks the parts of `metadata.managedFields` that field managers do not check.
pub(crate) fn validate(object: &Value) -> ErrorList {
    let path = |index: usize, field: &str| {
        Path::new("metadata")
            .child("managedFields")
            .index(index)
            .child(field)
    };
    let mut errors = ErrorList::new();
    for (index, entry) in entries(object).iter().enumerate() {
        let manager = object::text(entry, &["manager"]);
        errors.extend(validate_manager(|| path(index, "manager"), manager));
        if object::text(entry, &["subresource"]).len() > SUBRESOURCE_LENGTH_MAX {
            errors.push(Error::too_long(
                path(index, "subresource"),
                SUBRESOURCE_LENGTH_MAX,
            ));
        }
    }
    errors
}

/// The versions of a custom resource without a conversion webhook, which differ only in the apiVersion.
#[derive(Debug)]
struct CustomVersions(Vec<String>);

impl CustomVersions {
    fn check(&self, api_version: &str) -> Result<(), ConvertError> {
        if self.0.iter().any(|known| known == api_version) {
            return Ok(());
        }
        let why = format!("request to convert CR to an invalid group/version: {api_version}");
        Err(ConvertError::Failed(why))
    }
}

/// The versions of a custom resource that are converted by a webhook.
#[derive(Debug)]
struct WebhookVersions {
    versions: CustomVersions,
    /// The version of the request. Objects are converted from it or to it, as in the real server.
    hub: String,
    conversions: Arc<ConversionMemo>,
}

impl Converter for WebhookVersions {
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError> {
        self.versions.check(api_version)?;
        let from = object::text(object, &["apiVersion"]);
        if from == api_version {
            return Ok(object.clone());
        }
        let mut object = object.clone();
        // An object without fields is left if all fields were given up; kube-apiserver does not convert it by the
        // webhook.
        let has_fields =
            |object: &Map<String, Value>| object.keys().any(|key| key != "apiVersion" && key != "kind");
        if !object.as_object().is_some_and(has_fields) {
            object["apiVersion"] = api_version.into();
            return Ok(object);
        }
        structured_merge::managed_fields::set_entries(&mut object, Vec::new());
        if from != self.hub && api_version != self.hub {
            object = self.conversions.find(&object, &self.hub)?;
        }
        self.conversions.find(&object, api_version)
    }
}

impl Converter for CustomVersions {
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError> {
        self.check(api_version)?;
        let mut object = object.clone();
        object["apiVersion"] = api_version.into();
        Ok(object)
    }
}

/// The versions of built-in kinds that are served in several versions of a group: autoscalers and beta versions.
#[derive(Debug)]
struct BuiltinVersions;

impl Converter for BuiltinVersions {
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError> {
        let kind = object::text(object, &["kind"]);
        let known = |api_version: &str| {
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            structured_merge::builtin::types()
                .for_kind(group, version, kind)
                .is_some()
        };
        if kind == "HorizontalPodAutoscaler" {
            let converted = builtin_kinds::horizontal_pod_autoscaler::convert(object, api_version);
            return converted.ok_or(ConvertError::MissingVersion);
        }
        if !known(api_version) {
            return Err(ConvertError::MissingVersion);
        }
        if api_version.starts_with("resource.k8s.io/")
            && let Some(converted) = builtin_kinds::resource_v1beta1::convert_kind(object, api_version)
        {
            return Ok(converted);
        }
        let mut converted = object.clone();
        if let Some(fields) = converted.as_object_mut() {
            fields.insert("apiVersion".to_owned(), api_version.into());
        }
        Ok(converted)
    }
}

fn settings(definition: &Definition, subresource: &str) -> Settings {
    let subject = &definition.subject;
    let api_version = definition.api_version();
    let schemas = match &definition.source {
        Source::Builtin { gvk, .. } => builtin_schemas(gvk),
        Source::Custom(version) => version.merge_schemas.clone(),
    };
    let converter: Option<Arc<dyn Converter>> = match &definition.source {
        Source::Custom(_) => Some(Arc::new(CustomVersions(schemas.keys().cloned().collect()))),
        Source::Builtin { .. } if schemas.len() > 1 => Some(Arc::new(BuiltinVersions)),
        Source::Builtin { .. } => None,
    };
    let reset = reset_fields(definition, subresource);
    // The status of a custom resource is reset in every version.
    let versions: Vec<String> = match (&definition.source, subresource) {
        (Source::Custom(_), "status") => schemas.keys().cloned().collect(),
        _ => vec![api_version],
    };
    let reset_fields = FieldSet::from_value(&reset)
        .map(|set| {
            versions
                .into_iter()
                .map(|version| (version, set.clone()))
                .collect()
        })
        .unwrap_or_default();
    Settings {
        group: subject.group.clone(),
        version: definition.version.clone(),
        kind: subject.kind.clone(),
        subresource: subresource.to_owned(),
        schemas,
        reset_fields,
        converter,
    }
}

/// Returns the schemas of all served versions of a built-in kind, by apiVersion.
fn builtin_schemas(gvk: &apimachinery::gvk::Gvk) -> BTreeMap<String, Schema> {
    let mut versions = match (gvk.group, gvk.kind) {
        ("autoscaling", "HorizontalPodAutoscaler") => vec!["v1", "v2"],
        _ => vec![
            builtin_kinds::resource_v1beta1::v1_kind(gvk)
                .unwrap_or(gvk)
                .version,
        ],
    };
    let beta = structured_merge::builtin::BETA.iter();
    let beta = beta.filter(|(group, _, kinds)| *group == gvk.group && kinds.contains(&gvk.kind));
    versions.extend(beta.map(|(_, version, _)| *version));
    let schema = |version: &&str| {
        let schema = Schema::builtin(gvk.group, version, gvk.kind)?;
        Some((crate::resource::api_version(gvk.group, version), schema))
    };
    versions.iter().filter_map(schema).collect()
}

/// Returns the fields that a writer never owns, as FieldsV1.
fn reset_fields(definition: &Definition, subresource: &str) -> Value {
    match (&definition.source, subresource) {
        (Source::Builtin { gvk, .. }, _) => builtin_kinds::reset_fields(gvk, subresource),
        (Source::Custom(version), "") if version.has_status => json!({"f:status": {}}),
        (Source::Custom(_), "status") => json!({"f:metadata": {}, "f:spec": {}}),
        (Source::Custom(_), _) => json!({}),
    }
}

/// Applies a configuration to the Scale of an object. The storage of custom resources cannot convert a changed Scale.
pub(crate) fn apply_scale(
    now: &str,
    write: &Write,
    live: &Value,
    config: &Value,
    force: bool,
) -> Result<Value, Status> {
    let unknown = "proper version: request to convert CR to an invalid group/version: autoscaling/v1";
    if write.definition.is_custom() && entries(live).is_empty() {
        return Err(status::plain(format!(
            "failed to create manager for existing fields: failed to convert live object (/; autoscaling/v1, Kind=Scale) to {unknown}"
        )));
    }
    let applied = FieldManager::scale()
        .apply(Some(live), config, &write.manager, force, now)
        .map_err(refusal)?;
    let same = |part: &str| applied.get(part) == live.get(part);
    if write.definition.is_custom() && !same("spec") {
        let name = object::name(config);
        let namespace = object::text(config, &["metadata", "namespace"]);
        return Err(status::plain(format!(
            "failed to convert new object ({namespace}/{name}; autoscaling/v1, Kind=Scale) to {unknown}"
        )));
    }
    Ok(applied)
}

/// Records the field manager that changed the Scale of an object.
pub(crate) fn update_scale(now: &str, write: &Write, live: &Value, wanted: Value) -> Value {
    FieldManager::scale().update(Some(live), wanted, &write.manager, now)
}

/// The field managers of an object in terms of its Scale.
pub(crate) struct ScaleManagers {
    paths: ReplicasPaths,
    api_version: String,
}

impl ScaleManagers {
    /// Creates the mapping; `replicas` is the path of the replicas in an object of a built-in kind.
    pub(crate) fn new(definition: &Definition, replicas: &[String]) -> Self {
        let api_version = definition.api_version();
        let paths = match &definition.source {
            Source::Builtin { .. } => {
                let path = replicas.iter().map(|name| PathElement::field(name)).collect();
                BTreeMap::from([(api_version.clone(), Some(path))])
            }
            Source::Custom(version) => version.replicas_paths.clone(),
        };
        Self { paths, api_version }
    }

    /// Sets the managers of a Scale to the owners of the object's replicas.
    pub(crate) fn show(&self, object: &Value, scale: &mut Value) {
        let entries = scale::to_scale(entries(object), &self.paths).unwrap_or_default();
        structured_merge::managed_fields::set_entries(scale, entries);
    }

    /// Copies the managers of a written Scale to its object.
    pub(crate) fn take_over(&self, live: &Value, scale: &Value, object: &mut Value) {
        let taken = scale::to_resource(entries(live), entries(scale), &self.paths, &self.api_version);
        if let Ok(taken) = taken {
            structured_merge::managed_fields::set_entries(object, taken);
        }
    }
}

/// Checks that the managed fields of an object can be parsed.
///
/// # Errors
/// Returns the API server's text of the error.
pub(crate) fn check(object: &Value) -> Result<(), String> {
    let decoded = structured_merge::managed_fields::Managed::decode(entries(object));
    decoded.map(drop).map_err(|error| error.to_string())
}

fn entries(object: &Value) -> &[Value] {
    structured_merge::managed_fields::entries(object).unwrap_or_default()
}
