//! Validates the security contexts of pods and containers.

use std::collections::HashSet;

use apimachinery::field::{Error, Path};
use apimachinery::names;
use serde_json::Value;

use super::check::{Check, GoPrint, TEXT, descending_path, render_go};
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
    sysctls(check, spec, &path.child("sysctls"));
    check.optional_one_of(
        context,
        &path,
        "fsGroupChangePolicy",
        &["Always", "OnRootMismatch"],
    );
    seccomp_profile(check, context, &path);
    windows_options(
        check,
        at(context, &["windowsOptions"]),
        &path.child("windowsOptions"),
    );
    app_armor_profile(check, context, &path);
    check.optional_one_of(context, &path, "supplementalGroupsPolicy", &["Merge", "Strict"]);
    // Mounting with labels is a feature that is off by default.
    check.optional_one_of(context, &path, "seLinuxChangePolicy", &["Recursive"]);
}

/// Checks that container ports and host ports are equal on the host's network.
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

fn sysctls(check: &mut Check, spec: &Value, path: &Path) {
    let mut seen = HashSet::new();
    for (index, sysctl) in list(spec, &["securityContext", "sysctls"]).iter().enumerate() {
        let path = path.index(index).child("name");
        let name = text(sysctl, &["name"]);
        let before = check.errors.len();
        if name.is_empty() {
            check.required(path.clone(), "");
        } else if name.len() > 253 || !name.split(['.', '/']).all(is_sysctl_part) {
            check.invalid(path.clone(), &name.into(), SYSCTL);
        } else if !seen.insert(name) {
            check.duplicate(path.clone(), &name.into());
        }
        if check.errors.len() == before {
            host_sysctl(check, spec, name, &path);
        }
    }
}

/// Rejects sysctls of a namespace that a pod shares with the host.
fn host_sysctl(check: &mut Check, spec: &Value, name: &str, path: &Path) {
    let dotted = name.replace('/', ".");
    let of_ipc = ["kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."];
    let namespaces = [
        (
            "hostIPC",
            of_ipc.iter().any(|prefix| dotted.starts_with(prefix)) || dotted == "kernel.sem",
        ),
        ("hostNetwork", dotted.starts_with("net.")),
    ];
    for (field, concerns) in namespaces {
        if concerns && at(spec, &[field]) == &Value::Bool(true) {
            let why = format!("may not be specified when '{field}' is true");
            check.invalid(path.clone(), &name.into(), why);
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

fn seccomp_profile(check: &mut Check, context: &Value, path: &Path) {
    let profile = at(context, &["seccompProfile"]);
    if profile.is_null() {
        return;
    }
    let path = path.child("seccompProfile");
    let kind = text(profile, &["type"]);
    if kind.is_empty() {
        let why = "type is required when seccompProfile is set";
        check.required(path.child("type"), why);
    } else {
        check.one_of(profile, &path, "type", PROFILE_TYPES);
    }
    let of_local = path.child("localhostProfile");
    match (kind, at(profile, &["localhostProfile"]).as_str()) {
        ("Localhost", None) => check.required(of_local, "must be set when seccomp type is Localhost"),
        ("Localhost", Some(local)) => descending_path(check, local, &of_local),
        (_, Some(_)) => {
            // The API server shows the whole profile.
            let shown = render_go(profile, SECCOMP);
            check.invalid_text(of_local, shown, "can only be set when seccomp type is Localhost");
        }
        (_, None) => {}
    }
}

fn app_armor_profile(check: &mut Check, context: &Value, path: &Path) {
    let profile = at(context, &["appArmorProfile"]);
    if profile.is_null() {
        return;
    }
    let path = path.child("appArmorProfile");
    let local = at(profile, &["localhostProfile"]);
    let of_local = path.child("localhostProfile");
    match (text(profile, &["type"]), local.as_str()) {
        ("Localhost", None) => check.required(of_local, "must be set when AppArmor type is Localhost"),
        ("Localhost", Some(name)) => app_armor_name(check, name, &of_local),
        ("RuntimeDefault" | "Unconfined", Some(_)) => {
            check.invalid(of_local, local, "can only be set when AppArmor type is Localhost");
        }
        ("RuntimeDefault" | "Unconfined", None) => {}
        ("", _) => {
            let why = "type is required when appArmorProfile is set";
            check.required(path.child("type"), why);
        }
        _ => check.one_of(profile, &path, "type", PROFILE_TYPES),
    }
}

const PROFILE_TYPES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];

/// The maximum length of the name of an AppArmor profile.
const APP_ARMOR_MAX: usize = 4095;

fn app_armor_name(check: &mut Check, name: &str, path: &Path) {
    if name.trim() != name {
        check.invalid(path.clone(), &name.into(), "must not be padded with whitespace");
    } else if name.trim().is_empty() {
        check.required(path.clone(), "must be set when AppArmor type is Localhost");
    }
    if name.len() > APP_ARMOR_MAX {
        check.errors.push(Error::too_long(path.clone(), APP_ARMOR_MAX));
    }
}

const SECCOMP: &[GoPrint] = &[
    GoPrint("Type", "type", &[]),
    GoPrint("LocalhostProfile", "localhostProfile", &[]),
];

/// Formats a container's security context as the API server does in messages.
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
            GoPrint("User", "user", TEXT),
            GoPrint("Role", "role", TEXT),
            GoPrint("Type", "type", TEXT),
            GoPrint("Level", "level", TEXT),
        ],
    ),
    GoPrint(
        "WindowsOptions",
        "windowsOptions",
        &[
            GoPrint("GMSACredentialSpecName", "gmsaCredentialSpecName", &[]),
            GoPrint("GMSACredentialSpec", "gmsaCredentialSpec", &[]),
            GoPrint("RunAsUserName", "runAsUserName", &[]),
            GoPrint("HostProcess", "hostProcess", &[]),
        ],
    ),
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

fn windows_options(check: &mut Check, options: &Value, path: &Path) {
    check.pointer_form(options, path, "gmsaCredentialSpecName", names::dns1123_subdomain);
    for field in ["gmsaCredentialSpec", "runAsUserName"] {
        let value = at(options, &[field]);
        if value == "" {
            let why = format!("{field} cannot be an empty string");
            check.invalid(path.child(field), value, why);
        }
    }
    let name = at(options, &["runAsUserName"]);
    for fault in name.as_str().map(user_name_faults).unwrap_or_default() {
        check.invalid(path.child("runAsUserName"), name, fault);
    }
}

/// The maximum length of the user part of a Windows user name.
const WINDOWS_USER_MAX: usize = 104;

/// Returns the errors of a Windows user name that is not empty: `USER` or `DOMAIN\USER`.
fn user_name_faults(name: &str) -> Vec<String> {
    let fault = |text: &str| vec![format!("runAsUserName{text}")];
    let user = match name.split('\\').collect::<Vec<&str>>()[..] {
        _ if name.is_empty() => return Vec::new(),
        _ if name.chars().any(|c| c.is_ascii_control()) => {
            return fault(" cannot contain control characters");
        }
        [user] | [_, user] => user,
        _ => return fault(" cannot contain more than one backslash"),
    };
    if user.is_empty() {
        return fault("'s User cannot be empty");
    }
    if user.len() > WINDOWS_USER_MAX {
        let text = format!("'s User length must not be longer than {WINDOWS_USER_MAX} characters");
        return fault(&text);
    }
    if user.chars().all(|c| matches!(c, '.' | ' ')) {
        return fault("'s User cannot contain only periods or spaces");
    }
    if user.contains(|c| "\"/\\:;|=,+*?<>@[]".contains(c)) {
        return fault("'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]");
    }
    Vec::new()
}

/// Checks that either all containers of a pod are host processes on the host's network, or none.
pub(super) fn host_processes(check: &mut Check, spec: &Value, path: &Path) {
    let field = ["securityContext", "windowsOptions", "hostProcess"];
    let of_pod = at(spec, &field).as_bool();
    let (mut containers, mut processes) = (0_usize, 0_usize);
    for kind in ["initContainers", "containers", "ephemeralContainers"] {
        for (index, container) in list(spec, &[kind]).iter().enumerate() {
            let own = at(container, &field).as_bool();
            if let (Some(of_pod), Some(own)) = (of_pod, own)
                && of_pod != own
            {
                let path = field
                    .iter()
                    .fold(path.child(kind).index(index), |path, part| path.child(part));
                let why =
                    format!("pod hostProcess value must be identical if both are specified, was {of_pod}");
                check.invalid(path, &own.into(), why);
            }
            containers += 1;
            processes += usize::from(own.or(of_pod).unwrap_or_default());
        }
    }
    if processes == 0 {
        return;
    }
    if processes != containers {
        let why =
            "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        check.invalid(path.clone(), &"".into(), why);
    }
    if at(spec, &["hostNetwork"]) != &Value::Bool(true) {
        let why = "hostNetwork must be true if pod contains any hostProcess containers";
        check.invalid(path.child("hostNetwork"), &false.into(), why);
    }
}

pub(super) fn container(check: &mut Check, context: &Value, path: &Path, has_host_users: bool) {
    if context.is_null() {
        return;
    }
    for field in ["runAsUser", "runAsGroup"] {
        identity(check, at(context, &[field]), &path.child(field));
    }
    check.optional_one_of(context, path, "procMount", &["Default", "Unmasked"]);
    let mount = at(context, &["procMount"]);
    if has_host_users && mount == "Unmasked" {
        let why = "`hostUsers` must be false to use `Unmasked`";
        check.invalid(path.child("procMount"), mount, why);
    }
    seccomp_profile(check, context, path);
    no_escalation(check, context, path);
    windows_options(
        check,
        at(context, &["windowsOptions"]),
        &path.child("windowsOptions"),
    );
    app_armor_profile(check, context, path);
}

/// Checks that a container without privilege escalation is not privileged.
fn no_escalation(check: &mut Check, context: &Value, path: &Path) {
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
