//! Reconcilers that were written for kube-rs, unchanged: `reconcile(Arc<K>, Arc<Ctx>)` with an `error_policy`.
//!
//! ```no_run
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::runtime::controller::Action;
//! use operator_runtime::{Controller, Manager, kube_adapter};
//!
//! struct Ctx {
//!     client: kube::Client,
//! }
//!
//! async fn reconcile(config_map: Arc<ConfigMap>, ctx: Arc<Ctx>) -> Result<Action, kube::Error> {
//!     Ok(Action::requeue(Duration::from_secs(3600)))
//! }
//!
//! fn error_policy(_: Arc<ConfigMap>, error: &kube::Error, _: Arc<Ctx>) -> Action {
//!     Action::requeue(Duration::from_secs(5))
//! }
//!
//! # fn example(manager: &Manager) -> operator_runtime::Result<()> {
//! let ctx = Arc::new(Ctx { client: manager.client().kube().clone() });
//! manager.add_controller(Controller::new(kube_adapter::reconciler(reconcile, error_policy, ctx)))?;
//! # Ok(())
//! # }
//! ```
//!
//! As in kube-rs, `reconcile` is not called for objects that are gone, and the action of `error_policy` says when a
//! failure is tried again. What the runtime has beyond kube-rs works for such reconcilers too: metrics, events of
//! several kinds, panics that are errors of one object, leader election, an orderly end.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use kube::runtime::controller::Action as KubeAction;

use crate::controller::{Action, Context, Reconciler};
use crate::error::Error;
use crate::object::Object;

/// Returns a [`Reconciler`] that calls a reconcile function and an error policy of kube-rs, with the context that they share.
///
/// An error is retried after the requeue time of the action that `error_policy` returns, or at the next event if the action
/// has none.
pub fn reconciler<K, R, F, E, P, C>(reconcile: R, error_policy: P, context: Arc<C>) -> impl Reconciler<K>
where
    K: Object,
    R: Fn(Arc<K>, Arc<C>) -> F + Send + Sync + 'static,
    F: Future<Output = Result<KubeAction, E>> + Send + 'static,
    E: StdError + Send + Sync + 'static,
    P: Fn(Arc<K>, &E, Arc<C>) -> KubeAction + Send + Sync + 'static,
    C: Send + Sync + 'static,
{
    let shared = Arc::new((error_policy, context));
    move |object: Arc<K>, _: Context<K>| {
        let shared = shared.clone();
        let reconciled = reconcile(object.clone(), shared.1.clone());
        async move {
            let (error_policy, context) = &*shared;
            match reconciled.await {
                Ok(action) => Ok(requeue_after(&action).map_or_else(Action::done, Action::requeue_after)),
                Err(error) => {
                    let action = error_policy(object, &error, context.clone());
                    Err(match requeue_after(&action) {
                        Some(after) => Error::retry_after(error, after),
                        None => Error::terminal(error),
                    })
                }
            }
        }
    }
}

/// How long an action of kube-rs wants to wait; `None` until something changes.
///
/// kube-rs shows it to nobody but its own controller, except for how an action is printed: with all digits, as
/// `Action { requeue_after: Some(1.5s) }`.
fn requeue_after(action: &KubeAction) -> Option<Duration> {
    if *action == KubeAction::await_change() {
        return None;
    }
    let printed = format!("{action:?}");
    let duration = printed
        .split_once("Some(")
        .and_then(|(_, rest)| rest.split_once(')'));
    let parsed = duration.and_then(|(duration, _)| parse(duration));
    // Another form of printing would show in this crate's tests; whatever is wanted, later is safe.
    Some(
        parsed
            .filter(|after| KubeAction::requeue(*after) == *action)
            .unwrap_or(FALLBACK),
    )
}

/// For an action that is printed in an unknown form.
const FALLBACK: Duration = Duration::from_secs(60);

/// A duration as [`Duration`] prints it: `1.5s`, `20ms`, `7µs` or `9ns`.
fn parse(text: &str) -> Option<Duration> {
    let unit = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
    let (number, unit) = text.split_at(unit);
    let digits: usize = match unit {
        "s" => 9,
        "ms" => 6,
        "µs" => 3,
        "ns" => 0,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let nanoseconds: u128 = format!("{whole}{fraction:0<digits$}").parse().ok()?;
    let second = 1_000_000_000;
    let (seconds, rest) = (nanoseconds / second, nanoseconds % second);
    Some(Duration::new(seconds.try_into().ok()?, rest.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn action_that_awaits_a_change_has_no_time() {
        assert_eq!(requeue_after(&KubeAction::await_change()), None);
        assert_eq!(
            requeue_after(&KubeAction::requeue(Duration::ZERO)),
            Some(Duration::ZERO)
        );
        let longest = Duration::MAX;
        assert_eq!(requeue_after(&KubeAction::requeue(longest)), Some(longest));
    }

    proptest! {
        #[test]
        fn time_of_an_action_is_found(seconds in 0..100_000u64, nanoseconds in 0..1_000_000_000u32, cut in 0..10u32) {
            let scale = 10u32.pow(cut.min(9));
            let after = Duration::new(seconds, nanoseconds / scale * scale);
            prop_assert_eq!(requeue_after(&KubeAction::requeue(after)), Some(after));
            let short = Duration::new(0, nanoseconds / scale);
            prop_assert_eq!(requeue_after(&KubeAction::requeue(short)), Some(short));
        }
    }
}
