//! Tests of authentication and authorization: over HTTPS with tokens, and in the process with impersonation.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use operator_apiserver::{ApiServer, ListenOptions, Listener};
use serde_json::{Value, json};
use tower::ServiceExt;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Sends a request inside the process, as a user or (without one) as the administrator; returns the response.
async fn ask(
    server: &ApiServer,
    user: Option<&str>,
    method: Method,
    path: &str,
    body: Value,
) -> (u16, Value) {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json");
    if let Some(user) = user {
        request = request.header("impersonate-user", user);
    }
    send(server, request, body).await
}

async fn send(server: &ApiServer, request: http::request::Builder, body: Value) -> (u16, Value) {
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let request = request.body(Full::new(Bytes::from(body))).unwrap();
    let response = server.clone().oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    (
        code,
        serde_json::from_slice(&bytes).unwrap_or(Value::String(text)),
    )
}

async fn create(server: &ApiServer, path: &str, object: Value) -> Value {
    let (code, created) = ask(server, None, Method::POST, path, object).await;
    assert_eq!(code, 201, "{created}");
    created
}

fn message(answer: &(u16, Value)) -> (u16, &str) {
    (answer.0, answer.1["message"].as_str().unwrap_or_default())
}

fn role(kind: &str, name: &str, rules: &Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "rules": rules,
    })
}

fn binding(kind: &str, name: &str, (role_kind, role): (&str, &str), subject: &Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role},
        "subjects": [subject],
    })
}

fn user(name: &str) -> Value {
    json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name})
}

/// Grants jane rules in the namespace `default`.
async fn grant(server: &ApiServer, rules: Value) {
    let roles = format!("{RBAC}/namespaces/default/roles");
    create(server, &roles, role("Role", "janes", &rules)).await;
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    let janes = binding("RoleBinding", "janes", ("Role", "janes"), &user("jane"));
    create(server, &bindings, janes).await;
}

async fn may(server: &ApiServer, spec: Value) -> Value {
    let review =
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec});
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    create(server, path, review).await["status"].clone()
}

#[tokio::test]
async fn every_kind_of_subject_is_named_in_the_reason() {
    let server = ApiServer::builder().build().unwrap();
    let all = json!([
        {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]},
        {"verbs": ["get"], "nonResourceURLs": ["/logs/*"]},
    ]);
    create(
        &server,
        &format!("{RBAC}/clusterroles"),
        role("ClusterRole", "all", &all),
    )
    .await;
    let subjects = [
        user("jane"),
        json!({"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "devs"}),
        json!({"kind": "ServiceAccount", "name": "robot", "namespace": "default"}),
    ];
    for (index, subject) in subjects.iter().enumerate() {
        let name = format!("b{index}");
        let bound = binding("ClusterRoleBinding", &name, ("ClusterRole", "all"), subject);
        create(&server, &format!("{RBAC}/clusterrolebindings"), bound).await;
    }
    let pods = json!({"verb": "get", "resource": "pods", "namespace": "default"});
    let allowed = |binding: &str, subject: &str| {
        json!({
            "allowed": true,
            "reason": format!("RBAC: allowed by ClusterRoleBinding \"{binding}\" of ClusterRole \"all\" to {subject}"),
        })
    };
    let reason = may(&server, json!({"user": "jane", "resourceAttributes": pods})).await;
    assert_eq!(reason, allowed("b0", "User \"jane\""));
    let reason = may(&server, json!({"groups": ["devs"], "resourceAttributes": pods})).await;
    assert_eq!(reason, allowed("b1", "Group \"devs\""));
    let robot = "system:serviceaccount:default:robot";
    let reason = may(&server, json!({"user": robot, "resourceAttributes": pods})).await;
    assert_eq!(reason, allowed("b2", "ServiceAccount \"robot/default\""));
    let logs = json!({"verb": "get", "path": "/logs/today"});
    let reason = may(&server, json!({"user": "jane", "nonResourceAttributes": logs})).await;
    assert_eq!(reason, allowed("b0", "User \"jane\""));
    let put = json!({"verb": "put", "path": "/logs/today"});
    let reason = may(&server, json!({"user": "jane", "nonResourceAttributes": put})).await;
    assert_eq!(reason, json!({"allowed": false}));
}

#[tokio::test]
async fn rejections_report_missing_roles() {
    let server = ApiServer::builder().build().unwrap();
    let bound = binding("ClusterRoleBinding", "b", ("ClusterRole", "gone"), &user("jane"));
    create(&server, &format!("{RBAC}/clusterrolebindings"), bound).await;
    let answer = ask(&server, Some("jane"), Method::GET, "/api/v1/nodes", Value::Null).await;
    assert_eq!(
        message(&answer),
        (
            403,
            "nodes is forbidden: User \"jane\" cannot list resource \"nodes\" in API group \"\" at the cluster scope: RBAC: clusterrole.rbac.authorization.k8s.io \"gone\" not found"
        )
    );
}

#[tokio::test]
async fn a_new_cluster_allows_discovery_and_nothing_else() {
    let server = ApiServer::builder().build().unwrap();
    let code =
        async |user: &str, path: &str| ask(&server, Some(user), Method::GET, path, Value::Null).await.0;
    for path in ["/healthz", "/version", "/api", "/apis/apps/v1", "/openapi/v2"] {
        assert_eq!(code("jane", path).await, 200, "{path}");
    }
    for path in [
        "/",
        "/metrics",
        "/livez/ping",
        "/.well-known/openid-configuration",
    ] {
        assert_eq!(code("jane", path).await, 403, "{path}");
    }
    for (path, expected) in [
        ("/healthz", 200),
        ("/version", 200),
        ("/api", 403),
        ("/apis", 403),
    ] {
        assert_eq!(code("system:anonymous", path).await, expected, "{path}");
    }
    let robot = "system:serviceaccount:default:robot";
    assert_eq!(code(robot, "/.well-known/openid-configuration").await, 200);
}

#[tokio::test]
async fn privilege_escalation_is_rejected() {
    let server = ApiServer::builder().build().unwrap();
    let writes = json!(["create", "get", "update", "patch"]);
    grant(
        &server,
        json!([
            {"verbs": writes, "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"]},
            {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "pods/log"], "resourceNames": ["a"]},
        ]),
    )
    .await;
    let roles = format!("{RBAC}/namespaces/default/roles");
    let pods = |names: &[&str]| json!([{"verbs": ["list"], "apiGroups": [""], "resources": ["pods"], "resourceNames": names}]);
    let try_role = async |rules: &Value| {
        ask(
            &server,
            Some("jane"),
            Method::POST,
            &roles,
            role("Role", "x", rules),
        )
        .await
    };
    let refused = try_role(&pods(&["a", "b"])).await;
    let begin = "roles.rbac.authorization.k8s.io \"x\" is forbidden: user \"jane\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n";
    assert_eq!(
        message(&refused),
        (
            403,
            format!(
                "{begin}{{APIGroups:[\"\"], Resources:[\"pods\"], ResourceNames:[\"b\"], Verbs:[\"list\"]}}"
            )
            .as_str()
        )
    );
    assert_eq!(try_role(&pods(&["a"])).await.0, 201);
    // A change that grants nothing new is still checked; a change that only releases the object is not.
    let secrets = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}]);
    let mut guarded = role("Role", "guarded", &secrets);
    guarded["metadata"]["finalizers"] = json!(["example.com/guard"]);
    create(&server, &roles, guarded).await;
    let patch = async |patch: Value| {
        let request = Request::builder()
            .method(Method::PATCH)
            .uri(format!("{roles}/guarded"))
            .header("content-type", "application/merge-patch+json")
            .header("impersonate-user", "jane");
        send(&server, request, patch).await.0
    };
    assert_eq!(patch(json!({"metadata": {"labels": {"a": "b"}}})).await, 403);
    assert_eq!(patch(json!({"metadata": {"finalizers": []}})).await, 200);
}

#[tokio::test]
async fn binding_a_missing_role_fails_as_on_the_real_server() {
    let server = ApiServer::builder().build().unwrap();
    let rule = json!({"verbs": ["create"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["rolebindings"]});
    grant(&server, json!([rule])).await;
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    let to_nowhere = binding("RoleBinding", "b", ("Role", "nope"), &user("joe"));
    let answer = ask(&server, Some("jane"), Method::POST, &bindings, to_nowhere).await;
    assert_eq!(
        message(&answer),
        (404, "rolebindings.rbac.authorization.k8s.io \"nope\" not found")
    );
}

#[tokio::test]
async fn a_put_that_creates_needs_both_permissions() {
    let server = ApiServer::builder().build().unwrap();
    grant(
        &server,
        json!([{"verbs": ["update"], "apiGroups": [""], "resources": ["limitranges"]}]),
    )
    .await;
    let path = "/api/v1/namespaces/default/limitranges/l";
    let limits = json!({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}});
    let answer = ask(&server, Some("jane"), Method::PUT, path, limits.clone()).await;
    assert_eq!(
        message(&answer),
        (
            403,
            "limitranges \"l\" is forbidden: User \"jane\" cannot create resource \"limitranges\" in API group \"\" in the namespace \"default\""
        )
    );
    assert_eq!(ask(&server, None, Method::PUT, path, limits.clone()).await.0, 201);
    assert_eq!(ask(&server, Some("jane"), Method::PUT, path, limits).await.0, 200);
}

/// Returns a server and its listener, with a static token for jane, who may impersonate joe.
async fn listening() -> (ApiServer, Listener) {
    let server = ApiServer::builder()
        .token("janes-token", "jane", ["devs"])
        .build()
        .unwrap();
    let listener = server.listen(ListenOptions::default()).await.unwrap();
    let rules = json!([{"verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"], "resourceNames": ["joe"]}]);
    create(
        &server,
        &format!("{RBAC}/clusterroles"),
        role("ClusterRole", "actor", &rules),
    )
    .await;
    let bound = binding(
        "ClusterRoleBinding",
        "actor",
        ("ClusterRole", "actor"),
        &user("jane"),
    );
    create(&server, &format!("{RBAC}/clusterrolebindings"), bound).await;
    (server, listener)
}

/// Returns an HTTPS client without a certificate.
async fn connect(listener: &Listener, token: Option<&str>, acts_as: Option<&str>) -> Client {
    let mut config = Kubeconfig::from_yaml(&listener.kubeconfig()).unwrap();
    let login = config.auth_infos.first_mut().unwrap().auth_info.as_mut().unwrap();
    login.client_certificate_data = None;
    login.client_key_data = None;
    login.token = token.map(|token| token.to_owned().into());
    login.impersonate = acts_as.map(str::to_owned);
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(config, &options).await.unwrap();
    Client::try_from(config).unwrap()
}

async fn who_am_i(client: &Client) -> Result<Value, (u16, String)> {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let request = Request::builder()
        .method(Method::POST)
        .uri("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header("content-type", "application/json")
        .body(review.to_string().into_bytes())
        .unwrap();
    match client.request::<Value>(request).await {
        Ok(review) => Ok(review["status"]["userInfo"].clone()),
        Err(kube::Error::Api(status)) => Err((status.code, status.message.clone())),
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test]
async fn static_tokens_authenticate_and_unknown_ones_do_not() {
    let (_server, listener) = listening().await;
    let jane = connect(&listener, Some("janes-token"), None).await;
    assert_eq!(
        who_am_i(&jane).await.unwrap(),
        json!({"username": "jane", "groups": ["devs", "system:authenticated"]})
    );
    let stranger = connect(&listener, Some("another"), None).await;
    assert_eq!(
        who_am_i(&stranger).await.unwrap_err(),
        (401, "Unauthorized".to_owned())
    );
    let nobody = connect(&listener, None, None).await;
    assert_eq!(who_am_i(&nobody).await.unwrap_err().0, 403);
    listener.shutdown().await;
}

#[tokio::test]
async fn one_acts_as_another_only_with_permission() {
    let (_server, listener) = listening().await;
    let as_joe = connect(&listener, Some("janes-token"), Some("joe")).await;
    assert_eq!(
        who_am_i(&as_joe).await.unwrap(),
        json!({"username": "joe", "groups": ["system:authenticated"]})
    );
    let as_ann = connect(&listener, Some("janes-token"), Some("ann")).await;
    assert_eq!(
        who_am_i(&as_ann).await.unwrap_err(),
        (
            403,
            "selfsubjectreviews.authentication.k8s.io is forbidden: User \"jane\" cannot impersonate-on:user-info:create resource \"selfsubjectreviews\" in API group \"authentication.k8s.io\" at the cluster scope".to_owned()
        )
    );
    listener.shutdown().await;
}

/// Returns a token for the service account `default/robot`.
async fn token(server: &ApiServer, spec: Value) -> String {
    let path = "/api/v1/namespaces/default/serviceaccounts/robot/token";
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
    let answer = create(server, path, request).await;
    answer["status"]["token"].as_str().unwrap().to_owned()
}

async fn review(server: &ApiServer, token: &str, audiences: &[&str]) -> Value {
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": {"token": token, "audiences": audiences},
    });
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    create(server, path, review).await["status"].clone()
}

#[tokio::test]
async fn a_token_of_a_service_account_lives_as_long_as_the_account() {
    let server = ApiServer::builder().build().unwrap();
    let listener = server.listen(ListenOptions::default()).await.unwrap();
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let robot = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    let uid = create(&server, accounts, robot.clone()).await["metadata"]["uid"].clone();
    let its_token = token(&server, json!({})).await;
    let client = connect(&listener, Some(&its_token), None).await;
    let info = who_am_i(&client).await.unwrap();
    assert_eq!(info["username"], "system:serviceaccount:default:robot");
    assert_eq!(info["uid"], uid);
    assert_eq!(
        info["groups"],
        json!([
            "system:serviceaccounts",
            "system:serviceaccounts:default",
            "system:authenticated"
        ])
    );
    let answer = ask(
        &server,
        None,
        Method::DELETE,
        &format!("{accounts}/robot"),
        Value::Null,
    )
    .await;
    assert_eq!(answer.0, 200);
    assert_eq!(who_am_i(&client).await.unwrap_err().0, 401);
    // A new account with the same name does not make the token valid again.
    create(&server, accounts, robot).await;
    assert_eq!(who_am_i(&client).await.unwrap_err().0, 401);
    listener.shutdown().await;
}

#[tokio::test]
async fn a_token_is_good_for_its_audiences_only_and_on_its_server_only() {
    let [server, other] = [(); 2].map(|()| ApiServer::builder().build().unwrap());
    let robot = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    create(&server, "/api/v1/namespaces/default/serviceaccounts", robot).await;
    let vault = token(&server, json!({"audiences": ["vault", "registry"]})).await;
    let known = review(&server, &vault, &["registry", "another"]).await;
    assert_eq!(
        (&known["authenticated"], &known["audiences"]),
        (&json!(true), &json!(["registry"]))
    );
    assert_eq!(
        review(&server, &vault, &[]).await["error"],
        "[invalid bearer token, token audiences [\"vault\" \"registry\"] is invalid for the target audiences [\"https://127.0.0.1:16443/\"]]"
    );
    let refused = review(&other, &vault, &["vault"]).await;
    assert_eq!(refused, json!({"user": {}, "error": "invalid bearer token"}));
}

#[tokio::test]
async fn a_pod_takes_its_token_with_it() {
    let server = ApiServer::builder()
        .disable_admission_plugins(["ServiceAccount"])
        .build()
        .unwrap();
    let robot = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    create(&server, "/api/v1/namespaces/default/serviceaccounts", robot).await;
    let pods = "/api/v1/namespaces/default/pods";
    for (name, account) in [("a", "robot"), ("b", "another")] {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"serviceAccountName": account, "containers": [{"name": "c", "image": "i"}]},
        });
        create(&server, pods, pod).await;
    }
    let bound = |pod: &str| json!({"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": pod}});
    let its_token = token(&server, bound("a")).await;
    let status = review(&server, &its_token, &[]).await;
    let extra = &status["user"]["extra"];
    assert_eq!(extra["authentication.kubernetes.io/pod-name"], json!(["a"]));
    let path = "/api/v1/namespaces/default/serviceaccounts/robot/token";
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": bound("b")});
    let answer = ask(&server, None, Method::POST, path, request).await;
    assert_eq!(
        message(&answer),
        (
            400,
            "cannot bind token for serviceaccount \"robot\" to pod running with different serviceaccount name."
        )
    );
    let now = json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0});
    assert_eq!(
        ask(&server, None, Method::DELETE, &format!("{pods}/a"), now)
            .await
            .0,
        200
    );
    assert_eq!(
        review(&server, &its_token, &[]).await["error"],
        "[invalid bearer token, service account token has been invalidated]"
    );
}

#[tokio::test]
async fn given_keys_sign_and_check() {
    let key = rcgen::KeyPair::generate().unwrap();
    let signer = ApiServer::builder()
        .service_account_issuer("https://issuer.example.com")
        .service_account_signing_key(key.serialize_pem())
        .build()
        .unwrap();
    let robot = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    create(&signer, "/api/v1/namespaces/default/serviceaccounts", robot).await;
    let its_token = token(&signer, json!({})).await;
    assert_eq!(review(&signer, &its_token, &[]).await["authenticated"], true);
    let (_, document) = ask(
        &signer,
        None,
        Method::GET,
        "/.well-known/openid-configuration",
        Value::Null,
    )
    .await;
    assert_eq!(
        document,
        json!({
            "issuer": "https://issuer.example.com",
            "jwks_uri": "https://issuer.example.com/openid/v1/jwks",
            "response_types_supported": ["id_token"], "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        })
    );
    // A server that has only the public key accepts the signature of the token, but does not have the account.
    let checker = ApiServer::builder()
        .service_account_issuer("https://issuer.example.com")
        .service_account_key(key.public_key_pem())
        .build()
        .unwrap();
    assert_eq!(
        review(&checker, &its_token, &[]).await["error"],
        "[invalid bearer token, serviceaccounts \"robot\" not found]"
    );
    let refused = ApiServer::builder()
        .service_account_key("no key")
        .build()
        .unwrap_err();
    assert!(
        refused
            .to_string()
            .starts_with("cannot use the service account verification key"),
        "{refused}"
    );
}

#[tokio::test]
async fn the_key_is_kept_in_the_data_directory() {
    let directory = tempfile::tempdir().unwrap();
    let start = || {
        ApiServer::builder()
            .data_directory(directory.path())
            .build()
            .unwrap()
    };
    let server = start();
    let robot = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    create(&server, "/api/v1/namespaces/default/serviceaccounts", robot).await;
    let its_token = token(&server, json!({})).await;
    drop(server);
    assert_eq!(review(&start(), &its_token, &[]).await["authenticated"], true);
}

/// Returns the body of a request for a certificate.
fn certificate_request() -> Value {
    use base64::Engine;
    let key = rcgen::KeyPair::generate().unwrap();
    let request = rcgen::CertificateParams::default()
        .serialize_request(&key)
        .unwrap();
    let pem = base64::prelude::BASE64_STANDARD.encode(request.pem().unwrap());
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": "c"},
        "spec": {"request": pem, "signerName": "example.com/s", "usages": ["client auth"], "username": "root"},
    })
}

#[tokio::test]
async fn approving_needs_permission_for_the_signer() {
    let server = ApiServer::builder().build().unwrap();
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let mut request = create(&server, path, certificate_request()).await;
    let rules = json!([{"verbs": ["update"], "apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests/approval"]}]);
    let signers = json!([{"verbs": ["approve"], "apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "resourceNames": ["example.com/*"]}]);
    for (name, rules) in [("updater", rules), ("approver", signers)] {
        create(
            &server,
            &format!("{RBAC}/clusterroles"),
            role("ClusterRole", name, &rules),
        )
        .await;
    }
    let bindings = format!("{RBAC}/clusterrolebindings");
    let bound = binding(
        "ClusterRoleBinding",
        "updater",
        ("ClusterRole", "updater"),
        &user("jane"),
    );
    create(&server, &bindings, bound).await;
    request["status"]["conditions"] = json!([{"type": "Approved", "status": "True", "reason": "Fine"}]);
    let approval = format!("{path}/c/approval");
    let refused = ask(&server, Some("jane"), Method::PUT, &approval, request.clone()).await;
    assert_eq!(
        message(&refused),
        (
            403,
            "certificatesigningrequests.certificates.k8s.io \"c\" is forbidden: user not permitted to approve requests with signerName \"example.com/s\""
        )
    );
    let bound = binding(
        "ClusterRoleBinding",
        "approver",
        ("ClusterRole", "approver"),
        &user("jane"),
    );
    create(&server, &bindings, bound).await;
    let approved = ask(&server, Some("jane"), Method::PUT, &approval, request).await;
    assert_eq!(approved.0, 200, "{approved:?}");
}

#[tokio::test]
async fn a_certificate_request_carries_its_requester() {
    let server = ApiServer::builder().build().unwrap();
    let body = certificate_request();
    let request = Request::builder()
        .method(Method::POST)
        .uri("/apis/certificates.k8s.io/v1/certificatesigningrequests")
        .header("content-type", "application/json")
        .header("impersonate-user", "jane")
        .header("impersonate-group", "system:masters")
        .header("impersonate-uid", "u-1")
        .header("impersonate-extra-dept", "sales");
    let (code, created) = send(&server, request, body).await;
    assert_eq!(code, 201, "{created}");
    let spec = &created["spec"];
    assert_eq!(spec["username"], "jane");
    assert_eq!(spec["uid"], "u-1");
    assert_eq!(spec["extra"], json!({"dept": ["sales"]}));
    assert_eq!(spec["groups"], json!(["system:masters", "system:authenticated"]));
}
