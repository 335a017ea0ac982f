//! Tests of `install`, `deploy` and their opposites on an embedded control plane, checked with kubectl.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod common;

use std::io::Read;
use std::process::{Command, Output, Stdio};

use common::running::{self, Running};
use common::{CREATE_MEMCACHED, Dir, kubectl, sdk, succeeded};

const NAMESPACE: &str = "memcached-operator-system";
const DEPLOYMENT: &str = "memcached-operator-controller-manager";

/// A project with the memcached kind, and a cluster.
struct Scene {
    dir: Dir,
    _cluster: Running,
}

impl Scene {
    fn new() -> Self {
        let dir = Dir::project();
        dir.ok(CREATE_MEMCACHED);
        let (cluster, _) = running::cluster(&dir.path.join("kubeconfig"));
        Self {
            dir,
            _cluster: cluster,
        }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        sdk()
            .args(arguments)
            .env("KUBECONFIG", self.dir.path.join("kubeconfig"))
            .env_remove("IMG")
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

    #[track_caller]
    fn kubectl(&self, arguments: &[&str]) -> String {
        kubectl(
            &[&["--kubeconfig", "kubeconfig"], arguments].concat(),
            &self.dir.path,
        )
    }

    /// Returns the names of all objects with the label of the project.
    fn labelled(&self) -> Vec<String> {
        let kinds = "namespaces,crds,clusterroles,clusterrolebindings,roles,rolebindings,serviceaccounts,services,deployments";
        let selector = "rust.operator-sdk.dev/project=memcached-operator";
        let names = self.kubectl(&["get", kinds, "-A", "-l", selector, "-o", "name"]);
        names.lines().map(str::to_owned).collect()
    }

    fn edit(&self, path: &str, from: &str, to: &str) {
        let text = self.dir.read(path);
        assert!(text.contains(from), "{path}: {text}");
        self.dir.write(path, &text.replace(from, to));
    }
}

#[test]
fn kinds_are_installed_and_uninstalled() {
    let scene = Scene::new();
    let crd = "customresourcedefinition.apiextensions.k8s.io/memcacheds.cache.example.com";
    assert_eq!(
        scene.ok(&["install", "--dry-run"]),
        format!("{crd} created (dry run)\n")
    );
    assert_eq!(
        scene.kubectl(&["get", "crds", "-o", "name"]),
        "",
        "a dry run writes nothing"
    );
    assert_eq!(scene.ok(&["install"]), format!("{crd} created\n"));
    scene.kubectl(&["apply", "-f", "config/samples/cache_v1alpha1_memcached.yaml"]);
    assert_eq!(scene.ok(&["install"]), format!("{crd} unchanged\n"));
    assert_eq!(
        scene.ok(&["uninstall", "--dry-run"]),
        format!("{crd} deleted (dry run)\n")
    );
    assert_eq!(scene.ok(&["uninstall"]), format!("{crd} deleted\n"));
    assert_eq!(scene.kubectl(&["get", "crds", "-o", "name"]), "");
    assert_eq!(scene.ok(&["uninstall"]), format!("{crd} not found\n"));
}

#[test]
fn an_operator_is_deployed_changed_pruned_and_undeployed() {
    let scene = Scene::new();
    let before = scene.dir.files();
    let dry = scene.ok(&["deploy", "--dry-run"]);
    assert!(
        dry.contains(&format!("deployment.apps/{DEPLOYMENT} created (dry run)")),
        "{dry}"
    );
    assert_eq!(scene.labelled(), Vec::<String>::new(), "a dry run writes nothing");

    let said = scene.ok(&["deploy", "--image", "registry.example.com/op:v1"]);
    assert!(said.contains(&format!("namespace/{NAMESPACE} created")), "{said}");
    assert!(
        said.contains(&format!("deployment.apps/{DEPLOYMENT} is available")),
        "{said}"
    );
    assert_eq!(scene.dir.files(), before, "the project stays as it is");
    let image = "jsonpath={.spec.template.spec.containers[0].image} {.status.availableReplicas}";
    let deployment = scene.kubectl(&["-n", NAMESPACE, "get", "deployment", DEPLOYMENT, "-o", image]);
    assert_eq!(deployment, "registry.example.com/op:v1 1");
    let again = scene.ok(&["deploy", "--image", "registry.example.com/op:v1"]);
    assert!(
        !again.contains("created") && !again.contains("configured"),
        "{again}"
    );

    let same = scene.ok(&["deploy", "--diff", "--image", "registry.example.com/op:v1"]);
    assert_eq!(same, "", "nothing would change");
    let diff = scene.ok(&["deploy", "--diff", "--image", "registry.example.com/op:v2"]);
    assert!(
        diff.contains("-        image: registry.example.com/op:v1\n"),
        "{diff}"
    );
    assert!(
        diff.contains("+        image: registry.example.com/op:v2\n"),
        "{diff}"
    );

    let viewer = "memcached-operator-memcached-viewer-role";
    scene.edit(
        "config/rbac/kustomization.yaml",
        "- memcached_viewer_role.yaml\n",
        "",
    );
    let pruned = scene.ok(&["deploy", "--image", "registry.example.com/op:v1"]);
    let line = format!("clusterrole.rbac.authorization.k8s.io/{viewer} deleted\n");
    assert!(pruned.contains(&line), "{pruned}");
    assert!(
        !scene
            .kubectl(&["get", "clusterroles", "-o", "name"])
            .contains(viewer)
    );

    scene.kubectl(&["apply", "-f", "config/samples/cache_v1alpha1_memcached.yaml"]);
    let kept = scene.ok(&["undeploy", "--keep-crds"]);
    assert!(kept.contains(&format!("namespace/{NAMESPACE} deleted")), "{kept}");
    assert_eq!(
        scene.labelled(),
        ["customresourcedefinition.apiextensions.k8s.io/memcacheds.cache.example.com"]
    );
    scene.kubectl(&["get", "memcached", "memcached-sample"]);
    scene.ok(&["undeploy"]);
    assert_eq!(scene.labelled(), Vec::<String>::new());
    let namespaces = scene.kubectl(&["get", "namespaces", "-o", "name"]);
    assert!(!namespaces.contains(NAMESPACE), "{namespaces}");
    let output = scene.run(&["undeploy"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said, format!("namespace/{NAMESPACE} not found\n"));
}

#[test]
fn a_namespace_of_others_stays() {
    let scene = Scene::new();
    scene.kubectl(&["create", "namespace", "shared"]);
    scene.ok(&["deploy", "--namespace", "shared"]);
    scene.kubectl(&["-n", "shared", "get", "deployment", DEPLOYMENT]);
    let subjects = "jsonpath={.subjects[0].namespace}";
    let binding = "memcached-operator-manager-rolebinding";
    assert_eq!(
        scene.kubectl(&["get", "clusterrolebinding", binding, "-o", subjects]),
        "shared"
    );
    scene.ok(&["undeploy", "--namespace", "shared"]);
    assert_eq!(scene.labelled(), Vec::<String>::new());
    assert_eq!(
        scene.kubectl(&["-n", "shared", "get", "deployments", "-o", "name"]),
        ""
    );
    scene.kubectl(&["get", "namespace", "shared"]);
}

#[test]
fn one_file_installs_everything() {
    let scene = Scene::new();
    scene.ok(&["generate", "installer", "--image", "registry.example.com/op:v1"]);
    let text = scene.dir.read("dist/install.yaml");
    assert!(text.contains("image: registry.example.com/op:v1\n"), "{text}");
    let again = scene.ok(&["generate", "installer", "--image", "registry.example.com/op:v1"]);
    assert!(again.contains("No changes"), "{again}");
    let diff = scene.ok(&["generate", "installer", "--image", "other:v2", "--dry-run"]);
    assert!(diff.contains("+        image: other:v2\n"), "{diff}");

    scene.kubectl(&["apply", "-f", "dist/install.yaml"]);
    let rollout = [
        "rollout",
        "status",
        "deployment",
        DEPLOYMENT,
        "-n",
        NAMESPACE,
        "--timeout=180s",
    ];
    scene.kubectl(&rollout);
    scene.ok(&["generate", "installer"]);
    let kustomize = kubectl(&["kustomize", "config/default"], &scene.dir.path);
    let documents = |text: &str| {
        let mut documents: Vec<String> = text.split("---\n").map(str::to_owned).collect();
        documents.retain(|document| !document.trim().is_empty());
        documents.len()
    };
    assert_eq!(
        documents(&scene.dir.read("dist/install.yaml")),
        documents(&kustomize)
    );
}

#[test]
fn finalizers_that_nobody_ends_are_named() {
    let scene = Scene::new();
    scene.ok(&["deploy"]);
    scene.kubectl(&["apply", "-f", "config/samples/cache_v1alpha1_memcached.yaml"]);
    let finalizer = r#"{"metadata":{"finalizers":["cache.example.com/finalizer"]}}"#;
    let patch = ["patch", "memcached", "memcached-sample", "--type=merge", "-p"];
    scene.kubectl(&[&patch[..], &[finalizer]].concat());
    let errors = scene.fails(&["undeploy", "--timeout", "1s"]);
    let reason = "Memcached default/memcached-sample waits for cache.example.com/finalizer";
    assert!(errors.contains(reason), "{errors}");
    // The operator still runs, to complete the finalizer.
    scene.kubectl(&["-n", NAMESPACE, "get", "deployment", DEPLOYMENT]);
    scene.kubectl(&[&patch[..], &[r#"{"metadata":{"finalizers":null}}"#]].concat());
    scene.ok(&["undeploy"]);
    assert_eq!(scene.labelled(), Vec::<String>::new());
}

#[test]
fn an_operator_that_does_not_start_says_why() {
    let scene = Scene::new();
    let account = "      serviceAccountName: controller-manager";
    let elsewhere = format!("      nodeSelector:\n        disk: fast\n{account}");
    scene.edit("config/manager/manager.yaml", account, &elsewhere);
    let errors = scene.fails(&["deploy", "--timeout", "2s"]);
    assert!(errors.contains("0 of 1 replicas are available"), "{errors}");
    assert!(errors.contains("0/1 nodes are available"), "{errors}");
    let child = sdk()
        .args(["deploy", "--timeout", "10m"])
        .env("KUBECONFIG", scene.dir.path.join("kubeconfig"))
        .current_dir(&scene.dir.path)
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    interrupt_when(child, "waiting for deployment");
}

/// Sends SIGINT when the program has printed a text, and checks that it exits with 130.
#[track_caller]
fn interrupt_when(mut child: std::process::Child, said: &str) {
    use std::io::BufRead;
    let errors = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut lines = errors.lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains(said)), "{said}");
    let pid = i32::try_from(child.id())
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert!(lines.any(|line| line.contains("Interrupted")));
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn fields_of_others_are_not_taken_without_asking() {
    let scene = Scene::new();
    scene.ok(&["deploy"]);
    let object = format!(
        r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"{DEPLOYMENT}"}},"spec":{{"replicas":2}}}}"#
    );
    scene.dir.write("scale.json", &object);
    let apply = [
        "-n",
        NAMESPACE,
        "apply",
        "--server-side",
        "--force-conflicts",
        "--field-manager=team",
        "-f",
        "scale.json",
    ];
    scene.kubectl(&apply);
    let errors = scene.fails(&["deploy"]);
    assert!(
        errors.contains("\"team\"") && errors.contains(".spec.replicas"),
        "{errors}"
    );
    assert!(errors.contains("--force-conflicts"), "{errors}");
    scene.ok(&["deploy", "--force-conflicts"]);
    let replicas = "jsonpath={.spec.replicas}";
    assert_eq!(
        scene.kubectl(&["-n", NAMESPACE, "get", "deployment", DEPLOYMENT, "-o", replicas]),
        "1"
    );
}

#[test]
fn kinds_that_nothing_serves_are_an_error_before_anything_is_written() {
    let scene = Scene::new();
    scene.dir.write(
        "config/manager/issuer.yaml",
        "apiVersion: cert-manager.io/v1\nkind: Issuer\nmetadata:\n  name: issuer\n",
    );
    let path = "config/manager/kustomization.yaml";
    let text = scene.dir.read(path);
    scene.dir.write(
        path,
        &text.replace("- manager.yaml", "- manager.yaml\n- issuer.yaml"),
    );
    let errors = scene.fails(&["deploy"]);
    assert!(
        errors.contains("does not serve Issuer of cert-manager.io/v1"),
        "{errors}"
    );
    assert!(errors.contains("install cert-manager first"), "{errors}");
    assert_eq!(scene.labelled(), Vec::<String>::new());
}

#[test]
fn certificates_of_cert_manager_are_refused_for_local_programs() {
    let scene = Scene::new();
    let kind = ["--group", "cache", "--version", "v1alpha1", "--kind", "Memcached"];
    scene.ok(&[&["create", "webhook"][..], &kind, &["--defaulting"]].concat());
    scene.ok(&["edit", "--cert-manager"]);
    let errors = scene.fails(&["deploy", "--process"]);
    assert!(errors.contains("cert-manager, which issues"), "{errors}");
    assert!(
        errors.contains("operator-sdk edit --cert-manager=false"),
        "{errors}"
    );
    assert!(!errors.contains("Compiling"), "nothing is built: {errors}");
    assert_eq!(scene.labelled(), Vec::<String>::new());
}

/// The message contains the cause of a failed connection, not only that a request failed.
#[test]
fn failed_connections_name_their_cause() {
    let scene = Scene::new();
    let kubeconfig = scene.dir.read("kubeconfig");
    let other = Dir::named("other");
    let (_cluster, _) = running::cluster(&other.path.join("kubeconfig"));
    let line = |text: &str, key: &str| {
        let line = text.lines().find(|line| line.trim_start().starts_with(key));
        line.unwrap().to_owned()
    };
    let exchanged = |key: &str| {
        let theirs = line(&other.read("kubeconfig"), key);
        kubeconfig.replace(&line(&kubeconfig, key), &theirs)
    };
    let server = line(&kubeconfig, "server:");
    let unknown = "server: https://no-such-host.invalid:1".to_owned();
    let cases = [
        (
            exchanged("certificate-authority-data:"),
            "invalid peer certificate",
        ),
        (kubeconfig.replace(server.trim(), &unknown), "lookup address"),
    ];
    for (text, cause) in cases {
        assert_ne!(text, kubeconfig);
        scene.dir.write("kubeconfig", &text);
        let errors = scene.fails(&["install"]);
        assert!(errors.contains(cause), "{errors}");
        assert!(
            errors.contains("cannot reach the API server https://"),
            "{errors}"
        );
        assert_eq!(errors.lines().count(), 2, "{errors}");
    }
}

/// A proxy in the environment is used for clusters on other machines, but not for those on this machine.
#[test]
fn proxies_of_the_environment_are_used() {
    let scene = Scene::new();
    let proxy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", proxy.local_addr().unwrap());
    let install = |directory: &Dir| {
        let mut command = sdk();
        command
            .args(["install", "--timeout", "0"])
            .env("KUBECONFIG", directory.path.join("kubeconfig"))
            .env("HTTPS_PROXY", &address)
            .env_remove("NO_PROXY")
            .env_remove("no_proxy")
            .current_dir(&scene.dir.path);
        command
    };
    succeeded(&["install"], install(&scene.dir).output().unwrap());

    let elsewhere = Dir::named("elsewhere");
    elsewhere.write("kubeconfig", "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts:\n- name: a\n  context: {cluster: a, user: a}\nusers:\n- name: a\n  user: {}\nclusters:\n- name: a\n  cluster: {server: 'https://cluster.invalid:6443'}\n");
    let child = install(&elsewhere).stderr(Stdio::piped()).spawn().unwrap();
    let (mut connection, _) = proxy.accept().unwrap();
    let mut request = [0; 64];
    let count = connection.read(&mut request).unwrap();
    let request = String::from_utf8_lossy(&request[..count]);
    assert!(request.starts_with("CONNECT cluster.invalid:6443 "), "{request}");
    drop(connection);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
}

/// The number of users' objects that will be deleted with their kinds is reported first.
#[test]
fn deleting_kinds_says_how_many_objects_go_with_them() {
    let scene = Scene::new();
    let said = |arguments: &[&str]| {
        let output = scene.run(arguments);
        assert!(output.status.success(), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(said(&["deploy", "--image", "op:v1"]).contains("are simulated"));
    assert!(
        !said(&["undeploy", "--dry-run"]).contains("deleted:"),
        "there are none"
    );
    scene.kubectl(&["apply", "-f", "config/samples/cache_v1alpha1_memcached.yaml"]);
    for command in ["undeploy", "uninstall"] {
        let dry = said(&[command, "--dry-run"]);
        assert!(
            dry.contains("warning: with their CRDs would be deleted: 1 Memcached\n"),
            "{dry}"
        );
    }
    let kept = said(&["undeploy", "--keep-crds"]);
    assert!(!kept.contains("deleted:"), "{kept}");
    let undeployed = said(&["undeploy"]);
    assert!(
        undeployed.contains(
            "warning: with their CRDs are deleted: 1 Memcached\nhint: keep them with `--keep-crds`\n"
        ),
        "{undeployed}"
    );
}

#[test]
fn an_image_that_nobody_named_is_reported() {
    let scene = Scene::new();
    let said = |arguments: &[&str]| String::from_utf8(scene.run(arguments).stderr).unwrap();
    let warned = said(&["deploy", "--dry-run"]);
    assert!(
        warned.contains("the operator's image is the placeholder controller:latest"),
        "{warned}"
    );
    assert!(!said(&["deploy", "--dry-run", "--image", "op:v1"]).contains("placeholder"));
}

#[test]
fn warnings_of_the_server_are_shown_once() {
    let scene = Scene::new();
    scene.edit(
        "config/manager/manager.yaml",
        "terminationGracePeriodSeconds: 10",
        "terminationGracePeriodSeconds: 10\n      nodeSelector:\n        beta.kubernetes.io/os: linux",
    );
    let deployed = scene.run(&["deploy", "--image", "op:v1"]);
    let stderr = String::from_utf8(deployed.stderr).unwrap();
    let warning = "warning: spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead";
    assert_eq!(stderr.matches(warning).count(), 1, "{stderr}");
}

#[test]
fn bad_input() {
    let dir = Dir::project();
    let no_cluster = dir.path.join("none");
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_operator-sdk"))
            .args(arguments)
            .env("KUBECONFIG", &no_cluster)
            .env_remove("IMG")
            .current_dir(&dir.path)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let digest = format!("op@sha256:{}", "a".repeat(64));
    let cases: [(&[&str], &[&str]); 12] = [
        (
            &["deploy", "--image", "UPPER case"],
            &[
                "\"UPPER case\" is not the name of an image",
                "registry.example.com",
            ],
        ),
        (
            &["generate", "installer", "--image", "a:b:c"],
            &["\"a:b:c\" is not the name of an image"],
        ),
        (
            &["deploy", "--image", "op@sha256:abc"],
            &["its digest is not `sha256:` and 64"],
        ),
        (&["deploy", "--image", &digest], &["none cannot be used"]),
        (
            &["install"],
            &["config/crd/kustomization.yaml does not exist", "create api"],
        ),
        (&["deploy"], &["none cannot be used", "--kubeconfig"]),
        (
            &["deploy", "--kubeconfig", "gone"],
            &["the kubeconfig gone cannot be used"],
        ),
        (&["deploy", "--timeout", "soon"], &["invalid duration"]),
        (
            &["deploy", "--namespace", "My NS"],
            &["\"My NS\" is not a valid namespace name"],
        ),
        (
            &["deploy", "--kustomization", "config/none"],
            &["config/none cannot be rendered"],
        ),
        (&["undeploy"], &["none cannot be used"]),
        (
            &["generate", "installer", "--kustomization", "."],
            &["kustomization.yaml does not exist"],
        ),
    ];
    for (arguments, parts) in cases {
        let errors = run(arguments);
        for part in parts {
            assert!(
                errors.contains(part),
                "{arguments:?}: {part:?} is missing: {errors}"
            );
        }
    }
    let role = "config/rbac/role.yaml";
    let text = dir.read(role);
    std::fs::remove_file(dir.path.join(role)).unwrap();
    let errors = run(&["deploy", "--image", "op:v1"]);
    assert!(
        errors.contains("config/rbac/role.yaml does not exist"),
        "{errors}"
    );
    dir.write(role, &text);
    dir.write("none", "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts:\n- name: a\n  context: {cluster: a, user: a}\nusers:\n- name: a\n  user: {}\nclusters:\n- name: a\n  cluster: {server: 'https://127.0.0.1:1'}\n");
    let errors = run(&["deploy", "--image", "op:v1"]);
    assert_eq!(
        errors,
        "error: cannot reach the API server https://127.0.0.1:1/: Connection refused (os error 111)\n\
         hint: check that the cluster is running, and check the address and the certificates in the kubeconfig\n"
    );
    let errors = run(&["deploy", "--image", "op:v1", "--context", "b"]);
    assert!(
        errors.contains("error: the kubeconfig has no context \"b\""),
        "{errors}"
    );
    assert!(errors.contains("hint: use one of its contexts: a\n"), "{errors}");
}

#[test]
fn a_program_runs_on_embedded_control_planes_alone() {
    let scene = Scene::new();
    let kubeconfig = scene.dir.read("kubeconfig");
    let foreign = kubeconfig.replace("operator-sdk.dev/processes", "example.com/other");
    assert_ne!(kubeconfig, foreign);
    scene.dir.write("foreign", &foreign);
    let errors = scene.fails(&["deploy", "--process", "--kubeconfig", "foreign"]);
    assert!(errors.contains("local programs"), "{errors}");
    let output = scene.run(&["deploy", "--image", "registry.example.com/op:v1"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        errors.contains("images are not run") && errors.contains("operator-sdk deploy --process"),
        "{errors}"
    );
}
