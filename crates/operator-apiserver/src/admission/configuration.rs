//! The configuration of plug-ins: the file of `--admission-control-config-file`.

use std::collections::BTreeSet;
use std::path::Path as FilePath;
use std::time::Duration;

use apimachinery::field::{Error, ErrorList, Path};
use apimachinery::{names, object};
use builtin_kinds::pod_security::Policy;
use builtin_kinds::quota::LimitedResource;
use serde_json::{Value, json};

use crate::identity::strict::{self, Kind, Shape, Struct};
use crate::webhook_client::{WebhookClient, WebhookCredentials};

/// The configuration of admission plug-ins: PodSecurity, ResourceQuota, EventRateLimit, ImagePolicyWebhook, and the
/// credentials for the webhooks of MutatingAdmissionWebhook and ValidatingAdmissionWebhook.
#[derive(Clone, Debug, Default)]
pub struct AdmissionConfiguration {
    pub(crate) pod_security: PodSecurity,
    /// The resources that need a quota that covers them.
    pub(crate) limited_resources: Vec<LimitedResource>,
    pub(crate) event_limits: Vec<EventLimit>,
    pub(crate) image_policy: Option<ImagePolicy>,
    pub(crate) mutating_credentials: WebhookCredentials,
    pub(crate) validating_credentials: WebhookCredentials,
    unsupported: Vec<String>,
}

/// One of the limits of events.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EventLimit {
    /// `Server`, `Namespace`, `User` or `SourceAndObject`.
    pub(crate) scope: String,
    pub(crate) qps: f64,
    pub(crate) burst: u32,
    /// The maximum number of keys with a state of their own.
    pub(crate) keys_max: usize,
}

/// The webhook that reviews the images of pods.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ImagePolicy {
    pub(crate) kubeconfig: String,
    pub(crate) allow_ttl: Duration,
    pub(crate) deny_ttl: Duration,
    /// True to allow pods that cannot be reviewed.
    pub(crate) default_allow: bool,
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

/// The plug-ins whose configuration has an effect.
const CONFIGURABLE: [&str; 6] = [
    "EventRateLimit",
    "ImagePolicyWebhook",
    "MutatingAdmissionWebhook",
    POD_SECURITY,
    "ResourceQuota",
    "ValidatingAdmissionWebhook",
];

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

const QUOTA_KIND: Kind = Kind {
    group: "apiserver.config.k8s.io",
    versions: &["v1"],
    shape: &Struct {
        name: "ResourceQuotaConfiguration",
        fields: &[("limitedResources", Shape::List(&LIMITED_RESOURCE))],
    },
    scheme: "k8s.io/kubernetes/plugin/pkg/admission/resourcequota/config.go",
};

const LIMITED_RESOURCE: Struct = Struct {
    name: "LimitedResource",
    fields: &[
        ("apiGroup", Shape::Text),
        ("resource", Shape::Text),
        ("matchContains", Shape::Texts),
        ("matchScopes", Shape::List(&SCOPE)),
    ],
};

const SCOPE: Struct = Struct {
    name: "ScopedResourceSelectorRequirement",
    fields: &[
        ("scopeName", Shape::Text),
        ("operator", Shape::Text),
        ("values", Shape::Texts),
    ],
};

const EVENT_RATE_KIND: Kind = Kind {
    group: "eventratelimit.admission.k8s.io",
    versions: &["v1alpha1"],
    shape: &Struct {
        name: "Configuration",
        fields: &[("limits", Shape::List(&EVENT_LIMIT))],
    },
    scheme: "k8s.io/kubernetes/plugin/pkg/admission/eventratelimit/config.go",
};

const EVENT_LIMIT: Struct = Struct {
    name: "Limit",
    fields: &[
        ("type", Shape::Text),
        ("qps", Shape::Any),
        ("burst", Shape::Any),
        ("cacheSize", Shape::Any),
    ],
};

const WEBHOOK_KIND: Kind = Kind {
    group: "apiserver.config.k8s.io",
    versions: &["v1"],
    shape: &Struct {
        name: "WebhookAdmissionConfiguration",
        fields: &[("kubeConfigFile", Shape::Text)],
    },
    scheme: "k8s.io/apiserver/pkg/admission/plugin/webhook/config/kubeconfig.go",
};

/// Reads the resources that need a quota.
fn limited_resources(configuration: &Value) -> Result<Vec<LimitedResource>, String> {
    let list = configuration.get("limitedResources").and_then(Value::as_array);
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    for (index, limited) in list.into_iter().flatten().enumerate() {
        if object::text(limited, &["resource"]).is_empty() {
            let path = Path::new("limitedResources").index(index).child("resource");
            errors.push(Error::required(path, ""));
        }
        found.push(LimitedResource::read(limited));
    }
    match errors.is_empty() {
        true => Ok(found),
        false => Err(strict::join(&errors)),
    }
}

/// The number of keys of a limit that does not set it.
const KEYS_MAX: u64 = 4096;

fn event_limits(configuration: &Value) -> Result<Vec<EventLimit>, String> {
    const TYPES: [&str; 4] = ["Namespace", "Server", "SourceAndObject", "User"];
    let list = configuration.get("limits").and_then(Value::as_array);
    let list = list.map_or(&[] as &[Value], Vec::as_slice);
    let path = Path::new("limits");
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    if list.is_empty() {
        errors.push(Error::required(path.clone(), "must provide at least one limit"));
    }
    for (index, limit) in list.iter().enumerate() {
        let path = path.index(index);
        let number = |field: &str| limit.get(field).and_then(Value::as_i64).unwrap_or(0);
        let scope = object::text(limit, &["type"]);
        if !TYPES.contains(&scope) {
            errors.push(Error::not_supported(path.child("type"), &json!(scope), &TYPES));
        }
        for field in ["burst", "qps"] {
            if number(field) <= 0 {
                let why = "must be positive";
                errors.push(Error::invalid(path.child(field), number(field).into(), why));
            }
        }
        if number("cacheSize") < 0 {
            let why = "must not be negative";
            errors.push(Error::invalid(
                path.child("cacheSize"),
                number("cacheSize").into(),
                why,
            ));
        }
        let keys = u64::try_from(number("cacheSize")).unwrap_or(0);
        let keys = if keys == 0 { KEYS_MAX } else { keys.min(1 << 20) };
        found.push(EventLimit {
            scope: scope.to_owned(),
            qps: f64::from(u32::try_from(number("qps")).unwrap_or(u32::MAX)),
            burst: u32::try_from(number("burst")).unwrap_or(u32::MAX),
            keys_max: usize::try_from(keys).unwrap_or(usize::MAX),
        });
    }
    match errors.is_empty() {
        true => Ok(found),
        false => Err(strict::join(&errors)),
    }
}

/// Reads the configuration of ImagePolicyWebhook, which has no kind.
fn image_policy(text: &str) -> Result<ImagePolicy, String> {
    let configuration = apimachinery::yaml::parse(text)?.value;
    let policy = configuration.get("imagePolicy").unwrap_or(&Value::Null);
    let path = object::text(policy, &["kubeConfigFile"]);
    if path.is_empty() {
        return Err("imagePolicy.kubeConfigFile: Required value".to_owned());
    }
    // As in kube-apiserver, zero is the default, and a negative number disables the cache.
    let seconds = |field: &str, default: u64| match policy.get(field).and_then(Value::as_i64).unwrap_or(0) {
        0 => Ok(Duration::from_secs(default)),
        seconds @ 1..=1800 => Ok(Duration::from_secs(seconds.unsigned_abs())),
        seconds if seconds < 0 => Ok(Duration::ZERO),
        seconds => Err(format!("valid value is between 1s and 30m0s, got {seconds}s")),
    };
    let kubeconfig = read_file(FilePath::new(path))?;
    WebhookClient::from_kubeconfig(&kubeconfig)?;
    Ok(ImagePolicy {
        kubeconfig,
        allow_ttl: seconds("allowTTL", 300)?,
        deny_ttl: seconds("denyTTL", 30)?,
        default_allow: policy.get("defaultAllow") == Some(&Value::Bool(true)),
    })
}

fn credentials(text: &str) -> Result<WebhookCredentials, String> {
    let configuration = WEBHOOK_KIND.read(text)?;
    match object::text(&configuration, &["kubeConfigFile"]) {
        "" => Ok(WebhookCredentials::default()),
        path if !path.starts_with('/') => {
            let error = Error::invalid(
                Path::new("kubeConfigFile"),
                path.into(),
                "must be an absolute file path",
            );
            Err(error.to_string())
        }
        path => WebhookCredentials::read(&read_file(FilePath::new(path))?),
    }
}

fn read_file(path: &FilePath) -> Result<String, String> {
    let read = std::fs::read_to_string(path);
    read.map_err(|error| format!("cannot read {}: {error}", path.display()))
}

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
            if !CONFIGURABLE.contains(&name) {
                configuration.unsupported.push(name.to_owned());
                continue;
            }
            let text = content(plugin, directory)?;
            if !text.trim().is_empty() {
                configuration.read_plugin(name, &text)?;
            }
        }
        Ok(configuration)
    }

    fn read_plugin(&mut self, name: &str, text: &str) -> Result<(), String> {
        let unreadable = |why| format!("couldn't init admission plugin {name:?}: {why}");
        let invalid = |why| format!("failed to initialize admission plugin {name:?}: {why}");
        match name {
            POD_SECURITY => {
                let read = POD_SECURITY_KIND.read(text).map_err(unreadable)?;
                self.pod_security = PodSecurity::read(&read).map_err(invalid)?;
            }
            "ResourceQuota" => {
                let read = QUOTA_KIND.read(text).map_err(unreadable)?;
                self.limited_resources = limited_resources(&read).map_err(unreadable)?;
            }
            "EventRateLimit" => {
                let read = EVENT_RATE_KIND.read(text).map_err(unreadable)?;
                self.event_limits = event_limits(&read).map_err(unreadable)?;
            }
            "ImagePolicyWebhook" => self.image_policy = Some(image_policy(text).map_err(unreadable)?),
            "MutatingAdmissionWebhook" => {
                self.mutating_credentials = credentials(text).map_err(unreadable)?;
            }
            "ValidatingAdmissionWebhook" => {
                self.validating_credentials = credentials(text).map_err(unreadable)?;
            }
            _ => {}
        }
        Ok(())
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

    fn errors(&self) -> ErrorList {
        let mut errors = ErrorList::new();
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

fn check(errors: &mut ErrorList, field: &str, list: &[String], faults: impl Fn(&str) -> Vec<String>) {
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
