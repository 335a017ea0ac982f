//! Reconcilers that were written for kube-rs.

use std::sync::Arc;
use std::time::Duration;

use kube::runtime::controller::Action as KubeAction;
use operator_runtime::kube_adapter;
use operator_runtime::prelude::*;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::support::{Bench, Widget, in_time, run};

/// What somebody wrote for kube-rs.
mod written_for_kube {
    use super::*;

    #[derive(Debug)]
    pub(super) struct TooSmall;

    impl std::fmt::Display for TooSmall {
        fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            formatter.write_str("too small")
        }
    }

    impl std::error::Error for TooSmall {}

    pub(super) struct Ctx {
        pub(super) seen: mpsc::UnboundedSender<(String, i32)>,
        pub(super) failures: Mutex<i32>,
    }

    pub(super) async fn reconcile(widget: Arc<Widget>, ctx: Arc<Ctx>) -> Result<KubeAction, TooSmall> {
        let name = widget.metadata.name.clone().unwrap_or_default();
        let _ = ctx.seen.send((name, widget.spec.size));
        match widget.spec.size {
            0 => Err(TooSmall),
            _ => Ok(KubeAction::await_change()),
        }
    }

    /// Tries twice more.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "this is the signature that kube-rs wants"
    )]
    pub(super) fn error_policy(_: Arc<Widget>, _: &TooSmall, ctx: Arc<Ctx>) -> KubeAction {
        let mut failures = ctx.failures.lock();
        *failures += 1;
        match *failures {
            3 => KubeAction::await_change(),
            _ => KubeAction::requeue(Duration::from_millis(1)),
        }
    }
}

#[tokio::test]
async fn reconciler_for_kube_runs_unchanged() {
    use written_for_kube::{Ctx, error_policy, reconcile};

    let bench = Bench::new().await;
    let manager = bench.manager().await;
    let (seen, mut told) = mpsc::unbounded_channel();
    let ctx = Arc::new(Ctx {
        seen,
        failures: Mutex::default(),
    });
    manager
        .add_controller(Controller::new(kube_adapter::reconciler(
            reconcile,
            error_policy,
            ctx.clone(),
        )))
        .unwrap();
    let running = run(&manager);
    bench.create("a", 1).await;
    assert_eq!(in_time(told.recv()).await, Some(("a".to_owned(), 1)));
    bench.create("small", 0).await;
    for _ in 0..3 {
        assert_eq!(in_time(told.recv()).await, Some(("small".to_owned(), 0)));
    }
    bench.delete("small").await;
    bench.resize("a", 2).await;
    let next = in_time(told.recv()).await;
    assert_eq!(
        next,
        Some(("a".to_owned(), 2)),
        "nothing is reconciled that is gone"
    );
    running.end().await.unwrap();
    let metrics = manager.metrics().to_text();
    let errors =
        |result, count| format!("reconcile_total{{controller=\"widget\",result=\"{result}\"}} {count}\n");
    assert!(metrics.contains(&errors("error", 3)), "{metrics}");
    assert_eq!(*ctx.failures.lock(), 3);
}
