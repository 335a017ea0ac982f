//! Generates bundles: converts a stream of objects and a base to a ClusterServiceVersion and other manifests
//! ([`generate`]).

mod collect;
mod images;
mod permissions;
mod shapes;
mod typed;
mod webhooks;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::catalog::version::Version;
use collect::Objects;

/// The environment variable with the watched namespaces, which OLM sets.
const WATCH_NAMESPACE: &str = "WATCH_NAMESPACE";

/// The options of [`generate`].
#[derive(Clone, Debug, Default)]
pub struct Options<'a> {
    /// The name of the package.
    pub package: &'a str,
    /// The version of the bundle. Default: the base's version, if empty.
    pub version: &'a str,
    /// Additional service accounts whose permissions belong to the operator, besides those of its Deployments.
    pub extra_service_accounts: &'a [String],
    /// The name of the ClusterServiceVersion that is replaced. Default: the base's value, if `None`.
    pub replaces: Option<&'a str>,
    /// The names of skipped ClusterServiceVersions. Default: the base's value, if empty.
    pub skips: &'a [String],
    /// The range of versions that can be upgraded directly. Default: the base's value, if `None`.
    pub skip_range: Option<&'a str>,
    /// The annotations to set on the ClusterServiceVersion.
    pub annotations: &'a [(&'a str, String)],
}

/// A generated bundle, without its metadata.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Generated {
    /// The ClusterServiceVersion.
    pub csv: Value,
    /// The other manifests, by file name.
    pub files: BTreeMap<String, Value>,
    /// The configuration of the scorecard, if the input has one.
    pub scorecard: Option<Value>,
    /// The messages, with the texts of the Go program.
    pub log: Vec<Message>,
    /// The input objects that the bundle neither contains nor describes, as `Kind name`.
    pub dropped: Vec<String>,
}

/// A message about the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The level.
    pub level: Level,
    /// The text.
    pub text: String,
}

/// The level of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The message is for information.
    Info,
    /// The bundle may not work as intended.
    Warning,
    /// The bundle is invalid.
    Error,
}

impl Message {
    fn new(level: Level, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { level, text }
    }
}

/// An error of generating a bundle.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GenerateError {
    /// The version is not a semantic version.
    #[error("{version} is not a valid semantic version: {reason}")]
    Version {
        /// The version.
        version: String,
        /// The reason.
        reason: String,
    },
    /// No ClusterServiceVersion belongs to the package.
    #[error("no base ClusterServiceVersion of package {package}{}", list_found(.found))]
    NoBase {
        /// The package.
        package: String,
        /// The names of the ClusterServiceVersions of other packages.
        found: Vec<String>,
    },
    /// An input object has a field with a wrong type.
    #[error(
        "error adding {gvk} to manifest collector: error unmarshaling JSON: while decoding JSON: {reason}"
    )]
    Decode {
        /// The type of the object: `group/version, Kind=K`.
        gvk: String,
        /// The reason, including the field.
        reason: String,
    },
    /// An environment variable of an image has no literal value.
    #[error("related images with valueFrom field unsupported, found in {0}`")]
    ImageFromReference(String),
    /// The base is not a ClusterServiceVersion.
    #[error("the base ClusterServiceVersion cannot be used: {0}")]
    Base(String),
    /// The generated bundle is invalid.
    #[error("invalid generated ClusterServiceVersion")]
    Invalid(Vec<Message>),
}

fn list_found(names: &[String]) -> String {
    if names.is_empty() {
        return String::new();
    }
    format!(": the input has {}", names.join(", "))
}

/// Parses a stream of YAML documents. Documents that cannot be parsed or have no kind are omitted; the second list has
/// their numbers, from one, and the reasons.
pub fn parse_stream(text: &str) -> (Vec<Value>, Vec<String>) {
    let mut objects = Vec::new();
    let mut skipped = Vec::new();
    for (index, document) in split_documents(text).iter().enumerate() {
        let mut skip = |reason: &str| skipped.push(format!("document {}: {reason}", index + 1));
        match apimachinery::yaml::parse(document) {
            Err(error) => skip(&error),
            Ok(parsed) if parsed.value.is_null() => {}
            Ok(parsed) => match parsed.value.get("kind").and_then(Value::as_str) {
                None | Some("") => skip("it has no kind"),
                Some(_) => objects.push(parsed.value),
            },
        }
    }
    (objects, skipped)
}

fn split_documents(text: &str) -> Vec<String> {
    let mut documents = vec![String::new()];
    for line in text.split_inclusive('\n') {
        let is_separator = line
            .strip_prefix("---")
            .is_some_and(|rest| rest.trim().is_empty());
        if is_separator {
            documents.push(String::new());
        } else if let Some(document) = documents.last_mut() {
            document.push_str(line);
        }
    }
    documents.retain(|document| !document.trim().is_empty());
    documents
}

/// Generates a bundle from the objects of an operator.
///
/// The base is a ClusterServiceVersion in `objects`, or else `base`. Its name must start with `<package>.`.
///
/// # Errors
/// Returns a [`GenerateError`] if an input object or the base is invalid, or the base is missing.
pub fn generate(
    objects: &[Value],
    base: Option<&Value>,
    options: &Options<'_>,
) -> Result<Generated, GenerateError> {
    if !options.version.is_empty() {
        Version::parse(options.version).map_err(|reason| GenerateError::Version {
            version: options.version.to_owned(),
            reason,
        })?;
    }
    let objects = Objects::collect(objects)?;
    let mut csv = choose_base(&objects, base, options.package)?;
    let mut log = Vec::new();
    set_metadata(&mut csv, options)?;
    let split = permissions::split(&objects, options.extra_service_accounts);
    let spec = child(&mut csv, "spec")?;
    if let Some(replaces) = options.replaces {
        set_or_remove(spec, "replaces", replaces.into());
    }
    if !options.skips.is_empty() {
        spec.insert("skips".to_owned(), options.skips.into());
    }
    set_install(spec, &objects, &split)?;
    set_owned(spec, &objects)?;
    set_or_remove(
        spec,
        "webhookdefinitions",
        webhooks::definitions(&objects, &mut log).into(),
    );
    set_or_remove(
        spec,
        "relatedImages",
        images::related(spec, &objects.deployments)?.into(),
    );
    fill_required(spec);
    let examples = pretty(&Value::Array(objects.examples.clone()));
    set_annotation(&mut csv, "alm-examples", &examples)?;
    log.extend(check(&csv, &objects));
    if log.iter().any(|message| message.level == Level::Error) {
        return Err(GenerateError::Invalid(log));
    }
    Ok(Generated {
        csv,
        files: files(&objects, &split),
        scorecard: objects.scorecard.clone(),
        log,
        dropped: objects.dropped.clone(),
    })
}

fn choose_base(objects: &Objects, base: Option<&Value>, package: &str) -> Result<Value, GenerateError> {
    let candidates: Vec<&Value> = match objects.csvs.as_slice() {
        [] => base.into_iter().collect(),
        csvs => csvs.iter().collect(),
    };
    let name = |csv: &Value| apimachinery::object::name(csv).to_owned();
    let prefix = format!("{package}.");
    match candidates.iter().find(|csv| name(csv).starts_with(&prefix)) {
        Some(csv) => Ok((*csv).clone()),
        None => Err(GenerateError::NoBase {
            package: package.to_owned(),
            found: candidates.into_iter().map(name).collect(),
        }),
    }
}

/// Returns a field that is an object; creates it if it is missing.
fn child<'a>(object: &'a mut Value, name: &str) -> Result<&'a mut Map<String, Value>, GenerateError> {
    let missing = || GenerateError::Base(format!("`{name}` is not an object"));
    let fields = object.as_object_mut().ok_or_else(missing)?;
    let field = fields.entry(name).or_insert(Value::Null);
    if field.is_null() {
        *field = json!({});
    }
    field.as_object_mut().ok_or_else(missing)
}

/// Sets a field, or removes it if the value is empty.
fn set_or_remove(fields: &mut Map<String, Value>, name: &str, value: Value) {
    let is_empty = match &value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    };
    if is_empty {
        fields.remove(name);
    } else {
        fields.insert(name.to_owned(), value);
    }
}

fn set_annotation(csv: &mut Value, name: &str, value: &str) -> Result<(), GenerateError> {
    let metadata = child(csv, "metadata")?;
    let annotations = metadata.entry("annotations").or_insert(Value::Null);
    if annotations.is_null() {
        *annotations = json!({});
    }
    let annotations = annotations.as_object_mut();
    let annotations =
        annotations.ok_or_else(|| GenerateError::Base("`annotations` is not an object".to_owned()))?;
    annotations.insert(name.to_owned(), value.into());
    Ok(())
}

fn set_metadata(csv: &mut Value, options: &Options<'_>) -> Result<(), GenerateError> {
    let fields = csv
        .as_object_mut()
        .ok_or_else(|| GenerateError::Base("it is not an object".to_owned()))?;
    fields.remove("status");
    let metadata = child(csv, "metadata")?;
    metadata.retain(|name, value| name != "creationTimestamp" || !value.is_null());
    if !options.version.is_empty() {
        let name = format!("{}.v{}", options.package, options.version);
        metadata.insert("name".to_owned(), name.into());
        child(csv, "spec")?.insert("version".to_owned(), options.version.into());
    }
    for (name, value) in options.annotations {
        set_annotation(csv, name, value)?;
    }
    if let Some(range) = options.skip_range {
        set_annotation(csv, "olm.skipRange", range)?;
    }
    let spec = child(csv, "spec")?;
    let cleanup = spec.get("cleanup");
    if cleanup.is_some_and(|cleanup| *cleanup == json!({"enabled": false}) || *cleanup == json!({})) {
        spec.remove("cleanup");
    }
    Ok(())
}

fn set_install(
    spec: &mut Map<String, Value>,
    objects: &Objects,
    split: &permissions::Split,
) -> Result<(), GenerateError> {
    let mut install = spec.remove("install").unwrap_or_default();
    let strategy = child(&mut install, "spec")?;
    let deployments = objects.deployments.iter().map(|deployment| {
        let mut entry = Map::new();
        entry.insert("name".to_owned(), apimachinery::object::name(deployment).into());
        let labels = deployment
            .pointer("/metadata/labels")
            .cloned()
            .unwrap_or_default();
        set_or_remove(&mut entry, "label", labels);
        let mut spec = deployment.get("spec").cloned().unwrap_or_else(|| json!({}));
        typed::complete_deployment(&mut spec);
        set_watch_namespace(&mut spec);
        entry.insert("spec".to_owned(), spec);
        Value::Object(entry)
    });
    strategy.insert("deployments".to_owned(), deployments.collect());
    set_or_remove(strategy, "permissions", split.permissions.clone().into());
    set_or_remove(
        strategy,
        "clusterPermissions",
        split.cluster_permissions.clone().into(),
    );
    if let Some(fields) = install.as_object_mut() {
        let name = fields.entry("strategy").or_insert(Value::Null);
        if name.as_str().is_none_or(str::is_empty) {
            *name = "deployment".into();
        }
    }
    spec.insert("install".to_owned(), install);
    Ok(())
}

/// Sets the watched namespaces to those of the OperatorGroup, in all containers that have the environment variable.
fn set_watch_namespace(spec: &mut Value) {
    let containers = spec
        .pointer_mut("/template/spec/containers")
        .and_then(Value::as_array_mut);
    for container in containers.into_iter().flatten() {
        let variables = container.get_mut("env").and_then(Value::as_array_mut);
        for variable in variables.into_iter().flatten() {
            if variable.get("name").and_then(Value::as_str) == Some(WATCH_NAMESPACE) {
                let field = json!({"fieldPath": "metadata.annotations['olm.targetNamespaces']"});
                *variable = json!({"name": WATCH_NAMESPACE, "valueFrom": {"fieldRef": field}});
            }
        }
    }
}

/// Lists the versions of the CRDs as owned. Entries of the base keep their descriptions.
fn set_owned(spec: &mut Map<String, Value>, objects: &Objects) -> Result<(), GenerateError> {
    let mut definitions = spec.remove("customresourcedefinitions").unwrap_or_default();
    if definitions.is_null() {
        definitions = json!({});
    }
    let fields = definitions
        .as_object_mut()
        .ok_or_else(|| GenerateError::Base("`customresourcedefinitions` is not an object".to_owned()))?;
    let described = fields.remove("owned");
    let described: Vec<&Value> = described.iter().filter_map(Value::as_array).flatten().collect();
    let owned = objects.served().map(|(definition, version)| {
        let kind = definition
            .pointer("/spec/names/kind")
            .cloned()
            .unwrap_or_default();
        let entry = json!({"kind": kind, "name": apimachinery::object::name(definition), "version": version});
        let keys = ["kind", "name", "version"];
        let same = |known: &&&Value| keys.iter().all(|key| known.get(key) == entry.get(key));
        described
            .iter()
            .find(same)
            .map_or(entry.clone(), |known| (*known).clone())
    });
    let owned: Vec<Value> = owned.collect();
    set_or_remove(fields, "owned", owned.into());
    spec.insert("customresourcedefinitions".to_owned(), definitions);
    Ok(())
}

/// Adds the fields that are always written.
fn fill_required(spec: &mut Map<String, Value>) {
    for name in ["apiservicedefinitions", "customresourcedefinitions", "provider"] {
        spec.entry(name).or_insert_with(|| json!({}));
    }
    spec.entry("displayName").or_insert_with(|| "".into());
    spec.entry("version").or_insert_with(|| "0.0.0".into());
}

/// Checks the parts of the result that depend on the input; `bundle validate` checks the rest.
fn check(csv: &Value, objects: &Objects) -> Vec<Message> {
    let mut messages = Vec::new();
    let modes = csv.pointer("/spec/installModes").and_then(Value::as_array);
    if modes.is_none_or(Vec::is_empty) {
        let name = apimachinery::object::name(csv);
        let text =
            format!("ClusterServiceVersion validation: [CSVFileNotValid] ({name}) install modes not found");
        messages.push(Message::new(Level::Error, text));
    }
    for (definition, version) in objects.served() {
        let group = definition
            .pointer("/spec/group")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let kind = definition.pointer("/spec/names/kind").and_then(Value::as_str);
        let has_example = objects.examples.iter().any(|example| {
            let (example_group, example_version) = collect::group_version(example);
            (example_group, example_version) == (group, version)
                && example.get("kind").and_then(Value::as_str) == kind
        });
        if !has_example {
            let text = "ClusterServiceVersion validation: [OperationFailed] provided API should have an example \
                        annotation";
            messages.push(Message::new(Level::Warning, text));
        }
    }
    messages
}

/// Returns the manifests other than the ClusterServiceVersion, by file name.
fn files(objects: &Objects, split: &permissions::Split) -> BTreeMap<String, Value> {
    let mut files = BTreeMap::new();
    let mut duplicates = 0;
    let definitions = objects.definitions.iter();
    let others = split.rest.iter().chain(&objects.services).chain(&objects.others);
    for object in definitions.chain(others) {
        let mut name = file_name(object);
        if files.contains_key(&name) {
            name = format!("dup{duplicates}_{name}");
            duplicates += 1;
        }
        let mut object = object.clone();
        typed::complete_manifest(&mut object);
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("namespace");
            metadata.retain(|name, value| name != "creationTimestamp" || !value.is_null());
        }
        files.insert(name, object);
    }
    files
}

fn file_name(object: &Value) -> String {
    let text = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (group, version) = collect::group_version(object);
    let kind = text("/kind");
    let (defined, plural) = (text("/spec/group"), text("/spec/names/plural"));
    let name = if kind == "CustomResourceDefinition" && !defined.is_empty() && !plural.is_empty() {
        format!("{defined}_{plural}.yaml")
    } else {
        let group = if group.is_empty() {
            String::new()
        } else {
            format!("{group}_")
        };
        let name = apimachinery::object::name(object);
        format!("{name}_{group}{version}_{}.yaml", kind.to_lowercase())
    };
    // Names of objects such as `system:auth` are not valid file names on all systems, and must not contain path
    // separators.
    name.replace(['/', '\\'], "_")
}

/// Formats JSON with an indentation of two spaces, and with the special characters of HTML escaped, like Go.
fn pretty(value: &Value) -> String {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            other => out.push(other),
        }
    }
    out
}
