//! Tests of the replacement for the programs of controller-runtime's envtest, started as envtest starts its programs.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};

use common::Dir;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig, NamedAuthInfo};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustix::process::{Pid, Signal, kill_process};

/// A program in the assets directory.
struct Program {
    child: Child,
    errors: BufReader<ChildStderr>,
}

impl Program {
    fn start(path: &Path, arguments: &[String]) -> Self {
        let mut child = Command::new(path)
            .args(arguments)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let errors = BufReader::new(child.stderr.take().unwrap());
        Self { child, errors }
    }

    /// Returns the text after a prefix in the first line that contains it. The preceding lines are added to `seen`.
    #[track_caller]
    fn after(&mut self, text: &str, seen: &mut String) -> String {
        loop {
            let mut line = String::new();
            let read = self.errors.read_line(&mut line).unwrap();
            assert!(read > 0, "the program ended without {text:?}: {seen}");
            if let Some((_, rest)) = line.split_once(text) {
                return rest.trim().to_owned();
            }
            seen.push_str(&line);
        }
    }

    fn terminate(mut self) -> ExitStatus {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        self.child.wait().unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A certificate authority like that of envtest.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params
            .distinguished_name
            .push(DnType::CommonName, "envtest-environment");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let pem = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        Self { pem, issuer }
    }

    /// Issues a certificate and its key.
    fn issue(&self, name: &str, group: &str, hosts: &[&str]) -> (String, String) {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.distinguished_name.push(DnType::OrganizationName, group);
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

/// The assets, and a certificate directory with the files that envtest creates.
struct Environment {
    dir: Dir,
    assets: PathBuf,
    serving: Authority,
    clients: Authority,
}

impl Environment {
    fn new() -> Self {
        let dir = Dir::named("suite");
        let assets = PathBuf::from(dir.ok(&["envtest", "assets", "bin"]).trim());
        let (serving, clients) = (Authority::new(), Authority::new());
        let (certificate, key) = serving.issue("localhost", "", &["localhost", "127.0.0.1"]);
        let (signer, signer_key) = serving.issue("sa-signer", "", &[]);
        dir.write("apiserver.crt", &certificate);
        dir.write("apiserver.key", &key);
        dir.write("client-cert-auth-ca.crt", &clients.pem);
        dir.write("sa-signer.crt", &signer);
        dir.write("sa-signer.key", &signer_key);
        Self {
            dir,
            assets,
            serving,
            clients,
        }
    }

    /// Returns the arguments of envtest, with port 0.
    fn arguments(&self) -> Vec<String> {
        let path = |name: &str| self.dir.path.join(name).display().to_string();
        vec![
            "--advertise-address=127.0.0.1".to_owned(),
            "--allow-privileged=true".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--cert-dir={}", self.dir.path.display()),
            format!("--client-ca-file={}", path("client-cert-auth-ca.crt")),
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            "--etcd-servers=http://127.0.0.1:1".to_owned(),
            "--secure-port=0".to_owned(),
            "--service-account-issuer=https://127.0.0.1:1/".to_owned(),
            format!("--service-account-key-file={}", path("sa-signer.crt")),
            format!("--service-account-signing-key-file={}", path("sa-signer.key")),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        ]
    }

    fn fails(&self, program: &str, arguments: &[String]) -> String {
        let output = Command::new(self.assets.join(program))
            .args(arguments)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    }

    async fn client(&self, url: &str, user: Option<(&str, &str)>) -> kube::Client {
        let encode = |pem: &str| base64::Engine::encode(&base64::prelude::BASE64_STANDARD, pem);
        let mut auth = AuthInfo::default();
        if let Some((name, group)) = user {
            let (certificate, key) = self.clients.issue(name, group, &[]);
            auth.client_certificate_data = Some(encode(&certificate));
            auth.client_key_data = Some(encode(&key).into());
        }
        self.connect(url, auth).await
    }

    async fn connect(&self, url: &str, auth: AuthInfo) -> kube::Client {
        let encode = |pem: &str| base64::Engine::encode(&base64::prelude::BASE64_STANDARD, pem);
        let mut config: Kubeconfig = serde_json::from_value(serde_json::json!({
            "clusters": [{"name": "c", "cluster": {
                "server": url, "certificate-authority-data": encode(&self.serving.pem),
            }}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }))
        .unwrap();
        config.auth_infos = vec![NamedAuthInfo {
            name: "u".to_owned(),
            auth_info: Some(auth),
            other: Default::default(),
        }];
        let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
        kube::Client::try_from(config.unwrap()).unwrap()
    }
}

async fn get(client: &kube::Client, path: &str) -> kube::Result<String> {
    client
        .request_text(http::Request::get(path).body(Vec::new()).unwrap())
        .await
}

#[tokio::test]
async fn the_api_server_knows_clients_by_their_certificates_and_ends_on_sigterm() {
    let environment = Environment::new();
    let mut seen = String::new();
    let path = environment.assets.join("kube-apiserver");
    let mut program = Program::start(&path, &environment.arguments());
    let url = program.after("serving on ", &mut seen);
    assert_eq!(seen, "", "nothing to warn of");

    let anonymous = environment.client(&url, None).await;
    for path in ["/healthz", "/readyz", "/livez"] {
        assert_eq!(get(&anonymous, path).await.unwrap(), "ok");
    }
    let namespaces = "/api/v1/namespaces/default";
    assert!(
        get(&anonymous, namespaces)
            .await
            .unwrap_err()
            .to_string()
            .contains("system:anonymous")
    );
    let jane = environment.client(&url, Some(("jane", "developers"))).await;
    assert!(
        get(&jane, namespaces)
            .await
            .unwrap_err()
            .to_string()
            .contains("jane")
    );
    let admin = environment.client(&url, Some(("admin", "system:masters"))).await;
    assert!(
        get(&admin, namespaces)
            .await
            .unwrap()
            .contains("\"name\":\"default\"")
    );

    // Without the plug-in, a pod needs no service account, which no controller would create.
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},
        "spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    let create =
        http::Request::post("/api/v1/namespaces/default/pods").header("content-type", "application/json");
    let created = admin
        .request_text(create.body(pod.into()).unwrap())
        .await
        .unwrap();
    assert!(created.contains("\"name\":\"p\""), "{created}");
    assert!(!created.contains("serviceAccountName"), "{created}");
    known_by_a_token_of_the_given_key(&environment, &url, &admin).await;

    assert!(program.terminate().success());
}

async fn known_by_a_token_of_the_given_key(environment: &Environment, url: &str, admin: &kube::Client) {
    use k8s_openapi::api::authentication::v1::{SelfSubjectReview, TokenRequest};
    use k8s_openapi::api::core::v1::ServiceAccount;
    use kube::api::{Api, PostParams};
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), "default");
    let robot = serde_json::from_value(serde_json::json!({"metadata": {"name": "robot"}})).unwrap();
    accounts.create(&PostParams::default(), &robot).await.unwrap();
    let request = TokenRequest::default();
    let answer = accounts
        .create_token_request("robot", &PostParams::default(), &request)
        .await
        .unwrap();
    let audiences = answer.spec.unwrap().audiences.unwrap_or_default();
    assert_eq!(audiences, ["https://127.0.0.1:1/"]);
    let login = AuthInfo {
        token: answer.status.unwrap().token.map(Into::into),
        ..AuthInfo::default()
    };
    let reviews: Api<SelfSubjectReview> = Api::all(environment.connect(url, login).await);
    let review = reviews
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await;
    let user = review
        .unwrap()
        .status
        .unwrap()
        .user_info
        .unwrap()
        .username
        .unwrap();
    assert_eq!(user, "system:serviceaccount:default:robot");
}

/// Flags that suites append to those of the test environment.
const APPENDED: &[&str] = &[
    "--advertise-address=127.0.0.1",
    "--enable-admission-plugins=MutatingAdmissionWebhook,ValidatingAdmissionWebhook",
    "--enable-priority-and-fairness=false",
    "--feature-gates=WatchList=true,AllBeta=false",
    "--max-mutating-requests-inflight=0",
    "--max-requests-inflight=0",
    "--runtime-config=api/all=true",
    "--service-cluster-ip-range=10.1.0.0/16,fd00::/108",
    "--v=5",
];

#[tokio::test]
async fn flags_of_suites_are_taken_and_those_that_mean_something_hold() {
    let environment = Environment::new();
    environment
        .dir
        .write("tokens.csv", "secret,jane,1,\"developers\"\n");
    let tokens = environment.dir.path.join("tokens.csv");
    let mut arguments = environment.arguments();
    arguments.retain(|argument| !argument.starts_with("--authorization-mode"));
    arguments.extend(APPENDED.iter().map(|flag| (*flag).to_owned()));
    arguments.push(format!("--token-auth-file={}", tokens.display()));
    arguments.push("--authorization-mode=AlwaysAllow".to_owned());
    arguments.push("--anonymous-auth=false".to_owned());
    let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n";
    environment.dir.write("audit.yaml", policy);
    let path = |name: &str| environment.dir.path.join(name).display().to_string();
    arguments.push(format!("--audit-policy-file={}", path("audit.yaml")));
    arguments.push(format!("--audit-log-path={}", path("audit.log")));
    let admission = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins: [{name: PodSecurity, path: standards.yaml}, {name: PodNodeSelector, path: limits.yaml}]\n";
    environment.dir.write("admission.yaml", admission);
    environment.dir.write("standards.yaml", "");
    arguments.push(format!(
        "--admission-control-config-file={}",
        path("admission.yaml")
    ));
    let mut seen = String::new();
    let mut program = Program::start(&environment.assets.join("kube-apiserver"), &arguments);
    let url = program.after("serving on ", &mut seen);
    let warning = "the configuration of the admission plug-in PodNodeSelector in --admission-control-config-file is ignored";
    assert!(seen.contains(warning), "{warning}: {seen}");
    let anonymous = environment.client(&url, None).await;
    let refused = get(&anonymous, "/healthz").await.unwrap_err().to_string();
    assert!(refused.contains("Unauthorized"), "{refused}");
    let jane = AuthInfo {
        token: Some("secret".to_owned().into()),
        ..AuthInfo::default()
    };
    let jane = environment.connect(&url, jane).await;
    let namespace = get(&jane, "/api/v1/namespaces/default").await.unwrap();
    assert!(
        namespace.contains("\"name\":\"default\""),
        "everything is allowed"
    );
    let log = std::fs::read_to_string(environment.dir.path.join("audit.log")).unwrap();
    assert!(log.contains("\"username\":\"jane\""), "{log}");
    let service = get(&jane, "/api/v1/namespaces/default/services/kubernetes")
        .await
        .unwrap();
    assert!(service.contains("\"clusterIP\":\"10.1.0.1\""), "{service}");
    let ranges = get(&jane, "/apis/networking.k8s.io/v1/servicecidrs/kubernetes")
        .await
        .unwrap();
    let both = "[\"10.1.0.0/16\",\"fd00::/108\"]";
    assert!(ranges.contains(both), "{ranges}");
    assert!(program.terminate().success());
}

#[tokio::test]
async fn the_files_of_access_are_read_again_when_they_change() {
    let environment = Environment::new();
    // The server may read the file at any time, and must not read an incomplete file.
    let write = |name: &str, text: &str| {
        environment.dir.write("new.yaml", text);
        let path = |name: &str| environment.dir.path.join(name);
        std::fs::rename(path("new.yaml"), path(name)).unwrap();
    };
    let authorizer = |kind: &str| {
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: [{{type: {kind}, name: a}}]\n"
        );
        write("authorization.yaml", &text);
    };
    let anonymous = |path: &str| {
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\nanonymous: {{enabled: true, conditions: [{{path: {path}}}]}}\n"
        );
        write("authentication.yaml", &text);
    };
    authorizer("AlwaysDeny");
    anonymous("/livez");
    let path = |name: &str| environment.dir.path.join(name).display().to_string();
    let mut arguments = environment.arguments();
    arguments.retain(|argument| !argument.starts_with("--authorization-mode"));
    arguments.push(format!("--authorization-config={}", path("authorization.yaml")));
    arguments.push(format!("--authentication-config={}", path("authentication.yaml")));
    let mut seen = String::new();
    let mut program = Program::start(&environment.assets.join("kube-apiserver"), &arguments);
    let url = program.after("serving on ", &mut seen);
    let client = environment.client(&url, None).await;
    let code = |refused: Result<String, kube::Error>| match refused {
        Ok(_) => 200,
        Err(kube::Error::Api(status)) => status.code,
        Err(_) => 0,
    };
    assert_eq!(code(get(&client, "/livez").await), 403);
    assert_eq!(code(get(&client, "/version").await), 401);
    authorizer("Nonsense");
    let why = program.after("file of --authorization-config is ignored: ", &mut seen);
    assert!(
        why.starts_with("authorizers[0].type: Unsupported value: \"Nonsense\""),
        "{why}"
    );
    assert_eq!(code(get(&client, "/livez").await), 403);
    authorizer("AlwaysAllow");
    program.after("reloaded the file of --authorization-config", &mut seen);
    assert_eq!(code(get(&client, "/livez").await), 200);
    anonymous("/version");
    program.after("reloaded the file of --authentication-config", &mut seen);
    assert_eq!(code(get(&client, "/livez").await), 401);
    assert_eq!(code(get(&client, "/version").await), 200);
    assert!(program.terminate().success());
}

#[test]
fn etcd_is_healthy_and_ends_on_sigterm() {
    let environment = Environment::new();
    let port = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        free.local_addr().unwrap().port()
    };
    let arguments = [
        format!("--advertise-client-urls=http://127.0.0.1:{port}"),
        format!("--listen-client-urls=http://127.0.0.1:{port}"),
        "--listen-peer-urls=http://localhost:0".to_owned(),
        format!("--data-dir={}", environment.dir.path.display()),
        "--unsafe-no-fsync=true".to_owned(),
    ];
    let mut program = Program::start(&environment.assets.join("etcd"), &arguments);
    let mut seen = String::new();
    program.after("serving /health", &mut seen);
    assert_eq!(seen, "", "nothing to warn of");
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream
        .write_all(b"GET /health HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.ends_with("\r\n\r\n{\"health\":\"true\"}"), "{answer}");
    assert!(program.terminate().success());
}

#[test]
fn flags_are_found_in_the_help() {
    let environment = Environment::new();
    let has = |program: &str, flag: &str| {
        let output = Command::new(environment.assets.join(program))
            .arg("--help")
            .output()
            .unwrap();
        assert!(output.status.success());
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines()
            .any(|line| line.trim_start().starts_with(&format!("--{flag} ")))
    };
    assert!(has("etcd", "unsafe-no-fsync"));
    assert!(has("kube-apiserver", "service-account-signing-key-file"));
    assert!(
        !has("kube-apiserver", "insecure-port"),
        "it would be asked to serve plain HTTP"
    );
}

#[tokio::test]
async fn a_missing_certificate_is_made_and_empty_arguments_are_skipped() {
    let environment = Environment::new();
    let folder = environment.dir.path.join("made");
    let mut arguments = environment.arguments();
    arguments.push(format!("--cert-dir={}", folder.display()));
    arguments.push(String::new());
    let mut seen = String::new();
    let mut program = Program::start(&environment.assets.join("kube-apiserver"), &arguments);
    let url = program.after("serving on ", &mut seen);
    let certificate = std::fs::read_to_string(folder.join("apiserver.crt")).unwrap();
    assert_eq!(
        certificate.matches("BEGIN CERTIFICATE").count(),
        2,
        "{certificate}"
    );
    // The certificate is self-signed: a client that trusts the file can connect to the server.
    let encode = |pem: &str| base64::Engine::encode(&base64::prelude::BASE64_STANDARD, pem);
    let config: Kubeconfig = serde_json::from_value(serde_json::json!({
        "clusters": [{"name": "c", "cluster": {"server": url, "certificate-authority-data": encode(&certificate)}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
        "current-context": "x",
    }))
    .unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
    let client = kube::Client::try_from(config.unwrap()).unwrap();
    assert_eq!(get(&client, "/readyz").await.unwrap(), "ok");
    assert!(program.terminate().success());
}

#[test]
fn unusable_settings_are_named() {
    let environment = Environment::new();
    let bad = |change: &str, part: &str| {
        let mut arguments = environment.arguments();
        arguments.extend(change.split_whitespace().map(str::to_owned));
        let errors = environment.fails("kube-apiserver", &arguments);
        assert!(errors.contains(part), "{change}: {part:?} is missing: {errors}");
        assert!(errors.contains("hint: "), "{errors}");
    };
    bad("--secure-port=http", "invalid value \"http\" of --secure-port");
    bad("--secure-port=70000", "--secure-port");
    bad("--bind-address=nowhere", "--bind-address");
    bad(
        "--client-ca-file=missing.crt",
        "cannot read missing.crt of --client-ca-file",
    );
    bad("--service-account-key-file=missing.pub", "missing.pub");
    bad(
        "--cert-dir=/dev/null/a",
        "cannot write a certificate to /dev/null/a",
    );
    bad("serve", "no arguments are taken, but got \"serve\"");
    bad("--cert-dir", "flag needs an argument: --cert-dir");
    bad("--of-another-version=1", "unknown flag: --of-another-version");
    bad("--allow-privileged=perhaps", "\"--allow-privileged\"");
    bad("--authorization-mode=Nobody", "it is not a valid mode");
    bad(
        "--authorization-mode=Webhook",
        "it needs --authorization-webhook-config-file",
    );
    bad(
        "--authorization-config=missing.yaml",
        "it cannot be specified together with --authorization-mode",
    );
    bad(
        "--authorization-policy-file=missing.jsonl",
        "cannot read missing.jsonl of --authorization-policy-file",
    );
    bad(
        "--authentication-token-webhook-config-file=missing.yaml",
        "cannot read missing.yaml of --authentication-token-webhook-config-file",
    );
    let own = environment.dir.path.join("client-cert-auth-ca.crt");
    bad(
        &format!("--requestheader-client-ca-file={}", own.display()),
        "--requestheader-client-ca-file and --client-ca-file contain overlapping certificates",
    );
    bad(
        "--authentication-config=missing.yaml --oidc-client-id=a",
        "authentication-config file and oidc-* flags are mutually exclusive",
    );
    bad(
        "--service-cluster-ip-range=10.0.0.0/30",
        "at least 8 IP addresses",
    );
    bad(
        "--service-cluster-ip-range=10.0.0.0",
        "it must be a range of addresses",
    );
    bad("--feature-gates=WatchList", "missing bool value for WatchList");
    bad(
        "--feature-gates=Nothing=true",
        "unrecognized feature gate: Nothing",
    );
    bad("--runtime-config=apps/v9=true", "has not been registered");
    bad("--disable-admission-plugins=Nothing", "unknown admission plug-in");
    bad(
        "--oidc-issuer-url=https://a",
        "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set",
    );
    environment.dir.write("client-cert-auth-ca.crt", "no certificate");
    bad("", "client authorities");
    environment.dir.write("apiserver.key", "no key");
    environment
        .dir
        .write("client-cert-auth-ca.crt", &environment.clients.pem);
    bad("", "server key");

    let url = |text: &str| environment.fails("etcd", &[format!("--listen-client-urls={text}")]);
    assert!(url("https://127.0.0.1:1").contains("--listen-client-urls"));
    assert!(url("nonsense").contains("--listen-client-urls"));
}

#[test]
fn assets_are_renewed_but_not_those_of_others() {
    let dir = Dir::named("suite");
    let first = dir.ok(&["envtest", "assets", "bin"]);
    assert_eq!(
        dir.ok(&["envtest", "assets", "bin"]),
        first,
        "the directory is printed as an absolute path"
    );
    let assets = PathBuf::from(first.trim());
    assert!(assets.is_absolute());
    let mut names: Vec<String> = std::fs::read_dir(&assets)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names.retain(|name| name != "kubectl");
    assert_eq!(names, [".operator-sdk", "etcd", "kube-apiserver"]);

    let theirs = Dir::named("theirs");
    theirs.write("etcd", "the real one");
    let errors = theirs.fails(&["envtest", "assets", "."]);
    assert!(
        errors.contains("etcd exists and was not written by the Operator SDK"),
        "{errors}"
    );
}
