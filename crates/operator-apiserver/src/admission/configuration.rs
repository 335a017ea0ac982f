//! The configuration of plug-ins: the file of `--admission-control-config-file`.

use std::collections::BTreeSet;
use std::path::Path as FilePath;

use apimachinery::field::{Error, Path};
use apimachinery::{names, object};
use builtin_kinds::pod_security::Policy;
use serde_json::{Value, json};

use crate::identity::strict::{self, Kind, Shape, Struct};

/// The configuration of admission plug-ins: the standards and exemptions of PodSecurity.
#[derive(Clone, Debug, Default)]
pub struct AdmissionConfiguration {
    pub(crate) pod_security: PodSecurity,
    unsupported: Vec<String>,
}

/// The configuration of PodSecurity.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodSecurity {
    /// The standards of namespaces without labels.
    pub(crate) defaults: Policy,
    /// The names of exempt users.
    pub(crate) users: Vec<String>,
    /// The names of exempt namespaces.
    pub(crate) namespaces: Vec<String>,
    /// The names of exempt runtime classes.
    pub(crate) runtime_classes: Vec<String>,
}

const KIND: Kind = Kind {
    group: "apiserver.config.k8s.io",
    versions: &["v1", "v1alpha1"],
    shape: &Struct {
        name: "AdmissionConfiguration",
        fields: &[("plugins", Shape::List(&PLUGIN))],
    },
    scheme: "k8s.io/apiserver/pkg/server/options/admission.go:51",
};

const PLUGIN: Struct = Struct {
    name: "AdmissionPluginConfiguration",
    fields: &[
        ("name", Shape::Text),
        ("path", Shape::Text),
        ("configuration", Shape::Any),
    ],
};

const POD_SECURITY: &str = "PodSecurity";

const POD_SECURITY_KIND: Kind = Kind {
    group: "pod-security.admission.config.k8s.io",
    versions: &["v1", "v1beta1", "v1alpha1"],
    shape: &Struct {
        name: "PodSecurityConfiguration",
        fields: &[
            ("defaults", Shape::Object(&DEFAULTS)),
            ("exemptions", Shape::Object(&EXEMPTIONS)),
        ],
    },
    scheme: "k8s.io/pod-security-admission/admission/api/scheme/scheme.go:31",
};

const DEFAULTS: Struct = Struct {
    name: "PodSecurityDefaults",
    fields: &[
        ("enforce", Shape::Text),
        ("enforce-version", Shape::Text),
        ("audit", Shape::Text),
        ("audit-version", Shape::Text),
        ("warn", Shape::Text),
        ("warn-version", Shape::Text),
    ],
};

const EXEMPTIONS: Struct = Struct {
    name: "PodSecurityExemptions",
    fields: &[
        ("usernames", Shape::Texts),
        ("namespaces", Shape::Texts),
        ("runtimeClasses", Shape::Texts),
    ],
};

impl AdmissionConfiguration {
    /// Parses the configuration. The paths in it are relative to `directory`.
    ///
    /// # Errors
    /// Returns an error with the text of kube-apiserver if the file, or a file that it names, is invalid.
    pub fn parse(text: &str, directory: &FilePath) -> Result<Self, String> {
        let mut configuration = Self::default();
        if text.trim().is_empty() {
            return Ok(configuration);
        }
        let file = KIND.read(text);
        let file = file.map_err(|why| format!("failed to read plugin config: {why}"))?;
        let plugins = file.get("plugins").and_then(Value::as_array);
        for plugin in plugins.into_iter().flatten() {
            let name = object::text(plugin, &["name"]);
            if name != POD_SECURITY {
                configuration.unsupported.push(name.to_owned());
                continue;
            }
            let text = content(plugin, directory)?;
            if !text.trim().is_empty() {
                let read = POD_SECURITY_KIND.read(&text);
                let read = read.map_err(|why| format!("couldn't init admission plugin {name:?}: {why}"))?;
                let read = PodSecurity::read(&read);
                configuration.pod_security =
                    read.map_err(|why| format!("failed to initialize admission plugin {name:?}: {why}"))?;
            }
        }
        Ok(configuration)
    }

    /// Returns the names of plug-ins whose configuration has no effect.
    pub fn unsupported(&self) -> &[String] {
        &self.unsupported
    }
}

/// Returns the configuration in an entry, or in the file that the entry names.
fn content(plugin: &Value, directory: &FilePath) -> Result<String, String> {
    if let Some(inline) = plugin.get("configuration").filter(|inline| !inline.is_null()) {
        return Ok(inline.to_string());
    }
    match object::text(plugin, &["path"]) {
        "" => Ok(String::new()),
        path => {
            let path = directory.join(path);
            let read = std::fs::read_to_string(&path);
            read.map_err(|error| format!("failed to read plugin config: {}: {error}", path.display()))
        }
    }
}

impl PodSecurity {
    fn read(configuration: &Value) -> Result<Self, String> {
        let null = Value::Null;
        let defaults = configuration.get("defaults").unwrap_or(&null);
        let defaults = Policy::parse_defaults(defaults)
            .map_err(|errors| format!("PodSecurity configuration error: {}", joined(&errors)))?;
        let exemptions = configuration.get("exemptions").unwrap_or(&null);
        let texts = |field: &str| -> Vec<String> {
            let texts = exemptions
                .get(field)
                .and_then(Value::as_array)
                .into_iter()
                .flatten();
            texts
                .map(|text| text.as_str().unwrap_or_default().to_owned())
                .collect()
        };
        let read = Self {
            defaults,
            users: texts("usernames"),
            namespaces: texts("namespaces"),
            runtime_classes: texts("runtimeClasses"),
        };
        let errors = read.errors();
        if errors.is_empty() {
            Ok(read)
        } else {
            Err(format!("PodSecurity invalid: {}", strict::join(&errors)))
        }
    }

    fn errors(&self) -> Vec<Error> {
        let mut errors = Vec::new();
        let not_empty = |name: &str| match name {
            "" => vec!["username must not be empty".to_owned()],
            _ => Vec::new(),
        };
        check(&mut errors, "namespaces", &self.namespaces, |name| {
            names::dns1123_label(name)
        });
        check(&mut errors, "runtimeClasses", &self.runtime_classes, |name| {
            names::dns1123_subdomain(name)
        });
        check(&mut errors, "usernames", &self.users, not_empty);
        errors
    }
}

fn check(errors: &mut Vec<Error>, field: &str, list: &[String], faults: impl Fn(&str) -> Vec<String>) {
    let path = Path::new("exemptions").child(field);
    let mut seen = BTreeSet::new();
    for (index, name) in list.iter().enumerate() {
        let faults = faults(name);
        if faults.is_empty() && !seen.insert(name) {
            errors.push(Error::duplicate(path.index(index), &json!(name)));
        }
        for fault in faults {
            errors.push(Error::invalid(path.index(index), json!(name), fault));
        }
    }
}

fn joined(errors: &[String]) -> String {
    match errors {
        [only] => only.clone(),
        _ => format!("[{}]", errors.join(", ")),
    }
}
