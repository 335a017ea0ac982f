//! The selection of served built-in APIs (`--runtime-config`): [`RuntimeConfig`].

use std::collections::BTreeMap;

use super::builtin_catalog;
use crate::features::parse_bool;

/// A selection of the built-in APIs.
///
/// ```
/// # use operator_apiserver::RuntimeConfig;
/// let config = RuntimeConfig::parse(["autoscaling/v1=false", "apps/v1/deployments=false"])?;
/// assert!(RuntimeConfig::parse(["apps/v9=true"]).is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeConfig {
    /// The settings by `api/all`, `api/ga`, `GROUP/VERSION` or `GROUP/VERSION/RESOURCE`; the core group is `v1`.
    settings: BTreeMap<String, bool>,
}

impl RuntimeConfig {
    /// Parses a list of `KEY=true`, `KEY=false` and `KEY`: `api/all`, `api/ga`, `api/beta`, `api/alpha`, a group version
    /// (`batch/v1`, or `v1` of the core group), or one of its resources.
    ///
    /// # Errors
    /// Returns an error if a key or a value is invalid, or an API that this server does not have is enabled by name.
    pub fn parse<'a>(settings: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut config = Self::default();
        for setting in settings {
            let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
            let (key, value) = (key.trim(), value.trim());
            let is_on = match value {
                "" => true,
                _ => parse_bool(value).ok_or_else(|| invalid(key, value))?,
            };
            check(key, is_on)?;
            config.settings.insert(key.to_owned(), is_on);
        }
        Ok(config)
    }

    /// Returns true if nothing is disabled.
    pub(crate) fn is_default(&self) -> bool {
        self.settings.values().all(|is_on| *is_on)
    }

    /// Returns true if a resource is served. All built-in resources are generally available.
    pub(super) fn enables(&self, group: &str, version: &str, resource: &str) -> bool {
        let api = super::api_version(group, version);
        let keys = [
            format!("{api}/{resource}"),
            api,
            "api/ga".into(),
            "api/all".into(),
        ];
        keys.iter()
            .find_map(|key| self.settings.get(key).copied())
            .unwrap_or(true)
    }
}

fn invalid(key: &str, value: &str) -> String {
    if key == "api/all" {
        return format!("invalid value {key}={value}");
    }
    format!("invalid value of {key}: {value}, err: strconv.ParseBool: parsing {value:?}: invalid syntax")
}

fn check(key: &str, is_on: bool) -> Result<(), String> {
    if matches!(
        key,
        "v1" | "api/all" | "api/ga" | "api/beta" | "api/alpha" | "api/legacy"
    ) {
        return Ok(());
    }
    let parts: Vec<&str> = key.split('/').collect();
    let (group, version) = match parts.as_slice() {
        ["v1", _] => ("", "v1"),
        [group, version] | [group, version, _] => (*group, *version),
        _ => return Err(format!("runtime-config invalid key {key}")),
    };
    let catalog = builtin_catalog();
    let beta = BETA.contains(&(group, version));
    if !beta && !catalog.has_group(group) {
        return Err(format!("unknown api groups {key}"));
    }
    if !beta && !catalog.has_version(group, version) {
        return Err(format!("group version {key} that has not been registered"));
    }
    if beta && is_on {
        return Err(format!(
            "{key} is not supported: only generally available APIs are served"
        ));
    }
    Ok(())
}

/// The group versions of kube-apiserver 1.36 that are off by default, and not supported here.
const BETA: [(&str, &str); 14] = [
    ("admissionregistration.k8s.io", "v1alpha1"),
    ("admissionregistration.k8s.io", "v1beta1"),
    ("certificates.k8s.io", "v1alpha1"),
    ("certificates.k8s.io", "v1beta1"),
    ("coordination.k8s.io", "v1alpha2"),
    ("coordination.k8s.io", "v1beta1"),
    ("internal.apiserver.k8s.io", "v1alpha1"),
    ("networking.k8s.io", "v1beta1"),
    ("resource.k8s.io", "v1alpha3"),
    ("resource.k8s.io", "v1beta1"),
    ("resource.k8s.io", "v1beta2"),
    ("scheduling.k8s.io", "v1alpha2"),
    ("storage.k8s.io", "v1beta1"),
    ("storagemigration.k8s.io", "v1beta1"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_setting_decides() {
        let config = RuntimeConfig::parse([
            "api/ga=false",
            "apps/v1",
            "apps/v1/deployments=false",
            "api/all=true",
            "v1=true",
        ])
        .unwrap();
        assert!(!config.is_default());
        let cases = [
            ("", "v1", "pods", true),
            ("apps", "v1", "deployments", false),
            ("apps", "v1", "daemonsets", true),
            ("batch", "v1", "jobs", false),
        ];
        for (group, version, resource, is_on) in cases {
            assert_eq!(config.enables(group, version, resource), is_on, "{resource}");
        }
        assert!(
            RuntimeConfig::parse(["api/all=true", "api/beta=true"])
                .unwrap()
                .is_default()
        );
        assert!(
            !RuntimeConfig::parse(["api/all=false"])
                .unwrap()
                .enables("apps", "v1", "deployments")
        );
    }

    #[test]
    fn settings_are_refused_as_by_a_real_server() {
        let cases = [
            ("x", "runtime-config invalid key x"),
            ("a/b/c/d=true", "runtime-config invalid key a/b/c/d"),
            ("foo/v1=true", "unknown api groups foo/v1"),
            ("api/foo=true", "unknown api groups api/foo"),
            (
                "policy/v9=true",
                "group version policy/v9 that has not been registered",
            ),
            ("api/all=maybe", "invalid value api/all=maybe"),
        ];
        for (setting, why) in cases {
            assert_eq!(RuntimeConfig::parse([setting]), Err(why.to_owned()));
        }
        assert!(RuntimeConfig::parse(["networking.k8s.io/v1beta1=false"]).is_ok());
        assert!(RuntimeConfig::parse(["networking.k8s.io/v1beta1=true"]).is_err());
    }
}
