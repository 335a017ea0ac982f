//! Finalizers on the embedded API server.

use std::sync::Arc;

use kube::api::{Patch, PatchParams};
use operator_runtime::prelude::*;
use parking_lot::Mutex;
use serde_json::json;

use crate::support::{Bench, Widget, in_time, reconcile_widgets, run};

/// The completed work of finalizers, in order.
type Done = Arc<Mutex<Vec<String>>>;

async fn work(done: Done, name: &str, fail: bool) -> Result<()> {
    done.lock().push(name.to_owned());
    if fail {
        Err(Error::msg(format!("{name} failed")))
    } else {
        Ok(())
    }
}

/// Runs a controller whose widgets have two finalizers. The second fails once.
async fn start(bench: &Bench, done: &Done) -> (crate::support::Running, crate::support::Told) {
    let manager = bench.manager().await;
    let done = done.clone();
    let told = reconcile_widgets(&manager, move |ctx: KeyContext, request: Request| {
        let done = done.clone();
        async move {
            let Some(widget) = ctx.get::<Widget>(&request).await? else {
                return Ok(Action::done());
            };
            let failed_before = done.lock().iter().any(|name| name == "second");
            let live = ctx
                .finalizers(&*widget)
                .finalizer("example.com/first", work(done.clone(), "first", false))
                .finalizer("example.com/second", work(done.clone(), "second", !failed_before))
                .run()
                .await?;
            if let Some(widget) = live {
                assert_eq!(widget.metadata.finalizers.as_ref().map(Vec::len), Some(2));
            }
            Ok(Action::done())
        }
    });
    (run(&manager), told)
}

#[tokio::test]
async fn finalizers_run_once_and_in_order() {
    let bench = Bench::new().await;
    let done = Done::default();
    let (running, mut told) = start(&bench, &done).await;
    bench.create("a", 1).await;
    let has_both = |widget: Option<&Widget>| {
        widget.is_some_and(|widget| {
            widget
                .metadata
                .finalizers
                .as_ref()
                .is_some_and(|names| names.len() == 2)
        })
    };
    in_time(kube::runtime::wait::await_condition(
        bench.widgets(),
        "a",
        has_both,
    ))
    .await
    .unwrap();
    assert_eq!(*done.lock(), [""; 0]);

    bench.delete("a").await;
    told.until("a", None).await;
    assert_eq!(*done.lock(), ["first", "second", "second"]);
    running.end().await.unwrap();
}

#[tokio::test]
async fn foreign_finalizer_is_kept() {
    let bench = Bench::new().await;
    let foreign = json!({"metadata": {"finalizers": ["example.org/foreign"]}});
    bench.create("a", 1).await;
    bench
        .widgets()
        .patch("a", &PatchParams::default(), &Patch::Merge(foreign))
        .await
        .unwrap();
    let widget = bench.widgets().get("a").await.unwrap();
    let manager = bench.manager().await;
    let client = manager.client();

    let done = Done::default();
    let own = client
        .finalizers(&widget)
        .finalizer("example.com/own", work(done.clone(), "own", false));
    let live = own.run().await.unwrap().unwrap();
    assert_eq!(
        live.metadata.finalizers.as_ref().unwrap(),
        &["example.org/foreign", "example.com/own"]
    );
    bench.delete("a").await;
    let deleting = bench.widgets().get("a").await.unwrap();
    let own = client
        .finalizers(&deleting)
        .finalizer("example.com/own", work(done.clone(), "own", false));
    assert!(own.run().await.unwrap().is_none());
    let left = bench.widgets().get("a").await.unwrap();
    assert_eq!(left.metadata.finalizers.unwrap(), ["example.org/foreign"]);
    assert_eq!(*done.lock(), ["own"]);
}

#[tokio::test]
async fn stale_object_gets_its_finalizer() {
    let bench = Bench::new().await;
    let stale = bench.create("a", 1).await;
    bench.resize("a", 2).await;
    let manager = bench.manager().await;
    let live = manager
        .client()
        .finalizers(&stale)
        .finalizer("example.com/own", async { Ok(()) })
        .run();
    let live = live.await.unwrap().unwrap();
    assert_eq!(
        (live.spec.size, live.metadata.finalizers.as_ref().map(Vec::len)),
        (2, Some(1))
    );
}
