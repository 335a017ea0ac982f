//! Tests of `build`: reproducible images that are written and pushed, and container engines if they are installed.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use common::registry::{AUTH, Registry};
use common::{Dir, digest, sdk, succeeded};
use serde_json::Value;

/// Creates a project whose operator has no dependencies, so that it is built quickly.
fn project() -> Dir {
    let dir = Dir::named("op");
    dir.write(
        "PROJECT",
        "domain: example.com\nlayout:\n- rust.operator-sdk.dev/v1\nprojectName: op\nversion: \"3\"\n",
    );
    dir.write(
        "Cargo.toml",
        "[package]\nname = \"op\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n[profile.release]\nstrip = \"symbols\"\n",
    );
    std::fs::create_dir(dir.path.join("src")).unwrap();
    dir.write("src/main.rs", "fn main() { println!(\"I am static\"); }\n");
    dir
}

fn run(dir: &Dir, arguments: &[&str]) -> Output {
    sdk()
        .args(arguments)
        .env_remove("IMG")
        .env_remove("CARGO_TARGET_DIR")
        .env("DOCKER_CONFIG", &dir.path)
        .current_dir(&dir.path)
        .output()
        .unwrap()
}

#[track_caller]
fn ok(dir: &Dir, arguments: &[&str]) -> String {
    let output = run(dir, arguments);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn fails(dir: &Dir, arguments: &[&str]) -> String {
    let output = run(dir, arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        errors.contains("hint: ") || errors.contains("Usage:") || errors.contains("--help"),
        "{errors}"
    );
    errors
}

fn unpack(archive: &Path, into: &Path) {
    std::fs::create_dir_all(into).unwrap();
    let status = Command::new("tar")
        .arg("-xf")
        .arg(archive)
        .arg("-C")
        .arg(into)
        .status()
        .unwrap();
    assert!(status.success());
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn an_image_is_built_without_an_engine_and_the_same_twice() {
    let (one, two) = (project(), project());
    let image = "registry.example.com/team/op:v1";
    let said = ok(&one, &["build", image, "--builder", "oci"]);
    let last = said.lines().last().unwrap().to_owned();
    assert!(last.starts_with("registry.example.com/team/op@sha256:"), "{said}");
    let again = ok(
        &two,
        &["build", image, "--builder", "oci", "--output", "image.tar"],
    );
    assert_eq!(
        again.lines().last(),
        Some(last.as_str()),
        "another directory gives the same image"
    );
    let bytes = |path: &Path| std::fs::read(path).unwrap();
    let archive = one.path.join("target/oci/op.tar");
    assert!(bytes(&archive) == bytes(&two.path.join("image.tar")));

    let layout = one.path.join("layout");
    unpack(&archive, &layout);
    let blob = |digest: &Value| {
        layout
            .join("blobs")
            .join(digest.as_str().unwrap().replace(':', "/"))
    };
    let index = json(&layout.join("index.json"));
    assert_eq!(
        index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"],
        "v1"
    );
    let manifest_digest = &index["manifests"][0]["digest"];
    assert!(last.ends_with(manifest_digest.as_str().unwrap()));
    let manifest = json(&blob(manifest_digest));
    for part in [&manifest["config"], &manifest["layers"][0]] {
        let bytes = bytes(&blob(&part["digest"]));
        assert_eq!(part["digest"], digest(&bytes));
        assert_eq!(part["size"], bytes.len());
    }
    let config = json(&blob(&manifest["config"]["digest"]));
    assert_eq!(config["config"]["Entrypoint"][0], "/manager");
    assert_eq!(config["config"]["User"], "65532:65532");
    assert_eq!(config["created"], "1970-01-01T00:00:00Z");

    let root = one.path.join("root");
    unpack(&blob(&manifest["layers"][0]["digest"]), &root);
    let manager = root.join("manager");
    assert_eq!(
        std::fs::metadata(&manager).unwrap().permissions().mode() & 0o777,
        0o755
    );
    let output = Command::new(&manager).env_clear().output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "I am static\n");

    without_project(&manager);
    pushed(&one, &manager);
    refused(&one);
}

/// Builds an image of any static program, at any path, with additional files.
#[track_caller]
fn without_project(program: &Path) {
    let dir = Dir::named("elsewhere");
    dir.write("roots.pem", "certificates\n");
    let arguments = [
        "build",
        "example.com/team/tool:v1",
        "--binary",
        program.to_str().unwrap(),
        "--entrypoint",
        "/usr/bin/tool",
        "--add",
        "roots.pem:/etc/ssl/certs/ca-certificates.crt",
    ];
    let said = ok(&dir, &arguments);
    assert!(
        said.contains("wrote tool.tar with example.com/team/tool:v1"),
        "{said}"
    );
    let layout = dir.path.join("layout");
    unpack(&dir.path.join("tool.tar"), &layout);
    let docker = json(&layout.join("manifest.json"));
    let config = json(&layout.join(docker[0]["Config"].as_str().unwrap()));
    assert_eq!(
        config["config"]["Entrypoint"],
        serde_json::json!(["/usr/bin/tool"])
    );
    assert_eq!(config["config"]["Env"], serde_json::json!(["PATH=/usr/bin"]));
    let root = dir.path.join("root");
    unpack(&layout.join(docker[0]["Layers"][0].as_str().unwrap()), &root);
    let roots = std::fs::read_to_string(root.join("etc/ssl/certs/ca-certificates.crt")).unwrap();
    assert_eq!(roots, "certificates\n");
    let output = Command::new(root.join("usr/bin/tool"))
        .env_clear()
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "I am static\n");

    let errors = fails(&dir, &[&arguments[..], &["--add", "roots.pem"]].concat());
    assert!(
        errors.contains("\"roots.pem\" is not of the form FILE:PATH"),
        "{errors}"
    );
    let errors = fails(&dir, &[&arguments[..], &["--add", "gone:/a"]].concat());
    assert!(errors.contains("gone: "), "{errors}");
    let errors = fails(
        &dir,
        &[&arguments[..], &["--add", "roots.pem:/etc/passwd"]].concat(),
    );
    assert!(
        errors.contains("the image has another file at /etc/passwd"),
        "{errors}"
    );
}

/// Pushes the image of the program to a registry that requires a token.
#[track_caller]
fn pushed(dir: &Dir, program: &Path) {
    let registry = Registry::start();
    let image = format!("{}/team/op:v2", registry.host);
    let program = program.to_str().unwrap();
    let arguments = [
        "build",
        &image,
        "--push",
        "--binary",
        program,
        "--label",
        "team=blue",
    ];
    let errors = fails(dir, &arguments);
    assert!(
        errors.contains("rejected the credentials for team/op"),
        "{errors}"
    );
    assert!(errors.contains("docker login"), "{errors}");

    let credentials = format!(r#"{{"auths":{{"{}":{{"auth":"{AUTH}"}}}}}}"#, registry.host);
    dir.write("config.json", &credentials);
    let said = ok(dir, &arguments);
    assert!(said.contains(&format!("{image} was pushed")), "{said}");
    let first = {
        let stored = registry.stored.lock().unwrap();
        let manifest: Value = serde_json::from_slice(&stored.manifests["v2"]).unwrap();
        for part in [&manifest["config"], &manifest["layers"][0]] {
            assert!(
                stored.blobs.contains_key(part["digest"].as_str().unwrap()),
                "{part}"
            );
        }
        let config: Value =
            serde_json::from_slice(&stored.blobs[manifest["config"]["digest"].as_str().unwrap()]).unwrap();
        assert_eq!(config["config"]["Labels"]["team"], "blue");
        assert!(said.contains(&digest(&stored.manifests["v2"])), "{said}");
        stored.requests.len()
    };
    ok(dir, &arguments);
    let stored = registry.stored.lock().unwrap();
    let again = &stored.requests[first..];
    assert!(
        !again.iter().any(|request| request.starts_with("POST")),
        "blobs that are there are not sent: {again:?}"
    );

    let other = format!("{}/team/other:v2", registry.host);
    drop(stored);
    let errors = fails(dir, &["build", &other, "--push", "--binary", program]);
    assert!(
        errors.contains("rejected the credentials") || errors.contains("no such repository"),
        "{errors}"
    );
    let gone = fails(dir, &["build", "127.0.0.1:1/op", "--push", "--binary", program]);
    assert!(gone.contains("cannot reach the registry 127.0.0.1:1"), "{gone}");
    dir.write("config.json", "{");
    let damaged = fails(dir, &arguments);
    assert!(damaged.contains("config.json is not valid JSON"), "{damaged}");
}

#[track_caller]
fn refused(dir: &Dir) {
    let cases: [(&[&str], &[&str]); 9] = [
        (
            &["build", "Op"],
            &["\"Op\" is not the name of an image", "registry.example.com"],
        ),
        (&["build", "op@sha256:00"], &["only known after the build"]),
        (&["build"], &["IMAGE"]),
        (
            &["build", "op", "--go-build-args", "-v"],
            &["is for Go programs", "--cargo-build-args"],
        ),
        (
            &["build", "op", "--binary", "Cargo.toml"],
            &["cannot put Cargo.toml into an image", "not a Linux program"],
        ),
        (&["build", "op", "--binary", "gone"], &["gone: "]),
        (&["build", "op", "--binary", "/bin/sh"], &["it is not static"]),
        (
            &["build", "op", "--builder", "oci", "--label", "x"],
            &["\"x\" is not of the form"],
        ),
        (
            &["build", "op", "--builder", "docker", "--insecure"],
            &["`--insecure` is for `--builder oci`"],
        ),
    ];
    for (arguments, parts) in cases {
        let errors = fails(dir, arguments);
        for part in parts {
            assert!(
                errors.contains(part),
                "{arguments:?}: {part:?} is missing: {errors}"
            );
        }
    }
}

#[test]
fn an_engine_gets_the_dockerfile() {
    let dir = project();
    let script = "#!/bin/sh\necho \"$0 $@\" | sed 's|.*/||' >> calls\n";
    for engine in ["docker", "podman", "buildah"] {
        dir.write(engine, script);
        let path = dir.path.join(engine);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:{}", dir.path.display(), std::env::var("PATH").unwrap());
    let run = |arguments: &[&str]| {
        let output = sdk()
            .args(arguments)
            .env("PATH", &path)
            .env_remove("IMG")
            .current_dir(&dir.path)
            .output()
            .unwrap();
        succeeded(arguments, output)
    };
    let said = run(&[
        "build",
        "op:v1",
        "--image-build-args",
        "--build-arg 'A=b c'",
        "--push",
    ]);
    assert!(said.contains("op:v1 was built with docker"), "{said}");
    run(&["build", "op:v1", "--image-builder", "buildah"]);
    run(&["build", "op:v1", "--builder", "podman"]);
    assert_eq!(
        dir.read("calls"),
        "docker version --format {{.Server.Version}}\n\
         docker build -t op:v1 -f Dockerfile --build-arg A=b c .\n\
         docker push op:v1\n\
         buildah bud -t op:v1 -f Dockerfile .\n\
         podman build -t op:v1 -f Dockerfile .\n"
    );
    dir.write("podman", "#!/bin/sh\nexit 3\n");
    let errors = {
        let output = sdk()
            .args(["build", "op", "--builder", "podman"])
            .env("PATH", &path)
            .current_dir(&dir.path)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(
        errors.contains("`podman build -t op -f Dockerfile .` failed"),
        "{errors}"
    );
}

/// `ring` contains C code, so the standard library of the target alone is not sufficient.
#[test]
fn the_musl_target_needs_a_c_compiler() {
    let dir = project();
    let bin = dir.path.join("bin");
    std::fs::create_dir(&bin).unwrap();
    let program = |name: &str, text: &str| {
        dir.write(&format!("bin/{name}"), &format!("#!/bin/sh\n{text}\n"));
        std::fs::set_permissions(bin.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    program(
        "rustc",
        "[ \"$1\" = -vV ] && echo 'host: x86_64-unknown-linux-gnu' || echo /",
    );
    program("cargo", "echo \"$@\" >> calls; exit 1");
    let target = |variables: &[(&str, &str)]| {
        dir.write("calls", "");
        let mut command = sdk();
        for name in ["CC", "TARGET_CC", "IMG"] {
            command.env_remove(name);
        }
        command
            .args(["build", "op", "--builder", "oci"])
            .env("PATH", &bin)
            .env("CARGO", bin.join("cargo"))
            .envs(variables.iter().copied())
            .current_dir(&dir.path);
        assert_eq!(command.output().unwrap().status.code(), Some(1));
        let calls = dir.read("calls");
        let mut words = calls.split_whitespace().skip_while(|word| *word != "--target");
        words.nth(1).unwrap().to_owned()
    };
    let architecture = std::env::consts::ARCH;
    let (musl, gnu) = (
        format!("{architecture}-unknown-linux-musl"),
        format!("{architecture}-unknown-linux-gnu"),
    );
    assert_eq!(target(&[]), gnu);
    assert_eq!(target(&[("TARGET_CC", "clang")]), musl);
    program("musl-gcc", "");
    assert_eq!(target(&[]), musl);
}
