//! The tutorial with the real kubectl, on the control planes of this tool.
//!
//! Needs `kubectl`; fails without it. The sample operator is built in the target directory of this test, so that its
//! dependencies are already compiled.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

use common::running::{PATIENCE, Running};
use common::{Dir, sample_dir, sdk, target_dir};

const SAMPLE: &str = "config/samples/cache_v1alpha1_memcached.yaml";

/// Runs kubectl in the sample's directory, as the administrator of one cluster.
struct Kubectl {
    kubeconfig: PathBuf,
}

impl Kubectl {
    fn run(&self, arguments: &[&str]) -> Output {
        common::kubectl_command()
            .args(arguments)
            .env("KUBECONFIG", &self.kubeconfig)
            .current_dir(sample_dir())
            .output()
            .expect("kubectl must be installed: this test does not skip")
    }

    #[track_caller]
    fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "kubectl {arguments:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[track_caller]
    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(!output.status.success(), "kubectl {arguments:?} was not refused");
        String::from_utf8(output.stderr).unwrap()
    }

    /// Waits until there are no objects of these kinds.
    #[track_caller]
    fn ends_empty(&self, kinds: &str) {
        let begin = Instant::now();
        while !self.ok(&["get", kinds, "-o", "name"]).is_empty() {
            assert!(begin.elapsed() < PATIENCE, "{kinds} are left");
        }
    }

    #[track_caller]
    fn wait(&self, object: &str, condition: &str) {
        self.ok(&["wait", object, &format!("--for={condition}"), "--timeout=180s"]);
    }
}

fn build_sample() -> PathBuf {
    let built = common::cargo()
        .args(["build", "--locked"])
        .env("CARGO_TARGET_DIR", target_dir())
        .current_dir(sample_dir())
        .output()
        .unwrap();
    let messages = String::from_utf8(built.stderr).unwrap();
    assert!(built.status.success(), "{messages}");
    assert!(
        !messages.contains("warning"),
        "a new project builds without warnings: {messages}"
    );
    target_dir().join("debug/memcached-operator")
}

/// Returns the cells of the first line that begins with a text.
#[track_caller]
fn row(table: &str, begin: &str) -> Vec<String> {
    let line = table.lines().find(|line| line.starts_with(begin));
    assert!(line.is_some(), "no line with {begin}: {table}");
    let cells = line.unwrap_or_default();
    cells.split_whitespace().map(str::to_owned).collect()
}

/// Returns the output of `kubectl describe` for the objects of the tutorial.
#[track_caller]
fn describes(kubectl: &Kubectl) {
    let memcached = kubectl.ok(&["describe", "memcached", "memcached-sample"]);
    assert!(memcached.contains("3 of 3 replicas are available"), "{memcached}");
    let deployment = kubectl.ok(&["describe", "deployment", "memcached-sample"]);
    for text in [
        "3 desired | 3 updated | 3 total | 3 available | 0 unavailable",
        "ScalingReplicaSet",
    ] {
        assert!(deployment.contains(text), "{text}: {deployment}");
    }
    let selector = "app.kubernetes.io/instance=memcached-sample";
    let pods = kubectl.ok(&["describe", "pods", "-l", selector]);
    for text in ["Scheduled", "Pulled", "Created", "Started"] {
        assert!(pods.contains(text), "{text}: {pods}");
    }
}

#[track_caller]
fn sees_instances(kubectl: &Kubectl, size: &str) {
    kubectl.wait(
        "deployment/memcached-sample",
        &format!("jsonpath={{.status.availableReplicas}}={size}"),
    );
    let ready = kubectl.ok(&[
        "get",
        "deployment",
        "memcached-sample",
        "-o",
        "jsonpath={.status.readyReplicas}/{.spec.replicas}",
    ]);
    assert_eq!(ready, format!("{size}/{size}"));
    let deployment = row(&kubectl.ok(&["get", "deployments"]), "memcached-sample");
    assert_eq!(deployment[1..4], [&format!("{size}/{size}"), size, size]);
    let replica_set = row(&kubectl.ok(&["get", "replicasets"]), "memcached-sample-");
    assert_eq!(replica_set[1..4], [size, size, size]);
    let pods = kubectl.ok(&["get", "pods"]);
    assert_eq!(row(&pods, "NAME"), ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]);
    for pod in pods.lines().skip(1) {
        assert_eq!(row(pod, "memcached-sample-")[1..4], ["1/1", "Running", "0"]);
    }
    let phases = kubectl.ok(&[
        "get",
        "pods",
        "-l",
        "app.kubernetes.io/instance=memcached-sample",
        "-o",
        "jsonpath={.items[*].status.phase}",
    ]);
    let count: usize = size.parse().unwrap();
    assert_eq!(phases, vec!["Running"; count].join(" "));
    kubectl.wait("memcached/memcached-sample", "condition=Available");
    kubectl.wait("memcached/memcached-sample", "condition=Progressing=False");
    let nodes = kubectl.ok(&[
        "get",
        "memcached",
        "memcached-sample",
        "-o",
        "jsonpath={.status.nodes[*]}",
    ]);
    assert_eq!(nodes.split(' ').count(), count, "{nodes}");
}

#[track_caller]
fn walk(kubectl: &Kubectl) {
    let applied = kubectl.ok(&["apply", "-f", SAMPLE]);
    assert_eq!(applied, "memcached.cache.example.com/memcached-sample created\n");
    kubectl.wait("memcached/memcached-sample", "condition=Available");
    sees_instances(kubectl, "3");

    let owner = kubectl.ok(&[
        "get",
        "deployment",
        "memcached-sample",
        "-o",
        "jsonpath={.metadata.ownerReferences[0].kind}",
    ]);
    assert_eq!(owner, "Memcached");
    describes(kubectl);
    let unchanged = kubectl.ok(&["apply", "-f", SAMPLE]);
    assert_eq!(
        unchanged,
        "memcached.cache.example.com/memcached-sample unchanged\n"
    );

    let mut watch = Running::start(
        common::kubectl_command()
            .args(["get", "pods", "-w"])
            .env("KUBECONFIG", &kubectl.kubeconfig),
    );
    watch.line_with("Running");
    kubectl.ok(&[
        "patch",
        "memcached",
        "memcached-sample",
        "--type=merge",
        "-p",
        r#"{"spec":{"size":4}}"#,
    ]);
    watch.line_with("Pending");
    watch.line_with("ContainerCreating");
    watch.line_with("Running");
    drop(watch);
    sees_instances(kubectl, "4");

    for size in ["0", "6", "\"three\""] {
        let patch = format!(r#"{{"spec":{{"size":{size}}}}}"#);
        let refused = kubectl.refused(&[
            "patch",
            "memcached",
            "memcached-sample",
            "--type=merge",
            "-p",
            &patch,
        ]);
        assert!(refused.contains("spec.size"), "{refused}");
    }

    kubectl.ok(&["delete", "-f", SAMPLE]);
    kubectl.wait("deployment/memcached-sample", "delete");
    kubectl.ends_empty("memcacheds,deployments,replicasets,pods");
}

#[test]
#[ignore = "slow: builds and runs projects"]
fn the_tutorial_on_a_cluster() {
    let program = build_sample();
    let dir = Dir::named("cluster");
    let kubectl = Kubectl {
        kubeconfig: dir.path.join("kubeconfig"),
    };
    let (cluster, _) = common::running::cluster(&kubectl.kubeconfig);

    kubectl.ok(&["apply", "-k", "config/crd"]);
    kubectl.wait("crd/memcacheds.cache.example.com", "condition=Established");
    let operator = Running::start(
        Command::new(program)
            .arg("--health-probe-bind-address=0")
            .env("KUBECONFIG", &kubectl.kubeconfig),
    );
    walk(&kubectl);
    assert_eq!(operator.stop().code(), Some(0), "the operator ends cleanly");
    assert_eq!(cluster.stop().code(), Some(0), "the cluster ends cleanly");
}

/// Starts the operator with its own service account in the namespace `system`, and a token as its only credential. The
/// test reads its log.
fn start_as_itself(program: &Path, kubectl: &Kubectl, directory: &Path) -> Running {
    let kubeconfig = directory.join("operator.kubeconfig");
    std::fs::copy(&kubectl.kubeconfig, &kubeconfig).unwrap();
    let operator = Kubectl { kubeconfig };
    let token = kubectl.ok(&["create", "token", "controller-manager", "-n", "system"]);
    let token = format!("--token={}", token.trim());
    operator.ok(&["config", "set-credentials", "controller-manager", &token]);
    operator.ok(&["config", "set-context", "--current", "--user=controller-manager"]);
    let who = operator.ok(&["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"]);
    assert_eq!(who, "system:serviceaccount:system:controller-manager");
    Running::start(
        Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 2>&1"])
            .arg(program)
            .args([
                "--health-probe-bind-address=0",
                "--leader-elect",
                "--leader-election-namespace=system",
            ])
            .env("KUBECONFIG", &operator.kubeconfig),
    )
}

#[test]
#[ignore = "slow: builds and runs projects"]
fn the_tutorial_with_the_scaffolded_roles_alone() {
    let program = build_sample();
    let dir = Dir::named("roles");
    let kubectl = Kubectl {
        kubeconfig: dir.path.join("kubeconfig"),
    };
    let (_cluster, _) = common::running::cluster(&kubectl.kubeconfig);
    kubectl.ok(&["create", "namespace", "system"]);
    kubectl.ok(&["apply", "-k", "config/crd"]);
    kubectl.wait("crd/memcacheds.cache.example.com", "condition=Established");
    kubectl.ok(&["apply", "-k", "config/rbac"]);

    let operator = start_as_itself(&program, &kubectl, &dir.path);
    walk(&kubectl);
    let holders = "jsonpath={.items[*].spec.holderIdentity}";
    let holder = kubectl.ok(&["get", "leases", "-n", "system", "-o", holders]);
    assert!(!holder.is_empty(), "the operator was elected");
    assert_eq!(operator.stop().code(), Some(0), "the operator ends cleanly");

    // If a rule is missing, the operator reports which permission it needs.
    kubectl.ok(&[
        "patch",
        "clusterrole",
        "manager-role",
        "--type=json",
        "-p",
        r#"[{"op":"remove","path":"/rules/1"}]"#,
    ]);
    let mut operator = start_as_itself(&program, &kubectl, &dir.path);
    let line = operator.line_with("cannot list resource");
    for part in ["deployments", "system:serviceaccount:system:controller-manager"] {
        assert!(line.contains(part), "{part}: {line}");
    }
}

#[test]
#[ignore = "slow: builds and runs projects"]
fn the_tutorial_with_run_local() {
    build_sample();
    let dir = Dir::named("local");
    let kubectl = Kubectl {
        kubeconfig: dir.path.join("kubeconfig"),
    };
    let mut local = Running::start(
        sdk()
            .args(["run", "local", "--embedded", "--kubeconfig"])
            .arg(&kubectl.kubeconfig)
            .args(["--", "--health-probe-bind-address=0"])
            .env("CARGO_TARGET_DIR", target_dir())
            .current_dir(sample_dir()),
    );
    local.line_with("ready");
    let created = local.line_with("created");
    assert_eq!(
        created,
        "customresourcedefinition.apiextensions.k8s.io/memcacheds.cache.example.com created"
    );
    walk(&kubectl);
    assert_eq!(local.stop().code(), Some(0), "the exit code is the operator's");
    assert!(!kubectl.kubeconfig.exists());
}

#[test]
#[ignore = "slow: builds and runs projects"]
fn the_whole_quickstart() {
    let dir = Dir::named("memcached-operator");
    let output = sdk()
        .args(["quickstart", "--dir"])
        .arg(&dir.path)
        .env("CARGO_TARGET_DIR", target_dir())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}\n{errors}");
    for command in [
        "$ operator-sdk init --domain example.com",
        "$ operator-sdk create api --group cache",
        "$ operator-sdk generate manifests",
        "$ operator-sdk run local --embedded",
        "$ kubectl apply -f config/samples/cache_v1alpha1_memcached.yaml",
        "$ kubectl patch memcached memcached-sample --type merge -p '{\"spec\":{\"size\":4}}'",
        "$ kubectl delete memcached memcached-sample",
        "Every step was verified in the API",
    ] {
        assert!(text.contains(command), "{command} is missing: {text}");
    }
    assert!(
        text.contains("No changes: the manifests are up to date."),
        "{text}"
    );
}

#[test]
#[ignore = "slow: builds and runs projects"]
fn the_sample_passes_its_own_test() {
    let tested = common::cargo()
        .args(["test", "--locked"])
        .env("CARGO_TARGET_DIR", target_dir())
        .current_dir(sample_dir())
        .output()
        .unwrap();
    let text =
        String::from_utf8_lossy(&tested.stdout).into_owned() + &String::from_utf8_lossy(&tested.stderr);
    assert!(tested.status.success(), "{text}");
    assert!(
        text.contains("test an_object_becomes_a_deployment_of_its_size ... ok"),
        "{text}"
    );
}

/// Returns the processes on this machine that run a program.
fn processes_of(program: &Path) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let runs = |process: &PathBuf| std::fs::read_link(process.join("exe")).is_ok_and(|exe| exe == program);
    let found = entries.map(|entry| entry.path()).filter(runs);
    found.map(|process| process.display().to_string()).collect()
}

/// Returns the process of a program that runs as a pod.
#[track_caller]
fn process_of_pod(program: &Path, pod: &str) -> rustix::process::Pid {
    let has_name = |process: &String| {
        let environment = std::fs::read(Path::new(process).join("environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|variable| variable.ends_with(pod.as_bytes()))
    };
    let process = processes_of(program).into_iter().find(has_name);
    let id = process.and_then(|process| process.strip_prefix("/proc/")?.parse().ok());
    id.and_then(rustix::process::Pid::from_raw)
        .expect("the pod has a process")
}

#[test]
#[ignore = "slow: builds and runs projects"]
fn a_project_is_deployed_as_local_processes() {
    let dir = Dir::built("process-operator");
    let kind = ["--group", "shop", "--kind", "Parcel", "--version", "v1"];
    dir.ok(&[&["create", "api"][..], &kind].concat());
    let webhooks = ["--defaulting", "--programmatic-validation"];
    dir.ok(&[&["create", "webhook"][..], &kind, &webhooks].concat());
    dir.replace("config/manager/manager.yaml", "replicas: 1", "replicas: 2");
    let kubectl = Kubectl {
        kubeconfig: dir.path.join("kubeconfig"),
    };
    let (cluster, _) = common::running::cluster(&kubectl.kubeconfig);
    let deploy = |arguments: &[&str]| {
        let output = sdk()
            .args(arguments)
            .env("KUBECONFIG", &kubectl.kubeconfig)
            .env("CARGO_TARGET_DIR", target_dir())
            .env_remove("IMG")
            .current_dir(&dir.path)
            .output()
            .unwrap();
        let progress = String::from_utf8_lossy(&output.stderr).into_owned();
        common::succeeded(arguments, output) + &progress
    };
    deploy(&["generate", "manifests"]);
    let said = deploy(&["deploy", "--process"]);
    let name = "deployment/process-operator-controller-manager";
    let namespace = "process-operator-system";
    assert!(
        said.contains(&format!("kubectl logs -n {namespace} {name}")),
        "{said}"
    );
    let program = target_dir()
        .join("debug/process-operator")
        .canonicalize()
        .unwrap();
    assert_eq!(
        processes_of(&program).len(),
        2,
        "two replicas run beside each other"
    );

    // The webhooks are called through the Service, and one replica is elected.
    kubectl.ok(&[
        "apply",
        "-f",
        &dir.path
            .join("config/samples/shop_v1_parcel.yaml")
            .display()
            .to_string(),
    ]);
    kubectl.wait("parcel/parcel-sample", "condition=Available");
    let holder = kubectl.ok(&[
        "get",
        "lease",
        "process-operator",
        "-n",
        namespace,
        "-o",
        "jsonpath={.spec.holderIdentity}",
    ]);
    assert!(
        holder.starts_with("process-operator-controller-manager-"),
        "{holder}"
    );
    let log = kubectl.ok(&["logs", "-n", namespace, holder.split('_').next().unwrap()]);
    assert!(log.contains("Starting workers"), "{log}");

    // The other replica takes over when the leader ends, and when it is killed.
    let lease = ["get", "lease", "process-operator", "-n", namespace, "-o"];
    let leader = || {
        let holder = kubectl.ok(&[&lease[..], &["jsonpath={.spec.holderIdentity}"]].concat());
        holder.split('_').next().unwrap_or_default().to_owned()
    };
    let reconciled = |name: &str| {
        let parcel = dir.read("config/samples/shop_v1_parcel.yaml");
        let path = dir.path.join(format!("{name}.yaml"));
        std::fs::write(&path, parcel.replace("parcel-sample", name)).unwrap();
        // The Service may still refer to a replica that has just ended.
        let begin = Instant::now();
        loop {
            let applied = kubectl.run(&["apply", "-f", path.to_str().unwrap()]);
            if applied.status.success() {
                return format!("parcel/{name}");
            }
            assert!(
                begin.elapsed() < PATIENCE,
                "{}",
                String::from_utf8_lossy(&applied.stderr)
            );
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    };
    let first = leader();
    kubectl.ok(&["delete", "pod", "-n", namespace, &first]);
    kubectl.wait(&reconciled("after-delete"), "condition=Available");
    let second = leader();
    assert_ne!(second, first);
    let process = process_of_pod(&program, &second);
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
    kubectl.wait(&reconciled("after-kill"), "condition=Available");
    let restarts = "jsonpath={.status.containerStatuses[0].restartCount}";
    kubectl.ok(&[
        "wait",
        "-n",
        namespace,
        &format!("pod/{second}"),
        &format!("--for={restarts}=1"),
        "--timeout=180s",
    ]);

    // It uses its service account: without a permission it reports the error, and retries.
    kubectl.ok(&[
        "delete",
        "clusterrolebinding",
        "process-operator-manager-rolebinding",
    ]);
    let refused = reconciled("refused");
    let begin = Instant::now();
    loop {
        let log = kubectl.ok(&["logs", "-n", namespace, &leader()]);
        if log.contains("is forbidden") && log.contains("parcels") {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "{log}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let who = format!("system:serviceaccount:{namespace}:process-operator-controller-manager");
    let may = kubectl.refused(&["auth", "can-i", "list", "parcels.shop.example.com", "--as", &who]);
    assert!(!may.contains("yes"), "{may}");
    deploy(&["deploy", "--process"]);
    kubectl.wait(&refused, "condition=Available");

    deploy(&["undeploy", "--yes"]);
    assert_eq!(processes_of(&program), Vec::<String>::new());
    deploy(&["deploy", "--process"]);
    assert_eq!(processes_of(&program).len(), 2);
    assert_eq!(cluster.stop().code(), Some(0));
    assert_eq!(
        processes_of(&program),
        Vec::<String>::new(),
        "nothing is left behind"
    );
}

#[test]
#[ignore = "slow: builds and runs projects"]
fn the_bundle_of_a_project_runs_its_program() {
    let dir = Dir::built("bundle-operator");
    let kind = ["--group", "shop", "--kind", "Parcel", "--version", "v1"];
    dir.ok(&[&["create", "api"][..], &kind].concat());
    let webhooks = ["--defaulting", "--programmatic-validation"];
    dir.ok(&[&["create", "webhook"][..], &kind, &webhooks].concat());
    let kubectl = Kubectl {
        kubeconfig: dir.path.join("kubeconfig"),
    };
    let command = |arguments: &[&str]| {
        let mut command = sdk();
        command
            .args(arguments)
            .env("KUBECONFIG", &kubectl.kubeconfig)
            .env("CARGO_TARGET_DIR", target_dir())
            .current_dir(&dir.path);
        command
    };
    for arguments in [
        &["generate", "manifests"][..],
        &["generate", "kustomize", "manifests"],
        &["generate", "bundle", "--version", "0.1.0"],
    ] {
        let output = command(arguments).stdin(std::process::Stdio::null()).output();
        common::succeeded(arguments, output.unwrap());
    }
    // The scaffolded operator has one field, which it ignores.
    let score = "scorecard bundle --selector suite=behaviour --wait-time 5s -o json";
    let score = command(&score.split(' ').collect::<Vec<_>>()).output().unwrap();
    let scores: serde_json::Value = serde_json::from_slice(&score.stdout).unwrap();
    let states: Vec<&str> = scores["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|test| test["status"]["results"][0]["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["pass", "fail", "pass", "pass"], "{scores:#}");
    let ignored = "Parcel parcel-sample: spec.foo from \"bar\" to \"bar-x\": no reaction in 5s";
    assert_eq!(scores["items"][1]["status"]["results"][0]["errors"][0], ignored);

    let run = [
        "run",
        "bundle",
        "bundle",
        "--embedded",
        "--kubeconfig",
        "kubeconfig",
    ];
    let mut running = Running::start(&mut command(&run));
    running.line_with("The control plane is ready");
    let program = target_dir().join("debug/bundle-operator").canonicalize().unwrap();
    assert_eq!(processes_of(&program).len(), 1);

    // The operator reconciles, and its webhooks are called with the certificate that OLM created.
    let sample = dir.path.join("config/samples/shop_v1_parcel.yaml");
    kubectl.ok(&["apply", "-f", &sample.display().to_string()]);
    kubectl.wait("parcel/parcel-sample", "condition=Available");
    let configurations = "mutatingwebhookconfigurations,validatingwebhookconfigurations";
    let bundles = kubectl.ok(&[
        "get",
        configurations,
        "-o",
        "jsonpath={range .items[*]}{.webhooks[*].clientConfig.caBundle}{\"\\n\"}{end}",
    ]);
    assert_eq!(
        bundles.lines().filter(|line| !line.is_empty()).count(),
        2,
        "{bundles}"
    );

    let clean = ["cleanup", "bundle-operator"];
    common::succeeded(&clean, command(&clean).output().unwrap());
    let begin = Instant::now();
    while !processes_of(&program).is_empty() {
        assert!(
            begin.elapsed() < PATIENCE,
            "the process of a deleted operator runs on"
        );
    }
    assert_eq!(running.stop().code(), Some(0));
}
