//! Tests of the commands of operator-sdk 0.x: the files that they write, their output, and the flags that they reject.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{Dir, sdk, succeeded};

const NEW: [&str; 3] = [
    "new",
    "memcached-operator",
    "--repo=github.com/example-inc/memcached-operator",
];
const KIND: [&str; 2] = ["--api-version=cache.example.com/v1alpha1", "--kind=Memcached"];

fn run(directory: &Path, arguments: &[&str]) -> Output {
    sdk().args(arguments).current_dir(directory).output().unwrap()
}

/// Returns standard output and standard error.
#[track_caller]
fn ok(directory: &Path, arguments: &[&str]) -> (String, String) {
    let output = run(directory, arguments);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{arguments:?}: {errors}");
    (String::from_utf8(output.stdout).unwrap(), errors)
}

#[track_caller]
fn fails(directory: &Path, arguments: &[&str], parts: &[&str]) {
    let output = run(directory, arguments);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
    assert!(errors.contains("hint: "), "{errors}");
    for part in parts {
        assert!(
            errors.contains(part),
            "{arguments:?}: {part:?} is missing: {errors}"
        );
    }
}

fn project() -> (Dir, PathBuf) {
    let dir = Dir::named("projects");
    ok(&dir.path, &NEW);
    let root = dir.path.join("memcached-operator");
    (dir, root)
}

fn read(root: &Path, path: &str) -> String {
    std::fs::read_to_string(root.join(path)).unwrap()
}

#[test]
fn a_project_is_made_as_the_old_guides_say() {
    let dir = Dir::named("projects");
    let (_, said) = ok(&dir.path, &NEW);
    let now =
        "`operator-sdk new` is now `mkdir memcached-operator && cd memcached-operator && operator-sdk init";
    assert!(said.contains(now), "{said}");
    let root = dir.path.join("memcached-operator");
    assert!(read(&root, "PROJECT").contains("repo: github.com/example-inc/memcached-operator\n"));

    let (_, said) = ok(&root, &[&["add", "api"], &KIND[..]].concat());
    let now = "is now `operator-sdk create api --group cache --version v1alpha1 --kind Memcached --controller=false`";
    assert!(said.contains(now), "{said}");
    let project = read(&root, "PROJECT");
    assert!(
        project.contains("domain: example.com\n") && !project.contains("my.domain"),
        "{project}"
    );
    assert!(read(&root, "src/api/v1alpha1/memcached_types.rs").contains("cache.example.com"));
    assert!(!root.join("src/controller/memcached_controller.rs").exists());
    let (said, _) = ok(&root, &["generate", "k8s"]);
    assert!(said.contains("#[derive(Clone)]"), "{said}");
    let (_, said) = ok(&root, &[&["add", "controller"], &KIND[..]].concat());
    assert!(said.contains("--kind Memcached --resource=false`"), "{said}");
    assert!(root.join("src/controller/memcached_controller.rs").exists());
    // The record of the scaffold contains the project with its final domain.
    let (said, _) = ok(&root, &["upgrade"]);
    assert!(said.contains("No changes"), "{said}");
}

#[test]
fn a_project_with_its_first_kind_at_once() {
    let dir = Dir::named("projects");
    let header = dir.path.join("header.txt");
    std::fs::write(&header, "// Mine.\n").unwrap();
    let words = [&NEW[..], &KIND, &["--git-init"]].concat();
    ok(&dir.path, &words);
    let root = dir.path.join("memcached-operator");
    assert!(root.join(".git").is_dir());
    assert!(root.join("src/controller/memcached_controller.rs").exists());
    assert!(read(&root, "PROJECT").contains("domain: example.com\n"));
    fails(
        &dir.path,
        &NEW,
        &["the directory memcached-operator exists and is not empty"],
    );
    // A group in a subdomain of the same domain, and a group in another domain.
    ok(
        &root,
        &[
            "add",
            "crd",
            "--api-version=deep.er.example.com/v1",
            "--kind=Deep",
        ],
    );
    assert!(read(&root, "src/api/v1/deep_types.rs").contains("deep.er.example.com"));
    let other = ["add", "api", "--api-version=cache.other.com/v1", "--kind=Other"];
    fails(
        &root,
        &other,
        &["the group cache.other.com is not of the project's domain example.com"],
    );
}

#[test]
fn flags_for_go_are_rejected_with_the_reason() {
    let dir = Dir::named("projects");
    let cases: [(&[&str], &[&str]); 9] = [
        (
            &["new", "op", "--dep-manager=dep"],
            &[
                "`--dep-manager` is not for operators in Rust",
                "cargo is the only",
            ],
        ),
        (
            &["new", "op", "--type=ansible"],
            &["`--type=ansible`", "operator-sdk 1.x"],
        ),
        (&["new", "op", "--type=helm"], &["`--type=helm`"]),
        (
            &["new", "op", "--cluster-scoped=true"],
            &["`--cluster-scoped`", "--namespaced=false"],
        ),
        (&["new", "op", "--helm-chart=x"], &["`--helm-chart`"]),
        (&["new", "My_Op"], &["project name \"My_Op\""]),
        (
            &["new", "op", "--api-version=v1", "--kind=A"],
            &["not of the form GROUP.DOMAIN/VERSION"],
        ),
        (&["new", "op", "--header-file=gone"], &["gone"]),
        (&["new", "op", "--domain=a_b"], &["domain \"a_b\""]),
    ];
    for (arguments, parts) in cases {
        fails(&dir.path, arguments, parts);
        assert!(!dir.path.join("op").exists(), "{arguments:?}");
    }
    let (_outer, root) = project();
    let cases: [(&[&str], &[&str]); 12] = [
        (
            &["add", "api", "--api-version=cache/v1", "--kind=A"],
            &["not of the form GROUP.DOMAIN/VERSION"],
        ),
        (
            &["add", "api", "--api-version=cache.example.com", "--kind=A"],
            &["not of the form"],
        ),
        (
            &["add", "api", "--api-version=cache.example.com/v1", "--kind=a"],
            &["kind \"a\""],
        ),
        (
            &[
                "add",
                "controller",
                "--api-version=cache.example.com/v1",
                "--kind=Gone",
            ],
            &["Gone is not a kind of this project"],
        ),
        (
            &[
                "add",
                "controller",
                "--api-version=a.b.c/v1",
                "--kind=A",
                "--custom-api-import=x",
            ],
            &["`--custom-api-import`", "--external-api-path"],
        ),
        (
            &["up", "local", "--go-ldflags=-s"],
            &["`--go-ldflags`", "RUSTFLAGS"],
        ),
        (
            &["run", "local", "--enable-delve"],
            &["`--enable-delve`", "rust-gdb"],
        ),
        (
            &["test", "local", "--go-test-flags=-v"],
            &["`--go-test-flags`", "--cargo-test-flags"],
        ),
        (
            &["test", "local", "./elsewhere"],
            &["cargo finds tests in `tests`"],
        ),
        (&["test", "local", "--namespace=a"], &["its own control plane"]),
        (
            &["test", "cluster", "image", "--namespace=a"],
            &["`operator-sdk test cluster` was removed"],
        ),
        (&["print-deps", "--dep-manager=dep"], &["`--dep-manager`"]),
    ];
    for (arguments, parts) in cases {
        fails(&root, arguments, parts);
    }
    let nothing: [&[&str]; 4] = [
        &["generate", "k8s"],
        &["up", "local"],
        &["run", "--local"],
        &["test", "local"],
    ];
    for arguments in nothing {
        fails(&dir.path, arguments, &["has no PROJECT file"]);
    }
}

#[test]
fn dependencies_are_printed_and_vendored() {
    let dir = Dir::named("projects");
    let (deps, _) = ok(&dir.path, &["print-deps"]);
    assert!(deps.lines().any(|line| line.starts_with("kube = ")), "{deps}");
    let (file, _) = ok(&dir.path, &["print-deps", "--as-file"]);
    assert!(
        file.contains("[dependencies]\n") && file.starts_with("[package]"),
        "{file}"
    );

    // A cargo that only prints its arguments.
    let cargo = dir.path.join("cargo");
    std::fs::write(&cargo, "#!/bin/sh\necho \"# $*\"\n").unwrap();
    std::fs::set_permissions(&cargo, std::fs::Permissions::from_mode(0o755)).unwrap();
    let with_cargo = |directory: &Path, arguments: &[&str]| {
        let output = sdk()
            .args(arguments)
            .env("CARGO", &cargo)
            .current_dir(directory)
            .output()
            .unwrap();
        succeeded(arguments, output)
    };
    with_cargo(&dir.path, &[&NEW[..], &["--vendor=true"]].concat());
    let root = dir.path.join("memcached-operator");
    assert_eq!(read(&root, ".cargo/config.toml"), "# vendor --quiet\n");
    let tested = with_cargo(
        &root,
        &[
            "test",
            "local",
            "./test/e2e",
            "--up-local",
            "--cargo-test-flags",
            "--test 'a b'",
        ],
    );
    assert_eq!(tested, "# test --test a b\n");
}

#[test]
fn the_old_commands_are_not_in_the_help_but_have_some() {
    let text = String::from_utf8(sdk().arg("--help").output().unwrap().stdout).unwrap();
    for command in ["new", "add", "up", "test", "print-deps"] {
        let listed = text
            .lines()
            .any(|line| line.split_whitespace().next() == Some(command));
        assert!(!listed, "{command}: {text}");
        let help = Command::new(env!("CARGO_BIN_EXE_operator-sdk"))
            .args([command, "--help"])
            .output()
            .unwrap();
        assert!(help.status.success(), "{command}");
    }
}
