//! Tests of `generate bundle` and `catalog` with the project of the tutorial.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod common;

use std::io::Write;
use std::path::Path;
use std::process::{Output, Stdio};

use common::registry::{AUTH, Registry};
use common::{Dir, sdk};
use serde_json::Value;

const BUNDLE: [&str; 6] = [
    "generate",
    "bundle",
    "--version",
    "0.1.0",
    "--channels",
    "alpha,stable",
];
const CSV: &str = "bundle/manifests/memcached-operator.clusterserviceversion.yaml";

/// Creates a project with the manifests of the sample, which need no build.
fn project() -> Dir {
    let dir = Dir::named("memcached-operator");
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/memcached-operator");
    let mut files = std::collections::BTreeMap::new();
    common::collect(&sample, &sample.join("config"), &mut files);
    for (path, text) in files {
        let target = dir.path.join(&path);
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::write(target, text).unwrap();
    }
    std::fs::copy(sample.join("PROJECT"), dir.path.join("PROJECT")).unwrap();
    dir
}

fn run(dir: &Dir, arguments: &[&str]) -> Output {
    let mut command = sdk();
    command
        .args(arguments)
        .env("SOURCE_DATE_EPOCH", "1767225600")
        .stdin(Stdio::null());
    command.current_dir(&dir.path).output().unwrap()
}

#[track_caller]
fn ok(dir: &Dir, arguments: &[&str]) -> String {
    common::succeeded(arguments, run(dir, arguments))
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

#[test]
fn a_bundle_is_reproducible_and_keeps_what_the_user_added() {
    let dir = project();
    let listed = ok(&dir, &BUNDLE);
    assert!(listed.contains("bundle.Dockerfile"), "{listed}");
    let first = dir.files();
    let csv = yaml(&dir.read(CSV));
    assert_eq!(csv["metadata"]["name"], "memcached-operator.v0.1.0");
    assert_eq!(
        csv["metadata"]["annotations"]["createdAt"],
        "2026-01-01T00:00:00Z"
    );
    assert_eq!(csv["spec"]["version"], "0.1.0");
    assert_eq!(
        csv["spec"]["customresourcedefinitions"]["owned"][0]["kind"],
        "Memcached"
    );
    let examples = csv["metadata"]["annotations"]["alm-examples"].as_str().unwrap();
    assert!(examples.contains("\"kind\": \"Memcached\""), "{examples}");
    let install = &csv["spec"]["install"]["spec"];
    assert_eq!(install["deployments"].as_array().unwrap().len(), 1);
    assert!(
        !install["clusterPermissions"][0]["rules"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    let labels = yaml(&dir.read("bundle/metadata/annotations.yaml"));
    assert_eq!(
        labels["annotations"]["operators.operatorframework.io.bundle.channels.v1"],
        "alpha,stable"
    );

    let again = ok(&dir, &BUNDLE);
    assert_eq!(again, "No changes: the bundle is up to date.\n");
    assert_eq!(dir.files(), first);

    let docker = dir.read("bundle.Dockerfile") + "LABEL com.redhat.openshift.versions=v4.15\n";
    dir.write("bundle.Dockerfile", &docker);
    ok(
        &dir,
        &[
            "generate",
            "bundle",
            "--version",
            "0.2.0",
            "--replaces",
            "memcached-operator.v0.1.0",
        ],
    );
    let docker = dir.read("bundle.Dockerfile");
    assert!(
        docker.ends_with("LABEL com.redhat.openshift.versions=v4.15\n"),
        "{docker}"
    );
    assert!(docker.contains("channels.v1=alpha\n"), "{docker}");
    assert_eq!(
        yaml(&dir.read(CSV))["spec"]["replaces"],
        "memcached-operator.v0.1.0"
    );
}

#[test]
fn objects_come_from_standard_input_if_it_is_a_pipe() {
    let dir = project();
    let mut child = sdk()
        .args(["generate", "bundle", "--version", "0.1.0", "--stdout"])
        .current_dir(&dir.path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let object =
        b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\n  namespace: system\n---\nx: [\n";
    child.stdin.take().unwrap().write_all(object).unwrap();
    let output = child.wait_with_output().unwrap();
    let (out, errors) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    );
    assert!(output.status.success(), "{errors}");
    assert!(
        out.contains("kind: ConfigMap\nmetadata:\n  name: settings\n"),
        "{out}"
    );
    assert!(errors.contains("standard input, document 2: yaml: "), "{errors}");
    assert!(!dir.path.join("bundle").exists());
}

#[test]
fn bad_requests_are_refused_with_a_hint() {
    let dir = project();
    for (arguments, expected) in [
        (
            &["generate", "bundle", "--version", "1.0"][..],
            "1.0 is not a valid semantic version",
        ),
        (
            &["generate", "bundle", "--output-dir", "../out"],
            "../out is not a directory inside the project",
        ),
        (
            &["generate", "bundle", "--package", "other"],
            "no base ClusterServiceVersion of package other",
        ),
        (
            &["generate", "packagemanifests", "--version", "1.0.0"],
            "is not supported",
        ),
        (&["catalog", "validate", "nowhere"], "cannot read nowhere"),
    ] {
        let output = run(&dir, arguments);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
        assert!(
            errors.contains(expected) && errors.contains("hint: "),
            "{arguments:?}: {errors}"
        );
    }
}

#[test]
fn a_catalog_grows_by_bundles() {
    let dir = project();
    ok(&dir, &BUNDLE);
    ok(
        &dir,
        &["catalog", "init", "catalog", "--package", "memcached-operator"],
    );
    let image = "registry.example.com/memcached-bundle:v0.1.0";
    ok(&dir, &["catalog", "add", "catalog", "bundle", "--image", image]);
    let listed = ok(&dir, &["catalog", "validate", "catalog"]);
    assert_eq!(
        listed,
        "package memcached-operator, default channel alpha\n  channel alpha, head memcached-operator.v0.1.0\n  \
         channel stable, head memcached-operator.v0.1.0\n"
    );
    let before = dir.read("catalog/catalog.yaml");
    std::fs::create_dir(dir.path.join("old")).unwrap();
    dir.write("old/catalog.yaml", &before);

    // A second head of a channel is rejected, and nothing is written.
    ok(&dir, &["generate", "bundle", "--version", "0.2.0"]);
    let output = run(&dir, &["catalog", "add", "catalog", "bundle"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        errors.starts_with(
            "error: the catalog is invalid with this bundle: invalid index:\n\
             └── invalid package \"memcached-operator\":\n    \
             └── invalid channel \"alpha\":\n        \
             └── multiple channel heads found in graph: "
        ),
        "{errors}"
    );
    assert_eq!(dir.read("catalog/catalog.yaml"), before);

    ok(
        &dir,
        &[
            "generate",
            "bundle",
            "--version",
            "0.2.0",
            "--replaces",
            "memcached-operator.v0.1.0",
        ],
    );
    ok(&dir, &["catalog", "add", "catalog", "bundle"]);
    let image = ok(&dir, &["catalog", "render", "catalog", "-o", "svg"]);
    assert!(
        image.starts_with("<svg ") && image.contains("<path class=\"replace\""),
        "{image}"
    );
    let graph = ok(&dir, &["catalog", "render", "catalog", "-o", "mermaid"]);
    assert!(
        graph.contains("-- replace --> memcached-operator-alpha-memcached-operator.v0.2.0"),
        "{graph}"
    );
    let output = run(&dir, &["catalog", "diff", "old", "catalog"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "+ bundle memcached-operator/memcached-operator.v0.2.0\n\
         + channel memcached-operator/alpha entry memcached-operator.v0.2.0\n"
    );
    let template = "schema: olm.semver\ncandidate:\n  bundles:\n  - image: bundle\n";
    dir.write("template.yaml", template);
    let rendered = ok(&dir, &["catalog", "render", "template.yaml"]);
    assert!(rendered.contains("name: candidate-v0.2\n"), "{rendered}");
    assert!(rendered.contains("type: olm.bundle.object\n"), "{rendered}");
}

#[test]
fn tags_of_images_become_digests() {
    let dir = project();
    let registry = Registry::start();
    let image = format!("{}/team/op:v1", registry.host);
    dir.replace(
        "config/manager/manager.yaml",
        "image: controller:latest",
        &format!("image: {image}"),
    );
    let credentials = format!(r#"{{"auths":{{"{}":{{"auth":"{AUTH}"}}}}}}"#, registry.host);
    dir.write("docker/config.json", &credentials);
    let run = |arguments: &[&str]| {
        let mut command = sdk();
        command
            .args(arguments)
            .stdin(Stdio::null())
            .current_dir(&dir.path);
        command
            .env("DOCKER_CONFIG", dir.path.join("docker"))
            .output()
            .unwrap()
    };
    common::succeeded(&BUNDLE, run(&BUNDLE));
    // Any image of that name is sufficient.
    let push = ["bundle", "build", &image, "bundle", "--push"];
    let pushed = common::succeeded(&push, run(&push));
    let pinned = pushed.lines().last().unwrap();
    let generate = [&BUNDLE[..], &["--use-image-digests"]].concat();
    common::succeeded(&generate, run(&generate));
    let csv = yaml(&dir.read(CSV));
    let container = "/spec/install/spec/deployments/0/spec/template/spec/containers/0/image";
    assert_eq!(csv.pointer(container).unwrap(), pinned);
    let related = serde_json::json!([{"name": "manager", "image": pinned}]);
    assert_eq!(csv["spec"]["relatedImages"], related);
    assert!(!dir.read(CSV).contains(&image));
}
