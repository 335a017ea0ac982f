//! The embedded back end, as in the test of an operator.
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of these tests fail as the tests do"
)]

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, ServiceAccount};
use kube::api::{DeleteParams, DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, ResourceExt};
use operator_envtest::{Backend, Controllers, Interceptor, TestEnv, Then};
use serde_json::{Value, json};

fn widgets() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {
                    "type": "object", "properties": {"size": {"type": "integer", "minimum": 1}},
                }}}},
            }],
        },
    })
}

fn widget_api(env: &TestEnv) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("example.com", "v1", "Widget");
    Api::default_namespaced_with(env.client(), &ApiResource::from_gvk_with_plural(&kind, "widgets"))
}

fn widget(size: i64) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": size},
    }))
    .unwrap()
}

fn deployment(replicas: i32) -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "example.com/c:1"}]},
            },
        },
    }))
    .unwrap()
}

async fn start() -> TestEnv {
    TestEnv::builder()
        .backend(Backend::Embedded)
        .crds([widgets()])
        .start()
        .await
        .unwrap()
}

#[tokio::test]
async fn custom_resources_are_served_and_checked_from_the_start() {
    let env = start().await;
    let api = widget_api(&env);
    api.create(&PostParams::default(), &widget(1)).await.unwrap();
    let mut invalid = widget(0);
    invalid.metadata.name = Some("x".to_owned());
    let refused = api.create(&PostParams::default(), &invalid).await.unwrap_err();
    assert!(refused.to_string().contains("spec.size"), "{refused}");
}

#[tokio::test]
async fn installing_a_definition_again_updates_it() {
    let env = start().await;
    let mut relaxed = widgets();
    relaxed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]
        ["minimum"] = 0.into();
    env.install_crds([relaxed]).await.unwrap();
    widget_api(&env)
        .create(&PostParams::default(), &widget(0))
        .await
        .unwrap();
}

#[tokio::test]
async fn owned_pods_come_and_go() {
    let env = start().await;
    let deployments: Api<Deployment> = Api::default_namespaced(env.client());
    deployments
        .create(&PostParams::default(), &deployment(2))
        .await
        .unwrap();
    let pods: Api<Pod> = Api::default_namespaced(env.client());
    let web = ListParams::default().labels("app=web");
    let is_running =
        |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
    let running = env
        .eventually_list(&pods, &web, |pods| pods.len() == 2 && pods.iter().all(is_running))
        .await
        .unwrap();
    deployments
        .delete("web", &DeleteParams::background())
        .await
        .unwrap();
    env.eventually_gone(&pods, &running[0].name_any()).await.unwrap();
    env.eventually_list(&pods, &web, <[_]>::is_empty).await.unwrap();
    env.stop().await;
}

#[tokio::test]
async fn without_controllers_a_deployment_stays_as_it_is() {
    let env = TestEnv::builder()
        .backend(Backend::Embedded)
        .controllers(Controllers::None)
        .timeout(Duration::from_millis(200))
        .start()
        .await
        .unwrap();
    let deployments: Api<Deployment> = Api::default_namespaced(env.client());
    deployments
        .create(&PostParams::default(), &deployment(1))
        .await
        .unwrap();
    let is_observed = |web: &Deployment| {
        web.status
            .as_ref()
            .is_some_and(|status| status.observed_generation.is_some())
    };
    let error = env
        .eventually(&deployments, "web", is_observed)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("web was not as expected within 200ms; last seen: {"),
        "{error}"
    );
    assert!(error.contains("\"image\": \"example.com/c:1\""), "{error}");
}

#[tokio::test]
async fn consistently_detects_a_change() {
    let env = start().await;
    let api = widget_api(&env);
    api.create(&PostParams::default(), &widget(1)).await.unwrap();
    let is_small = |widget: &DynamicObject| widget.data["spec"]["size"] == 1;
    let briefly = Duration::from_millis(50);
    env.consistently(&api, "w", briefly, is_small).await.unwrap();
    let missing = env.consistently(&api, "x", briefly, is_small).await.unwrap_err();
    assert!(
        missing.to_string().ends_with("last seen: no such object"),
        "{missing}"
    );

    let grow = env.update(&api, "w", |widget| widget.data["spec"]["size"] = 2.into());
    let looking = env.consistently(&api, "w", Duration::from_secs(10), is_small);
    let (grown, broken) = tokio::join!(grow, looking);
    assert_eq!(grown.unwrap().data["spec"]["size"], 2);
    let broken = broken.unwrap_err().to_string();
    assert!(
        broken.starts_with("w was not as expected all the time for 10s; last seen: {"),
        "{broken}"
    );
    let refused = env
        .update(&api, "w", |widget| widget.data["spec"]["size"] = 0.into())
        .await;
    assert!(refused.is_err());
}

#[tokio::test]
async fn changes_of_several_writers_are_all_kept() {
    let env = start().await;
    let config_maps: Api<ConfigMap> = Api::default_namespaced(env.client());
    let empty = serde_json::from_value(json!({"metadata": {"name": "c"}})).unwrap();
    config_maps.create(&PostParams::default(), &empty).await.unwrap();
    let put = |key: &'static str| {
        env.update(&config_maps, "c", move |config: &mut ConfigMap| {
            config
                .data
                .get_or_insert_default()
                .insert(key.to_owned(), String::new());
        })
    };
    let written = tokio::join!(put("a"), put("b"), put("c"), put("d"));
    assert!(written.0.is_ok() && written.1.is_ok() && written.2.is_ok() && written.3.is_ok());
    assert_eq!(config_maps.get("c").await.unwrap().data.unwrap().len(), 4);
}

#[tokio::test]
async fn status_can_be_set_without_a_controller() {
    let env = TestEnv::builder()
        .backend(Backend::Embedded)
        .controllers(Controllers::None)
        .start()
        .await
        .unwrap();
    let deployments: Api<Deployment> = Api::default_namespaced(env.client());
    deployments
        .create(&PostParams::default(), &deployment(1))
        .await
        .unwrap();
    let available = |web: &mut Deployment| {
        web.status.get_or_insert_default().replicas = Some(1);
    };
    let written = env.update_status(&deployments, "web", available).await.unwrap();
    assert_eq!(written.status.unwrap().replicas, Some(1));
}

#[tokio::test]
async fn each_test_can_have_its_own_namespace() {
    let env = start().await;
    let (one, two) = (env.namespace().await.unwrap(), env.namespace().await.unwrap());
    assert_ne!(one, two);
    for namespace in [&one, &two] {
        let maps: Api<ConfigMap> = Api::namespaced(env.client(), namespace);
        env.eventually(&maps, "kube-root-ca.crt", |_| true).await.unwrap();
    }
    let namespaces: Api<Namespace> = Api::all(env.client());
    namespaces.delete(&one, &DeleteParams::default()).await.unwrap();
    env.eventually_gone(&namespaces, &one).await.unwrap();
}

#[tokio::test]
async fn a_client_as_another_user_may_do_what_its_roles_allow() {
    use k8s_openapi::api::rbac::v1::{ClusterRole, RoleBinding};
    let env = start().await;
    let robot = env.client_as("system:serviceaccount:default:robot", &[]).unwrap();
    let pods = |client| Api::<Pod>::default_namespaced(client);
    let refused = pods(robot.clone())
        .list(&ListParams::default())
        .await
        .unwrap_err();
    assert!(
        refused.to_string().contains(
            r#"User "system:serviceaccount:default:robot" cannot list resource "pods" in API group "" in the namespace "default""#
        ),
        "{refused}"
    );
    // The controllers fill the rules of the aggregated role `view`.
    let binding = serde_json::from_value(json!({
        "metadata": {"name": "robots"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:serviceaccounts:default"}],
    }));
    let bindings: Api<RoleBinding> = Api::default_namespaced(env.client());
    bindings
        .create(&PostParams::default(), &binding.unwrap())
        .await
        .unwrap();
    let roles: Api<ClusterRole> = Api::all(env.client());
    env.eventually(&roles, "view", |role| role.rules.is_some())
        .await
        .unwrap();
    pods(robot).list(&ListParams::default()).await.unwrap();
    assert!(env.client_as("no\nname", &[]).is_err());
    env.stop().await;
}

#[tokio::test]
async fn a_kubeconfig_leads_to_the_same_server_over_https() {
    let env = start().await;
    widget_api(&env)
        .create(&PostParams::default(), &widget(1))
        .await
        .unwrap();
    let text = env.kubeconfig().await.unwrap();
    assert_eq!(text, env.kubeconfig().await.unwrap());
    let kubeconfig = kube::config::Kubeconfig::from_yaml(&text).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default())
        .await
        .unwrap();
    let client = kube::Client::try_from(config).unwrap();
    let kind = GroupVersionKind::gvk("example.com", "v1", "Widget");
    let api: Api<DynamicObject> =
        Api::default_namespaced_with(client, &ApiResource::from_gvk_with_plural(&kind, "widgets"));
    assert_eq!(api.get("w").await.unwrap().data["spec"]["size"], 1);
    env.stop().await;
}

#[tokio::test]
async fn a_kubeconfig_of_another_user_may_do_what_its_roles_allow() {
    let env = start().await;
    let text = env.kubeconfig_as("jane", &["developers"]).await.unwrap();
    let kubeconfig = kube::config::Kubeconfig::from_yaml(&text).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default())
        .await
        .unwrap();
    let pods = Api::<Pod>::default_namespaced(kube::Client::try_from(config).unwrap());
    let refused = pods.list(&ListParams::default()).await.unwrap_err().to_string();
    assert!(
        refused.contains(r#"User "jane" cannot list resource "pods""#),
        "{refused}"
    );
    let role = json!({
        "metadata": {"name": "developers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "developers"}],
    });
    let bindings: Api<k8s_openapi::api::rbac::v1::RoleBinding> = Api::default_namespaced(env.client());
    bindings
        .create(&PostParams::default(), &serde_json::from_value(role).unwrap())
        .await
        .unwrap();
    pods.list(&ListParams::default()).await.unwrap();
    env.stop().await;
}

#[tokio::test]
async fn definitions_are_deleted_on_request() {
    let definitions = |client| {
        let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        Api::<DynamicObject>::all_with(client, &ApiResource::from_gvk(&kind))
    };
    let env = start().await;
    env.uninstall_crds(["widgets.example.com", "missing.example.com"])
        .await
        .unwrap();
    env.eventually_gone(&definitions(env.client()), "widgets.example.com")
        .await
        .unwrap();
    env.stop().await;

    for (clean_up, is_left) in [(false, true), (true, false)] {
        let builder = TestEnv::builder().backend(Backend::Embedded).crds([widgets()]);
        let builder = if clean_up {
            builder.clean_up_crds()
        } else {
            builder
        };
        let env = builder.start().await.unwrap();
        let client = kube::Client::new(env.api_server().unwrap().clone(), "default");
        env.stop().await;
        let found = definitions(client).get_opt("widgets.example.com").await.unwrap();
        let found = found.filter(|crd| crd.metadata.deletion_timestamp.is_none());
        assert_eq!(found.is_some(), is_left);
    }
}

#[tokio::test]
async fn environments_are_isolated() {
    let (one, two) = (start().await, start().await);
    widget_api(&one)
        .create(&PostParams::default(), &widget(1))
        .await
        .unwrap();
    assert!(widget_api(&two).get_opt("w").await.unwrap().is_none());
}

#[tokio::test]
async fn missing_binaries_are_named() {
    let backend = Backend::Binaries("no-such-folder".into());
    let error = TestEnv::builder()
        .backend(backend)
        .start()
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("no-such-folder/etcd: cannot be started"),
        "{error}"
    );
    assert!(error.contains("KUBEBUILDER_ASSETS"), "{error}");
}

#[tokio::test]
async fn missing_webhooks_are_an_error() {
    let env = start().await;
    let folder = tempfile::tempdir().unwrap();
    let address = "127.0.0.1:9443".parse().unwrap();
    let error = env
        .install_webhooks(folder.path(), address, "")
        .await
        .unwrap_err();
    let reason = std::error::Error::source(&error).unwrap().to_string();
    assert!(reason.contains("operator-sdk generate manifests"), "{reason}");
    env.stop().await;
}

fn config(name: &str) -> ConfigMap {
    let mut config = ConfigMap::default();
    config.metadata.name = Some(name.to_owned());
    config
}

#[tokio::test]
async fn interceptor_drops_and_replaces_responses() {
    let env = start().await;
    let interceptor = Interceptor::new(|call| match call.name.as_str() {
        "made-up" if call.is("get", "configmaps") => Then::Answer(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "made-up"}, "data": {"from": "the test"},
        })),
        "refused" => Then::fail(409, "Conflict", "the test refuses it"),
        _ if call.verb == "create" => Then::LoseAnswer,
        _ => Then::Proceed,
    });
    let configs: Api<ConfigMap> = Api::default_namespaced(interceptor.client(env.client()));
    let error = configs
        .create(&PostParams::default(), &config("a"))
        .await
        .unwrap_err();
    assert!(!matches!(error, kube::Error::Api(_)), "{error:?}");
    // The server has applied the request; only its response was lost.
    assert_eq!(configs.get("a").await.unwrap().name_any(), "a");
    let made_up = configs.get("made-up").await.unwrap();
    assert_eq!(made_up.data.unwrap()["from"], "the test");
    let error = configs
        .delete("refused", &DeleteParams::default())
        .await
        .unwrap_err();
    let kube::Error::Api(status) = error else {
        unreachable!("{error:?}")
    };
    assert!(status.is_conflict() && status.message == "the test refuses it");
    assert_eq!(
        (
            interceptor.count("create", "configmaps"),
            interceptor.count("get", "configmaps")
        ),
        (1, 2)
    );
    let last = interceptor.calls().pop().unwrap();
    assert_eq!(
        (last.verb.as_str(), last.namespace.as_str(), last.name.as_str()),
        ("delete", "default", "refused")
    );
    env.stop().await;
}

#[tokio::test]
async fn interceptor_delays_one_request_and_not_the_others() {
    let env = start().await;
    let late = Duration::from_secs(1);
    let interceptor = Interceptor::new(move |call| match call.is("update", "deployments.apps/status") {
        true => Then::Delay(late),
        false => Then::Proceed,
    });
    let deployments: Api<Deployment> = Api::default_namespaced(interceptor.client(env.client()));
    let mut web = deployments
        .create(&PostParams::default(), &deployment(0))
        .await
        .unwrap();
    web.metadata.resource_version = None;
    let began = tokio::time::Instant::now();
    let parameters = PostParams::default();
    let update = deployments.replace_status("web", &parameters, &web);
    let (updated, read_after) = tokio::join!(update, async {
        deployments.get("web").await.unwrap();
        began.elapsed()
    });
    updated.unwrap();
    assert!(began.elapsed() >= late && read_after < late, "{read_after:?}");
    env.stop().await;
}

#[tokio::test]
async fn a_pod_runs_a_program_of_this_machine() {
    let builder = TestEnv::builder().backend(Backend::Embedded);
    let env = builder
        .process("example.com/sleep", "/bin/sleep")
        .start()
        .await
        .unwrap();
    let pods: Api<Pod> = Api::default_namespaced(env.client());
    let pod = json!({
        "metadata": {"name": "p"},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "example.com/sleep", "args": ["0"]}]},
    });
    let accounts: Api<ServiceAccount> = Api::default_namespaced(env.client());
    env.eventually(&accounts, "default", |_| true).await.unwrap();
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap())
        .await
        .unwrap();
    let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
    env.eventually(&pods, "p", |pod| phase(pod).as_deref() == Some("Succeeded"))
        .await
        .unwrap();
    // The pod has ended, so there is nothing to wait for.
    let stopped = tokio::time::timeout(Duration::from_secs(5), env.stop());
    assert!(stopped.await.is_ok());
}
