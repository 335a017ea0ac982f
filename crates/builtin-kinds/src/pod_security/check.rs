//! The checks of the standards, by level and in the order of the reported violations.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Level, Violation};
use crate::tree::{at, entries, list, text};

/// Returns true if the rules of a minor version of Kubernetes apply.
type Includes<'a> = &'a dyn Fn(u32) -> bool;
type Check = fn(&Value, Includes<'_>) -> Option<Violation>;

/// A baseline check that the restricted level replaces from a minor version on.
struct Baseline {
    check: Check,
    replaced: Option<u32>,
}

const fn kept(check: Check) -> Baseline {
    Baseline {
        check,
        replaced: None,
    }
}

const fn replaced(check: Check, minor: u32) -> Baseline {
    let replaced = Some(minor);
    Baseline { check, replaced }
}

const BASELINE: [Baseline; 12] = [
    kept(app_armor),
    replaced(added_capabilities, 22),
    kept(host_namespaces),
    replaced(host_paths, 0),
    kept(host_ports),
    kept(probed_hosts),
    kept(privileged),
    replaced(proc_mounts, 35),
    kept(se_linux),
    replaced(seccomp, 19),
    kept(sysctls),
    kept(host_process),
];

const RESTRICTED: [Check; 7] = [
    privilege_escalation,
    capabilities,
    proc_mounts_always,
    volume_types,
    root,
    root_user,
    seccomp_required,
];

/// Returns the violations of a level by a pod.
pub(super) fn all(level: Level, includes: impl Fn(u32) -> bool, pod: &Value) -> Vec<Violation> {
    let includes: Includes<'_> = &includes;
    let is_restricted = level == Level::Restricted;
    let baseline = BASELINE
        .iter()
        .filter(|baseline| !(is_restricted && baseline.replaced.is_some_and(includes)))
        .map(|baseline| baseline.check);
    let restricted = RESTRICTED.into_iter().filter(|_| is_restricted);
    if level == Level::Privileged {
        return Vec::new();
    }
    baseline
        .chain(restricted)
        .filter_map(|check| check(pod, includes))
        .collect()
}

// === words ===

fn found(reason: &'static str, detail: String) -> Option<Violation> {
    Some(Violation { reason, detail })
}

fn plural<'a>(one: &'a str, many: &'a str, count: usize) -> &'a str {
    if count == 1 { one } else { many }
}

/// Formats a list of quoted strings: `"a", "b"`.
fn quoted<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    let quoted: Vec<String> = items
        .into_iter()
        .map(|item| format!("\"{}\"", item.as_ref()))
        .collect();
    quoted.join(", ")
}

/// Formats a list of containers: `containers "a", "b"`.
fn containers(names: &[&str]) -> String {
    format!(
        "{} {}",
        plural("container", "containers", names.len()),
        quoted(names)
    )
}

/// Formats a list of the pod itself and the containers that set a field: `pod and container "a"`.
fn setters(of_pod: bool, names: &[&str]) -> Option<String> {
    match (of_pod, names.is_empty()) {
        (false, true) => None,
        (true, true) => Some("pod".to_owned()),
        (false, false) => Some(containers(names)),
        (true, false) => Some(format!("pod and {}", containers(names))),
    }
}

// === pods ===

fn spec(pod: &Value) -> &Value {
    at(pod, &["spec"])
}

/// Returns all containers, init containers first.
fn each(pod: &Value) -> impl Iterator<Item = &Value> {
    let fields = ["initContainers", "containers", "ephemeralContainers"];
    fields.into_iter().flat_map(|field| list(spec(pod), &[field]))
}

fn name(container: &Value) -> &str {
    text(container, &["name"])
}

/// Returns the names of the containers that match a predicate.
fn those<'p>(pod: &'p Value, is_meant: impl Fn(&'p Value) -> bool) -> Vec<&'p str> {
    each(pod)
        .filter(|container| is_meant(container))
        .map(name)
        .collect()
}

/// Returns a field of the security context of a pod's specification or of a container.
fn context<'a>(owner: &'a Value, path: &[&str]) -> &'a Value {
    at(at(owner, &["securityContext"]), path)
}

fn texts(items: &[Value]) -> impl Iterator<Item = &str> {
    items.iter().filter_map(Value::as_str)
}

fn is_windows(pod: &Value) -> bool {
    text(pod, &["spec", "os", "name"]) == "windows"
}

/// Returns true if the pod has its own user namespace.
fn has_own_users(pod: &Value) -> bool {
    at(pod, &["spec", "hostUsers"]) == &Value::Bool(false)
}

// === baseline ===

fn app_armor(pod: &Value, _: Includes<'_>) -> Option<Violation> {
    let bad = |owner: &Value| {
        let profile = context(owner, &["appArmorProfile"]);
        let kind = text(profile, &["type"]);
        (profile.is_object() && !matches!(kind, "RuntimeDefault" | "Localhost")).then(|| kind.to_owned())
    };
    let mut who: Vec<String> = Vec::new();
    let mut values = BTreeSet::new();
    if let Some(value) = bad(spec(pod)) {
        who.push("pod".to_owned());
        values.insert(value);
    }
    for container in each(pod) {
        if let Some(value) = bad(container) {
            who.push(format!("container \"{}\"", name(container)));
            values.insert(value);
        }
    }
    let prefix = "container.apparmor.security.beta.kubernetes.io/";
    let annotations: Vec<String> = entries(pod, &["metadata", "annotations"])
        .filter_map(|(key, value)| Some((key, value.as_str()?)))
        .filter(|(key, value)| {
            let is_fine = value.is_empty() || *value == "runtime/default" || value.starts_with("localhost/");
            key.starts_with(prefix) && !is_fine
        })
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    if !annotations.is_empty() {
        who.push(plural("annotation", "annotations", annotations.len()).to_owned());
    }
    if who.is_empty() {
        return None;
    }
    let values: Vec<String> = values.into_iter().chain(annotations).collect();
    let reason = plural(
        "forbidden AppArmor profile",
        "forbidden AppArmor profiles",
        values.len(),
    );
    let (who, values) = (who.join(" and "), quoted(values));
    found(
        reason,
        format!("{who} must not set AppArmor profile type to {values}"),
    )
}

/// The capabilities that containers may add.
const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// Returns the containers that add forbidden capabilities, and the capabilities.
fn bad_additions(pod: &Value, is_allowed: impl Fn(&str) -> bool) -> Option<String> {
    let added = |container| {
        let added = list(context(container, &["capabilities", "add"]), &[]);
        texts(added).filter(|capability| !is_allowed(capability))
    };
    let who = those(pod, |container| added(container).next().is_some());
    let capabilities: BTreeSet<&str> = each(pod).flat_map(added).collect();
    (!who.is_empty()).then(|| {
        format!(
            "{} must not include {} in securityContext.capabilities.add",
            containers(&who),
            quoted(capabilities)
        )
    })
}

fn added_capabilities(pod: &Value, _: Includes<'_>) -> Option<Violation> {
    let detail = bad_additions(pod, |capability| CAPABILITIES.contains(&capability))?;
    found("non-default capabilities", detail)
}

fn host_namespaces(pod: &Value, _: Includes<'_>) -> Option<Violation> {
    let shared = ["hostNetwork", "hostPID", "hostIPC"]
        .into_iter()
        .filter(|field| at(spec(pod), &[field]) == &Value::Bool(true));
    let shared: Vec<String> = shared.map(|field| format!("{field}=true")).collect();
    if shared.is_empty() {
        return None;
    }
    found("host namespaces", shared.join(", "))
}

fn host_paths(pod: &Value, _: Includes<'_>) -> Option<Violation> {
    let volumes = list(spec(pod), &["volumes"]).iter();
    let volumes: Vec<&str> = volumes
        .filter(|volume| !at(volume, &["hostPath"]).is_null())
        .map(name)
        .collect();
    if volumes.is_empty() {
        return None;
    }
    let word = plural("volume", "volumes", volumes.len());
    found("hostPath volumes", format!("{word} {}", quoted(volumes)))
}

fn host_ports(pod: &Value, _: Includes<'_>) -> Option<Violation> {
    let ports = |container| {
        let ports = list(container, &["ports"]).iter();
        ports
            .filter_map(|port| at(port, &["hostPort"]).as_i64())
            .filter(|port| *port != 0)
    };
    let who = those(pod, |container| ports(container).next().is_some());
    if who.is_empty() {
        return None;
    }
    let all: BTreeSet<String> = each(pod).flat_map(ports).map(|port| port.to_string()).collect();
    let verb = plural("uses", "use", who.len());
    let word = plural("hostPort", "hostPorts", all.len());
    let all: Vec<String> = all.into_iter().collect();
    found(
        "hostPort",
        format!("{} {verb} {word} {}", containers(&who), all.join(", ")),
    )
}

fn probed_hosts(pod: &Value, includes: Includes<'_>) -> Option<Violation> {
    if !includes(34) {
        return None;
    }
    let handlers: [&[&str]; 5] = [
        &["livenessProbe"],
        &["readinessProbe"],
        &["startupProbe"],
        &["lifecycle", "postStart"],
        &["lifecycle", "preStop"],
    ];
    let hosts = |container| {
        let handlers = handlers.iter().map(move |path| at(container, path));
        let hosts =
            handlers.flat_map(|handler| ["httpGet", "tcpSocket"].map(|kind| text(handler, &[kind, "host"])));
        hosts.filter(|host| !host.is_empty()).collect::<Vec<&str>>()
    };
    let who: BTreeSet<&str> = those(pod, |container| !hosts(container).is_empty())
        .into_iter()
        .collect();
    if who.is_empty() {
        return None;
    }
    let all: BTreeSet<&str> = each(pod).flat_map(hosts).collect();
    let who: Vec<&str> = who.into_iter().collect();
    let verb = plural("uses", "use", who.len());
    let word = plural("probe or lifecycle host", "probe or lifecycle hosts", all.len());
    found(
        "probe or lifecycle host",
        format!("{} {verb} {word} {}", containers(&who), quoted(all)),
    )
}

fn privileged(pod: &Value, _: Includes<'_>) -> Option<Violation> {
    let who = those(pod, |container| {
        context(container, &["privileged"]) == &Value::Bool(true)
    });
    if who.is_empty() {
        return None;
    }
    let who = containers(&who);
    found(
        "privileged",
        format!("{who} must not set securityContext.privileged=true"),
    )
}

fn proc_mounts(pod: &Value, includes: Includes<'_>) -> Option<Violation> {
    if includes(35) && has_own_users(pod) {
        return None;
    }
    unmasked(pod)
}

fn proc_mounts_always(pod: &Value, includes: Includes<'_>) -> Option<Violation> {
    if includes(35) { unmasked(pod) } else { None }
}

fn unmasked(pod: &Value) -> Option<Violation> {
    let mount = |container| {
        context(container, &["procMount"])
            .as_str()
            .filter(|mount| *mount != "Default")
    };
    let who = those(pod, |container| mount(container).is_some());
    if who.is_empty() {
        return None;
    }
    let mounts: BTreeSet<&str> = each(pod).filter_map(mount).collect();
    let (who, mounts) = (containers(&who), quoted(mounts));
    found(
        "procMount",
        format!("{who} must not set securityContext.procMount to {mounts}"),
    )
}

fn se_linux<'p>(pod: &'p Value, includes: Includes<'_>) -> Option<Violation> {
    let options = |owner: &'p Value| context(owner, &["seLinuxOptions"]);
    let bad_type = |owner: &'p Value| {
        let kind = text(options(owner), &["type"]);
        let is_allowed = matches!(kind, "" | "container_t" | "container_init_t" | "container_kvm_t")
            || kind == "container_engine_t" && includes(31);
        (!is_allowed).then_some(kind)
    };
    let sets = |owner: &'p Value, field: &str| !text(options(owner), &[field]).is_empty();
    let is_bad = |owner: &'p Value| bad_type(owner).is_some() || sets(owner, "user") || sets(owner, "role");
    let who = setters(is_bad(spec(pod)), &those(pod, is_bad))?;
    let all = || std::iter::once(spec(pod)).chain(each(pod));
    let types: BTreeSet<&str> = all().filter_map(bad_type).collect();
    let mut faults = Vec::new();
    if !types.is_empty() {
        faults.push(format!(
            "{} {}",
            plural("type", "types", types.len()),
            quoted(types)
        ));
    }
    for field in ["user", "role"] {
        if all().any(|owner| sets(owner, field)) {
            faults.push(format!("{field} may not be set"));
        }
    }
    let faults = faults.join("; ");
    found(
        "seLinuxOptions",
        format!("{who} set forbidden securityContext.seLinuxOptions: {faults}"),
    )
}

/// Returns the type of a seccomp profile that is neither the runtime's default nor a profile on the node.
fn bad_seccomp(owner: &Value) -> Option<&str> {
    let profile = context(owner, &["seccompProfile"]);
    let kind = text(profile, &["type"]);
    (profile.is_object() && !matches!(kind, "RuntimeDefault" | "Localhost")).then_some(kind)
}

fn seccomp(pod: &Value, includes: Includes<'_>) -> Option<Violation> {
    if !includes(19) {
        return seccomp_annotations(pod);
    }
    let is_bad = |owner: &Value| bad_seccomp(owner).is_some();
    let who = setters(is_bad(spec(pod)), &those(pod, is_bad))?;
    let all = std::iter::once(spec(pod)).chain(each(pod));
    let values = quoted(all.filter_map(bad_seccomp).collect::<BTreeSet<&str>>());
    found(
        "seccompProfile",
        format!("{who} must not set securityContext.seccompProfile.type to {values}"),
    )
}

fn seccomp_annotations(pod: &Value) -> Option<Violation> {
    let of_containers = each(pod).map(|container| {
        format!(
            "container.seccomp.security.alpha.kubernetes.io/{}",
            name(container)
        )
    });
    let keys = std::iter::once("seccomp.security.alpha.kubernetes.io/pod".to_owned()).chain(of_containers);
    let bad: BTreeSet<String> = keys
        .filter_map(|key| {
            let value = at(pod, &["metadata", "annotations", &key]).as_str()?;
            let is_fine =
                matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/");
            (!is_fine).then(|| format!("{key}={value:?}"))
        })
        .collect();
    if bad.is_empty() {
        return None;
    }
    let word = plural("annotation", "annotations", bad.len());
    let bad: Vec<String> = bad.into_iter().collect();
    found("seccompProfile", format!("forbidden {word} {}", bad.join(", ")))
}

/// Safe sysctls, and the minor versions since which they are allowed.
const SYSCTLS: [(&str, u32); 12] = [
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
];

fn sysctls(pod: &Value, includes: Includes<'_>) -> Option<Violation> {
    let is_safe = |sysctl: &str| {
        SYSCTLS
            .iter()
            .any(|(name, since)| *name == sysctl && includes(*since))
    };
    let set = list(context(spec(pod), &["sysctls"]), &[]).iter().map(name);
    let unsafe_ones: Vec<&str> = set.filter(|sysctl| !is_safe(sysctl)).collect();
    if unsafe_ones.is_empty() {
        return None;
    }
    found("forbidden sysctls", unsafe_ones.join(", "))
}

fn host_process(pod: &Value, _: Includes<'_>) -> Option<Violation> {
    let is_bad = |owner: &Value| context(owner, &["windowsOptions", "hostProcess"]) == &Value::Bool(true);
    let who = setters(is_bad(spec(pod)), &those(pod, is_bad))?;
    found(
        "hostProcess",
        format!("{who} must not set securityContext.windowsOptions.hostProcess=true"),
    )
}

// === restricted ===

fn privilege_escalation(pod: &Value, includes: Includes<'_>) -> Option<Violation> {
    if !includes(8) || includes(25) && is_windows(pod) {
        return None;
    }
    let who = those(pod, |container| {
        context(container, &["allowPrivilegeEscalation"]) != &Value::Bool(false)
    });
    if who.is_empty() {
        return None;
    }
    let who = containers(&who);
    found(
        "allowPrivilegeEscalation != false",
        format!("{who} must set securityContext.allowPrivilegeEscalation=false"),
    )
}

fn capabilities(pod: &Value, includes: Includes<'_>) -> Option<Violation> {
    if !includes(22) || includes(25) && is_windows(pod) {
        return None;
    }
    let keeps = |container: &Value| {
        let dropped = list(context(container, &["capabilities", "drop"]), &[]);
        !texts(dropped).any(|capability| capability == "ALL")
    };
    let who = those(pod, keeps);
    let mut faults = Vec::new();
    if !who.is_empty() {
        let who = containers(&who);
        faults.push(format!(
            "{who} must set securityContext.capabilities.drop=[\"ALL\"]"
        ));
    }
    faults.extend(bad_additions(pod, |capability| capability == "NET_BIND_SERVICE"));
    if faults.is_empty() {
        return None;
    }
    found("unrestricted capabilities", faults.join("; "))
}

const VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

fn volume_types(pod: &Value, _: Includes<'_>) -> Option<Violation> {
    let kind = |volume: &Value| {
        let mut sources = entries(volume, &[]).filter(|(field, value)| *field != "name" && !value.is_null());
        sources
            .next()
            .map_or_else(|| "unknown".to_owned(), |(field, _)| field.clone())
    };
    let volumes = list(spec(pod), &["volumes"]).iter();
    let bad: Vec<(&str, String)> = volumes
        .map(|volume| (name(volume), kind(volume)))
        .filter(|(_, kind)| !VOLUMES.contains(&kind.as_str()))
        .collect();
    if bad.is_empty() {
        return None;
    }
    let kinds: BTreeSet<&str> = bad.iter().map(|(_, kind)| kind.as_str()).collect();
    let word = plural("volume", "volumes", bad.len());
    let verb = plural("uses", "use", bad.len());
    let what = plural("restricted volume type", "restricted volume types", kinds.len());
    let names = quoted(bad.iter().map(|(name, _)| name));
    found(
        "restricted volume types",
        format!("{word} {names} {verb} {what} {}", quoted(kinds)),
    )
}

fn root(pod: &Value, includes: Includes<'_>) -> Option<Violation> {
    if includes(35) && has_own_users(pod) {
        return None;
    }
    const REASON: &str = "runAsNonRoot != true";
    let says = |owner: &Value| context(owner, &["runAsNonRoot"]).as_bool();
    let of_pod = says(spec(pod));
    let bad = those(pod, |container| says(container) == Some(false));
    if let Some(who) = setters(of_pod == Some(false), &bad) {
        return found(
            REASON,
            format!("{who} must not set securityContext.runAsNonRoot=false"),
        );
    }
    let silent = those(pod, |container| says(container).is_none() && of_pod != Some(true));
    if silent.is_empty() {
        return None;
    }
    let who = containers(&silent);
    found(
        REASON,
        format!("pod or {who} must set securityContext.runAsNonRoot=true"),
    )
}

fn root_user(pod: &Value, includes: Includes<'_>) -> Option<Violation> {
    if !includes(23) || includes(35) && has_own_users(pod) {
        return None;
    }
    let is_root = |owner: &Value| context(owner, &["runAsUser"]).as_i64() == Some(0);
    let who = setters(is_root(spec(pod)), &those(pod, is_root))?;
    found("runAsUser=0", format!("{who} must not set runAsUser=0"))
}

fn seccomp_required(pod: &Value, includes: Includes<'_>) -> Option<Violation> {
    if !includes(19) || includes(25) && is_windows(pod) {
        return None;
    }
    if let Some(violation) = seccomp(pod, includes) {
        return Some(violation);
    }
    let says = |owner: &Value| context(owner, &["seccompProfile"]).is_object();
    if says(spec(pod)) {
        return None;
    }
    let silent = those(pod, |container| !says(container));
    if silent.is_empty() {
        return None;
    }
    let who = containers(&silent);
    found(
        "seccompProfile",
        format!(
            "pod or {who} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\""
        ),
    )
}
