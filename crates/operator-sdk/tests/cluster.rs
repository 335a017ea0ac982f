//! Tests of `cluster up` and `run local`: their output, the files that they leave behind, and how they end and fail.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use common::running::{self, Running};
use common::{CREATE_MEMCACHED, Dir, kubectl, sdk};

#[test]
fn a_cluster_is_ready_with_its_kubeconfig_and_ends_cleanly() {
    let dir = Dir::named("cluster");
    let kubeconfig = dir.path.join("kubeconfig");
    let (cluster, line) = running::cluster(&kubeconfig);
    assert!(line.contains("https://127.0.0.1:"), "{line}");
    assert!(
        line.contains(&format!("KUBECONFIG={}", kubeconfig.display())),
        "{line}"
    );
    let mode = std::fs::metadata(&kubeconfig).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "the key is for its owner alone");

    let names = kubectl(
        &["--kubeconfig", "kubeconfig", "get", "namespaces", "-o", "name"],
        &dir.path,
    );
    assert_eq!(
        names,
        "namespace/default\nnamespace/kube-node-lease\nnamespace/kube-public\nnamespace/kube-system\n"
    );
    let nodes = kubectl(
        &["--kubeconfig", "kubeconfig", "get", "nodes", "-o", "name"],
        &dir.path,
    );
    assert_eq!(nodes.lines().count(), 1);

    assert_eq!(cluster.stop().code(), Some(0));
    assert!(!kubeconfig.exists(), "what leads nowhere is removed");
}

#[test]
fn a_cluster_takes_the_access_flags_of_kube_apiserver() {
    let dir = Dir::named("cluster");
    let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n";
    std::fs::write(dir.path.join("policy.yaml"), policy).unwrap();
    std::fs::write(dir.path.join("users.csv"), "secret,bob,u1,dev\n").unwrap();
    let mut command = sdk();
    command.current_dir(&dir.path).args([
        "cluster",
        "up",
        "--controllers=none",
        "--kubeconfig=kubeconfig",
        "--",
        "--token-auth-file=users.csv",
        "--audit-policy-file=policy.yaml",
        "--audit-log-path",
        "audit.log",
        "--disable-admission-plugins=NamespaceLifecycle",
    ]);
    let mut cluster = Running::start(&mut command);
    cluster.line_with("ready");
    let with_token = ["--kubeconfig", "kubeconfig", "--token", "secret"];
    let output = common::kubectl_command()
        .args(with_token)
        .args(["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"])
        .current_dir(&dir.path)
        .output()
        .unwrap();
    // The client certificate of the kubeconfig comes before the token.
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "admin");
    kubectl(
        &[
            "--kubeconfig",
            "kubeconfig",
            "create",
            "configmap",
            "a",
            "-n",
            "missing",
        ],
        &dir.path,
    );
    let log = std::fs::read_to_string(dir.path.join("audit.log")).unwrap();
    assert!(
        log.lines()
            .any(|line| line.contains("/namespaces/missing/configmaps"))
    );
    cluster.stop();
    let refused = sdk()
        .args(["cluster", "up", "--", "--secure-port=1"])
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let text = String::from_utf8(refused.stderr).unwrap();
    assert!(
        text.contains("--secure-port of kube-apiserver is not a flag of access"),
        "{text}"
    );
}

/// Starts a cluster with a data directory, without controllers.
fn up_with_data(data: &Path) -> Running {
    let mut command = sdk();
    command.args(["cluster", "up", "--controllers", "none", "--data-dir"]);
    let mut cluster = Running::start(command.arg(data));
    cluster.line_with("ready");
    cluster
}

/// Creates ConfigMaps until the cluster is killed. Returns the number of acknowledged ones.
fn create_until_killed(dir: &Dir, round: usize) -> usize {
    (0..)
        .take_while(|index| {
            let name = format!("round-{round}-{index}");
            let create = ["--kubeconfig", "kubeconfig", "create", "configmap", &name];
            let output = common::kubectl_command()
                .args(create)
                .current_dir(&dir.path)
                .output()
                .unwrap();
            output.status.success()
        })
        .count()
}

#[test]
fn a_cluster_with_a_data_directory_survives_sigkill() {
    let dir = Dir::named("cluster");
    let data = dir.path.join("data");
    let mut acknowledged = Vec::new();
    for (round, milliseconds) in [700, 150, 420, 1_000].into_iter().enumerate() {
        let cluster = up_with_data(&data);
        if round == 0 {
            // The kubeconfig of the first start is valid for all later ones.
            std::fs::copy(data.join("kubeconfig"), dir.path.join("kubeconfig")).unwrap();
        }
        let created = std::thread::scope(|scope| {
            let writer = scope.spawn(|| create_until_killed(&dir, round));
            std::thread::sleep(Duration::from_millis(milliseconds));
            cluster.kill();
            writer.join().unwrap()
        });
        acknowledged.extend((0..created).map(|index| format!("configmap/round-{round}-{index}")));
    }
    let cluster = up_with_data(&data);
    let list = ["--kubeconfig", "kubeconfig", "get", "configmaps", "-o", "name"];
    let stored = kubectl(&list, &dir.path);
    for name in acknowledged {
        assert!(
            stored.lines().any(|line| line == name),
            "{name} was acknowledged: {stored}"
        );
    }
    assert_eq!(cluster.stop().code(), Some(0));
    assert!(
        data.join("kubeconfig").exists(),
        "the cluster can be started again"
    );
}

#[test]
fn a_data_directory_in_use() {
    let dir = Dir::named("cluster");
    let _cluster = up_with_data(&dir.path.join("data"));
    let output = dir.run(&["cluster", "up", "--data-dir", "data"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("data is in use by another server"), "{errors}");
    assert!(
        errors.contains("hint: stop the other program that uses data"),
        "{errors}"
    );
}

#[test]
fn a_port_in_use() {
    let dir = Dir::named("cluster");
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port().to_string();
    let errors = dir.fails(&["cluster", "up", "--port", &port, "--kubeconfig", "kubeconfig"]);
    assert!(
        errors.contains(&format!("cannot listen on 127.0.0.1:{port}")),
        "{errors}"
    );
    assert!(errors.contains("--port 0"), "{errors}");
}

#[test]
fn a_kubeconfig_of_another_cluster_is_not_overwritten() {
    let dir = Dir::named("cluster");
    dir.write(
        "config",
        "apiVersion: v1\nkind: Config\nclusters:\n- name: production\n  cluster: {}\n",
    );
    let errors = dir.fails(&["cluster", "up", "--kubeconfig", "config"]);
    assert!(
        errors.contains("is not a kubeconfig of an embedded control plane"),
        "{errors}"
    );
}

#[test]
fn a_kubeconfig_in_no_directory() {
    let errors = Dir::named("cluster").fails(&["cluster", "up", "--kubeconfig", "missing/kubeconfig"]);
    assert!(
        errors.contains("cannot write the kubeconfig missing/kubeconfig"),
        "{errors}"
    );
}

#[test]
fn a_kubeconfig_that_does_not_exist() {
    let dir = Dir::project();
    dir.ok(CREATE_MEMCACHED);
    let errors = dir.fails(&["run", "local", "--kubeconfig", "missing"]);
    assert!(
        errors.contains("the kubeconfig missing does not exist"),
        "{errors}"
    );
    assert!(errors.contains("--embedded"), "{errors}");
}

/// Replaces the sources of a project by a program without dependencies.
fn replace_program(dir: &Dir, main: &str, lib: &str) {
    dir.write(
        "Cargo.toml",
        "[package]\nname = \"memcached-operator\"\nversion = \"0.0.1\"\nedition = \"2024\"\n[workspace]\n",
    );
    dir.write("src/lib.rs", lib);
    dir.write("src/main.rs", main);
    std::fs::remove_file(dir.path.join("Cargo.lock")).unwrap();
}

#[test]
fn the_operator_gets_the_context() {
    let dir = Dir::project();
    let main = r#"fn main() {
        assert!(!std::env::var("KUBECONFIG").unwrap().contains("gone"));
        let arguments = ["config", "view", "--minify", "-o", "jsonpath={.current-context} {..server} {..namespace}"];
        assert!(std::process::Command::new("kubectl").args(arguments).status().unwrap().success());
    }"#;
    replace_program(&dir, main, "");
    let kubeconfig = |name: &str, contexts: &str| {
        let cluster = format!("{{name: {name}, cluster: {{server: 'https://{name}.example.com'}}}}");
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: {name}\nclusters: [{cluster}]\ncontexts: [{contexts}]\n"
        );
        dir.write(name, &text);
    };
    kubeconfig(
        "one",
        "{name: one, context: {cluster: one}}, {name: 'a: b', context: {cluster: two, namespace: team}}",
    );
    kubeconfig("two", "{name: two, context: {cluster: two}}");
    let temporary = Dir::named("temporary");
    let run = |arguments: &[&str]| {
        let mut command = sdk();
        command.args(["run", "local"]).args(arguments);
        command
            // Missing files of the list are ignored.
            .env("KUBECONFIG", "gone:one:two")
            .env("TMPDIR", &temporary.path);
        command.env("CARGO_TARGET_DIR", dir.path.join("target"));
        command.current_dir(&dir.path).output().unwrap()
    };
    for (arguments, expected) in [
        (&[][..], "one https://one.example.com "),
        (&["--context", "two"], "two https://two.example.com "),
        (&["--context", "a: b"], "a: b https://two.example.com team"),
        (
            &["--context", "one", "--kubeconfig", "one"],
            "one https://one.example.com ",
        ),
        (&["--kubeconfig", "two"], "two https://two.example.com "),
    ] {
        assert_eq!(
            common::succeeded(arguments, run(arguments)),
            expected,
            "{arguments:?}"
        );
    }
    let left = std::fs::read_dir(&temporary.path).unwrap().count();
    assert_eq!(left, 0, "the selection of the context is removed");
}

#[test]
fn a_context_that_does_not_exist() {
    let dir = Dir::project();
    dir.ok(CREATE_MEMCACHED);
    dir.write("kubeconfig", "contexts: [{name: here, context: {cluster: a}}]\n");
    for command in [
        &["run", "local"][..],
        &["dev"],
        &["crd", "diff", "cluster", "config/crd/bases"],
    ] {
        let errors = dir.fails(&[command, &["--kubeconfig", "kubeconfig", "--context", "there"]].concat());
        assert!(
            errors.contains("the kubeconfig has no context \"there\""),
            "{errors}"
        );
        assert!(errors.contains("use one of its contexts: here"), "{errors}");
    }
    let mut command = sdk();
    command.args(["crd", "diff", "cluster", "config/crd/bases", "--context", "there"]);
    command
        .current_dir(&dir.path)
        .env("KUBECONFIG", "gone:kubeconfig");
    let errors = String::from_utf8(command.output().unwrap().stderr).unwrap();
    assert!(errors.contains("use one of its contexts: here"), "{errors}");
    let output = dir.run(&["run", "local", "--embedded", "--context", "here"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        errors.contains("'--embedded' cannot be used with '--context"),
        "{errors}"
    );
}

#[test]
fn an_operator_ends_with_a_killed_tool() {
    let dir = Dir::project();
    dir.write("kubeconfig", "contexts: []\n");
    let main = r#"fn main() {
        println!("the operator runs");
        loop { std::thread::park() }
    }"#;
    replace_program(&dir, main, "");
    let mut command = sdk();
    command.args(["run", "local", "--kubeconfig", "kubeconfig"]);
    command.env("CARGO_TARGET_DIR", dir.path.join("target"));
    let mut running = Running::start(command.current_dir(&dir.path));
    running.line_with("the operator runs");
    // The operator has the same standard output, which is closed when both have ended.
    running.kill_and_read_to_end();
}

/// Returns the number of entries whose names are those of temporary directories.
fn temporary_directories(parent: &Dir) -> usize {
    std::fs::read_dir(&parent.path).unwrap().count()
}

#[test]
fn directories_of_a_killed_process_are_removed_at_the_next_start() {
    let dir = Dir::named("cluster");
    let up = || {
        let mut command = sdk();
        command.args(["cluster", "up"]).env("TMPDIR", &dir.path);
        let mut cluster = Running::start(&mut command);
        cluster.line_with("ready");
        cluster
    };
    let killed = up();
    let of_one = temporary_directories(&dir);
    assert!(of_one > 0);
    let other = up();
    assert_eq!(temporary_directories(&dir), 2 * of_one, "those in use are kept");
    killed.kill();
    let next = up();
    assert_eq!(temporary_directories(&dir), 2 * of_one);
    assert!(other.stop().success() && next.stop().success());
    assert_eq!(temporary_directories(&dir), 0);
}

/// Cargo treats two projects of the same name in one target directory as the same project.
#[test]
fn projects_of_one_name_may_share_a_target_directory() {
    let target = Dir::named("target");
    let project = |says: &str| {
        let dir = Dir::project();
        replace_program(
            &dir,
            "fn main() { println!(\"{}\", memcached_operator::says()) }\n",
            &format!("pub fn says() -> &'static str {{ {says:?} }}\n"),
        );
        dir.write("kubeconfig", "");
        dir
    };
    // The sources of both are older than either build.
    let projects = ["one", "two"].map(|says| (says, project(says)));
    let built = |dir: &Dir, variables: &[(&str, &Path)]| {
        let output = sdk()
            .args(["run", "local", "--kubeconfig", "kubeconfig"])
            .env_remove("CARGO_TARGET_DIR")
            .envs(variables.iter().copied())
            .current_dir(&dir.path)
            .output()
            .unwrap();
        common::succeeded(&["run", "local"], output)
    };
    let [(_, one), (_, two)] = &projects;
    let of_one = one.path.join("target");
    // The directory is set by cargo's variable or its configuration, and can belong to one of the projects.
    for (variable, target) in [
        ("CARGO_TARGET_DIR", target.path.as_path()),
        ("CARGO_BUILD_TARGET_DIR", target.path.as_path()),
        ("CARGO_TARGET_DIR", of_one.as_path()),
    ] {
        for (says, dir) in projects.iter().chain(&projects) {
            assert_eq!(built(dir, &[(variable, target)]), format!("{says}\n"));
        }
    }
    // A build that was not recorded is not trusted either.
    let status = common::cargo()
        .args(["build", "--quiet"])
        .env("CARGO_TARGET_DIR", &target.path)
        .current_dir(&one.path)
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(built(two, &[("CARGO_TARGET_DIR", &target.path)]), "two\n");
    // The first project uses its own directory again.
    assert_eq!(built(two, &[("CARGO_TARGET_DIR", &of_one)]), "two\n");
    assert_eq!(built(one, &[]), "one\n");
}

#[test]
fn a_directory_that_is_no_project() {
    for command in [&["run", "local", "--embedded"][..], &["generate", "manifests"]] {
        let errors = Dir::named("op").fails(command);
        assert!(errors.contains("has no PROJECT file"), "{errors}");
    }
}

#[test]
fn a_quickstart_in_a_directory_with_files() {
    let dir = Dir::named("op");
    dir.write("notes.txt", "mine\n");
    let errors = dir.fails(&["quickstart", "--dir", "."]);
    assert!(errors.contains("is not empty"), "{errors}");
}
