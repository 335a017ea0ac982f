//! Table tests of OLM v1.

use std::sync::Arc;

use operator_olm::catalog::{Catalog, Deprecation, validate};
use serde_json::{Value, json};

use super::condition::put_deprecations;
use super::config::{self, Config};
use super::preflight::refusal;
use super::resolve::{Installed, Offer, Wanted, resolve};
use crate::object::Object;
use crate::olm::catalog::Loaded;

fn bundle(version: &str, properties: &[Value]) -> Value {
    let package = json!({"type": "olm.package", "value": {"packageName": "op", "version": version}});
    let all: Vec<&Value> = std::iter::once(&package).chain(properties).collect();
    json!({
        "schema": "olm.bundle", "name": format!("op.v{version}"), "package": "op", "image": "example.com/op:1",
        "properties": all,
    })
}

/// Returns a catalog with the versions 1.0.0, 1.1.0, 1.2.0 and 2.0.0 in the channel `a`, and 2.0.0 in the channel `b`.
fn offer(name: &str, priority: i64, deprecated: &[Value]) -> Offer {
    let mut documents = vec![
        json!({"schema": "olm.package", "name": "op", "defaultChannel": "a"}),
        json!({"schema": "olm.channel", "package": "op", "name": "a", "entries": [
            {"name": "op.v1.0.0"},
            {"name": "op.v1.1.0", "replaces": "op.v1.0.0"},
            {"name": "op.v1.2.0", "replaces": "op.v1.0.0", "skips": ["op.v1.1.0"]},
            {"name": "op.v2.0.0", "replaces": "op.v1.2.0", "skipRange": ">=1.1.0 <1.2.0"},
        ]}),
        json!({"schema": "olm.channel", "package": "op", "name": "b", "entries": [{"name": "op.v2.0.0"}]}),
    ];
    documents.extend(["1.0.0", "1.1.0", "1.2.0", "2.0.0"].map(|version| bundle(version, &[])));
    if !deprecated.is_empty() {
        documents.push(json!({"schema": "olm.deprecations", "package": "op", "entries": deprecated}));
    }
    of(name, priority, &documents)
}

fn of(name: &str, priority: i64, documents: &[Value]) -> Offer {
    let catalog = Catalog::from_documents(documents).unwrap();
    let index = validate(&catalog).unwrap();
    Offer {
        catalog: name.to_owned(),
        priority,
        loaded: Arc::new(Loaded {
            catalog,
            index,
            ..Loaded::default()
        }),
    }
}

fn deprecated(schema: &str, name: &str) -> Value {
    json!({"reference": {"schema": schema, "name": name}, "message": format!("{schema} is old")})
}

fn wanted(version: &str, channels: &[&str], installed: &str) -> Wanted {
    Wanted {
        package: "op".to_owned(),
        version: version.to_owned(),
        channels: channels.iter().map(|&channel| channel.to_owned()).collect(),
        installed: (!installed.is_empty()).then(|| Installed {
            name: format!("op.v{installed}"),
            version: installed.to_owned(),
            release: String::new(),
        }),
        self_certified: false,
    }
}

#[test]
fn the_highest_version_that_follows_the_installed_one_is_chosen() {
    type Case = (
        &'static str,
        &'static [&'static str],
        &'static str,
        Result<&'static str, &'static str>,
    );
    let cases: [Case; 14] = [
        ("", &[], "", Ok("op.v2.0.0")),
        ("<2", &[], "", Ok("op.v1.2.0")),
        ("1.1.x", &[], "", Ok("op.v1.1.0")),
        ("", &["b"], "", Ok("op.v2.0.0")),
        (
            "<2",
            &["b"],
            "",
            Err("no bundles found for package \"op\" matching version \"<2\" in channels [b]"),
        ),
        ("", &[], "1.0.0", Ok("op.v1.2.0")),
        ("", &[], "1.1.0", Ok("op.v2.0.0")),
        ("", &[], "1.2.0", Ok("op.v2.0.0")),
        ("", &[], "2.0.0", Ok("op.v2.0.0")),
        ("1.1.0", &[], "1.0.0", Ok("op.v1.1.0")),
        (
            "2.0.0",
            &[],
            "1.0.0",
            Err(
                "error upgrading from currently installed version \"1.0.0\": no bundles found for package \"op\" \
                 matching version \"2.0.0\"",
            ),
        ),
        (
            "1.0.0",
            &["a"],
            "2.0.0",
            Err(
                "error upgrading from currently installed version \"2.0.0\": no bundles found for package \"op\" \
                 matching version \"1.0.0\" in channels [a]",
            ),
        ),
        (
            "one",
            &[],
            "",
            Err("desired version range \"one\" is invalid: improper constraint: one"),
        ),
        (
            "",
            &["none"],
            "",
            Err("no bundles found for package \"op\" in channels [none]"),
        ),
    ];
    let offers = [offer("one", 0, &[])];
    for (version, channels, installed, expected) in cases {
        let found = resolve(&wanted(version, channels, installed), &offers).bundle;
        let found = found.as_ref().map(|bundle| bundle.name.as_str());
        assert_eq!(
            found.map_err(String::as_str),
            expected,
            "{version} {channels:?} {installed}"
        );
    }
    let free = Wanted {
        self_certified: true,
        ..wanted("1.0.0", &[], "2.0.0")
    };
    assert_eq!(resolve(&free, &offers).bundle.unwrap().name, "op.v1.0.0");
}

#[test]
fn catalogs_are_chosen_by_deprecation_and_priority() {
    let newest = [deprecated("olm.bundle", "op.v2.0.0")];
    let every = ["1.0.0", "1.1.0", "1.2.0", "2.0.0"]
        .map(|version| deprecated("olm.bundle", &format!("op.v{version}")));
    let any = wanted("", &[], "");
    let name = |offers: &[Offer]| resolve(&any, offers).bundle.map(|bundle| bundle.name);
    assert_eq!(name(&[offer("one", 0, &newest)]).unwrap(), "op.v1.2.0");
    assert_eq!(name(&[offer("one", 0, &every)]).unwrap(), "op.v2.0.0");
    assert_eq!(
        name(&[offer("one", 5, &every), offer("two", 0, &newest)]).unwrap(),
        "op.v1.2.0"
    );
    assert_eq!(
        name(&[offer("one", 0, &newest), offer("two", 5, &[])]).unwrap(),
        "op.v2.0.0"
    );
    assert_eq!(
        name(&[offer("two", 1, &[]), offer("one", 1, &[]), offer("low", 0, &[])]).unwrap_err(),
        "found bundles for package \"op\" in multiple catalogs with the same priority [one two]"
    );
    assert_eq!(name(&[]).unwrap_err(), "no bundles found for package \"op\"");
}

#[test]
fn releases_are_ordered_and_dependencies_are_refused() {
    let documents = |properties: &[Value]| {
        vec![
            json!({"schema": "olm.package", "name": "op", "defaultChannel": "a"}),
            json!({"schema": "olm.channel", "package": "op", "name": "a", "entries": [
                {"name": "op.v1.0.0+2"}, {"name": "op.v1.0.0+10", "replaces": "op.v1.0.0+2"},
            ]}),
            bundle("1.0.0+2", &[]),
            bundle("1.0.0+10", properties),
        ]
    };
    let found = resolve(&wanted("", &[], ""), &[of("one", 0, &documents(&[]))]);
    assert_eq!(found.bundle.unwrap().name, "op.v1.0.0+10");
    let needs =
        json!({"type": "olm.package.required", "value": {"packageName": "x", "versionRange": ">=1.0.0"}});
    let found = resolve(&wanted("", &[], ""), &[of("one", 0, &documents(&[needs]))]);
    assert_eq!(
        found.bundle.unwrap_err(),
        "validating bundle \"op.v1.0.0+10\": bundle \"op.v1.0.0+10\" has a dependency declared via property \
         \"olm.package.required\" which is currently not supported"
    );
}

#[test]
fn deprecations_are_conditions() {
    let extension = json!({
        "metadata": {"name": "op", "generation": 3}, "spec": {"source": {"catalog": {"channels": ["a"]}}},
    });
    let entry = |schema: &str, name: &str| Deprecation {
        schema: schema.to_owned(),
        name: name.to_owned(),
        message: format!("{name} is old"),
    };
    let states = |installed: &str, known: Option<&[Deprecation]>| -> Vec<String> {
        let mut status = json!({});
        put_deprecations(
            &mut status,
            &extension,
            installed,
            known,
            &json!("2024-01-01T00:00:00Z"),
        );
        let conditions = status.items("/conditions").iter();
        conditions
            .map(|condition| {
                assert_eq!(condition.int("/observedGeneration"), Some(3));
                let text = |field: &str| condition.text(field).to_owned();
                format!(
                    "{}={} {}: {}",
                    text("/type"),
                    text("/status"),
                    text("/reason"),
                    text("/message")
                )
            })
            .collect()
    };
    assert_eq!(
        states("", None),
        [
            "Deprecated=Unknown DeprecationStatusUnknown: deprecation status unknown: catalog data unavailable",
            "PackageDeprecated=Unknown DeprecationStatusUnknown: deprecation status unknown: catalog data unavailable",
            "ChannelDeprecated=Unknown DeprecationStatusUnknown: deprecation status unknown: catalog data unavailable",
            "BundleDeprecated=Unknown Absent: no bundle installed yet",
        ]
    );
    let all = [
        entry("olm.channel", "a"),
        entry("olm.channel", "b"),
        entry("olm.bundle", "op.v1.0.0"),
    ];
    assert_eq!(
        states("op.v1.0.0", Some(&all)),
        [
            "Deprecated=True Deprecated: a is old\nop.v1.0.0 is old",
            "PackageDeprecated=False NotDeprecated: package not deprecated",
            "ChannelDeprecated=True Deprecated: a is old",
            "BundleDeprecated=True Deprecated: op.v1.0.0 is old",
        ]
    );
    assert_eq!(
        states("op.v2.0.0", Some(&[])),
        [
            "Deprecated=False NotDeprecated: not deprecated",
            "PackageDeprecated=False NotDeprecated: package not deprecated",
            "ChannelDeprecated=False NotDeprecated: channel not deprecated",
            "BundleDeprecated=False NotDeprecated: bundle not deprecated",
        ]
    );
}

#[test]
fn settings_depend_on_the_install_modes() {
    let all = ["AllNamespaces"];
    let own = ["OwnNamespace"];
    let single = ["SingleNamespace"];
    let every = ["AllNamespaces", "OwnNamespace", "SingleNamespace"];
    let watch = |namespace: &str| json!({"watchNamespace": namespace});
    let cases: [(&[&str], Value, Result<&str, &str>); 13] = [
        (&all, json!({}), Ok("")),
        (&all, watch("x"), Err("unknown field \"watchNamespace\"")),
        (&every, json!({}), Ok("")),
        (&every, json!({"watchNamespace": null}), Ok("")),
        (&every, watch("x"), Ok("x")),
        (&every, watch("ns"), Ok("ns")),
        (
            &own,
            json!({}),
            Err("required field \"watchNamespace\" is missing"),
        ),
        (&own, watch("ns"), Ok("ns")),
        (
            &own,
            watch("x"),
            Err(
                "invalid value \"x\": watchNamespace must be \"ns\" (the namespace where the operator is installed) \
                 because this operator only supports OwnNamespace install mode",
            ),
        ),
        (
            &single,
            watch("ns"),
            Err(
                "invalid value \"ns\": watchNamespace must be different from \"ns\" (the install namespace) because \
                 this operator uses SingleNamespace install mode to watch a different namespace",
            ),
        ),
        (
            &single,
            json!({"watchNamespace": 1}),
            Err("invalid value for field \"watchNamespace\""),
        ),
        (
            &all,
            json!({"deploymentConfig": {"selector": {}}, "x": 1}),
            Err("multiple errors found:\n  - unknown field \"x\"\n  - unknown field \"selector\""),
        ),
        (
            &all,
            json!({"deploymentConfig": {"nodeSelector": {"a": "b"}}}),
            Ok(""),
        ),
    ];
    for (modes, inline, expected) in cases {
        let extension =
            json!({"spec": {"namespace": "ns", "config": {"configType": "Inline", "inline": inline}}});
        let found = config::read(&extension, modes);
        let expected = match expected {
            Ok(target) => Ok(Config {
                targets: vec![target.to_owned()],
                deployment: inline.get("deploymentConfig").cloned(),
            }),
            Err(text) => Err(format!(
                "invalid ClusterExtension configuration: invalid configuration: {text}"
            )),
        };
        assert_eq!(found, expected, "{inline} {modes:?}");
    }
}

#[test]
fn unsafe_updates_of_definitions_are_refused() {
    let crd = |scope: &str, version: &str, spec: Value| {
        let spec = json!({"type": "object", "properties": spec});
        json!({
            "metadata": {"name": "ops.x.io"},
            "spec": {"scope": scope, "versions": [{
                "name": version, "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }]},
            "status": {"storedVersions": ["v1"]},
        })
    };
    let fields = |size: Value| json!({"size": size, "name": {"type": "string"}});
    let old = crd(
        "Namespaced",
        "v1",
        fields(json!({"type": "integer", "maximum": 5})),
    );
    let cases = [
        (
            crd(
                "Namespaced",
                "v1",
                fields(json!({"type": "integer", "maximum": 9})),
            ),
            "",
        ),
        (
            crd("Cluster", "v1", fields(json!({"type": "integer", "maximum": 5}))),
            "\"NoScopeChange\" validation failed: scope changed from \"Namespaced\" to \"Cluster\"",
        ),
        (
            crd(
                "Namespaced",
                "v2",
                fields(json!({"type": "integer", "maximum": 5})),
            ),
            "\"NoStoredVersionRemoved\" validation failed: stored version \"v1\" removed",
        ),
        (
            crd(
                "Namespaced",
                "v1",
                json!({"size": {"type": "integer", "maximum": 5}}),
            ),
            "\"ChangeValidator\" validation failed: version \"v1\", field \"^.spec.name\": field removed",
        ),
        (
            crd(
                "Namespaced",
                "v1",
                fields(json!({"type": "integer", "maximum": 3})),
            ),
            "\"ChangeValidator\" validation failed: version \"v1\", field \"^.spec.size\": maximum lowered from 5 to 3",
        ),
        (
            crd(
                "Namespaced",
                "v1",
                fields(json!({"type": "integer", "maximum": 5, "default": 1})),
            ),
            "\"ChangeValidator\" validation failed: version \"v1\", field \"^.spec.size\": default added: 1",
        ),
    ];
    assert_eq!(refusal(&old, &old), None);
    for (new, expected) in cases {
        let found = refusal(&old, &new).unwrap_or_default();
        let expected = match expected {
            "" => String::new(),
            text => format!(
                "validating upgrade for CRD \"ops.x.io\": CustomResourceDefinition ops.x.io failed upgrade safety \
                 validation. {text}"
            ),
        };
        assert_eq!(found, expected);
    }
}
