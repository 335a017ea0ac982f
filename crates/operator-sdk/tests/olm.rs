//! Tests of Operator Lifecycle Manager on the embedded control plane, with the CLI and kubectl.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Output};
use std::time::Instant;

use common::registry::{AUTH, Registry};
use common::running::{PATIENCE, Running};
use common::{Dir, kubectl, sdk, succeeded};
use serde_json::Value;

/// A directory with the recorded bundle `memcached`, and a cluster with OLM.
struct Scene {
    dir: Dir,
    _cluster: Running,
}

/// Writes the recorded bundle `memcached`.
fn write_bundle(dir: &Dir, path: &str) {
    let recorded = include_str!("../../operator-olm/tests/recorded/bundles.json");
    let recorded: Value = serde_json::from_str(recorded).unwrap();
    for (file, text) in recorded["base"]["memcached"].as_object().unwrap() {
        dir.write(&format!("{path}/{file}"), text.as_str().unwrap());
    }
}

fn cluster(dir: &Path, flags: &[&str]) -> Running {
    let mut command = sdk();
    command
        .args(["cluster", "up", "--kubeconfig", "kubeconfig"])
        .args(flags)
        .current_dir(dir);
    let mut running = Running::start(&mut command);
    running.line_with("The control plane is ready");
    running
}

impl Scene {
    fn new() -> Self {
        let dir = Dir::named("olm");
        write_bundle(&dir, "bundle");
        let cluster = cluster(&dir.path, &["--olm"]);
        Self {
            dir,
            _cluster: cluster,
        }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        sdk()
            .args(arguments)
            .env("KUBECONFIG", self.dir.path.join("kubeconfig"))
            .current_dir(&self.dir.path)
            .output()
            .unwrap()
    }

    #[track_caller]
    fn ok(&self, arguments: &[&str]) -> String {
        succeeded(arguments, self.run(arguments))
    }

    /// Checks that the tool fails with exit code 1, and returns its message.
    #[track_caller]
    fn fails(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
        assert!(
            errors.contains("error: ") && errors.contains("hint: "),
            "{errors}"
        );
        errors
    }

    /// Returns the names of all objects that `run bundle` creates, and of the objects that OLM creates for them.
    fn left(&self) -> Vec<String> {
        let kinds =
            "catalogsources,subscriptions,installplans,csv,operatorgroups,configmaps,pods,deployments";
        let names = self.kubectl(&["get", kinds, "-n", "default", "-o", "name"]);
        names
            .lines()
            .filter(|name| *name != "configmap/kube-root-ca.crt")
            .map(str::to_owned)
            .collect()
    }

    /// Waits until the namespace is empty.
    fn until_nothing_is_left(&self) {
        let begin = Instant::now();
        loop {
            let left = self.left();
            if left.is_empty() {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "left: {left:?}");
        }
    }

    #[track_caller]
    fn kubectl(&self, arguments: &[&str]) -> String {
        in_cluster(&self.dir.path, arguments)
    }
}

#[track_caller]
fn in_cluster(dir: &Path, arguments: &[&str]) -> String {
    kubectl(&[&["--kubeconfig", "kubeconfig"], arguments].concat(), dir)
}

const SUBSCRIBED: &str = "\
apiVersion: operators.coreos.com/v1
kind: OperatorGroup
metadata: {name: all, namespace: default}
spec: {}
---
apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata: {name: memcached, namespace: default}
spec: {name: memcached-operator, channel: alpha, source: catalog, sourceNamespace: olm}
";

#[test]
fn a_catalog_of_a_directory_installs_an_operator() {
    let dir = Dir::named("olm-catalog");
    write_bundle(&dir, "bundle");
    dir.ok(&["catalog", "init", "catalog", "--package", "memcached-operator"]);
    dir.ok(&["catalog", "add", "catalog", "bundle", "--channels", "alpha"]);
    let _cluster = cluster(&dir.path, &["--olm", "--catalog", "catalog"]);
    let manifests = || in_cluster(&dir.path, &["get", "packagemanifests", "-o", "name"]);
    in_cluster(
        &dir.path,
        &[
            "wait",
            "--for=create",
            "--timeout=180s",
            "packagemanifest/memcached-operator",
        ],
    );
    assert_eq!(
        manifests(),
        "packagemanifest.packages.operators.coreos.com/memcached-operator\n"
    );
    dir.write("subscribed.yaml", SUBSCRIBED);
    in_cluster(&dir.path, &["apply", "-f", "subscribed.yaml"]);
    let csv = "csv/memcached-operator.v0.0.1";
    in_cluster(&dir.path, &["wait", "--for=create", "--timeout=180s", csv]);
    in_cluster(
        &dir.path,
        &[
            "wait",
            "--for=jsonpath={.status.phase}=Succeeded",
            "--timeout=180s",
            csv,
        ],
    );
    let table = in_cluster(&dir.path, &["get", csv]);
    assert!(table.contains("Succeeded"), "{table}");
    // The status of the Subscription follows the status of the ClusterServiceVersion.
    in_cluster(
        &dir.path,
        &[
            "wait",
            "--for=jsonpath={.status.state}=AtLatestKnown",
            "--timeout=180s",
            "sub/memcached",
        ],
    );
}

#[test]
fn a_bundle_in_an_image_is_unpacked_by_a_job() {
    let dir = Dir::named("olm-unpack");
    write_bundle(&dir, "bundle");
    let registry = Registry::anonymous();
    let image = format!("{}/team/op:v1", registry.host);
    dir.ok(&["bundle", "push", &image, "bundle"]);
    let csv = "memcached-operator.v0.0.1";
    let package = serde_json::json!({"packageName": "memcached-operator", "version": "0.0.1"});
    let documents = [
        serde_json::json!({"schema": "olm.package", "name": "memcached-operator", "defaultChannel": "alpha"}),
        serde_json::json!({
            "schema": "olm.channel", "name": "alpha", "package": "memcached-operator", "entries": [{"name": csv}],
        }),
        serde_json::json!({
            "schema": "olm.bundle", "name": csv, "package": "memcached-operator", "image": image,
            "properties": [{"type": "olm.package", "value": package}],
        }),
    ];
    dir.write(
        "catalog/catalog.json",
        &documents.map(|document| document.to_string()).join("\n"),
    );
    let _cluster = cluster(&dir.path, &["--olm", "--catalog", "catalog"]);
    dir.write("subscribed.yaml", SUBSCRIBED);
    in_cluster(&dir.path, &["apply", "-f", "subscribed.yaml"]);
    let csv = format!("csv/{csv}");
    in_cluster(&dir.path, &["wait", "--for=create", "--timeout=180s", &csv]);
    let phase = "--for=jsonpath={.status.phase}=Succeeded";
    in_cluster(&dir.path, &["wait", phase, "--timeout=180s", &csv]);
    let read = |kind: &str, namespace: &str, path: &str| {
        let path = format!("jsonpath={{.items[0].{path}}}");
        in_cluster(&dir.path, &["get", kind, "-n", namespace, "-o", &path])
    };
    assert_eq!(
        read("installplans", "default", "status.bundleLookups[0].path"),
        image
    );
    assert_eq!(read("jobs", "olm", "status.succeeded"), "1");
    let conditions = read("subscriptions", "default", "status.conditions[*].type");
    assert!(!conditions.contains("BundleUnpack"), "{conditions}");
}

const CSV: &str = "bundle/manifests/memcached-operator.clusterserviceversion.yaml";
const CRD: &str = "memcacheds.cache.example.com";

#[test]
fn a_bundle_directory_is_run_upgraded_and_cleaned_up() {
    let scene = Scene::new();
    let output = scene.run(&["run", "bundle", "bundle"]);
    let told = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(told.contains("which other clusters cannot read"), "{told}");
    assert_eq!(
        succeeded(&["run", "bundle"], output),
        "OLM has successfully installed \"memcached-operator.v0.0.1\"\n"
    );
    let phase = |name: &str| {
        let name = format!("csv/{name}");
        scene.kubectl(&["get", &name, "-o", "jsonpath={.status.phase}"])
    };
    assert_eq!(phase("memcached-operator.v0.0.1"), "Succeeded");
    let again = scene.fails(&["run", "bundle", "bundle"]);
    assert!(again.contains("exists in namespace \"default\""), "{again}");

    let text = scene.dir.read(CSV).replace("0.0.1", "0.0.2");
    scene.dir.write(CSV, &text);
    assert_eq!(
        scene.ok(&["run", "bundle-upgrade", "bundle"]),
        "Successfully upgraded to \"memcached-operator.v0.0.2\"\n"
    );
    assert_eq!(phase("memcached-operator.v0.0.2"), "Succeeded");
    let again = scene.fails(&["run", "bundle-upgrade", "bundle"]);
    assert!(again.contains("already exists in the catalog"), "{again}");

    let package = "memcached-operator";
    let planned = scene.ok(&["cleanup", package, "--dry-run"]);
    assert!(
        planned.contains(&format!("customresourcedefinition \"{CRD}\" deleted (dry run)\n")),
        "{planned}"
    );
    scene.dir.write(
        "memcached.yaml",
        "apiVersion: cache.example.com/v1alpha1\nkind: Memcached\nmetadata: {name: m, namespace: default}\nspec: {size: 1}\n",
    );
    scene.kubectl(&["apply", "-f", "memcached.yaml"]);
    let output = scene.run(&["cleanup", package]);
    let told = String::from_utf8(output.stderr.clone()).unwrap();
    let announced = format!(
        "Deleting:\n  subscription \"memcached-operator-v0-0-1-sub\"\n  customresourcedefinition \"{CRD}\" with 1 object\n"
    );
    assert!(told.starts_with(&announced), "{told}");
    let deleted = succeeded(&["cleanup", package], output);
    let expected = "\
subscription \"memcached-operator-v0-0-1-sub\" deleted
customresourcedefinition \"memcacheds.cache.example.com\" deleted
clusterserviceversion \"memcached-operator.v0.0.2\" deleted
catalogsource \"memcached-operator-catalog\" deleted
operatorgroup \"operator-sdk-og\" deleted
Operator \"memcached-operator\" uninstalled
";
    assert_eq!(deleted, expected);
    scene.until_nothing_is_left();
    let output = scene.run(&["cleanup", package]);
    assert!(output.status.success());
    let warning = String::from_utf8(output.stderr).unwrap();
    assert!(
        warning.contains("package \"memcached-operator\" not found"),
        "{warning}"
    );
}

#[test]
fn a_failed_installation_says_why_and_leaves_nothing() {
    let scene = Scene::new();
    let mode = scene.fails(&[
        "run",
        "bundle",
        "bundle",
        "--install-mode",
        "SingleNamespace=default",
    ]);
    assert!(mode.contains("use install mode \"OwnNamespace\""), "{mode}");
    scene
        .dir
        .replace(CSV, "minKubeVersion: 1.25.0", "minKubeVersion: 99.0.0");
    let unmet = scene.fails(&["run", "bundle", "bundle", "--timeout", "5s"]);
    assert!(
        unmet.contains(
            "not reached after 5 s: ClusterServiceVersion memcached-operator.v0.0.1 is PresentNotSatisfied"
        ),
        "{unmet}"
    );
    scene.until_nothing_is_left();
    let definitions = scene.kubectl(&["get", "crd", "-o", "name"]);
    assert!(!definitions.contains(CRD), "{definitions}");
    let nothing = scene.fails(&["run", "bundle", "nothing"]);
    assert!(
        nothing.contains("is neither a bundle directory nor the name of an image"),
        "{nothing}"
    );
}

#[test]
fn an_interrupted_installation_leaves_nothing() {
    let scene = Scene::new();
    scene
        .dir
        .replace(CSV, "minKubeVersion: 1.25.0", "minKubeVersion: 99.0.0");
    let mut command: Command = sdk();
    command
        .args(["run", "bundle", "bundle"])
        .env("KUBECONFIG", scene.dir.path.join("kubeconfig"))
        .current_dir(&scene.dir.path);
    let running = Running::start(&mut command);
    let csv = "csv/memcached-operator.v0.0.1";
    scene.kubectl(&["wait", "--for=create", "--timeout=180s", csv]);
    assert_eq!(running.stop().code(), Some(130));
    scene.until_nothing_is_left();
}

#[test]
fn the_installation_of_olm_is_shown_and_removed() {
    let scene = Scene::new();
    let table = scene.ok(&["olm", "status"]);
    assert!(table.starts_with("NAME "), "{table}");
    assert!(table.contains("packageserver"), "{table}");
    assert!(!table.contains("not found"), "{table}");
    // Nothing is downloaded.
    let again = scene.fails(&["olm", "install", "--releases", "http://127.0.0.1:1"]);
    assert!(
        again.contains(
            "detected existing OLM resources: OLM must be completely uninstalled before installation"
        ),
        "{again}"
    );
    let version = scene.fails(&["olm", "status", "--version", "0.1.0"]);
    assert!(
        version.contains("mismatched installed version \"0.46.0\" vs. supplied version \"0.1.0\""),
        "{version}"
    );
    assert_eq!(
        scene.ok(&["olm", "uninstall"]),
        "Successfully uninstalled OLM version \"0.46.0\"\n"
    );
    let gone = scene.fails(&["olm", "status"]);
    assert!(gone.contains("no existing installation found"), "{gone}");
    let missing = scene.fails(&["run", "bundle", "bundle"]);
    assert!(
        missing.contains("the cluster has no Operator Lifecycle Manager"),
        "{missing}"
    );
}

const HELD: &str = "\
apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata: {name: held, namespace: default, finalizers: [example.com/hold]}
spec: {name: memcached-operator, channel: alpha, source: catalog, sourceNamespace: olm}
";

#[test]
fn an_uninstallation_that_a_finalizer_blocks_is_explained_and_continued() {
    let scene = Scene::new();
    scene.dir.write("held.yaml", HELD);
    scene.kubectl(&["apply", "-f", "held.yaml"]);
    let errors = scene.fails(&["olm", "uninstall", "--timeout", "2s"]);
    let definition = "CustomResourceDefinition \"subscriptions.operators.coreos.com\"";
    let blocked = format!(
        "error: {definition} is not deleted after 2 s: Subscription default/held waits for example.com/hold\n"
    );
    assert!(errors.contains(&blocked), "{errors}");
    let left = format!(
        "OLM is partially uninstalled. Run the command again to delete the remaining objects: {definition}, Deployment \"olm-operator\", "
    );
    assert!(errors.contains(&left), "{errors}");

    let release = r#"{"metadata":{"finalizers":null}}"#;
    scene.kubectl(&["patch", "subscription", "held", "--type=merge", "-p", release]);
    assert_eq!(scene.ok(&["olm", "uninstall"]), "Successfully uninstalled OLM\n");
    let definitions = scene.kubectl(&["get", "crd", "-o", "name"]);
    assert!(
        !definitions.contains("subscriptions.operators.coreos.com"),
        "{definitions}"
    );
}

#[test]
fn a_bundle_that_olm_cannot_unpack_fails_at_once() {
    // A cluster with the CRDs of OLM, without its controllers.
    let olm = Scene::new();
    let all = olm.kubectl(&["get", "crd", "-o", "json"]);
    let all: Value = serde_json::from_str(&all).unwrap();
    let definitions = all["items"].as_array().unwrap().iter().map(|definition| {
        serde_json::json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": definition["metadata"]["name"]}, "spec": definition["spec"],
        })
    });
    let definitions: Vec<Value> = definitions.collect();
    let dir = Dir::named("olm-failed");
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": definitions});
    dir.write("crds.json", &list.to_string());
    write_bundle(&dir, "bundle");
    let _cluster = cluster(&dir.path, &[]);
    in_cluster(&dir.path, &["create", "-f", "crds.json"]);
    in_cluster(
        &dir.path,
        &[
            "wait",
            "--for=condition=Established",
            "--timeout=180s",
            "crd",
            "--all",
        ],
    );

    let mut command = sdk();
    command
        .args(["run", "bundle", "bundle"])
        .env("KUBECONFIG", dir.path.join("kubeconfig"))
        .current_dir(&dir.path)
        .stderr(std::process::Stdio::piped());
    let run = command.spawn().unwrap();
    let subscription = "subscription/memcached-operator-v0-0-1-sub";
    in_cluster(
        &dir.path,
        &["wait", "--for=create", "--timeout=180s", subscription],
    );
    let failed = r#"{"status":{"lastUpdated":"2026-01-01T00:00:00Z","conditions":[{
        "type":"BundleUnpackFailed","status":"True","reason":"BundleUnpackFailed","message":"Bundle unpacking failed - X: y"
    }]}}"#;
    let patch = [
        "patch",
        subscription,
        "--subresource=status",
        "--type=merge",
        "-p",
        failed,
    ];
    in_cluster(&dir.path, &patch);
    let output = run.wait_with_output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(
        errors.contains(
            "error: subscription \"memcached-operator-v0-0-1-sub\" failed: Bundle unpacking failed - X: y\nhint: "
        ),
        "{errors}"
    );
    let pod = "pod/memcached-operator-v0-0-1-registry";
    in_cluster(&dir.path, &["wait", "--for=delete", "--timeout=180s", pod]);
    let left = in_cluster(&dir.path, &["get", "catalogsources,subscriptions", "-o", "name"]);
    assert_eq!(left, "");
}

#[test]
fn an_operator_that_crashes_ends_the_installation() {
    let dir = Dir::project();
    write_bundle(&dir, "bundle");
    dir.remove(".cargo");
    dir.remove("src");
    dir.write(
        "Cargo.toml",
        "[package]\nname = \"memcached-operator\"\nversion = \"0.0.1\"\nedition = \"2024\"\n[workspace]\n",
    );
    dir.write(
        "src/main.rs",
        "fn main() -> std::process::ExitCode { eprintln!(\"error: no license\"); 3.into() }\n",
    );
    let output = dir.run(&["run", "bundle", "bundle", "--embedded"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    let crashed = "error: the operator crashed 3 times: pod \"memcached-operator-controller-manager-";
    assert!(errors.contains(crashed), "{errors}");
    let reason = "\" exited with code 3: error: no license\nhint: ";
    assert!(errors.contains(reason), "{errors}");
}

/// Serves texts by path over HTTP. A path below /releases is redirected to the same path below /files.
fn file_server(files: &'static [(&'static str, String)]) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = String::new();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            while !request.ends_with("\r\n\r\n") && reader.read_line(&mut request).unwrap() > 0 {}
            let path = request.split(' ').nth(1).unwrap_or_default();
            let file = files.iter().find(|(known, _)| *known == path);
            let answer = match (path.strip_prefix("/releases/"), file) {
                (Some(rest), _) => {
                    format!("302 Found\r\nlocation: /files/{rest}\r\ncontent-length: 0\r\n\r\n")
                }
                (None, Some((_, text))) => format!("200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len()),
                (None, None) => "404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned(),
            };
            let answer = format!(
                "HTTP/1.1 {}",
                answer.replacen("\r\n", "\r\nconnection: close\r\n", 1)
            );
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    host
}

#[test]
fn a_release_of_olm_is_downloaded() {
    let dir = Dir::named("olm-download");
    let _cluster = cluster(&dir.path, &[]);
    let definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: olmconfigs.operators.coreos.com}\nspec:\n  group: operators.coreos.com\n  scope: Cluster\n  names: {kind: OLMConfig, plural: olmconfigs}\n  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]\n";
    let others = "apiVersion: operators.coreos.com/v1\nkind: OLMConfig\nmetadata: {name: cluster}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: olm}\n";
    let files = vec![
        ("/files/download/v0.46.0/crds.yaml", definition.to_owned()),
        ("/files/download/v0.46.0/olm.yaml", others.to_owned()),
    ];
    let host = file_server(files.leak());
    let releases = format!("http://{host}/releases/");
    let install = |version: &str| {
        sdk()
            .args(["olm", "install", "--version", version, "--releases", &releases])
            .env("KUBECONFIG", dir.path.join("kubeconfig"))
            .output()
            .unwrap()
    };
    let missing = String::from_utf8(install("v9").stderr).unwrap();
    let expected = format!("cannot download {releases}download/v9/crds.yaml: the server answered 404");
    assert!(missing.contains(&expected), "{missing}");
    let table = succeeded(&["olm", "install"], install("0.46.0"));
    assert_eq!(table.matches("Installed").count(), 3, "{table}");
    let found = in_cluster(
        &dir.path,
        &["get", "olmconfig/cluster", "namespace/olm", "-o", "name"],
    );
    assert!(
        found.contains("olmconfig.operators.coreos.com/cluster"),
        "{found}"
    );
}

#[test]
fn a_bundle_runs_on_a_control_plane_of_its_own() {
    let dir = Dir::named("olm-embedded");
    write_bundle(&dir, "bundle");
    let mut command = sdk();
    command
        .args([
            "run",
            "bundle",
            "bundle",
            "--embedded",
            "--kubeconfig",
            "kubeconfig",
        ])
        .current_dir(&dir.path);
    let mut running = Running::start(&mut command);
    running.line_with("OLM has successfully installed");
    running.line_with("The control plane is ready");
    let table = in_cluster(&dir.path, &["get", "csv"]);
    assert!(table.contains("Succeeded"), "{table}");
    assert_eq!(running.stop().code(), Some(0));
}

const EXTENSION: &str = "clusterextension/memcached-operator";

#[test]
fn a_bundle_is_run_with_olm_v1_and_cleaned_up() {
    let scene = Scene::new();
    let run = ["run", "bundle", "bundle", "--olm-version", "v1"];
    assert_eq!(
        scene.ok(&run),
        "OLM has successfully installed \"memcached-operator.v0.0.1\"\n"
    );
    let table = scene.kubectl(&["get", EXTENSION]);
    assert!(
        table.contains("memcached-operator.v0.0.1") && table.contains("True"),
        "{table}"
    );
    let serving = "jsonpath={.status.conditions[?(@.type=='Serving')].reason}";
    let catalog = scene.kubectl(&["get", "clustercatalog/memcached-operator-catalog", "-o", serving]);
    assert_eq!(catalog, "Available");
    assert_eq!(
        scene.kubectl(&[
            "get",
            "csv,subscriptions,operatorgroups",
            "-n",
            "default",
            "-o",
            "name"
        ]),
        ""
    );
    let deployment = "deployment/memcached-operator-controller-manager";
    scene.kubectl(&["wait", "--for=condition=Available", "--timeout=180s", deployment]);
    let again = scene.fails(&run);
    assert!(
        again.contains("clusterextension \"memcached-operator\" exists"),
        "{again}"
    );

    scene.dir.write(
        "memcached.yaml",
        "apiVersion: cache.example.com/v1alpha1\nkind: Memcached\nmetadata: {name: m, namespace: default}\nspec: {size: 1}\n",
    );
    scene.kubectl(&["apply", "-f", "memcached.yaml"]);
    let package = "memcached-operator";
    let kept = scene.fails(&["cleanup", package, "--delete-all=false"]);
    assert!(
        kept.contains("OLM v1 deletes the CRDs of an operator together with it"),
        "{kept}"
    );
    let planned = scene.ok(&["cleanup", package, "--dry-run"]);
    let expected = "\
memcached \"m\" deleted (dry run)
clusterextension \"memcached-operator\" deleted (dry run)
customresourcedefinition \"memcacheds.cache.example.com\" deleted (dry run)
clustercatalog \"memcached-operator-catalog\" deleted (dry run)
";
    assert_eq!(planned, expected);
    let deleted = scene.ok(&["cleanup", package]);
    let expected = format!(
        "{}Operator \"memcached-operator\" uninstalled\n",
        expected.replace(" (dry run)", "")
    );
    assert_eq!(deleted, expected);
    scene.until_nothing_is_left();
    let left = scene.kubectl(&["get", "clusterextensions,clustercatalogs", "-o", "name"]);
    assert_eq!(left, "");
}

#[test]
fn olm_v1_upgrades_a_bundle_or_keeps_the_installed_one() {
    let scene = Scene::new();
    let upgrade = ["run", "bundle-upgrade", "bundle", "--olm-version", "v1"];
    let missing = scene.fails(&upgrade);
    assert!(
        missing.contains("clusterextension for package \"memcached-operator\" not found"),
        "{missing}"
    );
    scene.ok(&["run", "bundle", "bundle", "--olm-version", "v1"]);
    let again = scene.fails(&upgrade);
    assert!(again.contains("already exists in the catalog"), "{again}");
    let installed = || {
        let path = "jsonpath={.status.install.bundle.name}";
        scene.kubectl(&["get", EXTENSION, "-o", path])
    };

    // OLM v1 refuses bundles with API services; the catalog is as before.
    let good = scene.dir.read(CSV);
    let services = "  apiservicedefinitions:\n    owned:\n    - {name: s, group: s.example.com, version: v1, kind: S, deploymentName: d}\n";
    let bad = good.replace("  apiservicedefinitions: {}\n", services);
    scene.dir.write(CSV, &bad.replace("0.0.1", "0.0.2"));
    let refused = scene.fails(&[&upgrade[..], &["--timeout", "5s"]].concat());
    assert!(
        refused.contains("apiServiceDefintions are not supported"),
        "{refused}"
    );
    assert_eq!(installed(), "memcached-operator.v0.0.1");

    scene.dir.write(CSV, &good.replace("0.0.1", "0.0.2"));
    assert_eq!(
        scene.ok(&upgrade),
        "Successfully upgraded to \"memcached-operator.v0.0.2\"\n"
    );
    assert_eq!(installed(), "memcached-operator.v0.0.2");
    let v0 = scene.fails(&["run", "bundle-upgrade", "bundle"]);
    assert!(v0.contains("--olm-version v1"), "{v0}");
    scene.ok(&["cleanup", "memcached-operator"]);
    scene.until_nothing_is_left();
}

#[test]
fn a_bundle_that_olm_v1_refuses_leaves_nothing() {
    let scene = Scene::new();
    scene.dir.replace(
        CSV,
        "  apiservicedefinitions: {}\n",
        "  apiservicedefinitions:\n    owned:\n    - {name: s, group: s.example.com, version: v1, kind: S, deploymentName: d}\n",
    );
    let refused = scene.fails(&[
        "run",
        "bundle",
        "bundle",
        "--olm-version",
        "v1",
        "--timeout",
        "5s",
    ]);
    assert!(
        refused.contains("unsupported bundle: apiServiceDefintions are not supported"),
        "{refused}"
    );
    scene.until_nothing_is_left();
    let left = scene.kubectl(&["get", "clusterextensions,clustercatalogs", "-o", "name"]);
    assert_eq!(left, "");
    let mode = [
        "run",
        "bundle",
        "bundle",
        "--olm-version",
        "v1",
        "--install-mode",
        "MultiNamespace=a,b",
    ];
    let multi = scene.fails(&mode);
    assert!(multi.contains("\"MultiNamespace\" not supported"), "{multi}");
}

#[test]
fn olm_v1_gets_pushed_images_from_a_registry() {
    let scene = Scene::new();
    let registry = Registry::start();
    let repository = format!("{}/team/op", registry.host);
    let credentials = format!(r#"{{"auths":{{"{}":{{"auth":"{AUTH}"}}}}}}"#, registry.host);
    scene.dir.write("docker/config.json", &credentials);
    // The embedded control plane pulls no images, so the catalog does not become available.
    let output = sdk()
        .args([
            "run",
            "bundle",
            "bundle",
            "--olm-version",
            "v1",
            "--timeout",
            "3s",
            "--push-to",
            &repository,
        ])
        .env("KUBECONFIG", scene.dir.path.join("kubeconfig"))
        .env("DOCKER_CONFIG", scene.dir.path.join("docker"))
        .current_dir(&scene.dir.path)
        .output()
        .unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        errors.contains("condition Serving of the ClusterCatalog"),
        "{errors}"
    );
    let stored = registry.stored.lock().unwrap();
    let tags: Vec<&str> = stored.manifests.keys().map(String::as_str).collect();
    assert!(
        tags.contains(&"memcached-operator.v0.0.1") && tags.contains(&"memcached-operator.v0.0.1-catalog"),
        "{tags:?}"
    );
    let manifest: Value =
        serde_json::from_slice(&stored.manifests["memcached-operator.v0.0.1-catalog"]).unwrap();
    let blob = |digest: &Value| stored.blobs[digest.as_str().unwrap()].clone();
    let config: Value = serde_json::from_slice(&blob(&manifest["config"]["digest"])).unwrap();
    assert_eq!(
        config["config"]["Labels"]["operators.operatorframework.io.index.configs.v1"],
        "/configs"
    );
    let layer = blob(&manifest["layers"][0]["digest"]).to_vec();
    let mut files = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(layer.as_slice()), &mut files).unwrap();
    assert!(files.contains("configs/memcached-operator/catalog.json"));
    assert!(files.contains(&format!("{repository}@sha256:")));
    drop(stored);
    scene.until_nothing_is_left();

    // The installed operator of a cluster that pulls the catalog, whose next version goes to the registry too.
    let image = format!("{repository}:memcached-operator.v0.0.1-catalog");
    let objects = format!(
        "apiVersion: olm.operatorframework.io/v1
kind: ClusterCatalog
metadata: {{name: memcached-operator-catalog}}
spec: {{source: {{type: Image, image: {{ref: '{image}'}}}}}}
---
apiVersion: olm.operatorframework.io/v1
kind: ClusterExtension
metadata: {{name: memcached-operator}}
spec:
  namespace: default
  source:
    sourceType: Catalog
    catalog:
      packageName: memcached-operator
      channels: [operator-sdk-run-bundle]
      selector: {{matchLabels: {{olm.operatorframework.io/metadata.name: memcached-operator-catalog}}}}
"
    );
    scene.dir.write("installed.yaml", &objects);
    scene.kubectl(&["apply", "-f", "installed.yaml"]);
    scene
        .dir
        .replace(CSV, "memcached-operator.v0.0.1", "memcached-operator.v0.0.2");
    scene.dir.replace(CSV, "version: 0.0.1", "version: 0.0.2");
    let upgrade = ["run", "bundle-upgrade", "bundle", "--olm-version", "v1"];
    let needs = scene.fails(&upgrade);
    assert!(
        needs.contains("pulls the bundle and its catalog from a registry"),
        "{needs}"
    );
    let output = sdk()
        .args(upgrade)
        .args(["--timeout", "3s", "--push-to", &repository])
        .env("KUBECONFIG", scene.dir.path.join("kubeconfig"))
        .env("DOCKER_CONFIG", scene.dir.path.join("docker"))
        .current_dir(&scene.dir.path)
        .output()
        .unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        errors.contains("condition Serving of the ClusterCatalog"),
        "{errors}"
    );
    let catalog = catalog_of(&registry, "memcached-operator.v0.0.2-catalog");
    assert!(
        catalog.contains("\"replaces\": \"memcached-operator.v0.0.1\""),
        "{catalog}"
    );
    let kept = "jsonpath={.spec.source.image.ref}";
    assert_eq!(
        scene.kubectl(&["get", "clustercatalog/memcached-operator-catalog", "-o", kept]),
        image
    );
}

/// Returns the unpacked layer of an image in a registry.
fn catalog_of(registry: &Registry, tag: &str) -> String {
    let stored = registry.stored.lock().unwrap();
    let manifest: Value = serde_json::from_slice(&stored.manifests[tag]).unwrap();
    let layer = &stored.blobs[manifest["layers"][0]["digest"].as_str().unwrap()];
    let mut files = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(layer.as_ref()), &mut files).unwrap();
    files
}
