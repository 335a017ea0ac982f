//! Security contexts of pods and containers.

use std::collections::HashSet;

use apimachinery::field::Path;
use serde_json::Value;

use super::check::{Check, GoPrint, descending_path, render_go};
use crate::tree::{at, list, text};

pub(super) fn pod(check: &mut Check, spec: &Value, path: &Path) {
    let context = at(spec, &["securityContext"]);
    if at(spec, &["hostNetwork"]) == &Value::Bool(true) {
        host_network(check, spec, path);
    }
    let path = path.child("securityContext");
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        identity(check, at(context, &[field]), &path.child(field));
    }
    for (index, group) in list(context, &["supplementalGroups"]).iter().enumerate() {
        identity(check, group, &path.child("supplementalGroups").index(index));
    }
    if [at(spec, &["hostPID"]), at(spec, &["shareProcessNamespace"])]
        == [&Value::Bool(true), &Value::Bool(true)]
    {
        check.invalid(
            path.child("shareProcessNamespace"),
            &true.into(),
            "ShareProcessNamespace and HostPID cannot both be enabled",
        );
    }
    sysctls(check, context, &path.child("sysctls"));
    check.optional_one_of(
        context,
        &path,
        "fsGroupChangePolicy",
        &["Always", "OnRootMismatch"],
    );
    profiles(check, context, &path);
}

/// On the host's network a port is the host's.
fn host_network(check: &mut Check, spec: &Value, path: &Path) {
    for field in ["containers", "initContainers"] {
        for (index, container) in list(spec, &[field]).iter().enumerate() {
            for (port_index, port) in list(container, &["ports"]).iter().enumerate() {
                let host_port = at(port, &["hostPort"]);
                if host_port != at(port, &["containerPort"]) && !host_port.is_null() {
                    let path = path.child(field).index(index).child("ports");
                    check.invalid(
                        path.index(port_index).child("hostPort"),
                        host_port,
                        "must match `containerPort` when `hostNetwork` is true",
                    );
                }
            }
        }
    }
}

fn identity(check: &mut Check, id: &Value, path: &Path) {
    let range = 0..=i64::from(i32::MAX);
    if id.as_i64().is_some_and(|id| !range.contains(&id)) {
        check.invalid(path.clone(), id, "must be between 0 and 2147483647, inclusive");
    }
}

const SYSCTL: &str = "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

fn sysctls(check: &mut Check, context: &Value, path: &Path) {
    let mut seen = HashSet::new();
    for (index, sysctl) in list(context, &["sysctls"]).iter().enumerate() {
        let path = path.index(index).child("name");
        let name = text(sysctl, &["name"]);
        if name.is_empty() {
            check.required(path, "");
        } else if name.len() > 253 || !name.split(['.', '/']).all(is_sysctl_part) {
            check.invalid(path, &name.into(), SYSCTL);
        } else if !seen.insert(name) {
            check.duplicate(path, &name.into());
        }
    }
}

fn is_sysctl_part(part: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = part.as_bytes();
    [bytes.first(), bytes.last()]
        .iter()
        .all(|edge| edge.is_some_and(|byte| is_word(*byte)))
        && bytes.iter().all(|byte| is_word(*byte) || b"-_".contains(byte))
}

/// Seccomp and AppArmor.
fn profiles(check: &mut Check, context: &Value, path: &Path) {
    for (field, name) in [("seccompProfile", "seccomp"), ("appArmorProfile", "AppArmor")] {
        let profile = at(context, &[field]);
        if profile.is_null() {
            continue;
        }
        let path = path.child(field);
        let kind = text(profile, &["type"]);
        let local = at(profile, &["localhostProfile"]);
        match (kind, local.as_str()) {
            ("", _) => check.required(
                path.child("type"),
                &format!("type is required when {field} is set"),
            ),
            ("Localhost", None) => check.required(
                path.child("localhostProfile"),
                &format!("must be set when {name} type is Localhost"),
            ),
            ("Localhost", Some(local)) => {
                descending_path(check, local, &path.child("localhostProfile"));
            }
            (_, Some(_)) => check.invalid(
                path.child("localhostProfile"),
                local,
                format!("can only be set when {name} type is Localhost"),
            ),
            (_, None) => {}
        }
        if !kind.is_empty() {
            check.one_of(
                profile,
                &path,
                "type",
                &["Localhost", "RuntimeDefault", "Unconfined"],
            );
        }
    }
}

/// How the real server prints a container's context in messages.
const CONTEXT: &[GoPrint] = &[
    GoPrint(
        "Capabilities",
        "capabilities",
        &[GoPrint("Add", "add", &[]), GoPrint("Drop", "drop", &[])],
    ),
    GoPrint("Privileged", "privileged", &[]),
    GoPrint(
        "SELinuxOptions",
        "seLinuxOptions",
        &[
            GoPrint("User", "user", &[]),
            GoPrint("Role", "role", &[]),
            GoPrint("Type", "type", &[]),
            GoPrint("Level", "level", &[]),
        ],
    ),
    GoPrint("WindowsOptions", "windowsOptions", &[]),
    GoPrint("RunAsUser", "runAsUser", &[]),
    GoPrint("RunAsGroup", "runAsGroup", &[]),
    GoPrint("RunAsNonRoot", "runAsNonRoot", &[]),
    GoPrint("ReadOnlyRootFilesystem", "readOnlyRootFilesystem", &[]),
    GoPrint("AllowPrivilegeEscalation", "allowPrivilegeEscalation", &[]),
    GoPrint("ProcMount", "procMount", &[]),
    GoPrint(
        "SeccompProfile",
        "seccompProfile",
        &[
            GoPrint("Type", "type", &[]),
            GoPrint("LocalhostProfile", "localhostProfile", &[]),
        ],
    ),
    GoPrint(
        "AppArmorProfile",
        "appArmorProfile",
        &[
            GoPrint("Type", "type", &[]),
            GoPrint("LocalhostProfile", "localhostProfile", &[]),
        ],
    ),
];

pub(super) fn container(check: &mut Check, context: &Value, path: &Path) {
    if context.is_null() {
        return;
    }
    for field in ["runAsUser", "runAsGroup"] {
        identity(check, at(context, &[field]), &path.child(field));
    }
    check.optional_one_of(context, path, "procMount", &["Default", "Unmasked"]);
    profiles(check, context, path);
    if at(context, &["allowPrivilegeEscalation"]) != &Value::Bool(false) {
        return;
    }
    let shown = || render_go(context, CONTEXT);
    if at(context, &["privileged"]) == &Value::Bool(true) {
        check.invalid_text(
            path.clone(),
            shown(),
            "cannot set `allowPrivilegeEscalation` to false and `privileged` to true",
        );
    }
    if list(context, &["capabilities", "add"]).contains(&"CAP_SYS_ADMIN".into()) {
        check.invalid_text(
            path.clone(),
            shown(),
            "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN",
        );
    }
}
