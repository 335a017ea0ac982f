//! Roles are merged as controller-gen merges them.

use operator_manifests::rbac::{Rule, roles};
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
