//! Tests of external plugins with kubebuilder's protocol: a program in Python that adds a license to projects.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod common;

use std::os::unix::fs::PermissionsExt;
use std::process::Output;

use common::{Dir, sdk, succeeded};

const PLUGIN: &str = r#"#!/usr/bin/env python3
import json, sys
request = json.load(sys.stdin)
assert request["apiVersion"] == "v1alpha1"
answer = {"apiVersion": "v1alpha1", "command": request["command"], "error": False}
universe = request["universe"]
if request["command"] == "flags":
    if request["args"] == ["--init"]:
        answer["flags"] = [
            {"name": "holder", "type": "string", "default": "", "usage": "who holds the rights"},
            {"name": "short", "type": "boolean", "default": "false", "usage": "a short text"},
        ]
elif request["command"] == "metadata":
    answer["metadata"] = {"description": "adds a license", "examples": "--holder me"}
elif request["command"] == "init":
    args = request["args"]
    if "--holder=nobody" in args:
        answer["error"], answer["errorMsgs"] = True, ["nobody", "holds nothing"]
    elif "--holder=thief" in args:
        universe["../outside"] = "x"
    elif "--holder=noise" in args:
        print("noise")
    elif "--holder=crash" in args:
        sys.exit(3)
    universe["LICENSE"] = " ".join(args) + "\n"
    universe["README.md"] += "\nLicensed.\n"
elif request["command"] == "create api":
    universe["docs/kinds.md"] = "".join(path + "\n" for path in sorted(universe) if path.startswith("src/api/"))
    universe["docs/chain.md"] = ",".join(request["pluginChain"]) + "\n"
answer["universe"] = universe
print(json.dumps(answer))
"#;

/// A directory for a project, and a directory with the plugin.
struct Scene {
    dir: Dir,
    plugins: Dir,
}

impl Scene {
    fn new() -> Self {
        let plugins = Dir::named("plugins");
        let folder = plugins.path.join("license.example.com/v1");
        std::fs::create_dir_all(&folder).unwrap();
        let program = folder.join("license.example.com");
        std::fs::write(&program, PLUGIN).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self {
            dir: Dir::named("op"),
            plugins,
        }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        sdk()
            .args(arguments)
            .env("EXTERNAL_PLUGINS_PATH", &self.plugins.path)
            .current_dir(&self.dir.path)
            .output()
            .unwrap()
    }

    #[track_caller]
    fn ok(&self, arguments: &[&str]) -> String {
        succeeded(arguments, self.run(arguments))
    }

    #[track_caller]
    fn fails(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(errors.contains("hint: "), "{errors}");
        errors
    }
}

const INIT: [&str; 3] = ["init", "--domain", "example.com"];

#[test]
fn a_plugin_takes_part_in_a_project() {
    let scene = Scene::new();
    let init = [
        &INIT[..],
        &[
            "--plugins",
            "rust.operator-sdk.dev/v1,license.example.com/v1",
            "--holder",
            "me",
            "--short",
        ],
    ]
    .concat();
    scene.ok(&init);
    assert_eq!(scene.dir.read("LICENSE"), "--holder me --short\n");
    assert!(scene.dir.read("README.md").ends_with("\nLicensed.\n"));
    let project = scene.dir.read("PROJECT");
    assert!(
        project.contains("- rust.operator-sdk.dev/v1\n- license.example.com/v1\n"),
        "{project}"
    );

    // From now on, the plugin runs without `--plugins`.
    scene.ok(&[
        "create",
        "api",
        "--group",
        "cache",
        "--version",
        "v1",
        "--kind",
        "Shop",
    ]);
    assert!(
        scene
            .dir
            .read("docs/kinds.md")
            .contains("src/api/v1/shop_types.rs\n")
    );
    assert_eq!(scene.dir.read("docs/chain.md"), "license.example.com/v1\n");

    let help = scene.ok(&["init", "--help", "--plugins=license.example.com/v1"]);
    for part in [
        "adds a license",
        "--holder <string>  who holds the rights",
        "--holder me",
    ] {
        assert!(help.contains(part), "{part}: {help}");
    }
}

#[test]
fn plugins_that_fail_are_named() {
    let cases: [(&[&str], &[&str]); 8] = [
        (
            &["--plugins=gone/v1"],
            &[
                "the plugin gone/v1 is not installed",
                "gone/v1/gone does not exist",
            ],
        ),
        (&["--plugins=gone"], &["\"gone\" is not a plugin"]),
        (&["--plugins=../../bin/sh"], &["is not a plugin"]),
        (
            &["--plugins=license.example.com/v1", "--holder=nobody"],
            &["failed: nobody; holds nothing"],
        ),
        (
            &["--plugins=license.example.com/v1", "--holder=thief"],
            &["tried to write \"../outside\""],
        ),
        (
            &["--plugins=license.example.com/v1", "--holder=noise"],
            &["is not valid"],
        ),
        (
            &["--plugins=license.example.com/v1", "--holder=crash"],
            &["cannot be run: exit status: 3"],
        ),
        (&["--plugins=,a b/v1"], &["\"a b/v1\" is not a plugin"]),
    ];
    for (arguments, parts) in cases {
        let scene = Scene::new();
        let errors = scene.fails(&[&INIT[..], arguments].concat());
        for part in parts {
            assert!(
                errors.contains(part),
                "{arguments:?}: {part:?} is missing: {errors}"
            );
        }
    }
    let scene = Scene::new();
    let errors = String::from_utf8(scene.run(&["init", "--holder=me"]).stderr).unwrap();
    assert!(errors.contains("unexpected argument '--holder'"), "{errors}");
}
