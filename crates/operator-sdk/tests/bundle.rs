//! Tests of `bundle validate` and `scorecard`: their output and their exit codes.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod common;

use common::registry::{AUTH, Registry};
use common::{Dir, sdk, succeeded};
use serde_json::Value;

const CSV: &str = "bundle/manifests/memcached-operator.clusterserviceversion.yaml";

/// Creates a project with the recorded bundle `memcached`.
fn bundle() -> Dir {
    let dir = Dir::named("bundle");
    let recorded = include_str!("../../operator-olm/tests/recorded/bundles.json");
    let recorded: Value = serde_json::from_str(recorded).unwrap();
    for (path, text) in recorded["base"]["memcached"].as_object().unwrap() {
        dir.write(&format!("bundle/{path}"), text.as_str().unwrap());
    }
    dir
}

fn printed(dir: &Dir, arguments: &[&str]) -> (i32, String) {
    let output = dir.run(arguments);
    let text = String::from_utf8(output.stdout).unwrap();
    (output.status.code().unwrap(), text)
}

#[test]
fn a_valid_bundle_passes() {
    let dir = bundle();
    assert_eq!(
        printed(&dir, &["bundle", "validate", "bundle"]),
        (0, String::new())
    );
    let json = "{\n    \"passed\": true,\n    \"outputs\": null\n}\n";
    assert_eq!(
        printed(&dir, &["bundle", "validate", "bundle", "-o", "json-alpha1"]),
        (0, json.to_owned())
    );
}

#[test]
fn findings_have_positions_and_can_be_fixed() {
    let dir = bundle();
    dir.replace(CSV, "minKubeVersion: 1.25.0", "minKubeVersion: v1.25");
    dir.replace(CSV, "capabilities: Basic Install", "capabilities: basic install");
    let arguments = [
        "bundle",
        "validate",
        "bundle",
        "--select-optional",
        "name=capabilities",
    ];
    let (code, text) = printed(&dir, &arguments);
    assert_eq!(code, 1);
    assert!(
        text.contains("csv.Spec.MinKubeVersion has an invalid value: v1.25"),
        "{text}"
    );
    assert!(text.contains(&format!(" at={CSV}:")), "{text}");
    let sarif = [&arguments[..], &["-o", "sarif"]].concat();
    let sarif: Value = serde_json::from_str(&printed(&dir, &sarif).1).unwrap();
    assert_eq!(sarif["runs"][0]["results"].as_array().unwrap().len(), 2);
    let fix = [&arguments[..], &["--fix"]].concat();
    assert_eq!(printed(&dir, &fix), (0, String::new()));
    assert!(dir.read(CSV).contains("minKubeVersion: 1.25.0"));
    assert!(dir.read(CSV).contains("capabilities: Basic Install"));
}

#[test]
fn wrong_arguments_are_errors_with_hints() {
    let dir = bundle();
    let text = dir.fails(&["bundle", "validate", "bundle", "--select-optional", "name=none"]);
    assert!(text.contains("does not match any validator labels"), "{text}");
    let text = dir.fails(&["bundle", "validate", "example.com/bundle:v1", "--fix"]);
    assert!(text.contains("operator-sdk bundle pull "), "{text}");
    let text = dir.fails(&["bundle", "validate", "nope"]);
    assert!(text.contains("directory nope does not exist"), "{text}");
    assert!(!text.contains("image"), "{text}");
}

#[test]
fn the_scorecard_runs_the_tests_that_are_selected() {
    let dir = bundle();
    let (code, text) = printed(&dir, &["scorecard", "bundle"]);
    assert_eq!(code, 0, "{text}");
    assert_eq!(text.matches("State: pass").count(), 6, "{text}");
    let arguments = [
        "scorecard",
        "bundle",
        "-l",
        "test=basic-check-spec-test",
        "-o",
        "json",
    ];
    let json: Value = serde_json::from_str(&printed(&dir, &arguments).1).unwrap();
    assert_eq!(json["items"][0]["status"]["results"][0]["state"], "pass");
    assert_eq!(json["items"].as_array().unwrap().len(), 1);
}

/// A configuration with a built-in test, two tests in parallel, and two after them.
const CUSTOM: &str = "\
apiVersion: scorecard.operatorframework.io/v1alpha3
kind: Configuration
metadata: {name: config}
stages:
- parallel: true
  tests:
  - {image: example.com/tests:v1, entrypoint: [custom, lists-files], labels: {suite: custom, test: lists-files-test}}
  - {image: example.com/tests:v1, entrypoint: [custom, fails], labels: {suite: custom, test: fails-test}}
- tests:
  - image: example.com/tests:v1
    entrypoint: [custom, writes]
    labels: {suite: custom, test: writes-test}
    storage: {spec: {mountPath: {path: /files}}}
  - {image: example.com/tests:v1, entrypoint: [custom, silent], labels: {suite: custom, test: silent-test}}
  - {image: example.com/tests:v1, entrypoint: [scorecard-test, basic-check-spec], labels: {suite: basic, test: basic-check-spec-test}}
";

/// A program that replaces the image of the tests.
const PROGRAM: &str = r#"#!/bin/sh
case "$1" in
lists-files)
  names=$(cd "$SCORECARD_BUNDLE" && ls manifests metadata tests | tr '\n' ' ')
  printf '{"results":[{"name":"lists-files","state":"pass","log":"%s in %s"}]}' "$names" "$SCORECARD_NAMESPACE" ;;
fails)
  printf '{"results":[{"name":"one","state":"pass"},{"name":"two","state":"fail","errors":["no luck"],"suggestions":["try"]}]}' ;;
writes)
  mkdir "$SCORECARD_STORAGE/a" && echo kept > "$SCORECARD_STORAGE/a/report.txt"
  printf '{"results":[{"name":"writes","state":"pass"}]}' ;;
silent)
  echo "nothing to see"; exit 3 ;;
esac
"#;

#[test]
fn tests_with_an_image_run_as_pods() {
    use std::os::unix::fs::PermissionsExt;
    let dir = bundle();
    dir.write("bundle/tests/scorecard/config.yaml", CUSTOM);
    dir.write("tests.sh", PROGRAM);
    let program = dir.path.join("tests.sh");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let arguments = [
        "scorecard",
        "bundle",
        "--embedded",
        "--test-program",
        "example.com/tests:v1=tests.sh",
        "--wait-time",
        "60s",
        "-o",
        "json",
    ];
    let (code, text) = printed(&dir, &arguments);
    let json: Value = serde_json::from_str(&text).expect(&text);
    assert_eq!(code, 1, "{text}");
    let result = |test: usize, index: usize| &json["items"][test]["status"]["results"][index];
    assert_eq!(result(0, 0)["state"], "pass", "{text}");
    let log = result(0, 0)["log"].as_str().unwrap();
    assert!(
        log.contains("memcached-operator.clusterserviceversion.yaml"),
        "{log}"
    );
    assert!(
        log.contains("annotations.yaml") && log.ends_with("in default"),
        "{log}"
    );
    assert_eq!(
        (&result(1, 0)["name"], &result(1, 0)["state"]),
        (&"one".into(), &"pass".into())
    );
    assert_eq!(
        (&result(1, 1)["state"], &result(1, 1)["errors"][0]),
        (&"fail".into(), &"no luck".into())
    );
    assert_eq!(result(2, 0)["state"], "pass");
    assert_eq!(dir.read("test-output/custom/writes-test/a/report.txt"), "kept\n");
    assert_eq!(result(3, 0)["state"], "error");
    assert_eq!(result(3, 0)["log"], "nothing to see\n");
    assert_eq!(result(4, 0)["state"], "pass");

    let wrong = dir.fails(&["scorecard", "bundle", "--embedded", "--test-program", "tests.sh"]);
    assert!(wrong.contains("it must be IMAGE=PATH"), "{wrong}");
    // Without a program, the pod of the simulated node prints nothing and never ends.
    let arguments = [
        "scorecard",
        "bundle",
        "--embedded",
        "-l",
        "test=fails-test",
        "--wait-time",
        "1s",
    ];
    let (code, text) = printed(&dir, &arguments);
    assert_eq!(code, 1);
    assert!(text.contains("has not finished after 1 s"), "{text}");
}

#[test]
fn the_suite_behaviour_needs_the_project_of_the_bundle() {
    let dir = bundle();
    let list = ["scorecard", "bundle", "-l", "suite=behaviour", "--list"];
    let (code, text) = printed(&dir, &list);
    assert_eq!((code, text.matches("behaviour-").count()), (0, 8), "{text}");
    let (code, text) = printed(
        &dir,
        &["scorecard", "bundle", "-l", "suite=behaviour", "-o", "xunit"],
    );
    assert_eq!((code, text.matches("errors=\"1\"").count()), (1, 4), "{text}");
    assert!(
        text.contains("the current directory is not the project of the operator"),
        "{text}"
    );
}

/// Calls a method that responds with one message.
async fn call<Q, A>(host: &str, method: &'static str, request: Q) -> Result<A, tonic::Status>
where
    Q: prost::Message + Send + Sync + 'static,
    A: prost::Message + Default + Send + Sync + 'static,
{
    let client = hyper_util::client::legacy::Client::builder(hyper_util::rt::TokioExecutor::new())
        .http2_only(true)
        .build_http();
    let origin = format!("http://{host}").parse().unwrap();
    let mut grpc = tonic::client::Grpc::with_origin(client, origin);
    grpc.ready().await.unwrap();
    let path = http::uri::PathAndQuery::from_static(method);
    let codec = tonic_prost::ProstCodec::<Q, A>::default();
    let answer = grpc
        .server_streaming(tonic::Request::new(request), path, codec)
        .await?;
    let mut messages = answer.into_inner();
    Ok(messages.message().await?.unwrap())
}

/// A message with a string in the first field: a name, possibly with other fields.
#[derive(Clone, PartialEq, prost::Message)]
struct Name {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Kind {
    #[prost(string, tag = "1")]
    group: String,
    #[prost(string, tag = "2")]
    version: String,
    #[prost(string, tag = "3")]
    kind: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Served {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "3")]
    channel: String,
    #[prost(string, tag = "4")]
    csv: String,
    #[prost(string, tag = "9")]
    version: String,
}

#[test]
fn a_catalog_is_served_over_grpc() {
    let dir = bundle();
    dir.ok(&["catalog", "init", "catalog", "--package", "memcached-operator"]);
    dir.ok(&["catalog", "add", "catalog", "bundle", "--channels", "alpha"]);
    let mut command = sdk();
    command
        .args(["catalog", "serve", "catalog", "--address", "127.0.0.1:0"])
        .current_dir(&dir.path);
    let mut running = common::running::Running::start(&mut command);
    let line = running.line_with("Serving 1 package at ");
    let host = line.trim().rsplit(' ').next().unwrap().to_owned();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let name = |name: &str| Name {
            name: name.to_owned(),
        };
        let listed: Name = call(&host, "/api.Registry/ListPackages", name("")).await.unwrap();
        assert_eq!(listed.name, "memcached-operator");
        let package: Name = call(&host, "/api.Registry/GetPackage", name("memcached-operator"))
            .await
            .unwrap();
        assert_eq!(package.name, "memcached-operator");
        let missing = call::<_, Name>(&host, "/api.Registry/GetPackage", name("other")).await;
        assert_eq!(missing.unwrap_err().message(), "package \"other\" not found");
        let kind = Kind {
            group: "cache.example.com".to_owned(),
            version: "v1alpha1".to_owned(),
            kind: "Memcached".to_owned(),
        };
        let method = "/api.Registry/GetDefaultBundleThatProvides";
        let bundle: Served = call(&host, method, kind).await.unwrap();
        assert_eq!(
            (
                bundle.name.as_str(),
                bundle.channel.as_str(),
                bundle.version.as_str()
            ),
            ("memcached-operator.v0.0.1", "alpha", "0.0.1")
        );
        let csv: Value = serde_json::from_str(&bundle.csv).unwrap();
        assert_eq!(csv["kind"], "ClusterServiceVersion");
        let unknown = call::<_, Name>(&host, "/api.Registry/Other", name("")).await;
        assert_eq!(unknown.unwrap_err().code(), tonic::Code::Unimplemented);
    });
    assert_eq!(running.stop().code(), Some(0));
}

#[test]
fn external_validators_add_findings() {
    let dir = bundle();
    let script = "#!/bin/sh\ntest -d \"$1/manifests\" && printf '{\"Name\": \"x\", \"Errors\": [{\"Type\": \"T\", \"Level\": \"Error\", \"Field\": \"f\", \"BadValue\": \"v\", \"Detail\": \"not good\"}]}'\n";
    dir.write("check", script);
    let path = dir.path.join("check");
    let mut permissions = std::fs::metadata(&path).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
    std::fs::set_permissions(&path, permissions).unwrap();
    let arguments = [
        "bundle",
        "validate",
        "bundle",
        "--alpha-select-external",
        "./check",
    ];
    let (code, text) = printed(&dir, &arguments);
    assert_eq!(
        (code, text.as_str()),
        (1, "level=error msg=\"Error: Field f, Value v: not good\"\n")
    );
    dir.write("check", "#!/bin/sh\necho no >&2\n");
    let errors = dir.fails(&arguments);
    assert!(errors.contains("it printed nothing; it wrote \"no\""), "{errors}");
}

#[test]
fn bundles_that_olm_v1_refuses_are_found() {
    let dir = bundle();
    let arguments = ["bundle", "validate", "bundle", "--select-optional", "name=olmv1"];
    assert_eq!(printed(&dir, &arguments), (0, String::new()));
    dir.write(
        "bundle/metadata/dependencies.yaml",
        "dependencies:\n- type: olm.gvk\n  value: {group: a.b, version: v1, kind: K}\n",
    );
    let (code, text) = printed(&dir, &arguments);
    assert_eq!(code, 1);
    assert!(
        text.contains(
            r#"has a dependency declared via property \"olm.gvk.required\" which is currently not supported"#
        ),
        "{text}"
    );
}

#[test]
fn the_image_of_a_bundle_has_its_files_and_labels() {
    let dir = bundle();
    let registry = Registry::start();
    let image = format!("{}/team/op:v1", registry.host);
    let credentials = format!(r#"{{"auths":{{"{}":{{"auth":"{AUTH}"}}}}}}"#, registry.host);
    dir.write("docker/config.json", &credentials);
    let build = |arguments: &[&str]| {
        let output = sdk()
            .args(["bundle", "build"])
            .args(arguments)
            .env("DOCKER_CONFIG", dir.path.join("docker"))
            .current_dir(&dir.path)
            .output()
            .unwrap();
        succeeded(arguments, output)
    };
    let said = build(&[&image, "bundle", "--push"]);
    assert!(said.starts_with(&format!("{image} was pushed\n")), "{said}");
    assert_eq!(build(&[&image, "bundle", "--push"]), said);
    let stored = registry.stored.lock().unwrap();
    let manifest: Value = serde_json::from_slice(&stored.manifests["v1"]).unwrap();
    let blob = |digest: &Value| &stored.blobs[digest.as_str().unwrap()];
    let config: Value = serde_json::from_slice(blob(&manifest["config"]["digest"])).unwrap();
    assert_eq!(
        config["config"]["Labels"]["operators.operatorframework.io.bundle.package.v1"],
        "memcached-operator"
    );
    let mut files = Vec::new();
    let layer = blob(&manifest["layers"][0]["digest"]).to_vec();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(layer.as_slice()), &mut files).unwrap();
    let text = String::from_utf8_lossy(&files);
    for path in [
        "manifests/memcached-operator.clusterserviceversion.yaml",
        "metadata/annotations.yaml",
    ] {
        assert!(text.contains(path), "{path}");
    }
    drop(stored);
    let said = build(&["registry.example.com/bundle:v1"]);
    assert!(
        said.starts_with("wrote bundle.tar with registry.example.com/bundle:v1\n"),
        "{said}"
    );
    assert!(dir.path.join("bundle.tar").is_file());
}

/// Returns a function that runs the tool in a directory, with the credentials of a registry.
fn signed_in(dir: &Dir, registry: &Registry) -> impl Fn(&[&str]) -> std::process::Output {
    let path = dir.path.clone();
    let credentials = format!(r#"{{"auths":{{"{}":{{"auth":"{AUTH}"}}}}}}"#, registry.host);
    dir.write("docker/config.json", &credentials);
    move |arguments| {
        sdk()
            .args(arguments)
            .env("DOCKER_CONFIG", path.join("docker"))
            .current_dir(&path)
            .output()
            .unwrap()
    }
}

#[test]
fn a_pulled_image_has_the_files_that_were_pushed() {
    let dir = bundle();
    let registry = Registry::start();
    let image = format!("{}/team/op:v1", registry.host);
    let run = signed_in(&dir, &registry);
    let build = ["bundle", "build", &image, "bundle", "--push"];
    let said = succeeded(&build, run(&build));
    let pull = ["bundle", "pull", &image, "pulled"];
    let listed = succeeded(&pull, run(&pull));
    assert!(listed.contains(" create metadata/annotations.yaml\n"), "{listed}");
    let files = dir.files();
    let below = |directory: &str| -> Vec<(String, String)> {
        let parts = ["manifests/", "metadata/", "tests/"];
        files
            .iter()
            .filter_map(|(path, text)| Some((path.strip_prefix(directory)?.to_owned(), text.clone())))
            .filter(|(path, _)| parts.iter().any(|part| path.starts_with(part)))
            .collect()
    };
    assert_eq!(below("pulled/"), below("bundle/"));
    assert!(!below("pulled/").is_empty());

    let again = run(&pull);
    assert_eq!(again.status.code(), Some(1));
    let errors = String::from_utf8(again.stderr).unwrap();
    assert!(errors.contains("the directory pulled is not empty"), "{errors}");
    // The other commands pull an image themselves.
    let validate = ["bundle", "validate", &image, "-o", "json-alpha1"];
    let found: Value = serde_json::from_str(&succeeded(&validate, run(&validate))).unwrap();
    assert_eq!(found["passed"], true);
    let score = ["scorecard", &image, "-l", "suite=basic", "-o", "json"];
    let scored: Value = serde_json::from_str(&succeeded(&score, run(&score))).unwrap();
    assert_eq!(scored["items"][0]["status"]["results"][0]["state"], "pass");
    let push = ["bundle", "push", &image.replace(":v1", ":v3"), "bundle"];
    let pushed = succeeded(&push, run(&push));
    assert_eq!(pushed.lines().last(), said.lines().last());
    // The last line names the image by its digest.
    let by_digest = said.lines().last().unwrap();
    let pull = ["bundle", "pull", by_digest, "pulled", "--overwrite"];
    assert_eq!(succeeded(&pull, run(&pull)), listed);
    let missing = image.replace(":v1", ":v2");
    let errors = String::from_utf8(run(&["bundle", "pull", &missing, "other"]).stderr).unwrap();
    assert!(errors.contains("manifest unknown"), "{errors}");
}

#[test]
fn the_platforms_of_images_are_read_from_their_registries() {
    let dir = bundle();
    let registry = Registry::start();
    let image = format!("{}/team/op:v1", registry.host);
    let run = signed_in(&dir, &registry);
    // An image of linux/amd64, and one that no registry has.
    let push = ["bundle", "push", &image, "bundle"];
    succeeded(&push, run(&push));
    dir.replace(CSV, "registry.example.com/memcached-operator:v0.0.1", &image);
    let missing = image.replace(":v1", ":v2");
    dir.replace(CSV, "images.example.com/memcached:1.6", &missing);
    let validate = [
        "bundle",
        "validate",
        "bundle",
        "--select-optional",
        "name=multiarch",
    ];
    let found = succeeded(&validate, run(&validate));
    let warning = format!("unable to inspect the image ({missing}) : the registry");
    assert!(found.contains(&warning), "{found}");

    dir.replace(
        CSV,
        "\nmetadata:\n",
        "\nmetadata:\n  labels: {operatorframework.io/arch.arm64: supported}\n",
    );
    let output = run(&validate);
    assert_eq!(output.status.code(), Some(1));
    let found = String::from_utf8(output.stdout).unwrap();
    let error = format!("(SO.architecture): (linux.arm64) was not found for the image(s) [{image}]");
    assert!(found.contains(&error), "{found}");
    let none = [&validate[..], &["--optional-values", "container-tools=none"]].concat();
    assert_eq!(printed(&dir, &none), (0, String::new()));
    let unknown = [&validate[..], &["--optional-values", "container-tools=buildah"]].concat();
    let errors = dir.fails(&unknown);
    assert!(errors.contains("it must be docker, podman or none"), "{errors}");
}
