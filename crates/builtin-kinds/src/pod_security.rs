//! The Pod Security Standards (`k8s.io/pod-security-admission`): three levels, in versions, and the violations of a pod
//! against each of them.
//!
//! Pure functions of namespace labels and pods.

mod check;

use std::fmt;

use apimachinery::field::{Error, ErrorList, Path};
use serde_json::Value;

use crate::tree::{at, text};

/// The level of a standard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Allows everything.
    Privileged,
    /// Rejects known privilege escalations.
    Baseline,
    /// Allows only pods that follow the current hardening practices.
    Restricted,
}

/// The minor version of Kubernetes that defines the standard; `None` is the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version(Option<u32>);

/// A standard: a level in a version, such as `restricted:latest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standard {
    /// The level.
    pub level: Level,
    version: Version,
}

/// The standards of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The standard whose violations are rejected.
    pub enforce: Standard,
    /// The standard whose violations are recorded in the audit log.
    pub audit: Standard,
    /// The standard whose violations cause a warning.
    pub warn: Standard,
}

impl Default for Policy {
    /// Returns a policy without restrictions.
    fn default() -> Self {
        let standard = Standard {
            level: Level::Privileged,
            version: Version(None),
        };
        Self {
            enforce: standard,
            audit: standard,
            warn: standard,
        }
    }
}

const PREFIX: &str = "pod-security.kubernetes.io/";

impl Policy {
    /// Returns the standards in the labels of a namespace, and the errors of the labels. Missing labels impose no
    /// restriction.
    pub fn of(namespace: &Value) -> (Self, ErrorList) {
        Self::with_defaults(namespace, &Self::default())
    }

    /// Parses the `defaults` of a PodSecurityConfiguration.
    ///
    /// # Errors
    /// Returns the errors of its levels and versions.
    pub fn parse_defaults(defaults: &Value) -> Result<Self, Vec<String>> {
        let mut errors = Vec::new();
        let mut standard = |mode: &str| {
            let given = |field: &str, default: &'static str| {
                let text = defaults.get(field).and_then(Value::as_str).unwrap_or_default();
                if text.is_empty() {
                    default.to_owned()
                } else {
                    text.to_owned()
                }
            };
            let version_field = format!("{mode}-version");
            let level = Level::parse(&given(mode, "privileged"));
            let version = Version::parse(&given(&version_field, "latest"));
            for (field, why) in [(mode, level.err()), (&version_field, version.err())] {
                errors.extend(why.map(|why| format!("{field}: {why}")));
            }
            Standard {
                level: level.unwrap_or(Level::Privileged),
                version: version.unwrap_or(Version(None)),
            }
        };
        let policy = Self {
            enforce: standard("enforce"),
            audit: standard("audit"),
            warn: standard("warn"),
        };
        if errors.is_empty() {
            Ok(policy)
        } else {
            Err(errors)
        }
    }

    /// Like [`of`](Self::of), with default standards for missing labels.
    pub fn with_defaults(namespace: &Value, defaults: &Self) -> (Self, ErrorList) {
        let mut errors = ErrorList::new();
        let labels = at(namespace, &["metadata", "labels"]);
        let mut standard = |mode: &str, default: Standard| {
            let (level, level_label) = (Level::parse, format!("{PREFIX}{mode}"));
            // An invalid label for warnings or audit imposes no restriction.
            let fallback = if mode == "enforce" {
                Level::Restricted
            } else {
                Level::Privileged
            };
            let level = parsed(
                labels,
                &level_label,
                level,
                (default.level, fallback),
                &mut errors,
            );
            let versions = (default.version, Version(None));
            let label = format!("{PREFIX}{mode}-version");
            let version = parsed(labels, &label, Version::parse, versions, &mut errors);
            Standard { level, version }
        };
        let mut policy = Self {
            enforce: standard("enforce", defaults.enforce),
            audit: standard("audit", defaults.audit),
            warn: standard("warn", defaults.warn),
        };
        // Templates are not rejected. Without a level for warnings, the enforced level is used, because their pods will
        // be rejected.
        let label = |mode: &str| labels.get(format!("{PREFIX}{mode}")).and_then(Value::as_str);
        let is_enforced = label("enforce").is_some_and(|level| Level::parse(level).is_ok());
        if label("warn").is_none() && is_enforced && policy.enforce.level > policy.warn.level {
            policy.warn.level = policy.enforce.level;
            if label("warn-version").is_none() {
                policy.warn.version = policy.enforce.version;
            }
        }
        (policy, errors)
    }
}

/// Parses a label; returns the first default if the label is missing, and the second one and an error if it is invalid.
fn parsed<T>(
    labels: &Value,
    label: &str,
    parse: impl Fn(&str) -> Result<T, &'static str>,
    (missing, bad): (T, T),
    errors: &mut ErrorList,
) -> T {
    let Some(value) = labels.get(label).and_then(Value::as_str) else {
        return missing;
    };
    parse(value).unwrap_or_else(|why| {
        let path = Path::new("metadata").child("labels").key(label);
        errors.push(Error::invalid(path, value.into(), why));
        bad
    })
}

impl Level {
    fn parse(text: &str) -> Result<Self, &'static str> {
        match text {
            "privileged" => Ok(Self::Privileged),
            "baseline" => Ok(Self::Baseline),
            "restricted" => Ok(Self::Restricted),
            _ => Err("must be one of privileged, baseline, restricted"),
        }
    }
}

impl Version {
    fn parse(text: &str) -> Result<Self, &'static str> {
        if text == "latest" {
            return Ok(Self(None));
        }
        let minor = text.strip_prefix("v1.").filter(|minor| {
            let is_number = !minor.is_empty() && minor.bytes().all(|byte| byte.is_ascii_digit());
            is_number && (*minor == "0" || !minor.starts_with('0'))
        });
        let minor = minor.and_then(|minor| minor.parse().ok());
        minor
            .map(|minor| Self(Some(minor)))
            .ok_or("must be \"latest\" or \"v1.x\"")
    }

    /// Returns true if a rule that was added in a minor version is part of the standard.
    fn includes(self, minor: u32) -> bool {
        self.0.is_none_or(|own| own >= minor)
    }
}

impl Standard {
    /// Returns true if another standard is at least as strict in the same version.
    pub fn is_within(&self, other: &Self) -> bool {
        self.version == other.version && self.level <= other.level
    }
}

impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        };
        match self.version.0 {
            Some(minor) => write!(f, "{level}:v1.{minor}"),
            None => write!(f, "{level}:latest"),
        }
    }
}

/// A violation of a standard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    reason: &'static str,
    detail: String,
}

/// Returns the violations of a standard by a pod or a pod template.
pub fn violations(standard: Standard, pod: &Value) -> Vec<Violation> {
    check::all(standard.level, |minor| standard.version.includes(minor), pod)
}

/// Formats violations with details: `hostPath volumes (volume "a"), privileged (container "c" must not …)`.
pub fn details(violations: &[Violation]) -> String {
    let texts = violations
        .iter()
        .map(|violation| match violation.detail.as_str() {
            "" => violation.reason.to_owned(),
            detail => format!("{} ({detail})", violation.reason),
        });
    texts.collect::<Vec<String>>().join(", ")
}

/// Formats violations without details: `hostPath volumes, privileged`.
pub fn reasons(violations: &[Violation]) -> String {
    let reasons: Vec<&str> = violations.iter().map(|violation| violation.reason).collect();
    reasons.join(", ")
}

/// Returns the warnings about existing pods when the standard of their namespace becomes stricter: one warning for all
/// pods with the same violations.
pub fn existing<'a>(
    namespace: &str,
    standard: Standard,
    pods: impl Iterator<Item = &'a Value>,
) -> Vec<String> {
    let mut by_reason: std::collections::BTreeMap<String, Vec<&str>> = std::collections::BTreeMap::new();
    for pod in pods {
        let violations = violations(standard, pod);
        if !violations.is_empty() {
            let name = text(pod, &["metadata", "name"]);
            by_reason.entry(reasons(&violations)).or_default().push(name);
        }
    }
    if by_reason.is_empty() {
        return Vec::new();
    }
    let mut lines: Vec<String> = by_reason
        .into_iter()
        .map(|(reasons, pods)| {
            let first = pods.iter().min().copied().unwrap_or_default();
            match pods.len() {
                1 => format!("{first}: {reasons}"),
                2 => format!("{first} (and 1 other pod): {reasons}"),
                count => format!("{first} (and {} other pods): {reasons}", count - 1),
            }
        })
        .collect();
    lines.sort();
    lines.insert(
        0,
        format!(
            "existing pods in namespace {namespace:?} violate the new PodSecurity enforce level \"{standard}\""
        ),
    );
    lines
}

#[cfg(test)]
mod tests;
