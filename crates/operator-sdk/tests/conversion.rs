//! A kind with two versions, from `create api` to objects that the API server converts with the running operator.
//!
//! Needs `kubectl`; fails without it.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod common;

use std::process::Output;
use std::time::Instant;

use common::running::{PATIENCE, Running};
use common::{Dir, sdk, target_dir};

fn kubectl(dir: &Dir, arguments: &[&str]) -> Output {
    common::kubectl_command()
        .args(arguments)
        .env("KUBECONFIG", dir.path.join("kubeconfig"))
        .current_dir(&dir.path)
        .output()
        .expect("kubectl must be installed: this test does not skip")
}

#[track_caller]
fn ok(dir: &Dir, arguments: &[&str]) -> String {
    common::succeeded(arguments, kubectl(dir, arguments))
}

#[test]
#[ignore = "slow: builds projects"]
fn two_versions_are_converted_by_the_running_operator() {
    let dir = Dir::built("versions-operator");
    let kind = ["--group", "shop", "--kind", "Store", "--version"];
    dir.ok(&[&["create", "api"][..], &kind, &["v1alpha1"]].concat());
    dir.ok(&[&["create", "api"][..], &kind, &["v1beta1"]].concat());
    let said = dir.ok(&[&["create", "webhook", "--conversion"][..], &kind, &["v1beta1"]].concat());
    assert!(said.contains("Objects of Store are stored in v1beta1"), "{said}");

    // A new version is added to the conversion later; until then it is not converted.
    let output = dir.run(&[&["create", "api"][..], &kind, &["v1"]].concat());
    let warned = String::from_utf8(output.stderr).unwrap();
    let missing = "version v1 of Store is served, and the conversion webhook does not convert it to v1beta1";
    let remedy = "--version v1beta1 --kind Store --conversion --spoke v1";
    assert!(warned.contains(missing) && warned.contains(remedy), "{warned}");
    for command in [&["generate", "manifests"][..], &["run", "local", "--embedded"]] {
        let refused = dir.fails(command);
        assert!(refused.contains(missing) && refused.contains(remedy), "{refused}");
    }
    let spoke = ["--spoke", "v1"];
    dir.ok(&[
        &["create", "webhook", "--conversion"][..],
        &kind,
        &["v1beta1"],
        &spoke,
    ]
    .concat());
    let files = dir.files();
    let (_, chain) = files
        .iter()
        .find(|(path, _)| path.starts_with("src/") && path.ends_with("/store_webhook.rs"))
        .unwrap();
    assert_eq!(chain.matches(".spoke::<").count(), 2, "{chain}");
    let again = dir.fails(
        &[
            &["create", "webhook", "--conversion"][..],
            &kind,
            &["v1beta1"],
            &spoke,
        ]
        .concat(),
    );
    assert!(again.contains("already exists in this project"), "{again}");
    let refused = dir.fails(&["run", "local", "--embedded", "--enable-webhooks=false"]);
    assert!(refused.contains("fields would be lost"), "{refused}");

    // `foo` of v1alpha1 and v1 is `label` in v1beta1.
    let hub = "src/api/v1beta1/store_types.rs";
    dir.replace(hub, "pub foo: Option<String>", "pub label: Option<String>");
    for version in ["v1alpha1", "v1"] {
        let conversion = format!("src/api/{version}/store_conversion.rs");
        dir.replace(
            &conversion,
            "spec: same_fields(&self.spec)?,",
            "spec: hub::StoreSpec { label: self.spec.foo },",
        );
        dir.replace(
            &conversion,
            "spec: same_fields(&hub.spec)?,",
            "spec: super::StoreSpec { foo: hub.spec.label },",
        );
    }
    let built = sdk()
        .args(["generate", "manifests"])
        .env("CARGO_TARGET_DIR", target_dir())
        .current_dir(&dir.path)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&built.stderr).into_owned();
    assert!(built.status.success(), "{errors}");
    assert!(!errors.contains("warning"), "{errors}");
    let crd: serde_json::Value =
        serde_saphyr::from_str(&dir.read("config/crd/bases/shop.example.com_stores.yaml")).unwrap();
    let versions: Vec<_> = crd["spec"]["versions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|version| (version["name"].as_str().unwrap(), version["storage"] == true))
        .collect();
    assert_eq!(versions, [("v1", false), ("v1alpha1", false), ("v1beta1", true)]);

    // An embedded cluster works without the registration of webhooks, and even if the default port of the probes is in
    // use.
    let _occupied = std::net::TcpListener::bind("0.0.0.0:8081");
    let mut running = Running::start(
        sdk()
            .args(["run", "local", "--embedded", "--kubeconfig", "kubeconfig"])
            .env("CARGO_TARGET_DIR", target_dir())
            .current_dir(&dir.path),
    );
    running.line_with("stores.shop.example.com created");
    let begin = Instant::now();
    while ok(
        &dir,
        &[
            "get",
            "crd",
            "stores.shop.example.com",
            "-o",
            "jsonpath={.spec.conversion.strategy}",
        ],
    ) != "Webhook"
    {
        assert!(begin.elapsed() < PATIENCE, "the conversion is not registered");
    }

    for (name, version, field) in [("old", "v1alpha1", "foo"), ("new", "v1beta1", "label")] {
        dir.write(
            "store.yaml",
            &format!("apiVersion: shop.example.com/{version}\nkind: Store\nmetadata: {{name: {name}}}\nspec: {{{field}: {name}er}}\n"),
        );
        ok(&dir, &["create", "-f", "store.yaml"]);
    }
    let field = |version: &str, field: &str| {
        let resource = format!("stores.{version}.shop.example.com");
        let path = format!("jsonpath={{.items[*].spec.{field}}}");
        ok(&dir, &["get", &resource, "-o", &path])
    };
    assert_eq!(field("v1alpha1", "foo"), "newer older");
    assert_eq!(field("v1", "foo"), "newer older");
    assert_eq!(field("v1beta1", "label"), "newer older");
    ok(
        &dir,
        &[
            "patch",
            "stores.v1alpha1.shop.example.com",
            "new",
            "--type=merge",
            "-p",
            r#"{"spec":{"foo":"changed"}}"#,
        ],
    );
    assert_eq!(field("v1beta1", "label"), "changed older");
    // The controller, which uses v1alpha1, has written the status of both.
    ok(
        &dir,
        &[
            "wait",
            "stores.v1beta1.shop.example.com",
            "--all",
            "--for=condition=Available",
            "--timeout=180s",
        ],
    );
    assert!(running.stop().success());
}
