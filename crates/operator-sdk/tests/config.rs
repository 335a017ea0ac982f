//! Tests of the `config/` tree: every combination is rendered with kustomize and accepted by the API server, and manual
//! changes are kept.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail"
)]

mod common;

use common::{CREATE_MEMCACHED, Dir, kubectl};
use operator_apiserver::ApiServer;
use operator_apiserver::client::Gvr;
use serde_json::{Value, json};

/// Kinds of other projects whose objects are in the tree.
const FOREIGN: [(&str, &str, &str, &str); 4] = [
    ("monitoring.coreos.com", "v1", "ServiceMonitor", "servicemonitors"),
    ("monitoring.coreos.com", "v1", "PrometheusRule", "prometheusrules"),
    ("cert-manager.io", "v1", "Issuer", "issuers"),
    ("cert-manager.io", "v1", "Certificate", "certificates"),
];

fn foreign_definition((group, version, kind, plural): (&str, &str, &str, &str)) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural},
            "scope": "Namespaced",
            "versions": [{
                "name": version,
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

/// Returns the plural of every kind that a tree may contain.
fn gvr(object: &Value) -> Gvr {
    let api_version = object["apiVersion"].as_str().unwrap();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = object["kind"].as_str().unwrap();
    let plural = match kind {
        "NetworkPolicy" => "networkpolicies".to_owned(),
        "Memcached" => "memcacheds".to_owned(),
        other => format!("{}s", other.to_lowercase()),
    };
    Gvr::new(group, version, &plural)
}

/// Renders `config/default` and creates every object in it.
#[track_caller]
fn accepted(dir: &Dir) -> Vec<Value> {
    let text = kubectl(&["kustomize", "config/default"], &dir.path);
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let server = ApiServer::builder().build().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        for foreign in FOREIGN {
            let definition = foreign_definition(foreign);
            server
                .client()
                .create(&gvr(&definition), "", definition)
                .await
                .unwrap();
        }
        for object in &objects {
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
            let created = server
                .client()
                .create(&gvr(object), namespace, object.clone())
                .await;
            created.unwrap_or_else(|status| panic!("{status}: {object:#}"));
        }
    });
    server.shutdown();
    objects
}

fn kinds(objects: &[Value], kind: &str) -> usize {
    objects.iter().filter(|object| object["kind"] == kind).count()
}

#[track_caller]
fn find<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let name = format!("memcached-operator-{name}");
    let mut found = objects
        .iter()
        .filter(|object| object["kind"] == kind && object["metadata"]["name"] == *name);
    found.next().unwrap_or_else(|| panic!("no {kind} {name}"))
}

#[test]
#[ignore = "slow: renders some hundred trees with kubectl"]
fn every_combination_is_accepted() {
    let switches = [
        "namespaced",
        "metrics",
        "prometheus",
        "network-policy",
        "cert-manager",
    ];
    for bits in 0..2 << switches.len() {
        let webhooks = bits >> switches.len() == 1;
        let on = |name: &str| {
            let index = switches.iter().position(|there| *there == name).unwrap();
            bits >> index & 1 == 1
        };
        if on("prometheus") != on("metrics") {
            continue;
        }
        let dir = Dir::project();
        dir.ok(CREATE_MEMCACHED);
        if webhooks {
            with_webhooks(&dir);
        }
        let flags: Vec<String> = switches
            .iter()
            .map(|name| format!("--{name}={}", on(name)))
            .collect();
        let mut arguments = vec!["edit"];
        arguments.extend(flags.iter().map(String::as_str));
        dir.ok(&arguments);
        let objects = accepted(&dir);
        assert_eq!(
            kinds(&objects, "ServiceMonitor"),
            usize::from(on("prometheus")),
            "{flags:?}"
        );
        assert_eq!(
            kinds(&objects, "PrometheusRule"),
            usize::from(on("prometheus")),
            "{flags:?}"
        );
        assert_eq!(
            kinds(&objects, "NetworkPolicy"),
            usize::from(on("network-policy")) * (usize::from(on("metrics")) + usize::from(webhooks)),
            "{flags:?}"
        );
        assert_eq!(
            kinds(&objects, "Certificate"),
            usize::from(on("cert-manager")) * (usize::from(on("metrics")) + usize::from(webhooks)),
            "{flags:?}"
        );
        let role = if on("namespaced") { "Role" } else { "ClusterRole" };
        assert!(
            !find(&objects, role, "manager-role")["rules"]
                .as_array()
                .unwrap()
                .is_empty()
        );
        check_webhooks(&objects, webhooks);
        let both = webhooks && !on("cert-manager");
        let bindings = objects.iter().filter(|object| {
            let kind = object["kind"].as_str().unwrap_or_default();
            let name = "memcached-operator-manager-rolebinding";
            kind.ends_with("RoleBinding") && object["metadata"]["name"] == name
        });
        assert_eq!(bindings.count(), if both { 2 } else { 1 }, "{flags:?}");
        let container =
            &find(&objects, "Deployment", "controller-manager")["spec"]["template"]["spec"]["containers"][0];
        let args = container["args"].as_array().unwrap();
        assert_eq!(
            args.contains(&json!("--metrics-bind-address=:8443")),
            on("metrics")
        );
        let watches_own = container["env"]
            .as_array()
            .unwrap()
            .iter()
            .any(|variable| variable["name"] == "WATCH_NAMESPACE");
        assert_eq!(watches_own, on("namespaced"));
    }
}

const CREATE_WEBHOOKS: &[&str] = &[
    "create",
    "webhook",
    "--group=cache",
    "--version=v1alpha1",
    "--kind=Memcached",
    "--defaulting",
    "--programmatic-validation",
    "--conversion",
];

/// Adds a second version and every type of webhook.
fn with_webhooks(dir: &Dir) {
    dir.ok(&[
        "create",
        "api",
        "--group=cache",
        "--version=v1",
        "--kind=Memcached",
    ]);
    dir.ok(CREATE_WEBHOOKS);
}

/// Checks that every webhook refers to the Service by the name that kustomize generated.
fn check_webhooks(objects: &[Value], webhooks: bool) {
    let crd = objects
        .iter()
        .find(|object| object["kind"] == "CustomResourceDefinition")
        .unwrap();
    assert_eq!(crd["spec"]["conversion"].is_object(), webhooks);
    if !webhooks {
        return;
    }
    find(objects, "Service", "webhook-service");
    let mut configs = vec![&crd["spec"]["conversion"]["webhook"]["clientConfig"]];
    for kind in ["Mutating", "Validating"] {
        let name = format!("{}-webhook-configuration", kind.to_lowercase());
        let configuration = find(objects, &format!("{kind}WebhookConfiguration"), &name);
        configs.push(&configuration["webhooks"][0]["clientConfig"]);
    }
    for config in configs {
        assert_eq!(config["service"]["name"], "memcached-operator-webhook-service");
        assert_eq!(config["service"]["namespace"], "memcached-operator-system");
    }
}

#[test]
fn cert_manager_gets_the_names_of_the_services() {
    let dir = Dir::project();
    dir.ok(CREATE_MEMCACHED);
    with_webhooks(&dir);
    dir.ok(&["edit", "--cert-manager", "--prometheus"]);
    let objects = accepted(&dir);
    let injected =
        |object: &Value| object["metadata"]["annotations"]["cert-manager.io/inject-ca-from"].clone();
    let from = json!("memcached-operator-system/memcached-operator-serving-cert");
    for name in ["mutating", "validating"] {
        let kind = if name == "mutating" {
            "Mutating"
        } else {
            "Validating"
        };
        let configuration = find(
            &objects,
            &format!("{kind}WebhookConfiguration"),
            &format!("{name}-webhook-configuration"),
        );
        assert_eq!(injected(configuration), from);
    }
    let is_crd = |object: &&Value| object["kind"] == "CustomResourceDefinition";
    assert_eq!(injected(objects.iter().find(is_crd).unwrap()), from);
    let certificate = find(&objects, "Certificate", "metrics-certs");
    let service = "memcached-operator-controller-manager-metrics-service.memcached-operator-system.svc";
    assert_eq!(
        certificate["spec"]["dnsNames"],
        json!([service, format!("{service}.cluster.local")])
    );
    assert_eq!(
        certificate["spec"]["issuerRef"]["name"],
        "memcached-operator-selfsigned-issuer"
    );
    let monitor = find(&objects, "ServiceMonitor", "controller-manager-metrics-monitor");
    let tls = &monitor["spec"]["endpoints"][0]["tlsConfig"];
    assert_eq!(
        (&tls["serverName"], &tls["insecureSkipVerify"]),
        (&json!(service), &json!(false))
    );
}

#[test]
fn enabling_and_disabling_a_feature_leaves_nothing() {
    let dir = Dir::project();
    dir.ok(CREATE_MEMCACHED);
    let before = dir.files();
    let parts = [
        "namespaced",
        "prometheus",
        "network-policy",
        "cert-manager",
        "multigroup",
    ];
    for part in parts {
        let flag = format!("--{part}");
        dir.ok(&["edit", &flag]);
        assert_ne!(dir.files(), before, "{part}");
        let again = dir.ok(&["edit", &flag]);
        assert!(again.contains("No changes"), "{again}");
        dir.ok(&["edit", &format!("--{part}=false")]);
        common::assert_same(&dir.files(), &before, part);
    }
    dir.ok(&["edit", "--metrics=false"]);
    dir.ok(&["edit", "--metrics"]);
    assert_eq!(kinds(&accepted(&dir), "Service"), 1);
}

#[test]
fn init_says_at_once_what_edit_says_later() {
    let at_once = Dir::project_with(&["--multigroup", "--namespaced"]);
    let later = Dir::project();
    later.ok(&["edit", "--multigroup", "--namespaced"]);
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(
        at_once.files().keys().collect::<Vec<_>>(),
        later.files().keys().collect::<Vec<_>>()
    );
    for (path, text) in at_once.files() {
        assert_eq!(sorted(&text), sorted(&later.read(&path)), "{path}");
    }
}

#[test]
fn a_file_that_changed_by_hand_is_not_lost() {
    let dir = Dir::project();
    let path = "config/rbac/role_binding.yaml";
    dir.write(path, &(dir.read(path) + "# mine\n"));
    let errors = dir.fails(&["edit", "--namespaced"]);
    assert!(errors.contains(path) && errors.contains("--force"), "{errors}");
    dir.ok(&["edit", "--prometheus"]);
    assert!(dir.read(path).ends_with("# mine\n"), "nothing to do with it");
    dir.ok(&["edit", "--namespaced", "--force"]);
    assert!(dir.read(path).contains("kind: RoleBinding\n"));
}

#[test]
fn entries_of_the_user_stay() {
    let dir = Dir::project();
    let path = "config/default/kustomization.yaml";
    let text = dir
        .read(path)
        .replace("- ../manager\n", "- ../manager # ours\n- mine.yaml # mine\n");
    dir.write(path, &text);
    dir.ok(&["edit", "--prometheus"]);
    assert!(
        dir.read(path)
            .contains("- ../manager # ours\n- mine.yaml # mine\n")
    );
    dir.ok(&["edit", "--prometheus=false"]);
    assert_eq!(dir.read(path), text);
}

#[test]
fn entries_that_the_user_removed_stay_removed() {
    let dir = Dir::project();
    dir.remove("config/prometheus");
    dir.remove("config/samples");
    dir.ok(CREATE_MEMCACHED);
    assert!(
        !dir.files()
            .keys()
            .any(|path| path.starts_with("config/prometheus"))
    );
}

#[test]
fn the_head_of_source_files_can_change() {
    let dir = Dir::project();
    dir.ok(&["edit", "--owner", "Somebody", "--license", "none"]);
    assert!(dir.read("hack/boilerplate.rs.txt").ends_with(" Somebody\n"));
    dir.write("HEAD.txt", "All rights reserved.\n\nNo, some.\n");
    dir.ok(&["edit", "--license-file", "HEAD.txt"]);
    assert_eq!(
        dir.read("hack/boilerplate.rs.txt"),
        "// All rights reserved.\n//\n// No, some.\n"
    );
    dir.ok(CREATE_MEMCACHED);
    assert!(
        dir.read("src/api/v1alpha1.rs")
            .starts_with("// All rights reserved.\n")
    );
}

#[test]
fn bad_input_of_edit() {
    let dir = Dir::project();
    let errors = dir.fails(&["edit", "--metrics=false", "--prometheus"]);
    assert!(errors.contains("needs metrics"), "{errors}");
    let errors = dir.fails(&["edit", "--license-file", "none.txt"]);
    assert!(errors.contains("none.txt"), "{errors}");
    dir.ok(&["edit", "--multigroup"]);
    dir.ok(CREATE_MEMCACHED);
    let errors = dir.fails(&["edit", "--multigroup=false"]);
    assert!(errors.contains("directories by group"), "{errors}");
    dir.write("config/default/kustomization.yaml", "resources: [\n");
    let errors = dir.fails(&["edit", "--prometheus"]);
    assert!(errors.contains("config/default/kustomization.yaml"), "{errors}");
}
