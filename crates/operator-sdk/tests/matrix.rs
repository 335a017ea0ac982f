//! Tests of the main combinations of scaffolds: each one is formatted, compiles without warnings, passes its own tests,
//! has the manifests of its source, and works on the embedded control plane.
//!
//! All projects are members of one workspace, and are built in the target directory of this test, so that shared crates
//! are compiled once.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod common;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

use common::running::{PATIENCE, Running};
use common::{Dir, sdk, succeeded, target_dir};

/// A project: its name, which is also the name of its directory, and the commands that create it.
struct Combination {
    name: &'static str,
    commands: &'static [&'static str],
}

const COMBINATIONS: [Combination; 5] = [
    Combination {
        name: "one-namespace",
        commands: &[
            "init --domain example.com --namespaced --owner Nobody",
            "create api --group shop --version v1 --kind Basket",
        ],
    },
    Combination {
        name: "whole-cluster",
        commands: &[
            "init --domain example.com",
            "create api --group shop --version v1 --kind Region --namespaced=false",
            "create webhook --group shop --version v1 --kind Region --defaulting --programmatic-validation",
            "edit --cert-manager",
        ],
    },
    Combination {
        name: "many-groups",
        commands: &[
            "init --domain example.com --multigroup",
            "create api --group cache --version v1alpha1 --kind Memcached --image memcached:1.6 --image-container-port 11211",
            "create api --group cache --version v1alpha1 --kind Memcached --resource=false --controller-name memcached-backup",
            "create api --group ship --version v1 --kind PostgresqlBackupSchedule",
        ],
    },
    Combination {
        name: "two-versions",
        commands: &[
            "init --domain example.com",
            "create api --group shop --version v1 --kind Order",
            "create api --group shop --version v2 --kind Order",
            "create webhook --group shop --version v1 --kind Order --defaulting --programmatic-validation",
            "create webhook --group shop --version v1 --kind Order --conversion --spoke v2",
        ],
    },
    Combination {
        name: "kinds-of-others",
        commands: &[
            "init --domain example.com",
            "create api --group apps --version v1 --kind Deployment",
            "create webhook --group core --version v1 --kind Pod --programmatic-validation",
            "create api --group park --version v1 --kind Bench --external-api-path benches::v1 --external-api-domain example.org --external-api-module benches@0.1",
        ],
    },
];

/// A crate of another project, with a kind.
const BENCHES: [(&str, &str); 2] = [
    (
        "benches/Cargo.toml",
        r#"[package]
name = "benches"
version = "0.1.0"
edition = "2024"

[dependencies]
k8s-openapi = { version = "0.29", default-features = false, features = ["std", "schemars", "latest"] }
kube = { version = "5", default-features = false, features = ["client", "rustls-tls", "ring", "derive", "runtime", "jsonpatch"] }
schemars = "1.2.3"
serde = { version = "1", features = ["derive"] }
serde_json = "1"
"#,
    ),
    (
        "benches/src/lib.rs",
        r#"//! Benches in parks.

/// The first version.
pub mod v1 {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    /// The specification of a bench.
    #[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, Default)]
    #[kube(
        group = "park.example.org",
        version = "v1",
        kind = "Bench",
        plural = "benches",
        namespaced
    )]
    pub struct BenchSpec {
        /// The material.
        pub of: Option<String>,
    }
}
"#,
    ),
];

const BENCH_CRD: &str = r#"apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: benches.park.example.org
spec:
  group: park.example.org
  names: {kind: Bench, plural: benches}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        x-kubernetes-preserve-unknown-fields: true
"#;

/// A directory with all projects.
struct Matrix {
    dir: Dir,
}

// === impl Matrix ===

impl Matrix {
    fn scaffold() -> Self {
        let matrix = Self {
            dir: Dir::named("matrix"),
        };
        for combination in &COMBINATIONS {
            std::fs::create_dir(matrix.root(combination.name)).unwrap();
            for line in combination.commands {
                matrix.sdk(combination.name, line);
            }
        }
        matrix.join();
        matrix
    }

    fn root(&self, name: &str) -> PathBuf {
        self.dir.path.join(name)
    }

    fn program(&self, program: Command, directory: &Path) -> Command {
        let mut program = program;
        program
            .current_dir(directory)
            .env("CARGO_TARGET_DIR", target_dir())
            .env_remove("IMG");
        program
    }

    #[track_caller]
    fn sdk(&self, name: &str, line: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        let output = self.program(sdk(), &self.root(name)).args(&words).output();
        succeeded(&[name, line], output.unwrap())
    }

    #[track_caller]
    fn cargo(&self, line: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Output {
            status,
            stdout,
            stderr,
        } = self
            .program(common::cargo(), &self.dir.path)
            .args(&words)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
        assert!(status.success(), "cargo {line}: {text}");
        text
    }

    fn edit(&self, path: &str, from: &str, to: &str) {
        let text = self.dir.read(path);
        assert!(text.contains(from), "{path} has no {from:?}: {text}");
        self.dir.write(path, &text.replacen(from, to, 1));
    }

    /// Makes the projects members of one workspace.
    fn join(&self) {
        std::fs::create_dir_all(self.root("benches/src")).unwrap();
        for (path, text) in BENCHES {
            self.dir.write(path, text);
        }
        let mut members = vec!["benches"];
        for Combination { name, .. } in &COMBINATIONS {
            members.push(name);
            let path = format!("{name}/Cargo.toml");
            let manifest = self.dir.read(&path);
            let (manifest, profiles) = manifest.split_once("# Fast builds").unwrap();
            self.dir.write(&path, &manifest.replacen("[workspace]\n", "", 1));
            let profiles = profiles.split_once('\n').unwrap().1;
            self.dir.write(
                "Cargo.toml",
                &format!("[workspace]\nmembers = {members:?}\nresolver = \"3\"\n{profiles}"),
            );
        }
        self.edit(
            "kinds-of-others/Cargo.toml",
            "benches = { version = \"0.1\" }",
            "benches = { version = \"0.1\", path = \"../benches\" }",
        );
        self.dir
            .write("rustfmt.toml", &self.dir.read("one-namespace/rustfmt.toml"));
        self.dir
            .write("Cargo.lock", &self.dir.read("one-namespace/Cargo.lock"));
        // The checkout with which the projects are built.
        std::fs::create_dir_all(self.root(".cargo")).unwrap();
        self.dir.write(
            ".cargo/config.toml",
            &self.dir.read("one-namespace/.cargo/config.toml"),
        );
    }

    /// Writes the code that the scaffold leaves to the user.
    fn write_what_is_left_to_the_user(&self) {
        let webhook = "two-versions/src/webhook/v1/order_webhook.rs";
        self.edit(
            webhook,
            "        // TODO: set defaults that the schema cannot express, such as those that depend on other fields.\n        let _ = object;\n",
            "        object.spec.foo.get_or_insert_with(|| \"usual\".to_owned());\n",
        );
        self.edit(
            webhook,
            "        let _ = object;\n",
            "        if object.spec.foo.as_deref() == Some(\"bad\") {\n            return Err(Denied::new(\"spec.foo: must not be bad\"));\n        }\n",
        );
        std::fs::create_dir_all(self.root("kinds-of-others/config/crd/external")).unwrap();
        self.dir
            .write("kinds-of-others/config/crd/external/benches.yaml", BENCH_CRD);
        self.edit(
            "kinds-of-others/tests/bench_controller.rs",
            "#[ignore = \"set the file with the CRD of Bench in `crd_path` below\"]\n",
            "",
        );
    }

    /// Starts the operator of a project on a separate control plane.
    fn start(&self, name: &str, flags: &[&str]) -> Local {
        let kubeconfig = self.root(&format!("{name}.kubeconfig"));
        let mut command = self.program(sdk(), &self.root(name));
        command.args(["run", "local", "--embedded", "--kubeconfig"]);
        command.arg(&kubeconfig).args(flags);
        command.args(["--", "--health-probe-bind-address=0"]);
        let mut operator = Running::start(&mut command);
        operator.line_with("ready");
        Local {
            operator,
            kubeconfig,
            root: self.root(name),
        }
    }
}

/// An operator and its control plane.
struct Local {
    operator: Running,
    kubeconfig: PathBuf,
    root: PathBuf,
}

// === impl Local ===

impl Local {
    fn kubectl(&self, line: &str) -> Output {
        common::kubectl_command()
            .args(line.split_whitespace())
            .env("KUBECONFIG", &self.kubeconfig)
            .current_dir(&self.root)
            .output()
            .expect("kubectl must be installed: this test does not skip")
    }

    #[track_caller]
    fn ok(&self, line: &str) -> String {
        succeeded(&["kubectl", line], self.kubectl(line))
    }

    #[track_caller]
    fn becomes_available(&self, sample: &str, object: &str) {
        self.ok(&format!("apply -f config/samples/{sample}"));
        self.ok(&format!("wait {object} --for=condition=Available --timeout=180s"));
    }

    #[track_caller]
    fn ends(self) {
        assert_eq!(self.operator.stop().code(), Some(0), "the operator ends cleanly");
    }
}

#[test]
#[ignore = "slow: builds and runs projects"]
fn every_combination_works() {
    let matrix = Matrix::scaffold();
    matrix.cargo("fmt --check");
    matrix.write_what_is_left_to_the_user();
    matrix.cargo("clippy --offline --all-targets -- -D warnings");
    let tested = matrix.cargo("test --offline --tests");
    for test in [
        "an_object_becomes_available",
        "an_object_becomes_a_deployment_of_its_size",
        "defaults_are_set_before_an_object_is_stored",
        "a_valid_object_is_accepted",
        "v2_is_served_too",
        "the_operator_watches",
    ] {
        assert!(
            tested.contains(&format!("test {test} ... ok")),
            "{test}: {tested}"
        );
    }
    for Combination { name, .. } in &COMBINATIONS {
        let generated = matrix.sdk(name, "generate manifests");
        assert!(generated.contains("No changes"), "{name}: {generated}");
    }
    operators_run(&matrix);
    webhooks_are_asked(&matrix);
}

#[track_caller]
fn operators_run(matrix: &Matrix) {
    let local = matrix.start("one-namespace", &["--watch-namespace=default"]);
    local.becomes_available("shop_v1_basket.yaml", "basket/basket-sample");
    local.ends();

    // Webhooks that are not registered do not need the default port.
    let _taken = TcpListener::bind("0.0.0.0:9443");
    let local = matrix.start("whole-cluster", &[]);
    local.becomes_available("shop_v1_region.yaml", "region/region-sample");
    local.ends();

    let local = matrix.start("many-groups", &[]);
    local.becomes_available("cache_v1alpha1_memcached.yaml", "memcached/memcached-sample");
    local.becomes_available(
        "ship_v1_postgresqlbackupschedule.yaml",
        "postgresqlbackupschedule/postgresqlbackupschedule-sample",
    );
    let pods = local.ok("get pods --field-selector=status.phase=Running -o name");
    assert_eq!(pods.lines().count(), 3, "{pods}");
    local.ends();
}

#[track_caller]
fn webhooks_are_asked(matrix: &Matrix) {
    let local = matrix.start("two-versions", &["--enable-webhooks"]);
    let begin = Instant::now();
    // The webhooks are registered after the operator listens.
    while local.ok("get validatingwebhookconfigurations -o name").is_empty()
        || !local
            .ok("get crds -o jsonpath={..conversion.strategy}")
            .contains("Webhook")
    {
        assert!(begin.elapsed() < PATIENCE, "no webhooks are registered");
    }
    let order = |version: &str, spec: &str| {
        let text = format!(
            "apiVersion: shop.example.com/{version}\nkind: Order\nmetadata: {{name: mine}}\nspec: {{{spec}}}\n"
        );
        std::fs::write(local.root.join("order.yaml"), text).unwrap();
        local.kubectl("apply -f order.yaml")
    };
    // An object written in v2 is converted, defaulted and stored in v1.
    succeeded(&["apply"], order("v2", ""));
    for version in ["v1", "v2"] {
        let seen = local.ok(&format!(
            "get orders.{version}.shop.example.com mine -o jsonpath={{.spec.foo}}"
        ));
        assert_eq!(seen, "usual", "{version}");
    }
    let refused = order("v1", "foo: bad");
    let errors = String::from_utf8(refused.stderr).unwrap();
    assert!(
        !refused.status.success() && errors.contains("spec.foo: must not be bad"),
        "{errors}"
    );
    local.ok("wait order/mine --for=condition=Available --timeout=180s");
    local.ends();
}
