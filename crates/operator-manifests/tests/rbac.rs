//! Tests that roles are merged like those of controller-gen.

use operator_manifests::rbac::check::{AccessRequest, missing, unused};
use operator_manifests::rbac::{Rule, marker, roles};
use operator_manifests::render::documents;
use serde_json::json;

fn rule(groups: &str, resources: &str, verbs: &str) -> Rule {
    let words = |text: &str| text.split(';').map(str::to_owned).collect();
    Rule {
        api_groups: words(groups),
        resources: words(resources),
        verbs: words(verbs),
        ..Rule::default()
    }
}

#[test]
fn the_rules_of_the_getting_started_guide_give_its_role() {
    let all = "get;list;watch;create;update;patch;delete";
    let rules = [
        rule("cache.example.com", "memcacheds", all),
        rule("cache.example.com", "memcacheds/status", "get;update;patch"),
        rule("cache.example.com", "memcacheds/finalizers", "update"),
        rule("core", "events", "create;patch"),
        rule("apps", "deployments", all),
        rule("core", "pods", "get;list;watch"),
    ];
    insta::assert_snapshot!(documents(&roles("manager-role", &rules)));
}

#[test]
fn rules_that_differ_in_one_dimension_join() {
    let rules = [
        rule("", "pods", "get"),
        rule("core", "pods", "list"),
        rule("", "secrets", "get;list"),
        rule("apps", "secrets;pods", "list;get"),
    ];
    let merged = &roles("r", &rules)[0]["rules"];
    assert_eq!(
        *merged,
        json!([{"apiGroups": ["", "apps"], "resources": ["pods", "secrets"], "verbs": ["get", "list"]}])
    );
}

#[test]
fn a_star_absorbs_the_other_verbs() {
    let rules = [rule("", "pods", "get;*"), rule("", "pods", "list")];
    assert_eq!(roles("r", &rules)[0]["rules"][0]["verbs"], json!(["*"]));
}

#[test]
fn rules_with_names_stay_apart() {
    let named = Rule {
        resource_names: vec!["one".into()],
        ..rule("", "secrets", "get")
    };
    let merged = roles("r", &[rule("", "secrets", "get"), named]);
    assert_eq!(merged[0]["rules"].as_array().unwrap().len(), 2);
}

#[test]
fn a_namespace_has_its_own_role_after_the_cluster_role() {
    let namespaced = Rule {
        namespace: Some("infra".into()),
        ..rule("", "configmaps", "get")
    };
    let urls = Rule {
        non_resource_urls: vec!["/metrics".into()],
        verbs: vec!["get".into()],
        ..Rule::default()
    };
    let roles = roles("r", &[namespaced, urls]);
    assert_eq!(roles[0]["kind"], "ClusterRole");
    assert_eq!(
        roles[0]["rules"],
        json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}])
    );
    assert_eq!(roles[1]["kind"], "Role");
    assert_eq!(roles[1]["metadata"], json!({"name": "r", "namespace": "infra"}));
}

#[test]
fn a_role_has_the_name_that_its_rules_give_it() {
    let rules = [
        rule("", "pods", "get"),
        Rule {
            namespace: Some("tools".to_owned()),
            role_name: Some("reader".to_owned()),
            ..rule("", "secrets", "get")
        },
        Rule {
            namespace: Some("tools".to_owned()),
            ..rule("", "services", "get")
        },
    ];
    let names: Vec<_> = roles("manager-role", &rules)
        .iter()
        .map(|role| (role["kind"].clone(), role["metadata"].clone()))
        .collect();
    let wanted = [
        (json!("ClusterRole"), json!({"name": "manager-role"})),
        (
            json!("Role"),
            json!({"name": "manager-role", "namespace": "tools"}),
        ),
        (json!("Role"), json!({"name": "reader", "namespace": "tools"})),
    ];
    assert_eq!(names, wanted);
}

#[test]
fn markers_are_those_of_go() {
    let marker = |text: &str| marker::parse(&format!("    //+kubebuilder:rbac:{text}")).unwrap();
    assert_eq!(
        marker("groups=apps;core,resources=deployments;pods/log,verbs=get;list"),
        Ok(rule("apps;core", "deployments;pods/log", "get;list"))
    );
    assert_eq!(
        marker("groups=\"\",resources=secrets,resourceNames=`a;b`,verbs=get,namespace=tools"),
        Ok(Rule {
            resource_names: vec!["a".to_owned(), "b".to_owned()],
            namespace: Some("tools".to_owned()),
            ..rule("", "secrets", "get")
        })
    );
    assert_eq!(
        marker("urls=/metrics;/logs/*,verbs=get"),
        Ok(Rule {
            api_groups: Vec::new(),
            resources: Vec::new(),
            non_resource_urls: vec!["/metrics".to_owned(), "/logs/*".to_owned()],
            ..rule("", "", "get")
        })
    );
}

#[test]
fn errors_of_markers_have_a_reason() {
    let cases = [
        ("groups=apps,resources=deployments", "needs verbs"),
        ("groups=apps,verbs=get", "needs verbs, and either groups"),
        ("groups=apps,resources=pods,urls=/x,verbs=get", "either groups"),
        (
            "groups=apps,resource=pods,verbs=get",
            "unknown argument `resource`",
        ),
        ("groups=apps,pods,verbs=get", "`pods` is not an argument"),
        ("verbs=get,verbs=list", "duplicate argument `verbs`"),
        (
            "groups=\"apps,resources=pods,verbs=get",
            "`groups` has no closing quote",
        ),
        ("groups=\"apps\"x,verbs=get", "is not an argument"),
        ("", "needs verbs"),
    ];
    for (text, wanted) in cases {
        let error = marker::parse(&format!("/// +kubebuilder:rbac:{text}")).unwrap();
        let error = error.expect_err(text).to_string();
        assert!(error.contains(wanted), "{text}: {error}");
    }
    assert_eq!(marker::parse("let x = 1; // +kubebuilder:rbac:verbs=get"), None);
}

fn requested(verb: &str, group: &str, target: &str, namespace: &str, name: &str) -> AccessRequest {
    let (resource, subresource) = target.split_once('/').unwrap_or((target, ""));
    AccessRequest {
        verb: verb.to_owned(),
        group: group.to_owned(),
        resource: resource.to_owned(),
        subresource: subresource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        path: String::new(),
    }
}

#[test]
fn permissions_without_a_rule_are_missing() {
    let in_namespace = |namespace: &str, rule: Rule| Rule {
        namespace: Some(namespace.to_owned()),
        ..rule
    };
    let rules = [
        rule("core", "pods", "get;list"),
        rule("*", "deployments", "*"),
        rule("batch", "*/status", "patch"),
        in_namespace("system", rule("", "secrets", "get")),
        in_namespace("tools", rule("", "configmaps", "get")),
        Rule {
            resource_names: vec!["one".to_owned()],
            ..rule("", "services", "patch")
        },
    ];
    let granted = [
        requested("get", "", "pods", "default", "a"),
        requested("delete", "apps", "deployments", "default", "a"),
        requested("patch", "batch", "jobs/status", "default", "a"),
        requested("get", "", "secrets", "default", "a"),
        requested("get", "", "configmaps", "tools", "a"),
        requested("patch", "", "services", "default", "one"),
        requested(
            "create",
            "authorization.k8s.io",
            "selfsubjectaccessreviews",
            "",
            "",
        ),
    ];
    assert_eq!(missing(&rules, &granted, "system"), []);
    let refused = [
        ("watch", "", "pods", "default", ""),
        ("get", "", "pods/log", "default", "a"),
        ("patch", "batch", "jobs", "default", "a"),
        ("list", "", "secrets", "", ""),
        ("get", "", "configmaps", "default", "a"),
        ("patch", "", "services", "default", "two"),
    ];
    for (verb, group, target, namespace, name) in refused {
        let one = requested(verb, group, target, namespace, name);
        assert_eq!(
            missing(&rules, &[one], "system"),
            [requested(verb, group, target, "", "")]
        );
    }
}

#[test]
fn unused_verbs_are_reported_by_resource() {
    let rules = [
        rule("", "pods", "get;list;watch;delete"),
        rule("apps", "deployments;replicasets", "patch"),
        rule("cache.example.com", "memcacheds/finalizers", "update"),
    ];
    let requested = [
        requested("watch", "", "pods", "", ""),
        requested("patch", "apps", "deployments", "default", "a"),
    ];
    let unused: Vec<_> = unused(&rules, &requested, "system")
        .into_iter()
        .map(|unused| (unused.rule, unused.resource, unused.verbs.join(";")))
        .collect();
    let wanted = [
        (0, "pods".to_owned(), "delete".to_owned()),
        (1, "replicasets".to_owned(), "patch".to_owned()),
    ];
    assert_eq!(unused, wanted);
}
