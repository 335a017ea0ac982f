//! Tests of `crd lint`, `crd diff` and `crd validate`: their output and their exit codes.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod common;

use std::path::Path;
use std::process::Command;

use common::Dir;
use serde_json::Value;

/// Creates a directory with the files of `tests/crd`.
fn files() -> Dir {
    let dir = Dir::named("crd");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/crd");
    for entry in std::fs::read_dir(source).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, dir.path.join(path.file_name().unwrap())).unwrap();
    }
    dir
}

/// Returns the output of the tool, and its exit code.
fn answer(dir: &Dir, arguments: &[&str]) -> String {
    let output = dir.run(arguments);
    assert!(
        output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    format!("{text}exit code {}", output.status.code().unwrap())
}

fn json(dir: &Dir, arguments: &[&str]) -> Value {
    serde_json::from_slice(&dir.run(arguments).stdout).unwrap()
}

#[test]
fn a_good_definition_has_no_findings() {
    assert_eq!(
        answer(&files(), &["crd", "lint", "good.yaml"]),
        "0 errors, 0 warnings in 1 definition\nexit code 0"
    );
}

#[test]
fn a_bad_definition_is_told_what_to_do() {
    insta::assert_snapshot!(answer(&files(), &["crd", "lint", "bad.yaml"]));
}

#[test]
fn findings_as_json_have_places() {
    let findings = json(&files(), &["crd", "lint", "bad.yaml", "-o", "json"]);
    let format = findings["findings"]
        .as_array()
        .unwrap()
        .iter()
        .find(|finding| finding["rule"] == "unknown-format")
        .unwrap();
    assert_eq!(format["line"], 45);
    assert_eq!(format["column"], 19);
    assert_eq!(format["severity"], "warning");
    assert!(findings["errors"].as_u64().unwrap() > 0);
}

#[test]
fn the_definitions_of_a_project_are_clean() {
    let sample = common::sample_dir().join("config/crd/bases");
    let dir = Dir::named("crd");
    let text = answer(&dir, &["crd", "lint", sample.to_str().unwrap()]);
    assert!(text.contains("0 errors"), "{text}");
}

#[test]
fn directories_are_searched_and_bad_yaml_is_a_finding() {
    let dir = files();
    std::fs::create_dir_all(dir.path.join("a/b/.hidden")).unwrap();
    dir.write("a/b/broken.yml", "kind: X\nspec: [1, 2\nmore: 3\n");
    dir.write("a/b/.hidden/worse.yaml", "{");
    dir.write("a/notes.txt", "{");
    std::fs::rename(dir.path.join("good.yaml"), dir.path.join("a/good.yaml")).unwrap();
    let text = answer(&dir, &["crd", "lint", "a"]);
    assert!(text.starts_with("a/b/broken.yml:"), "{text}");
    assert!(text.contains("[yaml]"), "{text}");
    assert!(
        text.ends_with("1 error, 0 warnings in 1 definition\nexit code 1"),
        "{text}"
    );
}

#[test]
fn lint_of_nothing() {
    let dir = files();
    let errors = dir.fails(&["crd", "lint", "missing.yaml"]);
    assert!(errors.contains("cannot read missing.yaml"), "{errors}");
    let errors = dir.fails(&["crd", "lint", "objects.yaml"]);
    assert!(
        errors.contains("no CustomResourceDefinition found in objects.yaml"),
        "{errors}"
    );
}

/// Writes the good definition with some lines replaced.
fn changed(dir: &Dir, replacements: &[(&str, &str)]) {
    let mut text = dir.read("good.yaml");
    for (from, to) in replacements {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    dir.write("changed.yaml", &text);
}

#[test]
fn changes_are_classed() {
    let dir = files();
    changed(
        &dir,
        &[
            ("maximum: 5", "maximum: 4"),
            ("minimum: 1\n", "minimum: 0\n"),
            ("enum: [red, green]", "enum: [red, green, blue]"),
            ("default: red", "default: blue"),
            ("shortNames: [wd]", "shortNames: [wd, wdg]"),
            (
                "x-kubernetes-list-type: map\n                  x-kubernetes-list-map-keys: [name]",
                "x-kubernetes-list-type: atomic",
            ),
            ("start:", "begin:"),
            ("self.size > 1", "self.size > 2"),
            ("jsonPath: .spec.size", "jsonPath: .spec.color"),
            ("type: integer\n          json", "type: string\n          json"),
        ],
    );
    insta::assert_snapshot!(answer(&dir, &["crd", "diff", "good.yaml", "changed.yaml"]));
    assert_eq!(
        answer(&dir, &["crd", "diff", "good.yaml", "good.yaml"]),
        "no changes\nexit code 0"
    );
    let document = json(
        &dir,
        &["crd", "diff", "good.yaml", "changed.yaml", "--output=json"],
    );
    assert_eq!(document["definitions"][0]["name"], "widgets.example.com");
    assert_eq!(document["breaking"], 5);
}

#[test]
fn a_safe_change_exits_with_0() {
    let dir = files();
    changed(&dir, &[("maximum: 5", "maximum: 6")]);
    insta::assert_snapshot!(answer(&dir, &["crd", "diff", "good.yaml", "changed.yaml"]));
}

#[test]
fn the_old_side_may_be_a_git_revision() {
    let dir = files();
    let git = |arguments: &[&str]| {
        let who = [
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@example.com",
            "-c",
            "commit.gpgsign=false",
        ];
        let status = Command::new("git")
            .args(who)
            .args(arguments)
            .current_dir(&dir.path)
            .output()
            .unwrap();
        assert!(status.status.success(), "{status:?}");
    };
    std::fs::create_dir_all(dir.path.join("config/crd")).unwrap();
    std::fs::rename(
        dir.path.join("good.yaml"),
        dir.path.join("config/crd/widgets.yaml"),
    )
    .unwrap();
    let history = tempfile::tempdir().unwrap();
    let history = history.path().join("history");
    git(&["init", "--quiet", "--separate-git-dir", history.to_str().unwrap()]);
    git(&["add", "config"]);
    git(&["commit", "--quiet", "-m", "first"]);
    let text = dir
        .read("config/crd/widgets.yaml")
        .replace("maximum: 5", "maximum: 2");
    dir.write("config/crd/widgets.yaml", &text);
    for path in ["config/crd", "config/crd/widgets.yaml"] {
        let found = answer(&dir, &["crd", "diff", &format!("git:HEAD:{path}"), path]);
        assert!(
            found.contains("v1: spec.size: maximum lowered from 5 to 2"),
            "{found}"
        );
        assert!(
            found.ends_with("1 breaking change, 0 safe\nexit code 1"),
            "{found}"
        );
    }
    let errors = dir.fails(&["crd", "diff", "git:nowhere:config/crd", "config/crd"]);
    assert!(
        errors.contains("git cannot show config/crd at nowhere"),
        "{errors}"
    );
    let errors = dir.fails(&["crd", "diff", "git:HEAD:other", "config/crd"]);
    assert!(errors.contains("no such file or directory"), "{errors}");
    let errors = dir.fails(&["crd", "diff", "git:--output=x:config/crd", "config/crd"]);
    assert!(
        errors.contains("a revision does not begin with a dash"),
        "{errors}"
    );
}

#[test]
fn one_side_may_be_a_cluster() {
    let dir = files();
    let kubeconfig = dir.path.join("kubeconfig");
    let (cluster, _) = common::running::cluster(&kubeconfig);
    common::kubectl(
        &["--kubeconfig", "kubeconfig", "create", "-f", "good.yaml"],
        &dir.path,
    );
    changed(&dir, &[("maximum: 5", "maximum: 2")]);
    let found = answer(
        &dir,
        &[
            "crd",
            "diff",
            "cluster",
            "changed.yaml",
            "--kubeconfig",
            "kubeconfig",
        ],
    );
    assert!(
        found.contains("v1: spec.size: maximum lowered from 5 to 2"),
        "{found}"
    );
    assert!(
        found.ends_with("1 breaking change, 0 safe\nexit code 1"),
        "{found}"
    );
    let same = answer(
        &dir,
        &[
            "crd",
            "diff",
            "good.yaml",
            "cluster",
            "--kubeconfig",
            "kubeconfig",
        ],
    );
    assert_eq!(same, "no changes\nexit code 0");
    cluster.stop();
    let errors = dir.fails(&[
        "crd",
        "diff",
        "cluster",
        "good.yaml",
        "--kubeconfig",
        "kubeconfig",
    ]);
    assert!(errors.contains("kubeconfig"), "{errors}");
}

#[test]
fn objects_are_judged_as_a_server_judges_them() {
    insta::assert_snapshot!(answer(
        &files(),
        &[
            "crd",
            "validate",
            "-f",
            "objects.yaml",
            "--crd",
            "good.yaml",
            "--show"
        ]
    ));
}

#[test]
fn strict_refuses_unknown_fields() {
    let dir = files();
    dir.write(
        "object.yaml",
        "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nspec: {size: 1, sise: 2}\n",
    );
    let validate = ["crd", "validate", "-f", "object.yaml", "--crd", "good.yaml"];
    let lenient = answer(&dir, &validate);
    assert!(
        lenient.contains("object.yaml:4:17: warning: unknown field \"spec.sise\""),
        "{lenient}"
    );
    assert!(lenient.ends_with("exit code 0"), "{lenient}");
    let strict = answer(&dir, &[&validate[..], &["--strict"]].concat());
    assert!(
        strict.contains("object.yaml:4:17: error: unknown field \"spec.sise\""),
        "{strict}"
    );
    assert!(strict.ends_with("exit code 1"), "{strict}");
}

#[test]
fn validate_of_nothing() {
    let dir = files();
    let errors = dir.fails(&["crd", "validate", "-f", "good.yaml", "--crd", "good.yaml"]);
    assert!(
        errors.contains("no object of a defined kind found in good.yaml"),
        "{errors}"
    );
    let errors = dir.fails(&["crd", "validate", "-f", "objects.yaml", "--crd", "objects.yaml"]);
    assert!(
        errors.contains("no CustomResourceDefinition found in objects.yaml"),
        "{errors}"
    );
    dir.write("broken.yaml", "a: [");
    let errors = dir.fails(&["crd", "validate", "-f", "objects.yaml", "--crd", "broken.yaml"]);
    assert!(
        errors.contains("broken.yaml is not valid YAML: yaml: "),
        "{errors}"
    );
}
