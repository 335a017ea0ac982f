//! The selection of served built-in APIs (`--runtime-config`): [`RuntimeConfig`].

use std::collections::BTreeMap;

use super::{beta_catalog, builtin_catalog};
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

    /// Returns true if exactly the generally available APIs are served.
    pub(crate) fn is_default(&self) -> bool {
        let is_beta = |key: &str| {
            matches!(key, "api/all" | "api/beta") || {
                let mut parts = key.split('/');
                let (group, version) = (parts.next(), parts.next());
                group
                    .zip(version)
                    .is_some_and(|(group, version)| beta_catalog().has_version(group, version))
            }
        };
        self.settings.iter().all(|(key, is_on)| *is_on != is_beta(key))
    }

    /// Returns true if a resource is served. Those of beta versions are off by default.
    pub(super) fn enables(&self, group: &str, version: &str, resource: &str) -> bool {
        let api = super::api_version(group, version);
        let is_beta = beta_catalog().has_version(group, version);
        let level = if is_beta { "api/beta" } else { "api/ga" };
        let keys = [format!("{api}/{resource}"), api, level.into(), "api/all".into()];
        keys.iter()
            .find_map(|key| self.settings.get(key).copied())
            .unwrap_or(!is_beta)
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
    let beta = UNSERVED.contains(&(group, version)) || beta_catalog().has_version(group, version);
    if !beta && !catalog.has_group(group) {
        return Err(format!("unknown api groups {key}"));
    }
    if !beta && !catalog.has_version(group, version) {
        return Err(format!("group version {key} that has not been registered"));
    }
    let is_unserved = match parts.as_slice() {
        [_, _, resource] if beta => beta_catalog().find(group, version, resource).is_none(),
        _ => UNSERVED.contains(&(group, version)),
    };
    if is_unserved && is_on {
        return Err(format!(
            "{key} is not supported: this server does not have the API"
        ));
    }
    Ok(())
}

/// The group versions of kube-apiserver 1.36 that are off by default and do not exist here.
const UNSERVED: [(&str, &str); 9] = [
    ("admissionregistration.k8s.io", "v1alpha1"),
    ("certificates.k8s.io", "v1alpha1"),
    ("certificates.k8s.io", "v1beta1"),
    ("coordination.k8s.io", "v1alpha2"),
    ("coordination.k8s.io", "v1beta1"),
    ("internal.apiserver.k8s.io", "v1alpha1"),
    ("resource.k8s.io", "v1alpha3"),
    ("scheduling.k8s.io", "v1alpha2"),
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
        let with_beta = RuntimeConfig::parse(["api/ga=true", "api/beta=true"]).unwrap();
        assert!(!with_beta.is_default());
        assert!(with_beta.enables("networking.k8s.io", "v1beta1", "servicecidrs"));
        for same in [
            &[][..],
            &["api/ga", "api/beta=false", "networking.k8s.io/v1beta1=false"],
        ] {
            let same = RuntimeConfig::parse(same.iter().copied()).unwrap();
            assert!(same.is_default());
            assert!(!same.enables("networking.k8s.io", "v1beta1", "servicecidrs"));
        }
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
        assert!(RuntimeConfig::parse(["networking.k8s.io/v1beta1=true"]).is_ok());
        assert!(RuntimeConfig::parse(["resource.k8s.io/v1beta1=true"]).is_ok());
        assert!(RuntimeConfig::parse(["resource.k8s.io/v1alpha3=true"]).is_err());
        assert!(RuntimeConfig::parse(["resource.k8s.io/v1beta2/devicetaintrules=true"]).is_err());
    }
}
