//! [`Config`], the PROJECT file, version 3: kubebuilder's format with the layout of this tool.
//!
//! Unknown keys are kept.

use std::io;

use operator_manifests::render;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::names::{self, InvalidName};

/// The layout that this tool writes.
pub(crate) const LAYOUT: &str = "rust.operator-sdk.dev/v1";

const HEADER: &str =
    "# Written by operator-sdk, which reads it to learn the contents of the project. Do not edit.\n";

/// The contents of the PROJECT file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Config {
    pub(crate) domain: String,
    pub(crate) project_name: String,
    /// True if kinds are in directories by group.
    pub(crate) multigroup: bool,
    /// True if the operator watches only its own namespace.
    pub(crate) namespaced: bool,
    pub(crate) resources: Vec<Resource>,
    /// The complete document, including unknown keys.
    document: Map<String, Value>,
}

/// One version of a kind in the project.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Resource {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) api: Option<Api>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) controller: bool,
    /// Several controllers of one kind, by name; `controller` is then not set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) controllers: Vec<NamedController>,
    /// A kind of Kubernetes.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) core: bool,
    #[serde(default)]
    pub(crate) domain: String,
    /// A kind of another project.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) external: bool,
    /// True if its files are not in a directory of the group, because it was added before the project had several
    /// groups.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) flat: bool,
    #[serde(default)]
    pub(crate) group: String,
    pub(crate) kind: String,
    /// The crate of the type with its version, if it is not a dependency of every project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) module: Option<String>,
    /// The module of the type, if it differs from the layout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) plural: Option<String>,
    pub(crate) version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) webhooks: Option<Webhooks>,
    /// Keys of other tools.
    #[serde(flatten)]
    pub(crate) rest: Map<String, Value>,
}

/// A controller with its own name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NamedController {
    pub(crate) name: String,
}

/// The webhooks of a kind in one version.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Webhooks {
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) conversion: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) defaulting: bool,
    /// The versions that are converted to this one and back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) spoke: Vec<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) validation: bool,
    #[serde(default = "crd_version")]
    pub(crate) webhook_version: String,
    #[serde(flatten)]
    pub(crate) rest: Map<String, Value>,
}

/// The API of a kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Api {
    #[serde(default = "crd_version")]
    pub(crate) crd_version: String,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) namespaced: bool,
    #[serde(flatten)]
    pub(crate) rest: Map<String, Value>,
}

fn crd_version() -> String {
    "v1".to_owned()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// An error of a PROJECT file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("{0}")]
    File(io::Error),
    #[error("it is not valid YAML: {0}")]
    Syntax(String),
    #[error("it has no `{0}`")]
    Missing(&'static str),
    #[error("its `{key}` is invalid: {reason}")]
    Field { key: String, reason: String },
    #[error("its version is {0:?}, and this tool supports version \"3\"")]
    Version(String),
    #[error("its layout is {0:?}, and this tool supports {LAYOUT:?}")]
    Layout(String),
    #[error("{0}")]
    Name(#[from] InvalidName),
}

impl ConfigError {
    pub(crate) fn remedy(&self) -> String {
        match self {
            Self::Version(_) | Self::Layout(_) => {
                "the project was created by another tool: use that one, or create a new project with `operator-sdk init`"
                    .to_owned()
            }
            Self::File(_) | Self::Name(_) | Self::Syntax(_) | Self::Missing(_) | Self::Field { .. } => {
                "restore the file from version control (`git checkout PROJECT`), or correct it by hand"
                    .to_owned()
            }
        }
    }
}

// === impl Config ===

impl Config {
    pub(crate) fn new(domain: &str, project_name: &str, repo: Option<&str>) -> Self {
        let mut document = Map::new();
        document.insert("cliVersion".to_owned(), json!(env!("CARGO_PKG_VERSION")));
        document.insert("layout".to_owned(), json!([LAYOUT]));
        document.insert("version".to_owned(), json!("3"));
        if let Some(repo) = repo {
            document.insert("repo".to_owned(), json!(repo));
        }
        Self {
            domain: domain.to_owned(),
            project_name: project_name.to_owned(),
            multigroup: false,
            namespaced: false,
            resources: Vec::new(),
            document,
        }
    }

    pub(crate) fn parse(text: &str) -> Result<Self, ConfigError> {
        let document: Value = serde_saphyr::from_str(text)
            .map_err(|error| ConfigError::Syntax(apimachinery::yaml::summary(&error)))?;
        let Value::Object(document) = document else {
            return Err(ConfigError::Syntax("it is not a mapping".to_owned()));
        };
        check_version(&document)?;
        check_layout(&document)?;
        let config = Self {
            domain: text_of(&document, "domain")?,
            project_name: text_of(&document, "projectName")?,
            multigroup: switch_of(&document, "multigroup")?,
            namespaced: switch_of(&document, "namespaced")?,
            resources: resources_of(&document)?,
            document,
        };
        names::check_domain(&config.domain)?;
        names::check_project(&config.project_name)?;
        for resource in &config.resources {
            names::check_kind_syntax(&resource.kind)?;
            names::check_version(&resource.version)?;
        }
        Ok(config)
    }

    pub(crate) fn render(&self) -> String {
        let mut document = self.document.clone();
        document.insert("domain".to_owned(), json!(self.domain));
        document.insert("projectName".to_owned(), json!(self.project_name));
        for (key, on) in [("multigroup", self.multigroup), ("namespaced", self.namespaced)] {
            document.remove(key);
            if on {
                document.insert(key.to_owned(), json!(true));
            }
        }
        document.remove("resources");
        if !self.resources.is_empty() {
            document.insert("resources".to_owned(), json!(self.resources));
        }
        format!("{HEADER}{}", render::yaml(&Value::Object(document)))
    }

    pub(crate) fn find(&self, group: &str, version: &str, kind: &str) -> Option<&Resource> {
        self.resources
            .iter()
            .find(|resource| resource.group == group && resource.version == version && resource.kind == kind)
    }

    pub(crate) fn remove(&mut self, group: &str, version: &str, kind: &str) {
        self.resources
            .retain(|there| !(there.is_kind(group, kind) && there.version == version));
    }

    /// Adds a resource, or replaces the one with the same group, version and kind.
    pub(crate) fn put(&mut self, resource: Resource) {
        let same = |r: &&mut Resource| {
            r.group == resource.group && r.version == resource.version && r.kind == resource.kind
        };
        match self.resources.iter_mut().find(same) {
            Some(there) => *there = resource,
            None => self.resources.push(resource),
        }
    }
}

fn text_of(document: &Map<String, Value>, key: &'static str) -> Result<String, ConfigError> {
    match document.get(key) {
        None | Some(Value::Null) => Err(ConfigError::Missing(key)),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(ConfigError::Field {
            key: key.to_owned(),
            reason: "it is not a string".to_owned(),
        }),
    }
}

fn switch_of(document: &Map<String, Value>, key: &'static str) -> Result<bool, ConfigError> {
    match document.get(key) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(on)) => Ok(*on),
        Some(_) => Err(ConfigError::Field {
            key: key.to_owned(),
            reason: "it is not a boolean".to_owned(),
        }),
    }
}

fn check_version(document: &Map<String, Value>) -> Result<(), ConfigError> {
    match document.get("version") {
        None => Err(ConfigError::Missing("version")),
        Some(Value::String(version)) if version == "3" => Ok(()),
        Some(Value::String(other)) => Err(ConfigError::Version(other.clone())),
        Some(other) => Err(ConfigError::Version(other.to_string())),
    }
}

fn check_layout(document: &Map<String, Value>) -> Result<(), ConfigError> {
    let layout = document.get("layout").ok_or(ConfigError::Missing("layout"))?;
    let known = match layout {
        Value::Array(plugins) => plugins.iter().any(|plugin| plugin == LAYOUT),
        other => other == LAYOUT,
    };
    if known {
        Ok(())
    } else {
        Err(ConfigError::Layout(layout.to_string()))
    }
}

fn resources_of(document: &Map<String, Value>) -> Result<Vec<Resource>, ConfigError> {
    let Some(resources) = document.get("resources") else {
        return Ok(Vec::new());
    };
    serde_json::from_value(resources.clone()).map_err(|error| ConfigError::Field {
        key: "resources".to_owned(),
        reason: error.to_string(),
    })
}

// === impl Resource ===

impl Resource {
    pub(crate) fn namespaced(&self) -> bool {
        self.api.as_ref().is_some_and(|api| api.namespaced)
    }

    /// Returns the complete API group, such as `cache.example.com`. Empty for the core group.
    pub(crate) fn api_group(&self) -> String {
        match (self.group.as_str(), self.domain.as_str()) {
            ("core" | "", "") => String::new(),
            ("", domain) => domain.to_owned(),
            (group, "") => group.to_owned(),
            (group, domain) => format!("{group}.{domain}"),
        }
    }

    pub(crate) fn plural(&self) -> String {
        self.plural
            .clone()
            .unwrap_or_else(|| names::plural_of(&self.kind))
    }

    /// Returns true if this is a version of the kind.
    pub(crate) fn is_kind(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }

    /// Returns true if a controller reconciles the kind.
    pub(crate) fn has_controller(&self) -> bool {
        self.controller || !self.controllers.is_empty()
    }

    pub(crate) fn has_webhooks(&self) -> bool {
        self.webhooks
            .as_ref()
            .is_some_and(|webhooks| webhooks.defaulting || webhooks.validation || webhooks.conversion)
    }
}
