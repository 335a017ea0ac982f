use serde_json::{Value, json};

use super::{Policy, details, existing, violations};

fn standard(level: &str, version: &str) -> super::Standard {
    let labels = json!({
        "pod-security.kubernetes.io/enforce": level, "pod-security.kubernetes.io/enforce-version": version,
    });
    let (policy, errors) = Policy::of(&json!({"metadata": {"labels": labels}}));
    assert!(errors.is_empty(), "{errors:?}");
    policy.enforce
}

fn faults(level: &str, version: &str, pod: &Value) -> String {
    details(&violations(standard(level, version), pod))
}

fn pod(spec: &Value) -> Value {
    json!({"metadata": {"name": "p"}, "spec": spec})
}

/// Returns a pod without violations.
fn modest() -> Value {
    pod(&json!({
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "a", "securityContext": {
            "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
        }}],
        "volumes": [{"name": "v", "configMap": {"name": "c"}}, {"name": "i", "image": {"reference": "r"}}],
    }))
}

#[test]
fn an_ordinary_pod_is_fit_for_the_baseline_and_not_for_the_restricted_level() {
    let ordinary = pod(&json!({"containers": [{"name": "a"}]}));
    assert_eq!(faults("baseline", "latest", &ordinary), "");
    assert_eq!(
        faults("restricted", "latest", &ordinary),
        "allowPrivilegeEscalation != false (container \"a\" must set securityContext.allowPrivilegeEscalation=false), \
         unrestricted capabilities (container \"a\" must set securityContext.capabilities.drop=[\"ALL\"]), \
         runAsNonRoot != true (pod or container \"a\" must set securityContext.runAsNonRoot=true), \
         seccompProfile (pod or container \"a\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")"
    );
    assert_eq!(faults("restricted", "latest", &modest()), "");
    assert_eq!(
        faults("privileged", "latest", &pod(&json!({"hostPID": true}))),
        ""
    );
}

#[test]
fn baseline_violations_name_the_container_and_the_value() {
    let contained = |context: Value| pod(&json!({"containers": [{"name": "a", "securityContext": context}]}));
    let of_pod = |context: Value| pod(&json!({"securityContext": context, "containers": [{"name": "a"}]}));
    let cases = [
        (
            contained(json!({"privileged": true})),
            "privileged (container \"a\" must not set securityContext.privileged=true)",
        ),
        (
            contained(json!({"capabilities": {"add": ["CHOWN", "SYS_ADMIN", "NET_RAW"]}})),
            "non-default capabilities (container \"a\" must not include \"NET_RAW\", \"SYS_ADMIN\" in securityContext.capabilities.add)",
        ),
        (
            pod(&json!({"hostPID": true, "hostNetwork": true, "containers": []})),
            "host namespaces (hostNetwork=true, hostPID=true)",
        ),
        (
            pod(
                &json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}, {"name": "w", "hostPath": {"path": "/"}}]}),
            ),
            "hostPath volumes (volumes \"v\", \"w\")",
        ),
        (
            pod(
                &json!({"containers": [{"name": "a", "ports": [{"hostPort": 80}]}, {"name": "b", "ports": [{"hostPort": 443}]}]}),
            ),
            "hostPort (containers \"a\", \"b\" use hostPorts 443, 80)",
        ),
        (
            pod(&json!({"containers": [{"name": "a", "livenessProbe": {"httpGet": {"host": "h"}}}]})),
            "probe or lifecycle host (container \"a\" uses probe or lifecycle host \"h\")",
        ),
        (
            contained(json!({"procMount": "Unmasked"})),
            "procMount (container \"a\" must not set securityContext.procMount to \"Unmasked\")",
        ),
        (
            of_pod(json!({"seLinuxOptions": {"type": "x_t", "user": "u"}})),
            "seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type \"x_t\"; user may not be set)",
        ),
        (
            contained(json!({"seccompProfile": {"type": "Unconfined"}})),
            "seccompProfile (container \"a\" must not set securityContext.seccompProfile.type to \"Unconfined\")",
        ),
        (
            of_pod(json!({"sysctls": [{"name": "kernel.msgmax"}]})),
            "forbidden sysctls (kernel.msgmax)",
        ),
        (
            of_pod(json!({"windowsOptions": {"hostProcess": true}})),
            "hostProcess (pod must not set securityContext.windowsOptions.hostProcess=true)",
        ),
        (
            contained(json!({"appArmorProfile": {"type": "Unconfined"}})),
            "forbidden AppArmor profile (container \"a\" must not set AppArmor profile type to \"Unconfined\")",
        ),
    ];
    for (pod, expected) in cases {
        assert_eq!(faults("baseline", "latest", &pod), expected);
    }
}

#[test]
fn the_restricted_level_has_its_own_messages_for_some_rules() {
    let mut other = modest();
    other["spec"]["volumes"] = json!([{"name": "v", "hostPath": {"path": "/"}}, {"name": "n", "nfs": {}}]);
    assert_eq!(
        faults("restricted", "latest", &other),
        "restricted volume types (volumes \"v\", \"n\" use restricted volume types \"hostPath\", \"nfs\")"
    );
    let mut root = modest();
    root["spec"]["securityContext"]["runAsUser"] = 0.into();
    root["spec"]["containers"][0]["securityContext"]["runAsNonRoot"] = false.into();
    assert_eq!(
        faults("restricted", "latest", &root),
        "runAsNonRoot != true (container \"a\" must not set securityContext.runAsNonRoot=false), runAsUser=0 (pod must not set runAsUser=0)"
    );
    root["spec"]["hostUsers"] = false.into();
    assert_eq!(faults("restricted", "latest", &root), "");
    assert_ne!(faults("restricted", "v1.34", &root), "");
}

#[test]
fn older_versions_ask_for_less_and_know_fewer_exceptions() {
    let probed = pod(&json!({"containers": [{"name": "a", "livenessProbe": {"tcpSocket": {"host": "h"}}}]}));
    assert_eq!(faults("baseline", "v1.33", &probed), "");
    let tuned = pod(&json!({"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem"}]}}));
    assert_eq!(faults("baseline", "latest", &tuned), "");
    assert_eq!(
        faults("baseline", "v1.31", &tuned),
        "forbidden sysctls (net.ipv4.tcp_rmem)"
    );
    assert_eq!(
        faults(
            "restricted",
            "v1.0",
            &pod(&json!({"containers": [{"name": "a"}]}))
        ),
        "runAsNonRoot != true (pod or container \"a\" must set securityContext.runAsNonRoot=true)"
    );
}

#[test]
fn invalid_label_values_are_reported() {
    let labels = json!({
        "pod-security.kubernetes.io/enforce": "strict", "pod-security.kubernetes.io/warn-version": "v1.01",
        "pod-security.kubernetes.io/audit": "baseline", "pod-security.kubernetes.io/audit-version": "v1.30",
    });
    let (policy, errors) = Policy::of(&json!({"metadata": {"labels": labels}}));
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            "metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"strict\": must be one of privileged, baseline, restricted",
            "metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: \"v1.01\": must be \"latest\" or \"v1.x\"",
        ]
    );
    assert_eq!(policy.enforce.to_string(), "restricted:latest");
    assert_eq!(policy.audit.to_string(), "baseline:v1.30");
    assert_eq!(policy.warn.to_string(), "privileged:latest");
}

#[test]
fn pods_with_the_same_faults_share_a_line() {
    let named = |name: &str, spec: Value| json!({"metadata": {"name": name}, "spec": spec});
    let pods = [
        named("c", json!({"hostPID": true})),
        named("b", json!({"hostPID": true})),
        named("a", json!({"hostPID": true})),
        named("z", json!({"volumes": [{"name": "v", "hostPath": {}}]})),
        named("fine", json!({})),
    ];
    assert_eq!(
        existing("n", standard("baseline", "latest"), pods.iter()),
        [
            "existing pods in namespace \"n\" violate the new PodSecurity enforce level \"baseline:latest\"",
            "a (and 2 other pods): host namespaces",
            "z: hostPath volumes",
        ]
    );
}

#[test]
fn an_enforced_level_is_also_the_level_of_warnings_unless_that_is_given() {
    let policy = |labels: Value| Policy::of(&json!({"metadata": {"labels": labels}})).0;
    let enforced = policy(json!({
        "pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/enforce-version": "v1.24",
    }));
    assert_eq!(enforced.warn, enforced.enforce);
    let given = policy(json!({
        "pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "privileged",
    }));
    assert_eq!(given.warn, policy(json!({})).warn);
}
