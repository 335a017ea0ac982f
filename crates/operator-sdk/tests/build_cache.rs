//! Tests that the first build of a project starts with the dependencies that an earlier project compiled.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod common;

use std::path::Path;
use std::process::Output;

use common::{BUILD_CACHE, Dir, sdk};

/// Creates a project whose program prints a text, and uses a crate with a build script in another directory.
fn project(dependency: &Path, text: &str) -> Dir {
    let dir = Dir::project();
    std::fs::remove_file(dir.path.join("Cargo.lock")).unwrap();
    std::fs::remove_dir_all(dir.path.join(".cargo")).unwrap();
    dir.write(
        "Cargo.toml",
        &format!(
            "[package]\nname = \"memcached-operator\"\nversion = \"0.0.1\"\nedition = \"2024\"\n\
             [dependencies]\nshared = {{ path = {:?} }}\n[workspace]\n",
            dependency.display().to_string()
        ),
    );
    dir.write(
        "src/main.rs",
        &format!("fn main() {{ println!(\"{text} {{}} {{}}\", shared::TEXT, shared::MADE) }}\n"),
    );
    dir.write("src/lib.rs", "");
    dir.write("kubeconfig", "contexts: []\n");
    dir
}

fn build(dir: &Dir, cache: &Path) -> Output {
    let mut sdk = sdk();
    sdk.args(["run", "local", "--kubeconfig", "kubeconfig"])
        .env(BUILD_CACHE, cache)
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("CARGO_BUILD_TARGET_DIR");
    sdk.current_dir(&dir.path).output().unwrap()
}

/// Runs the program of the project, which must print this text. Returns true if the dependency was compiled.
#[track_caller]
fn compiles(dir: &Dir, cache: &Path, text: &str) -> bool {
    let output = build(dir, cache);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), text, "{errors}");
    let is_new = errors.contains("Compiling shared");
    let announced = errors.contains("The first build compiles the dependencies");
    assert!(!announced || is_new, "{errors}");
    is_new
}

#[test]
fn a_new_project_starts_with_compiled_dependencies() {
    let shared = Dir::named("shared");
    shared.write(
        "Cargo.toml",
        "[package]\nname = \"shared\"\nversion = \"1.0.0\"\nedition = \"2024\"\n[workspace]\n",
    );
    shared.write(
        "build.rs",
        "fn main() {\n    println!(\"cargo::rerun-if-changed=build.rs\");\n    let out = std::env::var(\"OUT_DIR\").unwrap();\n    \
         std::fs::write(format!(\"{out}/made\"), \"made\").unwrap();\n}\n",
    );
    let library = |text: &str| {
        let made = "pub const MADE: &str = include_str!(concat!(env!(\"OUT_DIR\"), \"/made\"));\n";
        shared.write("src/lib.rs", &format!("pub const TEXT: &str = {text:?};\n{made}"));
    };
    library("one");
    let caches = Dir::named("caches");
    let cache = caches.path.join("builds");

    let first = project(&shared.path, "first");
    assert!(compiles(&first, &cache, "first one made\n"));
    // A project of the same name and version must never use the code of the other one.
    let second = project(&shared.path, "second");
    assert!(!compiles(&second, &cache, "second one made\n"));
    assert!(second.path.join("target/CACHEDIR.TAG").is_file());

    // A dependency that has changed is compiled, even in projects that have the old one.
    library("two");
    let third = project(&shared.path, "third");
    assert!(compiles(&third, &cache, "third two made\n"));
    assert!(compiles(&first, &cache, "first two made\n"));
    let fourth = project(&shared.path, "fourth");
    assert!(!compiles(&fourth, &cache, "fourth two made\n"));
    assert_eq!(std::fs::read_dir(&cache).unwrap().count(), 1);

    // Dependencies that cargo compiled without this tool are also stored, if no others are stored.
    let other = caches.path.join("other");
    let fifth = project(&shared.path, "fifth");
    let mut cargo = common::cargo();
    cargo
        .args(["build", "--quiet"])
        .env_remove("CARGO_TARGET_DIR")
        .current_dir(&fifth.path);
    assert!(cargo.status().unwrap().success());
    assert!(!compiles(&fifth, &other, "fifth two made\n"));
    let sixth = project(&shared.path, "sixth");
    assert!(!compiles(&sixth, &other, "sixth two made\n"));

    // A build does not need the cache.
    let entry = std::fs::read_dir(&cache).unwrap().next().unwrap().unwrap().path();
    std::fs::remove_dir_all(entry.join("deps")).unwrap();
    let damaged = project(&shared.path, "damaged");
    assert!(compiles(&damaged, &cache, "damaged two made\n"));
}
