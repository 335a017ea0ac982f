//! Tests of invalid input: one clear line and a hint, exit code 1, and nothing written.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod common;

use common::{CREATE_MEMCACHED, Dir, sdk};

/// Returns a `create api` command with some of its arguments changed.
#[track_caller]
fn create_api(changes: &[(&str, &str)]) -> String {
    let dir = Dir::project();
    let defaults = [
        ("--group", "cache"),
        ("--version", "v1alpha1"),
        ("--kind", "Memcached"),
    ];
    let value = |flag: &str| {
        changes
            .iter()
            .chain(&defaults)
            .find(|(name, _)| *name == flag)
            .map(|(_, value)| *value)
    };
    let mut arguments = vec!["create".to_owned(), "api".to_owned()];
    let flags = defaults.iter().map(|(name, _)| *name);
    let more = changes
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| defaults.iter().all(|(known, _)| known != name));
    for flag in flags.chain(more) {
        arguments.push(format!("{flag}={}", value(flag).unwrap()));
    }
    dir.fails(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

#[track_caller]
fn check(errors: &str, parts: &[&str]) {
    for part in parts {
        assert!(errors.contains(part), "{part:?} is missing: {errors}");
    }
}

#[test]
fn a_kind_in_lower_case() {
    check(
        &create_api(&[("--kind", "memcached")]),
        &["kind \"memcached\"", "CamelCase", "--kind Memcached"],
    );
}

#[test]
fn a_kind_that_is_too_long() {
    let kind = format!("K{}", "a".repeat(70));
    check(&create_api(&[("--kind", &kind)]), &["at most 63 characters"]);
}

#[test]
fn a_group_with_the_domain_of_the_project() {
    let dir = Dir::project();
    let arguments = [
        "create",
        "api",
        "--group=g.example.com",
        "--version=v1",
        "--kind=Foo",
        "--dry-run",
    ];
    let said = String::from_utf8(dir.run(&arguments).stderr).unwrap();
    check(
        &said,
        &[
            "warning: the API group is g.example.com.example.com",
            "hint: if you want g.example.com, use `--group g`",
        ],
    );
    let arguments = [
        "create",
        "api",
        "--group=g.example.org",
        "--version=v1",
        "--kind=Foo",
        "--dry-run",
    ];
    assert!(dir.run(&arguments).stderr.is_empty());
}

#[test]
fn a_data_directory_that_is_a_file() {
    let dir = Dir::named("op");
    dir.write("file", "");
    check(
        &dir.fails(&["cluster", "up", "--data-dir", "file"]),
        &["the data directory file is not a directory", "--data-dir"],
    );
}

/// Flags of kubebuilder and of the Go operator-sdk are accepted, or rejected with the reason.
#[test]
fn flags_of_projects_in_go() {
    let dir = Dir::named("op");
    let cases: [(&[&str], &[&str]); 4] = [
        (
            &["init", "--plugins=go/v3"],
            &["go/v3 scaffolds projects in Go", "omit `--plugins`"],
        ),
        (
            &["init", "--plugins", "helm.sdk.operatorframework.io/v1"],
            &["Helm charts"],
        ),
        (
            &["init", "--plugins=deploy-image/v1-alpha"],
            &["create api --image"],
        ),
        (
            &["init", "--component-config"],
            &["`--component-config` is not supported", "flags"],
        ),
    ];
    for (arguments, parts) in cases {
        check(&dir.fails(arguments), parts);
    }
    dir.ok(&[
        "init",
        "--domain=example.com",
        "--component-config=false",
        "--verbose",
    ]);
    for make in ["--make", "--make=false"] {
        dir.ok(&[
            "create",
            "api",
            "--group=g",
            "--version=v1",
            "--kind=Foo",
            "--dry-run",
            make,
        ]);
    }
    for command in [
        &["init"][..],
        &["create", "api"],
        &["create", "webhook"],
        &["edit"],
    ] {
        let help = dir.ok(&[command, &["--help"]].concat());
        assert!(
            help.contains("--plugins <NAME/VERSION,...>"),
            "{command:?}: {help}"
        );
    }
}

#[test]
fn an_invalid_group() {
    check(
        &create_api(&[("--group", "Cache_1")]),
        &["group \"Cache_1\"", "--group cache-1"],
    );
}

#[test]
fn an_invalid_version() {
    check(
        &create_api(&[("--version", "1.0")]),
        &["version \"1.0\"", "--version v1alpha1"],
    );
}

#[test]
fn an_invalid_plural() {
    check(
        &create_api(&[("--plural", "Mem Cached")]),
        &["plural \"Mem Cached\"", "--plural mem-cached"],
    );
}

#[test]
fn an_image_for_a_kind_of_the_cluster() {
    check(
        &create_api(&[("--namespaced", "false"), ("--image", "memcached")]),
        &["--image", "--namespaced=false"],
    );
}

#[test]
fn an_image_that_is_none() {
    check(
        &create_api(&[("--image", "mem cached")]),
        &["image \"mem cached\""],
    );
}

#[test]
fn nothing_to_write() {
    check(
        &create_api(&[("--resource", "false"), ("--controller", "false")]),
        &["nothing to write"],
    );
}

#[test]
fn a_controller_for_no_kind() {
    check(
        &create_api(&[("--resource", "false")]),
        &["cache/v1alpha1 Memcached is not a kind of this project"],
    );
}

#[test]
fn a_kind_that_is_there() {
    let dir = Dir::project();
    dir.ok(CREATE_MEMCACHED);
    check(
        &dir.fails(CREATE_MEMCACHED),
        &["cache/v1alpha1 Memcached already exists", "--force"],
    );
    let other = [
        "create",
        "api",
        "--group",
        "other",
        "--version",
        "v1",
        "--kind",
        "Memcached",
    ];
    check(
        &dir.fails(&other),
        &[
            "already has a kind Memcached, in cache/v1alpha1",
            "edit --multigroup",
        ],
    );
}

#[test]
fn a_further_version_that_does_not_fit() {
    let dir = Dir::project();
    dir.ok(CREATE_MEMCACHED);
    let v1 = |more: &[&'static str]| {
        let arguments = [
            "create",
            "api",
            "--group=cache",
            "--version=v1",
            "--kind=Memcached",
        ];
        dir.fails(&[&arguments, more].concat())
    };
    check(
        &v1(&["--namespaced=false"]),
        &["is namespace-scoped in version v1alpha1"],
    );
    check(
        &v1(&["--plural=caches"]),
        &["another version of Memcached has the plural \"memcacheds\""],
    );
    check(
        &v1(&["--controller"]),
        &["memcached_controller.rs already exists"],
    );
}

#[test]
fn kinds_of_others() {
    let dir = Dir::project();
    let create =
        |arguments: &[&'static str]| dir.fails(&[&["create", "api", "--version=v1"], arguments].concat());
    check(
        &create(&["--group=apps", "--kind=Deploymint", "--resource=false"]),
        &["no watchable kind Deploymint in apps/v1"],
    );
    check(
        &create(&["--group=x", "--kind=Cert", "--external-api-path=a b"]),
        &["\"a b\" is not the path"],
    );
    check(
        &create(&[
            "--group=x",
            "--kind=Cert",
            "--external-api-path=a::b",
            "--resource",
        ]),
        &["belongs to another project"],
    );
    check(
        &create(&[
            "--group=x",
            "--kind=Cert",
            "--external-api-path=a::b",
            "--external-api-module=a",
        ]),
        &["\"a\" is not a crate", "NAME@VERSION"],
    );
    check(
        &create(&[
            "--group=x",
            "--kind=Cert",
            "--external-api-path=a::b",
            "--image=c",
        ]),
        &["`--image`"],
    );
}

#[test]
fn a_controller_name_that_is_none() {
    check(
        &create_api(&[("--controller-name", "My Backup")]),
        &["controller name \"My Backup\"", "--controller-name my-backup"],
    );
}

#[test]
fn deletions_of_what_is_not_there() {
    let dir = Dir::project();
    let delete = [
        "delete",
        "api",
        "--group=cache",
        "--version=v1alpha1",
        "--kind=Memcached",
    ];
    check(
        &dir.fails(&delete),
        &["cache/v1alpha1 Memcached is not in the PROJECT file"],
    );
    dir.ok(CREATE_MEMCACHED);
    check(&dir.fails(&delete), &["not a terminal", "--yes"]);
    let path = "config/rbac/memcached_viewer_role.yaml";
    dir.write(path, "# mine\n");
    check(
        &dir.fails(&[&delete[..], &["--yes"]].concat()),
        &[path, "--force"],
    );
}

#[test]
fn webhooks_that_cannot_be() {
    let dir = Dir::project();
    let webhook = |arguments: &[&'static str]| {
        let create = [
            "create",
            "webhook",
            "--group=cache",
            "--version=v1alpha1",
            "--kind=Memcached",
        ];
        dir.fails(&[&create, arguments].concat())
    };
    check(&webhook(&[]), &["no type of webhook was given", "--defaulting"]);
    check(
        &webhook(&["--defaulting"]),
        &[
            "cache/v1alpha1 Memcached is not a kind of this project",
            "create api --resource`",
        ],
    );
    dir.ok(CREATE_MEMCACHED);
    check(&webhook(&["--conversion"]), &["no other version", "create api"]);
    check(
        &webhook(&["--conversion", "--spoke=v2"]),
        &["cache/v2 Memcached is not a kind"],
    );
    dir.ok(&[
        "create",
        "webhook",
        "--group=cache",
        "--version=v1alpha1",
        "--kind=Memcached",
        "--defaulting",
    ]);
    check(
        &webhook(&["--defaulting"]),
        &["the defaulting webhook", "already exists"],
    );
    let delete = |arguments: &[&'static str]| {
        let delete = ["--group=cache", "--version=v1alpha1", "--kind=Memcached", "--yes"];
        dir.fails(&[arguments, &delete].concat())
    };
    check(
        &delete(&["delete", "webhook", "--conversion"]),
        &["the conversion webhook of cache/v1alpha1 Memcached is not in the PROJECT file"],
    );
    check(&delete(&["delete", "api"]), &["has webhooks", "delete webhook"]);
}

/// Without the webhook, the API server drops the fields that another version does not have.
#[test]
fn conversion_without_webhooks() {
    let dir = Dir::project();
    dir.ok(CREATE_MEMCACHED);
    let kind = ["--group=cache", "--version=v1", "--kind=Memcached"];
    dir.ok(&[&["create", "api"][..], &kind].concat());
    dir.ok(&[&["create", "webhook", "--conversion"][..], &kind].concat());
    for command in ["run local", "dev"] {
        let mut arguments: Vec<&str> = command.split(' ').collect();
        arguments.extend(["--embedded", "--enable-webhooks=false"]);
        check(
            &dir.fails(&arguments),
            &[
                "the versions of Memcached need the conversion webhook",
                "fields would be lost",
            ],
        );
    }
}

#[test]
fn a_project_name_that_is_no_dns_label() {
    let dir = Dir::named("My_Operator");
    check(
        &dir.fails(&["init"]),
        &["project name \"My_Operator\"", "--project-name my-operator"],
    );
    let errors = dir.fails(&["init", "--project-name", "kube"]);
    check(
        &errors,
        &["project name \"kube\"", "--project-name kube-operator"],
    );
}

#[test]
fn an_invalid_domain() {
    let dir = Dir::named("op");
    check(
        &dir.fails(&["init", "--domain", "Example_com"]),
        &["domain \"Example_com\"", "--domain example.com"],
    );
}

#[test]
fn a_directory_that_init_would_harm() {
    let dir = Dir::named("op");
    dir.write("Cargo.toml", "[package]\n");
    dir.write("Makefile", "all:\n");
    check(
        &dir.fails(&["init"]),
        &["Cargo.toml, Makefile", "empty directory"],
    );
}

#[test]
fn a_directory_that_is_a_project() {
    check(
        &Dir::project().fails(&["init"]),
        &["is already a project", "create api"],
    );
}

#[test]
fn a_directory_that_is_none() {
    let dir = Dir::named("op");
    check(
        &dir.fails(CREATE_MEMCACHED),
        &["has no PROJECT file", "operator-sdk init"],
    );
}

#[test]
fn a_corrupted_project_file() {
    let cases = [
        ("domain: [", "not valid YAML"),
        ("just text\n", "not a mapping"),
        ("", "not a mapping"),
        ("domain: example.com\n", "no `version`"),
        ("version: \"2\"\n", "version is \"2\""),
        (
            "version: \"3\"\nlayout:\n- go.kubebuilder.io/v4\n",
            "go.kubebuilder.io/v4",
        ),
        (
            "version: \"3\"\nlayout: [rust.operator-sdk.dev/v1]\nprojectName: op\n",
            "no `domain`",
        ),
        (
            "version: \"3\"\nlayout: [rust.operator-sdk.dev/v1]\nprojectName: op\ndomain: 3\n",
            "`domain`",
        ),
        (
            "version: \"3\"\nlayout: [rust.operator-sdk.dev/v1]\nprojectName: O P\ndomain: example.com\n",
            "project name",
        ),
        (
            "version: \"3\"\nlayout: [rust.operator-sdk.dev/v1]\nprojectName: op\ndomain: example.com\nresources: 7\n",
            "`resources`",
        ),
        (
            "version: \"3\"\nlayout: [rust.operator-sdk.dev/v1]\nprojectName: op\ndomain: example.com\nmultigroup: maybe\n",
            "`multigroup`",
        ),
    ];
    for (text, part) in cases {
        let dir = Dir::project();
        dir.write("PROJECT", text);
        check(&dir.fails(CREATE_MEMCACHED), &["PROJECT file", part]);
    }
}

#[test]
fn source_that_cannot_be_edited() {
    let dir = Dir::project();
    dir.write("src/lib.rs", "pub fn other() {}\n");
    check(
        &dir.fails(CREATE_MEMCACHED),
        &["src/lib.rs cannot be edited", "no function `operator`"],
    );
    dir.write("src/lib.rs", "fn {\n");
    check(
        &dir.fails(CREATE_MEMCACHED),
        &["src/lib.rs cannot be edited", "not valid Rust"],
    );
}

#[test]
fn a_kustomization_that_cannot_be_edited() {
    let dir = Dir::project();
    dir.write("config/default/kustomization.yaml", "resources: {\n");
    check(
        &dir.fails(CREATE_MEMCACHED),
        &["config/default/kustomization.yaml cannot be edited"],
    );
}

#[test]
fn words_that_are_no_command() {
    let output = sdk().arg("creat").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("unrecognized subcommand")
    );
    assert_eq!(sdk().arg("--help").output().unwrap().status.code(), Some(0));
}

#[test]
fn help_explains_every_command() {
    for command in [&["init"][..], &["create", "api"], &["completion"], &["version"]] {
        let output = sdk().args(command).arg("--help").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success() && text.contains("Usage: operator-sdk "),
            "{command:?}: {text}"
        );
        assert!(!text.contains('\u{1b}'), "no colours where no terminal is");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut child = common::sdk()
        .args(["completion", "bash"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // The script is longer than the buffer of a pipe.
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn completion_knows_the_commands() {
    for shell in ["bash", "zsh", "fish", "powershell"] {
        let output = sdk().args(["completion", shell]).output().unwrap();
        assert!(output.status.success());
        assert!(
            String::from_utf8(output.stdout).unwrap().contains("init"),
            "{shell}"
        );
    }
}

#[test]
fn version_names_what_it_builds_on() {
    let output = sdk().arg("version").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("operator-sdk version: v0."), "{text}");
    assert!(text.contains("kubernetes version: v1.36"), "{text}");
    assert!(text.contains(", commit: "), "{text}");
    let output = sdk().args(["version", "-o", "json"]).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    assert!(
        json["kubernetesVersion"].as_str().unwrap().starts_with("1.36"),
        "{json}"
    );
    assert!(json["commit"].is_string(), "{json}");
}

#[test]
fn every_visible_command_has_a_manual_page() {
    let dir = Dir::named("op");
    dir.ok(&["man", "pages/man1"]);
    let page = dir.read("pages/man1/operator-sdk-create-api.1");
    check(&page, &["image\\-container\\-command", "Memcached"]);
    assert!(dir.path.join("pages/man1/operator-sdk.1").is_file());
    dir.write("file", "");
    check(
        &dir.fails(&["man", "file"]),
        &["cannot write the manual pages to file"],
    );
}

/// Entries of lists that must be objects have other types.
#[test]
fn manifests_with_values_of_other_types() {
    let dir = Dir::project();
    dir.ok(CREATE_MEMCACHED);
    dir.write("config/rbac/role.yaml", "kind: ClusterRole\nrules: [5]\n");
    check(
        &dir.fails(&["edit", "--namespaced"]),
        &["config/rbac/role.yaml cannot be edited"],
    );
    dir.ok(&[
        "create",
        "api",
        "--group=cache",
        "--version=v1",
        "--kind=Memcached",
    ]);
    let crd = "config/crd/bases/cache.example.com_memcacheds.yaml";
    dir.write(crd, "kind: CustomResourceDefinition\nspec: {versions: [5]}\n");
    let output = dir.run(&[
        "create",
        "webhook",
        "--group=cache",
        "--version=v1",
        "--kind=Memcached",
        "--conversion",
    ]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(!errors.contains("panicked"), "{errors}");
    assert!(output.status.code().is_some_and(|code| code < 2), "{errors}");
}
