//! Tests of the permissions of kubelets: the Node authorizer and NodeRestriction, as recorded from a real server; and
//! ABAC.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod asking;

use asking::{merge, post};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use operator_apiserver::{AbacPolicies, ApiServer, Authorization};
use serde_json::{Value, json};
use tower::ServiceExt;

const HERE: &str = "/api/v1/namespaces/default";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

/// Sends a request as the kubelet of the node n1; returns the status code and the message of an error.
async fn ask(server: &ApiServer, method: &str, path: &str, body: Value) -> (u16, String) {
    let media = if method == "PATCH" {
        "application/merge-patch+json"
    } else {
        "application/json"
    };
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let request = Request::builder()
        .method(Method::from_bytes(method.as_bytes()).unwrap())
        .uri(path)
        .header("content-type", media)
        .header("impersonate-user", "system:node:n1")
        .header("impersonate-group", "system:nodes")
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    let response = server.clone().oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let message = answer["message"].as_str().unwrap_or_default();
    (code, message.to_owned())
}

fn named(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

/// Returns a server with two nodes with a pod each. The pod of n1 uses the secret, the config map and the claim `used`.
async fn cluster() -> ApiServer {
    let server = ApiServer::builder()
        .authorizers([Authorization::Node, Authorization::Rbac])
        .enable_admission_plugins(["NodeRestriction"])
        .build()
        .unwrap();
    for name in ["n1", "n2"] {
        post(&server, "/api/v1/nodes", named(name)).await.is_done();
    }
    for name in ["default", "other"] {
        post(&server, &format!("{HERE}/serviceaccounts"), named(name))
            .await
            .is_done();
    }
    for kind in ["secrets", "configmaps"] {
        for name in ["used", "other"] {
            post(&server, &format!("{HERE}/{kind}"), named(name))
                .await
                .is_done();
        }
    }
    let containers = json!([{
        "name": "c", "image": "i", "envFrom": [{"secretRef": {"name": "used"}}],
        "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "used", "key": "k"}}}],
    }]);
    let token = json!({"sources": [{"serviceAccountToken": {"path": "t"}}]});
    let volumes = json!([
        {"name": "t", "projected": token},
        {"name": "v", "persistentVolumeClaim": {"claimName": "used"}},
    ]);
    let pod = json!({"metadata": {"name": "p1"}, "spec": {"nodeName": "n1", "containers": containers, "volumes": volumes}});
    post(&server, &format!("{HERE}/pods"), pod).await.is_done();
    let pod = json!({"metadata": {"name": "p2"}, "spec": {"nodeName": "n2", "containers": [{"name": "c", "image": "i"}]}});
    post(&server, &format!("{HERE}/pods"), pod).await.is_done();
    server
}

#[tokio::test]
async fn a_kubelet_can_read_objects_that_its_pods_use() {
    let server = cluster().await;
    let unrelated = "no relationship found between node 'n1' and this object";
    for (path, code, why) in [
        (format!("{HERE}/secrets/used"), 200, ""),
        (format!("{HERE}/secrets/other"), 403, unrelated),
        (format!("{HERE}/secrets"), 403, "No Object name found"),
        (
            "/api/v1/secrets".to_owned(),
            403,
            "can only read namespaced object of this type",
        ),
        (
            format!("{HERE}/secrets?fieldSelector=metadata.name%3Dused"),
            200,
            "",
        ),
        (format!("{HERE}/configmaps/used"), 200, ""),
        (format!("{HERE}/configmaps/other"), 403, unrelated),
        (format!("{HERE}/persistentvolumeclaims/used"), 404, "not found"),
        (format!("{HERE}/persistentvolumeclaims/other"), 403, unrelated),
        (
            format!("{HERE}/persistentvolumeclaims"),
            403,
            "can only get individual resources of this type",
        ),
        ("/api/v1/persistentvolumes/x".to_owned(), 403, unrelated),
        ("/api/v1/nodes/n1".to_owned(), 200, ""),
        (
            "/api/v1/nodes/n2".to_owned(),
            403,
            "node 'n1' cannot read 'n2', only its own Node object",
        ),
        (
            "/api/v1/nodes".to_owned(),
            403,
            "node 'n1' cannot read all nodes, only its own Node object",
        ),
        (
            "/api/v1/nodes?fieldSelector=metadata.name%3Dn1".to_owned(),
            200,
            "",
        ),
        (format!("{HERE}/pods/p1"), 200, ""),
        (format!("{HERE}/pods/p2"), 403, unrelated),
        (
            format!("{HERE}/pods"),
            403,
            "can only list/watch pods with spec.nodeName field selector",
        ),
        (
            "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1".to_owned(),
            200,
            "",
        ),
        (
            "/api/v1/pods?fieldSelector=spec.nodeName%3Dn2".to_owned(),
            403,
            "can only list/watch pods with spec.nodeName field selector",
        ),
        (
            format!("{HERE}/pods/p1/log"),
            403,
            "cannot get resource \"pods/log\" in API group \"\" in the namespace \"default\"",
        ),
        (format!("{HERE}/serviceaccounts/default"), 200, ""),
        (format!("{LEASES}/n1"), 404, "not found"),
        (
            format!("{LEASES}/n2"),
            403,
            "can only access node lease with the same name as the requesting node",
        ),
        (
            LEASES.to_owned(),
            403,
            "can only get, create, update, patch, or delete a node lease",
        ),
        (
            "/apis/storage.k8s.io/v1/csinodes".to_owned(),
            403,
            "can only get, create, update, patch, or delete a CSINode",
        ),
        (
            "/apis/storage.k8s.io/v1/volumeattachments/x".to_owned(),
            403,
            unrelated,
        ),
        (
            "/apis/resource.k8s.io/v1/resourceslices".to_owned(),
            403,
            "can only list/watch/deletecollection resourceslices with nodeName field selector",
        ),
        ("/api/v1/services".to_owned(), 200, ""),
        (
            "/api/v1/endpoints".to_owned(),
            403,
            "cannot list resource \"endpoints\" in API group \"\" at the cluster scope",
        ),
    ] {
        let (found, message) = ask(&server, "GET", &path, Value::Null).await;
        assert_eq!(found, code, "{path}: {message}");
        assert!(message.ends_with(why), "{path}: {message}");
    }
    let (code, message) = ask(&server, "DELETE", &format!("{HERE}/secrets/used"), Value::Null).await;
    assert_eq!(
        (code, message.as_str()),
        (
            403,
            "secrets \"used\" is forbidden: User \"system:node:n1\" cannot delete resource \"secrets\" in API group \"\" in the namespace \"default\": can only read resources of this type"
        )
    );
}

#[tokio::test]
async fn a_kubelet_can_change_only_its_own_node() {
    let server = cluster().await;
    let labels = |labels: Value| json!({"metadata": {"labels": labels}});
    for (path, patch, wanted) in [
        (
            "/api/v1/nodes/n1",
            labels(json!({"node-restriction.kubernetes.io/a": "b"})),
            "nodes \"n1\" is forbidden: is not allowed to modify labels: node-restriction.kubernetes.io/a",
        ),
        (
            "/api/v1/nodes/n1",
            labels(json!({"kubernetes.io/a": "b", "a": "b"})),
            "nodes \"n1\" is forbidden: is not allowed to modify labels: kubernetes.io/a",
        ),
        (
            "/api/v1/nodes/n1",
            labels(json!({"kubernetes.io/arch": "b", "a": "b", "node.kubernetes.io/x": "y"})),
            "",
        ),
        (
            "/api/v1/nodes/n1",
            json!({"spec": {"taints": []}}),
            "nodes \"n1\" is forbidden: node \"n1\" is not allowed to modify taints",
        ),
        (
            "/api/v1/nodes/n1",
            json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "y"}]}}),
            "nodes \"n1\" is forbidden: node \"n1\" is not allowed to modify ownerReferences",
        ),
        (
            "/api/v1/nodes/n2",
            labels(json!({"a": "b"})),
            "nodes \"n2\" is forbidden: node \"n1\" is not allowed to modify node \"n2\"",
        ),
        (
            "/api/v1/nodes/n2/status",
            json!({"status": {"phase": "x"}}),
            "nodes \"n2\" is forbidden: node \"n1\" is not allowed to modify node \"n2\"",
        ),
    ] {
        assert_eq!(
            ask(&server, "PATCH", path, patch.clone()).await.1,
            wanted,
            "{path} {patch}"
        );
    }
    let (_, message) = ask(&server, "POST", "/api/v1/nodes", named("n3")).await;
    assert_eq!(
        message,
        "nodes \"n3\" is forbidden: node \"n1\" is not allowed to modify node \"n3\""
    );
    let (code, _) = ask(&server, "POST", LEASES, named("n1")).await;
    assert_eq!(code, 201);
    let (_, message) = ask(&server, "POST", LEASES, named("n2")).await;
    let why = "can only access node lease with the same name as the requesting node";
    assert_eq!(
        message,
        format!("leases.coordination.k8s.io \"n2\" is forbidden: {why}")
    );
}

#[tokio::test]
async fn a_kubelet_writes_the_pods_of_its_node_alone() {
    let server = cluster().await;
    let pods = format!("{HERE}/pods?dryRun=All");
    let node = asking::get(&server, "/api/v1/nodes/n1").await.body;
    let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": node["metadata"]["uid"], "controller": true}]);
    let pod = |annotated: bool, owners: &Value, spec: Value| {
        let mut pod =
            json!({"metadata": {"name": "m"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        if annotated {
            pod["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "x"});
        }
        if !owners.is_null() {
            pod["metadata"]["ownerReferences"] = owners.clone();
        }
        for (field, value) in spec.as_object().unwrap() {
            pod["spec"][field] = value.clone();
        }
        pod
    };
    let (own, none) = (json!({"nodeName": "n1"}), Value::Null);
    let secret = json!([{"name": "v", "secret": {"secretName": "x"}}]);
    for (body, why) in [
        (
            pod(false, &none, own.clone()),
            "pod does not have \"kubernetes.io/config.mirror\" annotation, node \"n1\" can only create mirror pods",
        ),
        (
            pod(true, &none, json!({"nodeName": "n2"})),
            "node \"n1\" can only create pods with spec.nodeName set to itself",
        ),
        (
            pod(true, &none, own.clone()),
            "node \"n1\" can only create pods with an owner reference set to itself",
        ),
        (pod(true, &owner, own), ""),
        (
            pod(true, &owner, json!({"nodeName": "n1", "serviceAccountName": "x"})),
            "a mirror pod may not reference service accounts",
        ),
        (
            pod(true, &owner, json!({"nodeName": "n1", "volumes": secret})),
            "a mirror pod may not reference secrets",
        ),
    ] {
        let (code, message) = ask(&server, "POST", &pods, body).await;
        assert!(
            message.ends_with(why) && (code == 201) == why.is_empty(),
            "{why}: {message}"
        );
    }
    let status = json!({"status": {"phase": "Running"}});
    for (method, path, body, why) in [
        (
            "DELETE",
            "p2",
            Value::Null,
            "node \"n1\" can only delete pods with spec.nodeName set to itself",
        ),
        (
            "PATCH",
            "p2/status",
            status.clone(),
            "node \"n1\" can only update pod status for pods with spec.nodeName set to itself",
        ),
        ("PATCH", "p1/status", status, ""),
        (
            "PATCH",
            "p1/status",
            json!({"metadata": {"labels": {"a": "b"}}}),
            "node \"n1\" cannot update labels through pod status",
        ),
        (
            "POST",
            "p2/eviction",
            named("p2"),
            "node n1 can only evict pods with spec.nodeName set to itself",
        ),
        ("DELETE", "p1", Value::Null, ""),
    ] {
        let (code, message) = ask(&server, method, &format!("{HERE}/pods/{path}"), body).await;
        assert!(
            message.ends_with(why) && (code == 200) == why.is_empty(),
            "{path}: {message}"
        );
    }
}

#[tokio::test]
async fn a_kubelet_gets_tokens_for_its_pods_alone() {
    let server = cluster().await;
    let uid = asking::get(&server, &format!("{HERE}/pods/p1")).await.body["metadata"]["uid"].clone();
    let path = format!("{HERE}/serviceaccounts/default/token");
    let bound = |pod: &str, uid: &Value| json!({"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": pod, "uid": uid}}});
    for (body, why) in [
        (json!({"spec": {}}), "node requested token not bound to a pod"),
        (
            bound("p1", &Value::Null),
            "node requested token with a pod binding without a uid",
        ),
        (
            bound("p2", &json!("x")),
            "the UID in the bound object reference (x) does not match the UID in record. The object might have been deleted and then recreated",
        ),
        (bound("p1", &uid), ""),
    ] {
        let (code, message) = ask(&server, "POST", &path, body).await;
        assert!(
            message.ends_with(why) && (code == 201) == why.is_empty(),
            "{why}: {message}"
        );
    }
    let other = format!("{HERE}/serviceaccounts/other/token");
    let (_, message) = ask(&server, "POST", &other, json!({"spec": {}})).await;
    assert!(
        message.ends_with("no relationship found between node 'n1' and this object"),
        "{message}"
    );
}

#[tokio::test]
async fn a_kubelet_gets_tokens_for_the_audiences_of_volumes() {
    let builder = ApiServer::builder().authorizers([Authorization::Node, Authorization::Rbac]);
    let builder = builder.enable_admission_plugins(["NodeRestriction"]);
    let server = builder
        .disable_admission_plugins(["ServiceAccount"])
        .build()
        .unwrap();
    let make = async |path: &str, object: Value| {
        let made = post(&server, path, object).await;
        assert_eq!(made.code, 201, "{}", made.body);
        made.body
    };
    make("/api/v1/nodes", named("n1")).await;
    make(&format!("{HERE}/serviceaccounts"), named("default")).await;
    let driver = |name: &str, audiences: Value| json!({"metadata": {"name": name}, "spec": {"tokenRequests": audiences}});
    let drivers = "/apis/storage.k8s.io/v1/csidrivers";
    make(
        drivers,
        driver("csi.a", json!([{"audience": "drv"}, {"audience": ""}])),
    )
    .await;
    make(drivers, driver("csi.b", json!([{"audience": "pvdrv"}]))).await;
    let size = json!({"storage": "1Gi"});
    let volume = json!({"metadata": {"name": "pv"}, "spec": {
        "capacity": size, "accessModes": ["ReadWriteOnce"], "csi": {"driver": "csi.b", "volumeHandle": "h"},
    }});
    make("/api/v1/persistentvolumes", volume).await;
    let claim =
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": size}, "volumeName": "pv"});
    for name in ["c", "eph-e"] {
        let claim = json!({"metadata": {"name": name}, "spec": claim});
        make(&format!("{HERE}/persistentvolumeclaims"), claim).await;
    }
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({"metadata": {"name": "extra"}, "rules": [{
        "verbs": ["request-serviceaccounts-token-audience"], "apiGroups": [""], "resources": ["extra"],
        "resourceNames": ["default"],
    }]});
    make(&format!("{rbac}/clusterroles"), role).await;
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "metadata": {"name": "extra"}, "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "extra"},
        "subjects": [{"kind": "Group", "apiGroup": group, "name": "system:nodes"}],
    });
    make(&format!("{rbac}/clusterrolebindings"), binding).await;
    let projected =
        |token: Value| json!([{"name": "v", "projected": {"sources": [{"serviceAccountToken": token}]}}]);
    let template = json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": size}}});
    for (name, volumes, granted, error) in [
        ("none", json!([]), &["extra"][..], ""),
        (
            "proj",
            projected(json!({"path": "t", "audience": "vault"})),
            &["vault", "extra"],
            "",
        ),
        ("projdef", projected(json!({"path": "t"})), &["", "extra"], ""),
        (
            "csi",
            json!([{"name": "v", "csi": {"driver": "csi.a"}}]),
            &["", "drv", "extra"],
            "",
        ),
        (
            "csinone",
            json!([{"name": "v", "csi": {"driver": "csi.none"}}]),
            &[],
            "csidriver.storage.k8s.io \"csi.none\" not found",
        ),
        (
            "pvc",
            json!([{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]),
            &["pvdrv", "extra"],
            "",
        ),
        (
            "pvcmiss",
            json!([{"name": "v", "persistentVolumeClaim": {"claimName": "miss"}}]),
            &[],
            "persistentvolumeclaim \"miss\" not found",
        ),
        (
            "eph",
            json!([{"name": "e", "ephemeral": {"volumeClaimTemplate": template}}]),
            &["pvdrv", "extra"],
            "",
        ),
    ] {
        let spec = json!({
            "nodeName": "n1", "serviceAccountName": "default", "containers": [{"name": "c", "image": "i"}],
            "volumes": volumes,
        });
        let pod = make(
            &format!("{HERE}/pods"),
            json!({"metadata": {"name": name}, "spec": spec}),
        )
        .await;
        let bound = json!({"kind": "Pod", "apiVersion": "v1", "name": name, "uid": pod["metadata"]["uid"]});
        let request = async |audiences: Value| {
            let body = json!({"spec": {"audiences": audiences, "boundObjectRef": bound}});
            ask(
                &server,
                "POST",
                &format!("{HERE}/serviceaccounts/default/token"),
                body,
            )
            .await
        };
        for audience in ["", "vault", "drv", "pvdrv", "extra"] {
            let (code, message) = request(json!([audience])).await;
            let expected = if granted.contains(&audience) {
                String::new()
            } else if error.is_empty() {
                format!(
                    "serviceaccounts \"default\" is forbidden: audience \"{audience}\" not found in pod spec volume, system:node:n1 is not authorized to request tokens for this audience"
                )
            } else {
                format!(
                    "serviceaccounts \"default\" is forbidden: error validating audience \"{audience}\": {error}"
                )
            };
            assert_eq!((code == 201, message), (expected.is_empty(), expected), "{name}");
        }
        let (_, message) = request(json!(["a", "b"])).await;
        assert_eq!(
            message,
            "serviceaccounts \"default\" is forbidden: node may only request 0 or 1 audiences"
        );
    }
}

#[tokio::test]
async fn abac_policies_of_a_file_grant_permissions() {
    let policy = |spec: Value| {
        json!({"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": spec})
            .to_string()
    };
    let file = [
        "# a comment".to_owned(),
        policy(
            json!({"user": "system:node:n1", "namespace": "default", "resource": "pods", "readonly": true}),
        ),
        policy(json!({"group": "system:nodes", "nonResourcePath": "/version*"})),
    ]
    .join("\n");
    let policies = AbacPolicies::parse(&file).unwrap();
    let server = ApiServer::builder()
        .authorization(Authorization::Abac(policies))
        .build()
        .unwrap();
    for (method, path, code) in [
        ("GET", "/api/v1/namespaces/default/pods", 200),
        ("DELETE", "/api/v1/namespaces/default/pods", 403),
        ("GET", "/api/v1/namespaces/kube-system/pods", 403),
        ("GET", "/api/v1/namespaces/default/secrets", 403),
        ("GET", "/version", 200),
        ("GET", "/healthz", 403),
    ] {
        let (found, message) = ask(&server, method, path, Value::Null).await;
        assert_eq!(found, code, "{method} {path}: {message}");
        assert_eq!(
            message.ends_with(": No policy matched."),
            code == 403,
            "{message}"
        );
    }
    let refused = AbacPolicies::parse("\n{\"kind\": \"Policy\"}").unwrap_err();
    assert!(
        refused.starts_with("line 2: it must be a Policy of abac."),
        "{refused}"
    );
    merge(&server, HERE, json!({})).await.is_done();
}
