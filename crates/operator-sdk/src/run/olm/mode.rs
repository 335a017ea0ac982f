//! Install modes: matches the flag with the operator's modes, and determines the target namespaces.

use serde_json::Value;

use super::OlmError;
use crate::process::objects::text;

const MODES: [&str; 4] = [
    "AllNamespaces",
    "OwnNamespace",
    "SingleNamespace",
    "MultiNamespace",
];

/// An install mode with its target namespaces. An empty list means all namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InstallMode {
    pub(super) name: String,
    pub(super) targets: Vec<String>,
}

/// Returns the install mode for a flag, or the default.
pub(super) fn install_mode(
    flag: Option<&str>,
    csv: &Value,
    namespace: &str,
) -> Result<InstallMode, OlmError> {
    let csv_name = text(csv, "/metadata/name");
    let modes = csv.pointer("/spec/installModes").and_then(Value::as_array);
    let supports = |name: &str| {
        let mut modes = modes.into_iter().flatten();
        modes.any(|mode| mode["type"] == name && mode["supported"] == true)
    };
    let own = vec![namespace.to_owned()];
    let refused = |message: String| Err(OlmError::Mode(message));
    if !MODES.iter().any(|mode| supports(mode)) {
        return refused(format!(
            "operator {csv_name:?} is not installable: no supported install modes"
        ));
    }
    let mode = |name: &str, targets: Vec<String>| InstallMode {
        name: name.to_owned(),
        targets,
    };
    let Some(flag) = flag else {
        if supports("AllNamespaces") {
            return Ok(mode("AllNamespaces", Vec::new()));
        }
        if supports("OwnNamespace") {
            return Ok(mode("OwnNamespace", own));
        }
        return refused(format!(
            "operator {csv_name:?} supports only install modes that need target namespaces"
        ));
    };
    let (name, targets) = flag.split_once('=').unwrap_or((flag, ""));
    let targets: Vec<String> = targets
        .split(',')
        .filter(|target| !target.is_empty())
        .map(str::to_owned)
        .collect();
    if name.is_empty() {
        return refused("target namespaces defined without type".to_owned());
    }
    if !MODES.contains(&name) {
        return refused("unknown install mode type".to_owned());
    }
    let is_label = |target: &String| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        target.len() <= 63 && target.bytes().all(inner) && !target.starts_with('-') && !target.ends_with('-')
    };
    if let Some(target) = targets.iter().find(|target| !is_label(target)) {
        return refused(format!(
            "invalid target namespace {target:?}: it must be a lowercase DNS label"
        ));
    }
    match (name, targets.as_slice()) {
        ("AllNamespaces", [_, ..]) => {
            return refused(format!("install mode {name:?} must have zero target namespaces"));
        }
        ("OwnNamespace", [target]) if target == namespace => {}
        ("OwnNamespace", [_, ..]) => {
            return refused(format!("install mode {name:?} must have zero target namespaces"));
        }
        ("SingleNamespace", [target]) if target == namespace => {
            return refused(format!(
                "use install mode \"OwnNamespace\" to watch operator's namespace {namespace:?}"
            ));
        }
        ("SingleNamespace", [_]) => {}
        ("SingleNamespace", _) => {
            return refused(format!(
                "install mode {name:?} must have exactly one target namespace"
            ));
        }
        ("MultiNamespace", []) => {
            return refused(format!(
                "install mode {name:?} must have at least one target namespace"
            ));
        }
        _ => {}
    }
    if !supports(name) {
        return refused(format!(
            "install mode type {name:?} not supported in CSV {csv_name:?}"
        ));
    }
    Ok(mode(name, if name == "OwnNamespace" { own } else { targets }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A flag, the supported modes, and the targets or a part of the error.
    type Case<'a> = (Option<&'a str>, &'a [&'a str], Result<&'a [&'a str], &'a str>);

    #[test]
    fn modes_and_targets_fit_the_operator() {
        let csv = |supported: &[&str]| {
            let modes: Vec<Value> = MODES
                .iter()
                .map(|mode| json!({"type": mode, "supported": supported.contains(mode)}))
                .collect();
            json!({"metadata": {"name": "op.v1"}, "spec": {"installModes": modes}})
        };
        let cases: [Case<'_>; 12] = [
            (None, &["AllNamespaces", "OwnNamespace"], Ok(&[])),
            (None, &["OwnNamespace"], Ok(&["ns"])),
            (None, &["MultiNamespace"], Err("target namespaces")),
            (None, &[], Err("no supported install modes")),
            (
                Some("AllNamespaces"),
                &["OwnNamespace"],
                Err("not supported in CSV \"op.v1\""),
            ),
            (
                Some("AllNamespaces=a"),
                &MODES,
                Err("must have zero target namespaces"),
            ),
            (Some("OwnNamespace"), &MODES, Ok(&["ns"])),
            (
                Some("SingleNamespace=ns"),
                &MODES,
                Err("use install mode \"OwnNamespace\""),
            ),
            (
                Some("SingleNamespace"),
                &MODES,
                Err("exactly one target namespace"),
            ),
            (Some("MultiNamespace=a,b"), &MODES, Ok(&["a", "b"])),
            (Some("MultiNamespace=A"), &MODES, Err("invalid target namespace")),
            (Some("Every"), &MODES, Err("unknown install mode type")),
        ];
        for (flag, supported, expected) in cases {
            match (install_mode(flag, &csv(supported), "ns"), expected) {
                (Ok(mode), Ok(targets)) => assert_eq!(mode.targets, targets, "{flag:?}"),
                (Err(error), Err(part)) => {
                    assert!(error.to_string().contains(part), "{flag:?}: {error}");
                }
                (found, _) => panic!("{flag:?}: {found:?}"),
            }
        }
    }
}
