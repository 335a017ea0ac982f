//! Operators of typed reconcilers: their parts, their status, their finalizers and their events.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use operator_runtime::prelude::*;
use serde_json::json;

use crate::support::{Bench, Widget, config_map, in_time, run};

const RECORD: &str = "example.com/record";

/// A registry outside the cluster.
#[derive(Default)]
struct Registry {
    deleted: AtomicUsize,
}

/// A reconciler with state: it writes a ConfigMap and a status, and cleans up in a registry.
struct Registrar(Arc<Registry>);

impl Reconciler<Widget> for Registrar {
    async fn reconcile(&self, widget: Arc<Widget>, ctx: Context<Widget>) -> Result<Action> {
        let clean_up = async {
            self.0.deleted.fetch_add(1, Ordering::SeqCst);
            Ok(())
        };
        if !ctx.finalize(RECORD, clean_up).await? {
            return Ok(Action::done());
        }
        let size = widget.spec.size;
        ctx.apply_owned(config_map(ctx.key().name(), &size.to_string()))
            .await?;
        let written = ctx.update_status(|status| status.size = Some(size)).await?;
        if written.was_sent() {
            ctx.event().normal("Resized", format!("the size is {size}"));
        }
        Ok(Action::done())
    }
}

/// Waits until the widget's status has this size.
async fn until_size(bench: &Bench, size: i32) {
    in_time(async {
        loop {
            let widget = bench.widgets().get("a").await.unwrap();
            if widget.status.as_ref().and_then(|status| status.size) == Some(size) {
                return;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn operator_runs_its_controllers_on_any_manager() {
    let bench = Bench::new().await;
    bench.create("a", 1).await;
    let registry = Arc::new(Registry::default());
    let manager = bench.manager().await;
    Operator::new("registrar")
        .controller(Controller::new(Registrar(registry.clone())).owns::<ConfigMap>())
        .add_to(&manager)
        .unwrap();
    let running = run(&manager);
    until_size(&bench, 1).await;
    bench.resize("a", 2).await;
    until_size(&bench, 2).await;

    let widget = bench.widgets().get("a").await.unwrap();
    assert_eq!(
        widget.metadata.finalizers.as_deref(),
        Some([RECORD.to_owned()].as_slice())
    );
    let configs: Api<ConfigMap> = Api::default_namespaced(bench.client.clone());
    let config = configs.get("a").await.unwrap();
    assert_eq!(
        config.metadata.owner_references.unwrap()[0].uid,
        widget.metadata.uid.unwrap()
    );

    bench
        .widgets()
        .delete("a", &DeleteParams::default())
        .await
        .unwrap();
    in_time(async {
        while bench.widgets().get_opt("a").await.unwrap().is_some() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(registry.deleted.load(Ordering::SeqCst), 1);
    running.end().await.unwrap();
    let events: Api<Event> = Api::default_namespaced(bench.client.clone());
    let events = events.list(&ListParams::default()).await.unwrap();
    let resized = events
        .iter()
        .filter(|event| event.reason.as_deref() == Some("Resized"));
    assert_eq!(resized.count(), 1, "the second is one of the same series");
}

/// Status changes of others are kept, and an unchanged status is not sent.
#[tokio::test]
async fn status_update_sends_only_what_the_function_changes() {
    let bench = Bench::new().await;
    bench.create("a", 1).await;
    let conditions = json!([{
        "type": "Foreign", "status": "True", "reason": "Elsewhere", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]);
    let foreign = Patch::Merge(json!({"status": {"conditions": conditions}}));
    bench
        .widgets()
        .patch_status("a", &PatchParams::default(), &foreign)
        .await
        .unwrap();
    let manager = bench.manager().await;
    let running = run(&manager);
    let client = manager.client();
    let widget = in_time(client.get::<Widget>(("default", "a")))
        .await
        .unwrap()
        .unwrap();
    let update = async || {
        let ready = Condition::available(true, "Ready", "");
        client
            .update_status(&widget, move |status| {
                status.size = Some(3);
                status.conditions.set(ready.clone());
            })
            .await
            .unwrap()
    };
    let written = update().await;
    assert!(written.was_sent());
    let status = written.status.clone().unwrap();
    assert_eq!(status.size, Some(3));
    assert_eq!(status.conditions.find("Foreign").unwrap().reason, "Elsewhere");
    let ready = status.conditions.find("Available").unwrap();
    assert_eq!(ready.observed_generation, widget.metadata.generation);

    let seen = crate::support::reconciling(&manager, async move |ctx: KeyContext| {
        let widget = ctx.get::<Widget>(("default", "a")).await.unwrap().unwrap();
        let again = ctx.update_status(&widget, |status| {
            status.size = Some(3);
            status.conditions.set(Condition::available(true, "Ready", ""));
        });
        again.await.unwrap().was_sent()
    })
    .await;
    assert!(!seen, "the status was as it should be");

    bench.delete("a").await;
    let gone = update().await;
    assert!(gone.is_gone(), "{gone:?}");
    running.end().await.unwrap();
}

/// The object is read again after a conflict, and the function is called again with its status.
#[tokio::test]
async fn status_update_is_repeated_after_a_conflict() {
    let bench = Bench::new().await;
    bench.create("a", 1).await;
    let manager = bench.manager().await;
    let running = run(&manager);
    let client = manager.client();
    let stale = in_time(client.get::<Widget>(("default", "a")))
        .await
        .unwrap()
        .unwrap();
    bench.network.hold_watches(true);
    let other = Patch::Merge(json!({"status": {"size": 7}}));
    bench
        .widgets()
        .patch_status("a", &PatchParams::default(), &other)
        .await
        .unwrap();
    let increase =
        |status: &mut crate::support::WidgetStatus| status.size = Some(status.size.unwrap_or(0) + 1);
    let written = client.update_status(&stale, increase).await.unwrap();
    assert_eq!(written.status.as_ref().unwrap().size, Some(8));
    running.end().await.unwrap();
}
