//! Tests of `init` and `create api`: the files that they write, and the files that they keep.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod common;

use common::{CREATE_MEMCACHED, Dir, kubectl};

const CREATE_FOO_BAR: &[&str] = &[
    "create",
    "api",
    "--group",
    "shop",
    "--version",
    "v1",
    "--kind",
    "FooBar",
    "--namespaced=false",
];

/// Returns all files as one text, except for the lock file, whose versions change with those of the workspace.
fn tree(dir: &Dir) -> String {
    dir.files()
        .iter()
        .filter(|(path, _)| *path != "Cargo.lock")
        .map(|(path, text)| format!("=== {path}\n{text}"))
        .collect()
}

#[test]
fn init_writes_a_project() {
    insta::assert_snapshot!(tree(&Dir::project()));
}

#[test]
fn init_takes_the_name_of_the_directory_and_the_flags() {
    let dir = Dir::named("cache-operator");
    dir.ok(&[
        "init",
        "--domain",
        "example.com",
        "--owner",
        "The Cache Authors",
        "--license",
        "none",
    ]);
    assert!(dir.read("PROJECT").contains("projectName: cache-operator\n"));
    assert!(!dir.read("Cargo.toml").contains("license"));
    assert!(dir.read("src/lib.rs").starts_with("// Copyright 20"));
    assert!(dir.read("src/lib.rs").contains(" The Cache Authors\n\n//! "));
}

#[test]
fn init_keeps_what_a_repository_starts_with() {
    let dir = Dir::named("op");
    dir.write("README.md", "mine\n");
    dir.write("notes.txt", "also mine\n");
    let output = dir.ok(&["init", "--domain", "example.com"]);
    assert!(output.contains("keep README.md (yours)"), "{output}");
    assert_eq!(dir.read("README.md"), "mine\n");
    assert!(dir.read("PROJECT").contains("projectName: op"));
}

fn crates() -> String {
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    crates.to_str().unwrap().to_owned()
}

/// No committed file of a project contains a path of this machine.
#[test]
fn a_project_commits_no_path_of_this_machine() {
    for ignored in ["", "/target\n"] {
        let dir = Dir::named("op");
        if !ignored.is_empty() {
            dir.write(".gitignore", ignored);
        }
        dir.ok(&["init", "--domain", "example.com", "--sdk-path", &crates()]);
        dir.ok(CREATE_MEMCACHED);
        assert!(dir.read("Cargo.toml").contains("operator-runtime = \"0.1\"\n"));
        let config = dir.read(".cargo/config.toml");
        let patch = format!(
            "operator-runtime = {{ path = \"{}/operator-runtime\" }}",
            crates()
        );
        assert!(config.contains(&patch), "{config}");
        let git = |arguments: &[&str]| {
            let output = std::process::Command::new("git")
                .args(arguments)
                .current_dir(&dir.path)
                .output()
                .unwrap();
            common::succeeded(arguments, output)
        };
        git(&["init", "--quiet"]);
        git(&["add", "--all"]);
        let committed = git(&["ls-files"]);
        assert!(committed.contains(".operator-sdk/commands.yaml"), "{committed}");
        assert!(!committed.contains(".cargo"), "{committed}");
        for path in committed.lines() {
            assert!(!dir.read(path).contains(&crates()), "{path}");
        }
        assert!(dir.ok(&["upgrade"]).contains("No changes"));
    }
}

#[test]
fn the_source_of_the_sdk_can_be_changed() {
    let dir = Dir::project();
    let before = dir.files();
    let config = dir.path.join(".cargo/config.toml");
    assert!(config.is_file(), "the checkout that the tool was built from");
    dir.ok(&["edit", "--sdk-registry"]);
    assert!(!config.exists());
    assert_eq!(dir.files(), before);
    dir.ok(&["edit", "--sdk-git", "https://example.com/sdk", "--sdk-rev", "abc"]);
    let git = "operator-envtest = { git = \"https://example.com/sdk\", rev = \"abc\" }\n";
    assert!(dir.read("Cargo.toml").contains(git), "{}", dir.read("Cargo.toml"));
    dir.ok(&["edit", "--sdk-path", &crates()]);
    assert!(config.is_file());
    let mut after = dir.files();
    after.remove("PROJECT");
    assert!(after.iter().all(|(path, text)| before[path] == *text));

    dir.replace(
        "Cargo.toml",
        "operator-runtime = \"0.1\"\n",
        "operator-runtime = \"0.1\"\noperator-lib = \"0.1\"\n",
    );
    dir.ok(&["edit", "--sdk-path", &crates()]);
    let patch = format!("operator-lib = {{ path = \"{}/operator-lib\" }}", crates());
    assert!(dir.read(".cargo/config.toml").contains(&patch));
    dir.ok(&["edit", "--sdk-registry"]);
    assert!(!config.exists());

    for wrong in ["/nope", "src"] {
        let errors = dir.fails(&["edit", "--sdk-path", wrong]);
        assert!(errors.contains("has no crates of the SDK"), "{errors}");
    }
    let errors = Dir::named("op").fails(&["init", "--sdk-path", "/nope"]);
    assert!(errors.contains("/nope has no crates of the SDK"), "{errors}");
}

/// If the checkout of the SDK was moved, the message contains a solution, not only cargo's error.
#[test]
fn a_checkout_of_the_sdk_that_is_gone_is_named() {
    let dir = Dir::project();
    dir.replace(".cargo/config.toml", &crates(), "/gone");
    let caches = Dir::named("caches");
    let mut generate = common::sdk();
    generate
        .args(["generate", "manifests"])
        .env(common::BUILD_CACHE, &caches.path)
        .env_remove("CARGO_TARGET_DIR");
    let output = generate.current_dir(&dir.path).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(
        errors.contains("error: cannot find the SDK's crates of"),
        "{errors}"
    );
    assert!(errors.contains("operator-sdk edit --sdk-path DIR"), "{errors}");
    assert!(
        !errors.contains("The first build"),
        "nothing is compiled: {errors}"
    );
}

#[test]
fn a_dry_run_shows_the_diff_and_writes_nothing() {
    let dir = Dir::named("op");
    let diff = dir.ok(&["init", "--domain", "example.com", "--dry-run"]);
    assert!(diff.contains("--- /dev/null\n+++ PROJECT\n"), "{diff}");
    assert!(dir.files().is_empty());
    let dir = Dir::project();
    let before = dir.files();
    let mut arguments = CREATE_MEMCACHED.to_vec();
    arguments.push("--dry-run");
    let diff = dir.ok(&arguments);
    assert!(
        diff.contains("+        .controller(controller::memcached_controller::controller())\n"),
        "{diff}"
    );
    assert_eq!(dir.files(), before);
}

#[test]
fn create_api_with_an_image_adds_a_complete_operator() {
    let dir = Dir::project();
    let before = dir.files();
    dir.ok(CREATE_MEMCACHED);
    let changed: String = dir
        .files()
        .iter()
        .filter(|(path, text)| before.get(*path) != Some(text))
        .map(|(path, text)| format!("=== {path}\n{text}"))
        .collect();
    insta::assert_snapshot!(changed);
}

#[test]
fn create_api_without_an_image_shows_where_to_write() {
    let dir = Dir::project();
    let before = dir.files();
    dir.ok(CREATE_FOO_BAR);
    let changed: String = dir
        .files()
        .iter()
        .filter(|(path, text)| before.get(*path) != Some(text))
        .map(|(path, text)| format!("=== {path}\n{text}"))
        .collect();
    insta::assert_snapshot!(changed);
}

#[test]
fn a_second_api_joins_the_first() {
    let dir = Dir::project();
    dir.ok(CREATE_MEMCACHED);
    let lib = dir
        .read("src/lib.rs")
        .replace("        .controller(", "        // Mine.\n        .controller(");
    dir.write("src/lib.rs", &lib);
    let kustomization = dir.read("config/default/kustomization.yaml") + "# mine\n";
    dir.write("config/default/kustomization.yaml", &kustomization);
    dir.ok(CREATE_FOO_BAR);
    let lib = dir.read("src/lib.rs");
    assert!(
        lib.contains(
            "        // Mine.\n        .controller(controller::memcached_controller::controller())\n        \
             .crd::<api::v1::FooBar>()\n        .controller(controller::foo_bar_controller::controller())\n}\n"
        ),
        "{lib}"
    );
    assert_eq!(dir.read("config/default/kustomization.yaml"), kustomization);
    let bases = dir.read("config/crd/kustomization.yaml");
    assert!(
        bases.ends_with("- bases/cache.example.com_memcacheds.yaml\n- bases/shop.example.com_foobars.yaml\n"),
        "{bases}"
    );
    for resource in ["  - memcacheds\n", "  - foobars\n", "  - deployments\n"] {
        assert!(dir.read("config/rbac/role.yaml").contains(resource), "{resource}");
    }
}

#[test]
fn force_writes_a_kind_again() {
    let dir = Dir::project();
    dir.ok(CREATE_FOO_BAR);
    let controller = dir.read("src/controller/foo_bar_controller.rs");
    let once = dir.files();
    dir.write("src/controller/foo_bar_controller.rs", "broken");
    let mut arguments = CREATE_FOO_BAR.to_vec();
    arguments.push("--force");
    dir.ok(&arguments);
    assert_eq!(dir.read("src/controller/foo_bar_controller.rs"), controller);
    assert_eq!(dir.files(), once, "registered once, listed once");
}

#[test]
fn the_type_may_come_before_the_controller() {
    let dir = Dir::project();
    let mut only_type = CREATE_FOO_BAR.to_vec();
    only_type.push("--controller=false");
    dir.ok(&only_type);
    assert!(!dir.files().contains_key("src/controller/foo_bar_controller.rs"));
    assert!(!dir.read("src/lib.rs").contains(".controller("));
    let mut only_controller = CREATE_FOO_BAR.to_vec();
    only_controller.push("--resource=false");
    dir.ok(&only_controller);
    let whole = Dir::project();
    whole.ok(CREATE_FOO_BAR);
    assert_eq!(dir.files(), whole.files(), "in two steps as in one");
}

#[test]
fn the_tree_renders_with_kustomize() {
    let dir = Dir::project();
    insta::assert_snapshot!(
        "kustomize_init",
        kubectl(&["kustomize", "config/default"], &dir.path)
    );
    dir.ok(CREATE_MEMCACHED);
    dir.ok(CREATE_FOO_BAR);
    let rendered = kubectl(&["kustomize", "config/default"], &dir.path);
    for kind in [
        "kind: CustomResourceDefinition",
        "name: memcached-operator-manager-role",
        "kind: Deployment",
    ] {
        assert!(rendered.contains(kind), "{kind}");
    }
    assert_eq!(rendered.matches("kind: CustomResourceDefinition").count(), 2);
    assert_eq!(
        kubectl(&["kustomize", "config/samples"], &dir.path)
            .matches("kind: ")
            .count(),
        2
    );
}

#[test]
fn unknown_fields_of_project_are_kept() {
    let dir = Dir::project();
    let project = dir.read("PROJECT") + "plugins:\n  example.com/v1: {a: 1}\n";
    dir.write("PROJECT", &project);
    dir.ok(CREATE_FOO_BAR);
    assert!(
        dir.read("PROJECT")
            .contains("plugins:\n  example.com/v1:\n    a: 1\n")
    );
}

const CREATE_V1: &[&str] = &[
    "create",
    "api",
    "--group=cache",
    "--version=v1",
    "--kind=Memcached",
];

#[track_caller]
fn changed(dir: &Dir, arguments: &[&str]) -> String {
    let before = dir.files();
    dir.ok(arguments);
    let after = dir.files();
    let written = after
        .iter()
        .filter(|(path, text)| before.get(*path) != Some(text))
        .map(|(path, text)| format!("=== {path}\n{text}"));
    let removed = before
        .keys()
        .filter(|path| !after.contains_key(*path))
        .map(|path| format!("=== {path} (removed)\n"));
    written.chain(removed).collect()
}

#[test]
fn a_further_version_joins_the_definition() {
    let dir = Dir::project();
    dir.ok(CREATE_MEMCACHED);
    insta::assert_snapshot!(changed(&dir, CREATE_V1));
    let definition = dir.read("config/crd/bases/cache.example.com_memcacheds.yaml");
    assert_eq!(definition.matches("storage: true").count(), 1);
    assert_eq!(definition.matches("storage: false").count(), 1);
}

#[test]
fn groups_have_folders_if_there_are_several() {
    let dir = Dir::project_with(&["--multigroup"]);
    insta::assert_snapshot!(changed(&dir, CREATE_MEMCACHED));
    dir.ok(&[
        "create",
        "api",
        "--group=shop",
        "--version=v1alpha1",
        "--kind=Memcached",
    ]);
    let lib = dir.read("src/lib.rs");
    for call in [
        ".controller(controller::cache::memcached_controller::controller())",
        ".controller(controller::shop::memcached_controller::controller())",
        ".crd::<api::shop::v1alpha1::Memcached>()",
    ] {
        assert!(lib.contains(call), "{call}: {lib}");
    }
}

#[test]
fn kinds_from_before_there_were_folders_stay() {
    let dir = Dir::project();
    dir.ok(CREATE_MEMCACHED);
    dir.ok(&["edit", "--multigroup"]);
    dir.ok(&[
        "create",
        "api",
        "--group=shop",
        "--version=v1alpha1",
        "--kind=Memcached",
    ]);
    let files = dir.files();
    for path in [
        "src/api/v1alpha1/memcached_types.rs",
        "src/api/shop/v1alpha1/memcached_types.rs",
        "src/controller/memcached_controller.rs",
        "src/controller/shop/memcached_controller.rs",
        "config/rbac/memcached_admin_role.yaml",
        "config/rbac/shop_memcached_admin_role.yaml",
    ] {
        assert!(files.contains_key(path), "{path}");
    }
}

#[test]
fn a_kind_may_have_several_controllers() {
    let dir = Dir::project();
    dir.ok(CREATE_MEMCACHED);
    let second = [
        "create",
        "api",
        "--group=cache",
        "--version=v1alpha1",
        "--kind=Memcached",
        "--controller-name=memcached-backup",
    ];
    insta::assert_snapshot!(changed(&dir, &second));
}

#[test]
fn kinds_of_others_get_a_controller_alone() {
    let dir = Dir::project();
    let core = [
        "create",
        "api",
        "--group=apps",
        "--version=v1",
        "--kind=Deployment",
        "--resource=false",
    ];
    insta::assert_snapshot!("core", changed(&dir, &core));
    let external = [
        "create",
        "api",
        "--group=cert-manager",
        "--version=v1",
        "--kind=Certificate",
        "--external-api-path=cert_manager::v1",
        "--external-api-domain=io",
        "--external-api-module=cert-manager@1.2",
    ];
    insta::assert_snapshot!("external", changed(&dir, &external));
}

#[test]
fn created_kinds_can_be_deleted() {
    let dir = Dir::project();
    let empty = one_without_events(&dir.files());
    let delete = |version: &str| {
        dir.ok(&[
            "delete",
            "api",
            "--group=cache",
            &format!("--version={version}"),
            "--kind=Memcached",
            "--yes",
        ])
    };
    dir.ok(CREATE_FOO_BAR);
    let one = dir.files();
    dir.ok(CREATE_MEMCACHED);
    let two = dir.files();
    dir.ok(CREATE_V1);
    delete("v1");
    common::assert_same(&dir.files(), &two, "v1");
    delete("v1alpha1");
    common::assert_same(&without_events(&dir), &one_without_events(&one), "v1alpha1");
    dir.ok(&[
        "delete",
        "api",
        "--group=shop",
        "--version=v1",
        "--kind=FooBar",
        "--yes",
    ]);
    let rest = without_events(&dir);
    assert_eq!(rest.keys().collect::<Vec<_>>(), empty.keys().collect::<Vec<_>>());
    for path in [
        "src/lib.rs",
        "src/api.rs",
        "src/controller.rs",
        "PROJECT",
        "config/default/kustomization.yaml",
    ] {
        assert_eq!(rest[path], empty[path], "{path}");
    }
}

type Files = std::collections::BTreeMap<String, String>;

/// Rules that several kinds may share stay until `generate manifests` is run.
fn without_events(dir: &Dir) -> Files {
    one_without_events(&dir.files())
}

fn one_without_events(files: &Files) -> Files {
    let mut files = files.clone();
    files.remove("config/rbac/role.yaml");
    files
}

const WEBHOOK: &[&str] = &[
    "create",
    "webhook",
    "--group=cache",
    "--version=v1alpha1",
    "--kind=Memcached",
];
const DELETE_WEBHOOK: &[&str] = &[
    "delete",
    "webhook",
    "--group=cache",
    "--version=v1alpha1",
    "--kind=Memcached",
    "--yes",
];

fn webhook(more: &[&'static str]) -> Vec<&'static str> {
    [WEBHOOK, more].concat()
}

#[test]
fn webhooks_default_and_check() {
    let dir = Dir::project();
    dir.ok(CREATE_MEMCACHED);
    let both = webhook(&["--defaulting", "--programmatic-validation"]);
    insta::assert_snapshot!(changed(&dir, &both));
}

#[test]
fn webhooks_may_come_one_after_the_other() {
    let at_once = Dir::project();
    at_once.ok(CREATE_MEMCACHED);
    at_once.ok(&webhook(&["--defaulting", "--programmatic-validation"]));
    let later = Dir::project();
    later.ok(CREATE_MEMCACHED);
    later.ok(&webhook(&["--defaulting"]));
    let path = "src/webhook/v1alpha1/memcached_webhook.rs";
    later.write(
        path,
        &later
            .read(path)
            .replace("        let _ = object;", "        mine(object);"),
    );
    later.ok(&webhook(&["--programmatic-validation"]));
    assert!(later.read(path).contains("        mine(object);"));
    later.write(
        path,
        &later
            .read(path)
            .replace("        mine(object);", "        let _ = object;"),
    );
    common::assert_same(&later.files(), &at_once.files(), "later");
    // Existing tests are not added again.
    let tests = |dir: &Dir| {
        dir.read("tests/v1alpha1_memcached_webhook.rs")
            .matches("async fn ")
            .count()
    };
    let again = ["--defaulting", "--programmatic-validation", "--force"];
    later.ok(&webhook(&again));
    assert_eq!(tests(&later), tests(&at_once));
}

#[test]
fn versions_are_converted_by_webhook() {
    let dir = Dir::project();
    dir.ok(CREATE_MEMCACHED);
    dir.ok(CREATE_V1);
    insta::assert_snapshot!(changed(&dir, &webhook(&["--conversion", "--spoke=v1"])));
}

#[test]
fn objects_are_stored_in_the_version_that_others_are_converted_through() {
    let dir = Dir::project();
    dir.ok(CREATE_MEMCACHED);
    dir.ok(CREATE_V1);
    let said = dir.ok(&[
        "create",
        "webhook",
        "--group=cache",
        "--version=v1",
        "--kind=Memcached",
        "--conversion",
    ]);
    let wanted = "Objects of Memcached are stored in v1, the hub version of the conversion";
    assert!(said.contains(wanted), "{said}");
    let types = |version: &str| dir.read(&format!("src/api/{version}/memcached_types.rs"));
    assert!(types("v1alpha1").contains("    plural = \"memcacheds\",\n    storage = false,\n"));
    assert!(!types("v1").contains("storage"));
    let crd = dir.read("config/crd/bases/cache.example.com_memcacheds.yaml");
    let crd: serde_json::Value = serde_saphyr::from_str(&crd).unwrap();
    let stored: Vec<_> = crd["spec"]["versions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|version| (version["name"].as_str().unwrap(), version["storage"] == true))
        .collect();
    assert_eq!(stored, [("v1", true), ("v1alpha1", false)]);
}

#[test]
fn webhooks_can_be_deleted() {
    let dir = Dir::project();
    dir.ok(CREATE_MEMCACHED);
    dir.ok(CREATE_V1);
    let before = dir.files();
    dir.ok(&webhook(&["--defaulting"]));
    let one = dir.files();
    dir.ok(&webhook(&["--conversion"]));
    dir.ok(&[DELETE_WEBHOOK, &["--conversion"]].concat());
    common::assert_same(&dir.files(), &one, "conversion");
    dir.ok(DELETE_WEBHOOK);
    common::assert_same(&dir.files(), &before, "all");
}

#[test]
fn cert_manager_takes_the_place_of_certificates_of_ones_own() {
    let dir = Dir::project();
    dir.ok(CREATE_MEMCACHED);
    dir.ok(&webhook(&["--defaulting"]));
    let before = dir.files();
    assert!(dir.read("src/lib.rs").contains(".managed_certificates()"));
    assert_eq!(
        dir.read("config/rbac/role_binding.yaml")
            .matches("kind: RoleBinding")
            .count(),
        1
    );
    dir.ok(&["edit", "--cert-manager"]);
    assert!(!dir.read("src/lib.rs").contains("managed_certificates"));
    assert!(!dir.read("config/rbac/role.yaml").contains("secrets"));
    dir.ok(&["edit", "--cert-manager=false"]);
    common::assert_same(&dir.files(), &before, "cert-manager");
}

#[test]
fn kinds_of_kubernetes_may_have_webhooks() {
    let dir = Dir::project();
    let pods = [
        "create",
        "webhook",
        "--group=core",
        "--version=v1",
        "--kind=Pod",
        "--programmatic-validation",
    ];
    let changed = changed(&dir, &pods);
    assert!(changed.contains("path: /validate--v1-pod\n"), "{changed}");
    assert!(
        changed.contains("use k8s_openapi::api::core::v1::Pod;\n"),
        "{changed}"
    );
}

#[test]
fn sources_are_formatted_whatever_the_length_of_the_kind() {
    let kinds = [
        "Db",
        "Cron",
        "Backup",
        "Memcached",
        "WebsiteRelease",
        "VeryLongNameOfACustomResource",
        "ValidatingAdmissionPolicyBinding",
    ];
    let mut differences = String::new();
    for kind in kinds {
        for image in [&[][..], &["--image", "example.com/app:1"]] {
            let dir = Dir::project();
            let api = [
                "create",
                "api",
                "--group",
                "shop",
                "--version",
                "v1",
                "--kind",
                kind,
            ];
            dir.ok(&[&api[..], image].concat());
            let webhook = [
                "create",
                "webhook",
                "--group",
                "shop",
                "--version",
                "v1",
                "--kind",
                kind,
            ];
            dir.ok(&[&webhook[..], &["--defaulting", "--programmatic-validation"]].concat());
            let output = std::process::Command::new("cargo")
                .args(["fmt", "--check"])
                .current_dir(&dir.path)
                .output()
                .unwrap();
            if !output.status.success() {
                let text = String::from_utf8_lossy(&output.stdout);
                differences.push_str(&format!("{kind} {image:?}\n{text}"));
            }
        }
    }
    assert!(differences.is_empty(), "{differences}");
}
