//! The feature gates of kube-apiserver 1.36 (`--feature-gates`).

use std::collections::BTreeSet;
use std::sync::LazyLock;

/// The gates: name, stage, default, and `locked` if the default cannot be changed.
const GATES: &str = include_str!("feature-gates-1.36.txt");

/// The state of the feature gates.
///
/// Those that change a response of this server are `APIResponseCompression`,
/// `AuthorizePodWebsocketUpgradeCreatePermission`, `ComponentFlagz`, `ComponentStatusz`, `StorageVersionHash`,
/// `TokenRequestServiceAccountUIDValidation` and `WatchList`. All others are accepted without effect.
///
/// ```
/// # use operator_apiserver::FeatureGates;
/// let gates = FeatureGates::parse(["WatchList=false"])?;
/// assert!(!gates.is_enabled("WatchList"));
/// assert!(FeatureGates::parse(["NoSuchGate=true"]).is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureGates {
    enabled: BTreeSet<&'static str>,
}

impl Default for FeatureGates {
    /// Returns the defaults of Kubernetes 1.36.
    fn default() -> Self {
        static ON: LazyLock<BTreeSet<&str>> = LazyLock::new(|| {
            let on = gates().filter(|gate| gate.is_on);
            on.map(|gate| gate.name).collect()
        });
        Self { enabled: ON.clone() }
    }
}

struct Gate {
    name: &'static str,
    stage: &'static str,
    is_on: bool,
    is_locked: bool,
}

fn gates() -> impl Iterator<Item = Gate> {
    GATES.lines().filter_map(|line| {
        let mut words = line.split(' ');
        Some(Gate {
            name: words.next()?,
            stage: words.next()?,
            is_on: words.next()? == "on",
            is_locked: words.next().is_some(),
        })
    })
}

impl FeatureGates {
    /// Changes the defaults by a list of `NAME=true` and `NAME=false`. `AllAlpha` and `AllBeta` set all gates of their
    /// stage that are not in the list.
    ///
    /// # Errors
    /// A gate is unknown, cannot be changed, or has another value.
    pub fn parse<'a>(settings: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut gates = Self::default();
        let mut named = Vec::new();
        for setting in settings {
            let setting = setting.strip_prefix("kube:").unwrap_or(setting);
            let (name, value) = setting
                .split_once('=')
                .ok_or_else(|| format!("missing bool value for {setting}"))?;
            let (name, value) = (name.trim(), value.trim());
            let is_on = parse_bool(value).ok_or_else(|| {
                format!("invalid value of {name}={value}, err: strconv.ParseBool: parsing {value:?}: invalid syntax")
            })?;
            match name {
                "AllAlpha" => gates.set_stage("alpha", is_on),
                "AllBeta" => gates.set_stage("beta", is_on),
                _ => named.push((name, is_on)),
            }
        }
        for (name, is_on) in named {
            gates.set(name, is_on)?;
        }
        Ok(gates)
    }

    fn set_stage(&mut self, stage: &str, is_on: bool) {
        for gate in gates().filter(|gate| gate.stage == stage && !gate.is_locked) {
            self.put(gate.name, is_on);
        }
    }

    fn set(&mut self, name: &str, is_on: bool) -> Result<(), String> {
        let gate = gates()
            .find(|gate| gate.name == name)
            .ok_or_else(|| format!("unrecognized feature gate: {name}"))?;
        if gate.is_locked && gate.is_on != is_on {
            let locked = gate.is_on;
            return Err(format!(
                "cannot set feature gate {name} to {is_on}, feature is locked to {locked}"
            ));
        }
        self.put(gate.name, is_on);
        Ok(())
    }

    fn put(&mut self, name: &'static str, is_on: bool) {
        if is_on {
            self.enabled.insert(name);
        } else {
            self.enabled.remove(name);
        }
    }

    /// Returns true if a gate is on.
    pub fn is_enabled(&self, name: &str) -> bool {
        self.enabled.contains(name)
    }
}

/// Parses a boolean in one of Go's spellings.
pub(crate) fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_refused_as_by_a_real_server() {
        let cases = [
            ("Foo=true", "unrecognized feature gate: Foo"),
            ("Foo", "missing bool value for Foo"),
            (
                "WatchList=x",
                "invalid value of WatchList=x, err: strconv.ParseBool: parsing \"x\": invalid syntax",
            ),
            (
                "UserNamespacesSupport=false",
                "cannot set feature gate UserNamespacesSupport to false, feature is locked to true",
            ),
        ];
        for (setting, why) in cases {
            assert_eq!(FeatureGates::parse([setting]), Err(why.to_owned()));
        }
        let locked = FeatureGates::parse(["UserNamespacesSupport=true"]);
        assert_eq!(locked, Ok(FeatureGates::default()));
    }

    #[test]
    fn a_named_gate_wins_against_its_stage() {
        let gates =
            FeatureGates::parse(["WatchList=true", "AllBeta=false", "kube:ComponentFlagz=1"]).unwrap();
        assert!(gates.is_enabled("WatchList") && gates.is_enabled("ComponentFlagz"));
        assert!(!gates.is_enabled("ComponentStatusz"));
        let gates = FeatureGates::parse(["AllAlpha=true"]).unwrap();
        assert!(gates.is_enabled("GangScheduling") && gates.is_enabled("WatchList"));
    }

    #[test]
    fn the_gates_that_have_an_effect_exist() {
        let defaults = FeatureGates::default();
        for name in [
            "APIResponseCompression",
            "AuthorizePodWebsocketUpgradeCreatePermission",
            "ComponentFlagz",
            "ComponentStatusz",
            "StorageVersionHash",
            "TokenRequestServiceAccountUIDValidation",
            "WatchList",
        ] {
            assert!(defaults.is_enabled(name), "{name}");
        }
    }
}
