//! Runs the commands in the guides of operator-sdk as written, with Rust instead of Go, on an embedded control plane
//! that is checked with kubectl.
//!
//! The operators are built in the target directory of this test, with the same name, so the tests run in sequence.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use common::registry::{AUTH, Registry};
use common::running::{self, PATIENCE, Running};
use common::{CREATE_MEMCACHED, Dir, sample_dir, target_dir};

static TURN: Mutex<()> = Mutex::new(());

/// A directory for projects, and a cluster.
struct Walk {
    dir: Dir,
    root: PathBuf,
    kubeconfig: PathBuf,
    _cluster: Running,
    _turn: MutexGuard<'static, ()>,
}

const OPERATOR: &str = "memcached-operator";
const SAMPLE: &str = "config/samples/cache_v1alpha1_memcached.yaml";

impl Walk {
    fn new() -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = Dir::named("projects");
        let kubeconfig = dir.path.join("kubeconfig");
        let (cluster, _) = running::cluster(&kubeconfig);
        let engine = dir.path.join("bin/docker");
        std::fs::create_dir(dir.path.join("bin")).unwrap();
        let log = dir.path.join("docker.log");
        std::fs::write(
            &engine,
            format!("#!/bin/sh\necho \"docker $*\" >> {}\n", log.display()),
        )
        .unwrap();
        std::fs::set_permissions(&engine, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self {
            root: dir.path.join(OPERATOR),
            dir,
            kubeconfig,
            _cluster: cluster,
            _turn: turn,
        }
    }

    /// Returns the calls of docker since the last call. This docker only records its calls.
    fn docker_was_asked(&self) -> Vec<String> {
        let log = self.dir.path.join("docker.log");
        let text = std::fs::read_to_string(&log).unwrap();
        std::fs::remove_file(log).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with("docker version"));
        lines.map(str::to_owned).collect()
    }

    /// Returns a program as the user of the guide would start it, with the tool in the PATH and a container engine.
    fn program(&self, program: &str, directory: &Path) -> Command {
        let tool = Path::new(env!("CARGO_BIN_EXE_operator-sdk")).parent().unwrap();
        let bin = self.dir.path.join("bin");
        let path = format!(
            "{}:{}:{}",
            bin.display(),
            tool.display(),
            std::env::var("PATH").unwrap()
        );
        let mut command = Command::new(program);
        command
            .current_dir(directory)
            .env("PATH", path)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("KUBECACHEDIR", "/dev/null")
            .env("CARGO_TARGET_DIR", target_dir())
            .env(common::BUILD_CACHE, "")
            .env_remove("IMG")
            .stdin(Stdio::null());
        command
    }

    /// Runs a line of a guide in a directory, checks that it succeeds, and returns its output.
    #[track_caller]
    fn types_in(&self, directory: &Path, line: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        let output = self
            .program(words[0], directory)
            .args(&words[1..])
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "$ {line}\n{errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a line of a guide in the project.
    #[track_caller]
    fn types(&self, line: &str) -> String {
        self.types_in(&self.root, line)
    }

    fn starts(&self, line: &str) -> Running {
        let words: Vec<&str> = line.split_whitespace().collect();
        Running::start(self.program(words[0], &self.root).args(&words[1..]))
    }

    fn write(&self, path: &str, text: &str) {
        std::fs::write(self.root.join(path), text).unwrap();
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.root.join(path)).unwrap()
    }

    /// Writes the code that the guide asks its reader to write, as it is in the sample.
    fn writes_the_code_of_the_sample(&self, paths: &[&str]) {
        for path in paths {
            std::fs::copy(sample_dir().join(path), self.root.join(path)).unwrap();
        }
    }

    #[track_caller]
    fn sees(&self, line: &str, expected: &str) {
        let begin = Instant::now();
        loop {
            let seen = self.types(line);
            if seen == expected {
                return;
            }
            assert!(
                begin.elapsed() < PATIENCE,
                "$ {line}\n{seen:?} is not {expected:?}"
            );
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }

    /// Checks that the custom resource leads to a Deployment of its size, which is updated and deleted with it.
    #[track_caller]
    fn the_operator_works(&self) {
        self.types(&format!("kubectl apply -f {SAMPLE}"));
        // `run local` builds the operator first.
        self.types("kubectl wait memcached/memcached-sample --for=condition=Available --timeout=10m");
        let replicas = "kubectl get deployment memcached-sample -o jsonpath={.status.readyReplicas}";
        self.sees(replicas, "3");
        assert!(self.types("kubectl get deployment").contains("memcached-sample"));
        assert_eq!(self.types("kubectl get pods").matches("Running").count(), 3);
        let nodes = self.types("kubectl get memcached/memcached-sample -o jsonpath={.status.nodes[*]}");
        assert_eq!(nodes.split(' ').count(), 3, "{nodes}");
        self.write(SAMPLE, &self.read(SAMPLE).replace("size: 3", "size: 4"));
        self.types(&format!("kubectl apply -f {SAMPLE}"));
        self.sees(replicas, "4");
        self.types(&format!("kubectl delete -f {SAMPLE}"));
        self.sees("kubectl get deployments,pods -o name", "");
    }
}

const TYPES: &str = "src/api/v1alpha1/memcached_types.rs";
const CONTROLLER: &str = "src/controller/memcached_controller.rs";

/// Adds a sample for the type that the reader of the guide has written.
fn with_size(walk: &Walk) {
    let text = std::fs::read_to_string(sample_dir().join(SAMPLE)).unwrap();
    walk.write(SAMPLE, &text);
}

#[test]
#[ignore = "slow: builds and runs projects"]
fn the_guides_of_0_8_0_10_and_0_19() {
    let walk = Walk::new();
    let guides = [
        (
            "operator-sdk new memcached-operator",
            vec!["operator-sdk generate k8s"],
            "operator-sdk up local --namespace=default --operator-flags --health-probe-bind-address=0",
        ),
        (
            "operator-sdk new memcached-operator --repo=github.com/example-inc/memcached-operator",
            vec!["operator-sdk generate k8s", "operator-sdk generate openapi"],
            "operator-sdk up local --namespace=default --operator-flags --health-probe-bind-address=0",
        ),
        (
            "operator-sdk new memcached-operator --repo=github.com/example-inc/memcached-operator",
            vec!["operator-sdk generate k8s", "operator-sdk generate crds"],
            "operator-sdk run local --watch-namespace=default --operator-flags --health-probe-bind-address=0",
        ),
    ];
    let last = guides.len() - 1;
    for (index, (new, generate, local)) in guides.into_iter().enumerate() {
        walk.types_in(&walk.dir.path, new);
        walk.types("operator-sdk add api --api-version=cache.example.com/v1alpha1 --kind=Memcached");
        walk.writes_the_code_of_the_sample(&[TYPES]);
        for line in generate {
            walk.types(line);
        }
        walk.types("operator-sdk add controller --api-version=cache.example.com/v1alpha1 --kind=Memcached");
        walk.writes_the_code_of_the_sample(&[CONTROLLER]);
        with_size(&walk);
        walk.types("operator-sdk generate manifests");
        walk.types("kubectl create -f config/crd/bases/cache.example.com_memcacheds.yaml");
        walk.types(
            "kubectl wait crd/memcacheds.cache.example.com --for=condition=Established --timeout=180s",
        );

        // 1. As a Deployment inside the cluster, instead of `sed` and four times `kubectl create`. An engine builds
        //    from the published crates. A project that uses a checkout gets its image without an engine.
        let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        walk.types("operator-sdk edit --sdk-registry");
        walk.types("operator-sdk build quay.io/example/memcached-operator:v0.0.1");
        walk.types("docker push quay.io/example/memcached-operator:v0.0.1");
        assert_eq!(
            walk.docker_was_asked(),
            [
                "docker build -t quay.io/example/memcached-operator:v0.0.1 -f Dockerfile .",
                "docker push quay.io/example/memcached-operator:v0.0.1",
            ]
        );
        walk.types(&format!("operator-sdk edit --sdk-path {}", checkout.display()));
        walk.types("operator-sdk deploy --image quay.io/example/memcached-operator:v0.0.1 --force-conflicts");
        let deployment = "-n memcached-operator-system deployment/memcached-operator-controller-manager";
        let image = "jsonpath={.spec.template.spec.containers[0].image}{.status.availableReplicas}";
        let seen = walk.types(&format!("kubectl get {deployment} -o {image}"));
        assert_eq!(seen, "quay.io/example/memcached-operator:v0.0.11");
        walk.types("operator-sdk undeploy --keep-crds");

        // 2. Outside the cluster.
        let operator = walk.starts(local);
        walk.the_operator_works();
        assert_eq!(operator.stop().code(), Some(0), "the operator ends cleanly");
        walk.types("operator-sdk uninstall");
        // 3. With OLM, from version 0.19 on.
        if index == last {
            let olm = WithOlm::start(&walk);
            olm.is_installed();
            olm.ok("operator-sdk generate bundle --version 0.0.1");
            olm.ok("operator-sdk bundle validate ./bundle");
            olm.the_operator_works("./bundle");
        }
        std::fs::remove_dir_all(&walk.root).unwrap();
    }
}

#[test]
#[ignore = "slow: builds and runs projects"]
fn the_walkthrough_of_1_15() {
    let walk = Walk::new();
    std::fs::create_dir(&walk.root).unwrap();
    walk.types("operator-sdk init --domain example.com --repo github.com/example/memcached-operator");
    walk.types(
        "operator-sdk create api --group cache --version v1alpha1 --kind Memcached --resource --controller",
    );
    walk.writes_the_code_of_the_sample(&[TYPES, CONTROLLER]);
    with_size(&walk);

    // A finalizer, named as in the memcached_controller of the guide.
    let reconciled = "    let deployment = ctx.apply_owned(";
    let text = walk.read(CONTROLLER);
    assert!(text.contains(reconciled), "{text}");
    let finalizer = r#"    let finalize = async {
        tracing::info!("Successfully finalized memcached");
        Ok(())
    };
    if !ctx.finalize("cache.example.com/finalizer", finalize).await? {
        return Ok(Action::done());
    }
"#;
    // The permission for the finalizer, as the guide writes it.
    let marker = "//+kubebuilder:rbac:groups=cache.example.com,resources=memcacheds,verbs=get;list;watch;create;update;patch;delete\n";
    let text = text.replacen(reconciled, &format!("{finalizer}{reconciled}"), 1);
    walk.write(CONTROLLER, &format!("{text}\n{marker}"));

    for line in ["init --help", "create --help", "create api --help"] {
        assert!(
            walk.types(&format!("operator-sdk {line}"))
                .contains("Usage: operator-sdk")
        );
    }
    walk.types("make generate");
    walk.types("make manifests");
    // Corresponds to `go test controllers/`.
    walk.types("make test");
    walk.types("make install");
    walk.types("kubectl wait crd/memcacheds.cache.example.com --for=condition=Established --timeout=180s");
    let operator = walk.starts("operator-sdk run local --operator-flags --health-probe-bind-address=0");
    walk.types(&format!("kubectl apply -f {SAMPLE}"));
    walk.sees(
        "kubectl get memcached memcached-sample -o jsonpath={.metadata.finalizers[*]}",
        "cache.example.com/finalizer",
    );
    walk.the_operator_works();
    assert_eq!(operator.stop().code(), Some(0));

    several_namespaces(&walk);
    one_leader(&walk);

    install_and_run(&walk);

    // The guide asks its reader to change IMG in the Makefile.
    let makefile = walk.read("Makefile");
    let (before, after) = (
        "\nIMG ?= controller:latest\n",
        "\nIMG ?= $(IMAGE_TAG_BASE):v$(VERSION)\n",
    );
    assert!(makefile.contains(before), "{makefile}");
    walk.write("Makefile", &makefile.replace(before, after));
    walk.types("make docker-build docker-push");
    assert_eq!(
        walk.docker_was_asked(),
        [
            "docker build -t example.com/memcached-operator:v0.0.1 .",
            "docker push example.com/memcached-operator:v0.0.1",
        ]
    );
    walk.types("make docker-buildx PLATFORMS=linux/arm64");
    assert!(walk.docker_was_asked()[0].contains("buildx build"));
    walk.types("make build-installer");
    assert!(
        walk.read("dist/install.yaml")
            .contains("image: example.com/memcached-operator:v0.0.1")
    );

    walk.types("make deploy IMG=registry.example.com/memcached-operator:v0.0.1");
    let deployment = "-n memcached-operator-system deployment/memcached-operator-controller-manager";
    walk.types(&format!("kubectl rollout status {deployment} --timeout=180s"));
    let image = walk.types(&format!(
        "kubectl get {deployment} -o jsonpath={{.spec.template.spec.containers[0].image}}"
    ));
    assert_eq!(image, "registry.example.com/memcached-operator:v0.0.1");
    walk.types("make undeploy");
    walk.sees("kubectl get crds -o name", "");

    // "Deploy using OLM": the bundle goes through a registry.
    let olm = WithOlm::start(&walk);
    olm.is_installed();
    let image = format!("{}/team/op:v0.0.1", olm.registry.host);
    olm.ok("make bundle IMG=registry.example.com/memcached-operator:v0.0.1");
    olm.ok(&format!("make bundle-build bundle-push BUNDLE_IMG={image}"));
    olm.the_operator_works(&image);
}

/// A cluster with Operator Lifecycle Manager beside that of the guide, and a registry.
struct WithOlm<'w> {
    walk: &'w Walk,
    registry: Registry,
    _cluster: Running,
}

impl<'w> WithOlm<'w> {
    fn start(walk: &'w Walk) -> Self {
        let registry = Registry::start();
        let credentials = format!(r#"{{"auths":{{"{}":{{"auth":"{AUTH}"}}}}}}"#, registry.host);
        walk.write("config.json", &credentials);
        let mut up = walk.program("operator-sdk", &walk.root);
        up.args(["cluster", "up", "--olm", "--kubeconfig", "olm.kubeconfig"]);
        let mut cluster = Running::start(&mut up);
        cluster.line_with("The control plane is ready");
        Self {
            walk,
            registry,
            _cluster: cluster,
        }
    }

    fn output(&self, line: &str) -> Output {
        let mut words = line.split_whitespace();
        let root = &self.walk.root;
        self.walk
            .program(words.next().unwrap(), root)
            .args(words)
            .env("KUBECONFIG", root.join("olm.kubeconfig"))
            .env("DOCKER_CONFIG", root)
            .output()
            .unwrap()
    }

    #[track_caller]
    fn ok(&self, line: &str) -> String {
        common::succeeded(&[line], self.output(line))
    }

    /// `operator-sdk olm install`, without network access: the cluster has OLM.
    #[track_caller]
    fn is_installed(&self) {
        let output = self.output("operator-sdk olm install --releases http://127.0.0.1:1");
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains("detected existing OLM resources"), "{errors}");
        assert!(self.ok("operator-sdk olm status").contains("packageserver"));
    }

    /// The operator is installed from its bundle, reconciles the custom resource, and is removed.
    #[track_caller]
    fn the_operator_works(&self, bundle: &str) {
        assert_eq!(
            self.ok(&format!("operator-sdk run bundle {bundle}")),
            "OLM has successfully installed \"memcached-operator.v0.0.1\"\n"
        );
        let walk = self.walk;
        walk.write(SAMPLE, &walk.read(SAMPLE).replace("size: 4", "size: 3"));
        self.ok(&format!("kubectl apply -f {SAMPLE}"));
        let wait = "kubectl wait deployment/memcached-sample --timeout=180s";
        self.ok(&format!("{wait} --for=create"));
        self.ok(&format!("{wait} --for=jsonpath={{.status.readyReplicas}}=3"));
        let pods = self.ok("kubectl get pods -o name");
        assert_eq!(pods.matches("pod/memcached-sample-").count(), 3, "{pods}");
        assert!(
            pods.contains("pod/memcached-operator-controller-manager-"),
            "{pods}"
        );
        self.ok("kubectl patch memcached memcached-sample --type=merge -p {\"spec\":{\"size\":4}}");
        self.ok(&format!("{wait} --for=jsonpath={{.status.readyReplicas}}=4"));
        self.ok(&format!("kubectl delete -f {SAMPLE}"));
        self.ok("operator-sdk cleanup memcached-operator");
        assert_eq!(self.ok("kubectl get csv,subscriptions -n default -o name"), "");
    }
}

/// Runs `make install run`, until Ctrl-C.
#[track_caller]
fn install_and_run(walk: &Walk) {
    let mut make = walk.program("make", &walk.root);
    make.args(["install", "run"])
        .env("RUN_FLAGS", "-- --health-probe-bind-address=0");
    let operator = Running::start(&mut make);
    walk.types(&format!("kubectl apply -f {SAMPLE}"));
    walk.types("kubectl wait memcached/memcached-sample --for=condition=Available --timeout=180s");
    walk.types(&format!("kubectl delete -f {SAMPLE}"));
    operator.stop();
}

/// With `WATCH_NAMESPACE=a,b`, objects in other namespaces are ignored.
#[track_caller]
fn several_namespaces(walk: &Walk) {
    for namespace in ["a", "b", "c"] {
        walk.types(&format!("kubectl create namespace {namespace}"));
        walk.types(&format!("kubectl -n {namespace} apply -f {SAMPLE}"));
    }
    let operator = walk.starts(
        "operator-sdk run local --watch-namespace=a,b --operator-flags --health-probe-bind-address=0",
    );
    for namespace in ["a", "b"] {
        walk.types(&format!(
            "kubectl -n {namespace} wait memcached/memcached-sample --for=condition=Available --timeout=10m"
        ));
    }
    assert_eq!(walk.types("kubectl -n c get deployments -o name"), "");
    for namespace in ["a", "b", "c"] {
        walk.types(&format!("kubectl -n {namespace} delete -f {SAMPLE}"));
    }
    assert_eq!(operator.stop().code(), Some(0));
}

/// Leader with lease: one of two operators is active, and the other takes over when it ends.
#[track_caller]
fn one_leader(walk: &Walk) {
    let start = || {
        let child = walk
            .program("operator-sdk", &walk.root)
            .args([
                "run",
                "local",
                "--",
                "--leader-elect",
                "--leader-election-namespace=default",
            ])
            .arg("--health-probe-bind-address=0")
            .stdout(Stdio::null())
            .spawn();
        Beside(child.unwrap())
    };
    let holder = "kubectl get leases -o jsonpath={.items[*].spec.holderIdentity}";
    let first = start();
    let begin = Instant::now();
    while walk.types(holder).is_empty() {
        assert!(begin.elapsed() < PATIENCE, "nobody leads");
    }
    let leader = walk.types(holder);
    let second = start();
    walk.types(&format!("kubectl apply -f {SAMPLE}"));
    walk.types("kubectl wait memcached/memcached-sample --for=condition=Available --timeout=180s");
    assert_eq!(walk.types(holder), leader, "the first one leads on");
    drop(first);
    let begin = Instant::now();
    loop {
        let now = walk.types(holder);
        if !now.is_empty() && now != leader {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "nobody has taken over: {now}");
    }
    walk.types(&format!("kubectl delete -f {SAMPLE}"));
    drop(second);
}

/// A program that ends when the value is dropped, even if the test has failed.
struct Beside(std::process::Child);

impl Drop for Beside {
    fn drop(&mut self) {
        let pid = i32::try_from(self.0.id()).ok();
        if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "slow: builds and runs projects"]
fn the_getting_started_of_kubebuilder_with_a_kind_of_the_cluster() {
    let walk = Walk::new();
    std::fs::create_dir(&walk.root).unwrap();
    walk.types("operator-sdk init --domain=example.com");
    walk.types(
        "operator-sdk create api --group cache --version v1alpha1 --kind Memcached --namespaced=false",
    );
    walk.types("make manifests");
    let scope = "jsonpath={.spec.scope}";
    walk.types("operator-sdk install");
    let crd = "kubectl get crd memcacheds.cache.example.com";
    assert_eq!(walk.types(&format!("{crd} -o {scope}")), "Cluster");
    walk.types(&format!("kubectl apply -f {SAMPLE}"));
    let namespace = walk.types("kubectl get memcached memcached-sample -o jsonpath={.metadata.namespace}");
    assert_eq!(namespace, "");
    walk.types("operator-sdk uninstall");
}

#[test]
#[ignore = "slow: builds and runs projects"]
fn the_image_of_the_getting_started_with_dev() {
    let walk = Walk::new();
    std::fs::create_dir(&walk.root).unwrap();
    walk.types("operator-sdk init --domain=example.com");
    let output = walk
        .program("operator-sdk", &walk.root)
        .args(CREATE_MEMCACHED)
        .output()
        .unwrap();
    assert!(output.status.success());
    let errors = walk.dir.path.join("errors");
    let dev = walk
        .program("operator-sdk", &walk.root)
        .args(["dev", "--", "--health-probe-bind-address=0"])
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&errors).unwrap())
        .spawn();
    let dev = Beside(dev.unwrap());
    let said = |text: &str, times: usize| {
        let begin = Instant::now();
        loop {
            let log = std::fs::read_to_string(&errors).unwrap();
            if log.matches(text).count() >= times {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "{text:?} is missing: {log}");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    };
    said("dev: the operator is running", 1);
    walk.the_operator_works();

    // A compile error changes nothing.
    let good = walk.read(TYPES);
    walk.write(TYPES, &format!("{good}\nfn {{\n"));
    said("dev: the previous operator keeps running", 1);
    // A new field is in the CRD of the cluster when the next operator runs.
    let field = "    pub size: i32,\n";
    assert!(good.contains(field), "{good}");
    walk.write(
        TYPES,
        &good.replacen(
            field,
            &format!("{field}    /// A word.\n    pub word: Option<String>,\n"),
            1,
        ),
    );
    said("dev: the operator is running\n", 2);
    let word = "jsonpath={.spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.word.type}";
    assert_eq!(
        walk.types(&format!("kubectl get crd memcacheds.cache.example.com -o {word}")),
        "string"
    );
    drop(dev);
}

const WEBHOOK: &str = r#"
/// Rejects sizes that are odd.
pub struct EvenSizes;

impl operator_runtime::webhook::Validator<api::v1alpha1::Memcached> for EvenSizes {
    async fn validate_create(
        &self,
        _: &operator_runtime::webhook::AdmissionRequest,
        object: &api::v1alpha1::Memcached,
    ) -> std::result::Result<operator_runtime::webhook::Warnings, operator_runtime::webhook::Denied> {
        match object.spec.size % 2 {
            0 => Ok(Vec::new()),
            _ => Err(operator_runtime::webhook::Denied::new("the size is odd")),
        }
    }

    async fn validate_update(
        &self,
        request: &operator_runtime::webhook::AdmissionRequest,
        _: &api::v1alpha1::Memcached,
        new: &api::v1alpha1::Memcached,
    ) -> std::result::Result<operator_runtime::webhook::Warnings, operator_runtime::webhook::Denied> {
        self.validate_create(request, new).await
    }
}

fn webhook() -> operator_runtime::webhook::Webhook<api::v1alpha1::Memcached> {
    operator_runtime::webhook::Webhook::new().validator(EvenSizes)
}
"#;

#[test]
#[ignore = "slow: builds and runs projects"]
fn webhooks_on_this_machine() {
    let walk = Walk::new();
    std::fs::create_dir(&walk.root).unwrap();
    walk.types("operator-sdk init --domain=example.com");
    let output = walk
        .program("operator-sdk", &walk.root)
        .args(CREATE_MEMCACHED)
        .output()
        .unwrap();
    assert!(output.status.success());
    let lib = walk.read("src/lib.rs");
    let crd = ".crd::<api::v1alpha1::Memcached>()";
    assert!(lib.contains(crd), "{lib}");
    let lib = lib.replacen(crd, &format!("{crd}\n        .webhook(webhook())"), 1);
    walk.write("src/lib.rs", &format!("{lib}{WEBHOOK}"));
    walk.types("operator-sdk install");

    let progress = walk.root.join("progress.log");
    let local = walk
        .program("operator-sdk", &walk.root)
        .stderr(std::fs::File::create(&progress).unwrap())
        .args([
            "run",
            "local",
            "--enable-webhooks",
            "--",
            "--health-probe-bind-address=0",
        ])
        .stdout(Stdio::null())
        .spawn();
    let local = Beside(local.unwrap());
    let configurations = "kubectl get validatingwebhookconfigurations -o";
    walk.sees(
        &format!("{configurations} name"),
        "validatingwebhookconfiguration.admissionregistration.k8s.io/memcached-operator-local\n",
    );
    let field = |field: &str| {
        walk.types(&format!(
            "{configurations} jsonpath={{.items[0].webhooks[0].{field}}}"
        ))
    };
    let url = field("clientConfig.url");
    assert!(
        url.starts_with("https://127.0.0.1:")
            && url.ends_with("/validate-cache-example-com-v1alpha1-memcached"),
        "{url}"
    );
    let server = url.trim_end_matches("/validate-cache-example-com-v1alpha1-memcached");
    let requirement =
        format!("The API server must be able to connect to {server}: it must run on this machine");
    let text = std::fs::read_to_string(&progress).unwrap();
    assert!(text.contains(&requirement), "{text}");
    let authority = walk.types(&format!("{configurations} go-template={{{{range.items}}}}{{{{range.webhooks}}}}{{{{.clientConfig.caBundle|base64decode}}}}{{{{end}}}}{{{{end}}}}"));
    walk.write("ca.crt", &authority);

    // A request of the API server, sent by hand with its certificate authority.
    let ask = |size: u8| {
        let review = format!(
            r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"u","kind":{{"group":"cache.example.com","version":"v1alpha1","kind":"Memcached"}},"resource":{{"group":"cache.example.com","version":"v1alpha1","resource":"memcacheds"}},"requestKind":{{"group":"cache.example.com","version":"v1alpha1","kind":"Memcached"}},"requestResource":{{"group":"cache.example.com","version":"v1alpha1","resource":"memcacheds"}},"name":"m","namespace":"default","operation":"CREATE","userInfo":{{"username":"me"}},"dryRun":false,"object":{{"apiVersion":"cache.example.com/v1alpha1","kind":"Memcached","metadata":{{"name":"m","namespace":"default"}},"spec":{{"size":{size}}}}},"oldObject":null,"options":null}}}}"#
        );
        let output = walk
            .program("curl", &walk.root)
            .args([
                "--silent",
                "--show-error",
                "--cacert",
                "ca.crt",
                "--header",
                "Content-Type: application/json",
                "--data",
                &review,
                &url,
            ])
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(ask(2).contains(r#""allowed":true"#), "{}", ask(2));
    let refused = ask(3);
    assert!(
        refused.contains(r#""allowed":false"#) && refused.contains("the size is odd"),
        "{refused}"
    );

    // The sample has 3 instances. The API server calls the operator on this machine.
    let output = walk
        .program("kubectl", &walk.root)
        .args(["create", "-f", SAMPLE])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && errors.contains("the size is odd"),
        "{errors}"
    );
    walk.write(SAMPLE, &walk.read(SAMPLE).replace("size: 3", "size: 2"));
    walk.types(&format!("kubectl create -f {SAMPLE}"));

    drop(local);
    assert_eq!(
        walk.types(&format!("{configurations} name")),
        "",
        "what was registered is taken back"
    );
}
