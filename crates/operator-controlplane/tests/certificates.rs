//! CertificateSigningRequests of the signers of kube-controller-manager.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::Request;
use operator_apiserver::client::{Client, Gvr, Patch};
use operator_apiserver::{ApiServer, ListenOptions, Listener};
use operator_controlplane::{ControlPlane, Options};
use serde_json::{Value, json};
use tower::ServiceExt;

/// A request for `O=system:nodes, CN=system:node:a`, without alternative names.
const REQUEST: &str = include_str!("certificates/node.csr");

fn requests() -> Gvr {
    Gvr::new("certificates.k8s.io", "v1", "certificatesigningrequests")
}

struct Stage {
    server: ApiServer,
    client: Client,
    _listener: Listener,
    _control_plane: ControlPlane,
}

async fn stage() -> Stage {
    let server = ApiServer::builder().build().unwrap();
    let listener = server.listen(ListenOptions::default()).await.unwrap();
    let options = Options {
        signer: Some(listener.certificate_signer()),
        ..Options::default()
    };
    Stage {
        client: server.client(),
        _control_plane: ControlPlane::start(&server.client(), options),
        _listener: listener,
        server,
    }
}

impl Stage {
    /// Creates a request and approves it.
    async fn approve(&self, name: &str, signer: &str, usages: &[&str]) {
        let request = json!({"metadata": {"name": name}, "spec": {
            "signerName": signer, "usages": usages, "request": BASE64_STANDARD.encode(REQUEST),
        }});
        self.client.create(&requests(), "", request).await.unwrap();
        let approved =
            json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "Test"}]}});
        let patch = Patch::Merge(approved);
        self.client
            .patch(&requests(), "", name, Some("approval"), patch)
            .await
            .unwrap();
    }

    /// Creates a request as a user.
    async fn request_as(&self, user: &str, name: &str, signer: &str, usages: &[&str]) {
        let request = json!({"metadata": {"name": name}, "spec": {
            "signerName": signer, "usages": usages, "request": BASE64_STANDARD.encode(REQUEST),
        }});
        let request = Request::post("/apis/certificates.k8s.io/v1/certificatesigningrequests")
            .header("content-type", "application/json")
            .header("impersonate-user", user)
            .header("impersonate-group", "system:authenticated")
            .body(request.to_string())
            .unwrap();
        let response = self.server.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), 201);
    }

    /// Waits until the status has a certificate or a failure.
    async fn decided(&self, name: &str) -> Value {
        let decided = async {
            loop {
                let request = self.client.get(&requests(), "", name).await.unwrap();
                let status = request["status"].clone();
                let conditions = status["conditions"].as_array().map_or(0, Vec::len);
                if !status["certificate"].is_null() || conditions > 1 {
                    return status;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), decided)
            .await
            .unwrap()
    }
}

#[tokio::test]
async fn an_approved_request_gets_a_certificate() {
    let stage = stage().await;
    for (name, signer) in [
        ("client", "kubernetes.io/kube-apiserver-client"),
        ("kubelet", "kubernetes.io/kube-apiserver-client-kubelet"),
    ] {
        let usages = ["digital signature", "key encipherment", "client auth"];
        stage.approve(name, signer, &usages).await;
        let status = stage.decided(name).await;
        let certificate = BASE64_STANDARD
            .decode(status["certificate"].as_str().unwrap())
            .unwrap();
        let certificate = String::from_utf8(certificate).unwrap();
        assert!(
            certificate.starts_with("-----BEGIN CERTIFICATE-----\n"),
            "{certificate}"
        );
    }
}

#[tokio::test]
async fn a_request_that_its_signer_refuses_fails() {
    let stage = stage().await;
    let cases = [
        (
            "usage",
            "kubernetes.io/kube-apiserver-client",
            &["client auth", "server auth"][..],
            "invalid usage for client certificate: server auth",
        ),
        (
            "missing",
            "kubernetes.io/kube-apiserver-client",
            &["digital signature"],
            "missing required usage for client certificate: client auth",
        ),
        (
            "serving",
            "kubernetes.io/kubelet-serving",
            &["digital signature", "server auth"],
            "DNS or IP subjectAltName is required",
        ),
    ];
    for (name, signer, usages, why) in cases {
        stage.approve(name, signer, usages).await;
        let status = stage.decided(name).await;
        assert_eq!(status.get("certificate"), None);
        let failed = &status["conditions"][1];
        assert_eq!(failed["type"], "Failed");
        assert_eq!(failed["reason"], "SignerValidationFailure");
        assert_eq!(failed["message"], why);
    }
    // Other signers are left to others.
    stage
        .approve("other", "example.com/signer", &["client auth"])
        .await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let other = stage.client.get(&requests(), "", "other").await.unwrap();
    assert_eq!(other["status"].get("certificate"), None);
    assert_eq!(other["status"]["conditions"].as_array().unwrap().len(), 1);
}

/// Permits a user or a group to create CertificateSigningRequests or one of their subresources.
async fn permit(stage: &Stage, resource: &str, kind: &str, subject: &str) {
    let rbac = |resource: &str| Gvr::new("rbac.authorization.k8s.io", "v1", resource);
    let name = resource.replace('/', "-");
    let role = json!({"metadata": {"name": name}, "rules": [{
        "apiGroups": ["certificates.k8s.io"], "verbs": ["create"], "resources": [resource],
    }]});
    stage
        .client
        .create(&rbac("clusterroles"), "", role)
        .await
        .unwrap();
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": group, "kind": kind, "name": subject}],
    });
    stage
        .client
        .create(&rbac("clusterrolebindings"), "", binding)
        .await
        .unwrap();
}

#[tokio::test]
async fn requests_of_permitted_kubelets_are_approved_and_signed() {
    const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
    let stage = stage().await;
    const RESOURCE: &str = "certificatesigningrequests";
    permit(&stage, RESOURCE, "Group", "system:authenticated").await;
    permit(
        &stage,
        &format!("{RESOURCE}/selfnodeclient"),
        "User",
        "system:node:a",
    )
    .await;
    permit(&stage, &format!("{RESOURCE}/nodeclient"), "User", "bootstrap").await;
    let usages = &["digital signature", "client auth"][..];
    let cases = [
        (
            "renewal",
            "system:node:a",
            KUBELET_CLIENT,
            usages,
            "Auto approving self kubelet client certificate after SubjectAccessReview.",
        ),
        (
            "first",
            "bootstrap",
            KUBELET_CLIENT,
            usages,
            "Auto approving kubelet client certificate after SubjectAccessReview.",
        ),
        // Without a permission, for another node, for another signer, with other usages.
        ("stranger", "system:node:b", KUBELET_CLIENT, usages, ""),
        (
            "signer",
            "bootstrap",
            "kubernetes.io/kube-apiserver-client",
            usages,
            "",
        ),
        ("usages", "bootstrap", KUBELET_CLIENT, &["server auth"], ""),
    ];
    for (name, user, signer, usages, _) in cases {
        stage.request_as(user, name, signer, usages).await;
    }
    for (name, _, _, _, message) in cases {
        if message.is_empty() {
            let request = stage.client.get(&requests(), "", name).await.unwrap();
            assert_eq!(request["status"], json!({}), "{name}");
            continue;
        }
        let status = stage.decided(name).await;
        let condition = &status["conditions"][0];
        let shown = ["type", "status", "reason", "message"].map(|field| condition[field].as_str().unwrap());
        assert_eq!(shown, ["Approved", "True", "AutoApproved", message], "{name}");
        assert!(status["certificate"].is_string(), "{name}");
    }
}
