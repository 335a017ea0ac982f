//! Tests of the file of `--admission-control-config-file`. The errors are those of kube-apiserver, without its prefix.

use std::path::Path;

use operator_apiserver::{AdmissionConfiguration, ApiServer};
use serde_json::{Value, json};

use crate::asking::post;

fn file(pod_security: &Value) -> String {
    let mut configuration =
        json!({"apiVersion": "pod-security.admission.config.k8s.io/v1", "kind": "PodSecurityConfiguration"});
    for (field, value) in pod_security.as_object().unwrap() {
        configuration[field] = value.clone();
    }
    json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration",
        "plugins": [{"name": "PodSecurity", "configuration": configuration}],
    })
    .to_string()
}

fn error(text: &str) -> String {
    AdmissionConfiguration::parse(text, Path::new("/")).unwrap_err()
}

#[test]
fn errors_are_those_of_the_real_server() {
    let unread = "failed to read plugin config: ";
    let uninitialized = "couldn't init admission plugin \"PodSecurity\": ";
    assert_eq!(
        error("a: 1\n"),
        format!("{unread}Object 'Kind' is missing in 'a: 1\n'")
    );
    assert_eq!(
        error("apiVersion: apiserver.config.k8s.io/v1\nkind: Foo\n"),
        format!(
            "{unread}no kind \"Foo\" is registered for version \"apiserver.config.k8s.io/v1\" in scheme \"k8s.io/apiserver/pkg/server/options/admission.go:51\""
        )
    );
    assert_eq!(
        error(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nfoo: 1\nplugins: [{name: PodSecurity, bar: 1}]\n"
        ),
        format!("{unread}strict decoding error: unknown field \"foo\", unknown field \"plugins[0].bar\"")
    );
    assert_eq!(
        error(&file(
            &json!({"apiVersion": "pod-security.admission.config.k8s.io/v9"})
        )),
        format!(
            "{uninitialized}no kind \"PodSecurityConfiguration\" is registered for version \"pod-security.admission.config.k8s.io/v9\" in scheme \"k8s.io/pod-security-admission/admission/api/scheme/scheme.go:31\""
        )
    );
    assert_eq!(
        error(&file(&json!({"defaults": {"enfors": "foo"}, "foo": 1}))),
        format!(
            "{uninitialized}strict decoding error: unknown field \"defaults.enfors\", unknown field \"foo\""
        )
    );
    assert_eq!(
        error(&file(&json!({"defaults": {"enforce": 1}}))),
        format!(
            "{uninitialized}json: cannot unmarshal number into Go struct field PodSecurityDefaults.defaults.enforce of type string"
        )
    );
    assert_eq!(
        error(&file(&json!({"defaults": {
            "enforce": "foo", "enforce-version": "v9", "audit": "", "warn": "baseline", "warn-version": "1.2",
        }}))),
        "failed to initialize admission plugin \"PodSecurity\": PodSecurity configuration error: [enforce: must be one of privileged, baseline, restricted, enforce-version: must be \"latest\" or \"v1.x\", warn-version: must be \"latest\" or \"v1.x\"]"
    );
    let why = error(&file(&json!({"exemptions": {
        "usernames": ["", ""], "namespaces": ["A_", "a", "a"], "runtimeClasses": ["x", "x"],
    }})));
    for part in [
        "\"PodSecurity\": PodSecurity invalid: [exemptions.namespaces[0]: Invalid value: \"A_\": a lowercase RFC 1123 label",
        ", exemptions.namespaces[2]: Duplicate value: \"a\", exemptions.runtimeClasses[1]: Duplicate value: \"x\"",
        ", exemptions.usernames[0]: Invalid value: \"\": username must not be empty, exemptions.usernames[1]: Invalid value",
    ] {
        assert!(why.contains(part), "{why}");
    }
    assert!(
        AdmissionConfiguration::parse("", Path::new("/"))
            .unwrap()
            .unsupported()
            .is_empty()
    );
}

#[tokio::test]
async fn pods_are_checked_by_the_defaults_unless_they_are_exempt() {
    let text = file(&json!({
        "defaults": {"enforce": "baseline", "warn": "restricted"},
        "exemptions": {"namespaces": ["trusted"], "usernames": ["root"], "runtimeClasses": ["vm"]},
    }));
    let configuration = AdmissionConfiguration::parse(&text, Path::new("/")).unwrap();
    let builder = ApiServer::builder().disable_admission_plugins(["ServiceAccount", "RuntimeClass"]);
    let server = builder.admission(configuration).build().unwrap();
    for (name, labels) in [
        ("trusted", json!({})),
        (
            "strict",
            json!({"pod-security.kubernetes.io/enforce": "restricted"}),
        ),
        (
            "free",
            json!({"pod-security.kubernetes.io/enforce": "privileged"}),
        ),
    ] {
        let namespace = json!({"metadata": {"name": name, "labels": labels}});
        post(&server, "/api/v1/namespaces", namespace).await.is_done();
    }
    let pod = |class: Value| {
        json!({
            "metadata": {"generateName": "p-"},
            "spec": {
                "runtimeClassName": class,
                "containers": [{"name": "c", "image": "i", "securityContext": {"privileged": true}}],
            },
        })
    };
    for (namespace, class, refusal) in [
        (
            "default",
            Value::Null,
            "violates PodSecurity \"baseline:latest\": privileged (container \"c\" must not set securityContext.privileged=true)",
        ),
        ("default", json!("vm"), ""),
        ("trusted", Value::Null, ""),
        ("free", Value::Null, ""),
    ] {
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        let answer = post(&server, &path, pod(class)).await;
        if refusal.is_empty() {
            answer.is_done();
            assert_eq!(
                answer.warnings.is_empty(),
                namespace != "free",
                "{namespace}: {:?}",
                answer.warnings
            );
        } else {
            answer.is_refused(403, refusal);
        }
    }
    let answer = post(&server, "/api/v1/namespaces/strict/pods", pod(Value::Null)).await;
    assert!(
        answer
            .message()
            .contains("violates PodSecurity \"restricted:latest\""),
        "{}",
        answer.body
    );
}
