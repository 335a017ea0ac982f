//! Tests that the sample operator, as scaffolded by the CLI, has no findings. `OPERATOR_CHAOS_PLANS` and
//! `OPERATOR_CHAOS_BUDGET` extend the exploration; docs/book/src/guides/chaos.md has the figures.

use std::time::Duration;

use kube::CustomResourceExt;
use operator_chaos::{Chaos, Workload};
use operator_runtime::prelude::*;
use serde_json::json;

#[expect(unreachable_pub, reason = "the modules are public in the sample")]
#[rustfmt::skip]
#[path = "../../../samples/memcached-operator/src/controller/memcached_controller.rs"]
mod memcached_controller;
#[expect(unreachable_pub, reason = "the modules are public in the sample")]
#[rustfmt::skip]
#[path = "../../../samples/memcached-operator/src/api/v1alpha1/memcached_types.rs"]
mod memcached_types;

mod api {
    pub(crate) mod v1alpha1 {
        pub(crate) use crate::memcached_types::Memcached;
    }
}

async fn operator(client: kube::Client) -> Result<()> {
    let options = ManagerOptions {
        webhook_bind_address: String::new(),
        ..ManagerOptions::from(client)
    };
    let manager = Manager::new("memcached-operator", options).await?;
    manager.add_controller(memcached_controller::controller())?;
    manager.run_until(std::future::pending()).await
}

fn workload() -> Workload {
    let sample = |size: i32| {
        json!({
            "apiVersion": "cache.example.com/v1alpha1", "kind": "Memcached",
            "metadata": {"name": "sample"}, "spec": {"size": size},
        })
    };
    Workload::new()
        .apply(sample(2))
        .patch(sample(3))
        .delete(sample(3))
}

#[test]
fn the_memcached_sample_is_clean() {
    let chaos = Chaos::new(operator)
        .objects([memcached_types::Memcached::crd()])
        .workload(workload())
        .plans(32)
        .budget(Duration::from_secs(300))
        .from_env()
        .unwrap();
    let report = chaos.run().unwrap();
    println!("{report}");
    report.assert_clean();
}

/// The order of tasks, lists and events must not depend on the process, the speed of the machine, or a random number.
#[test]
fn the_same_seed_leads_to_the_same_exploration() {
    let explored = || {
        let chaos = Chaos::new(operator)
            .objects([memcached_types::Memcached::crd()])
            .workload(workload());
        let report = chaos
            .plans(12)
            .budget(Duration::from_secs(300))
            .jobs(1)
            .run()
            .unwrap();
        (
            report.reference_calls,
            report.single_faults,
            report.traces,
            report.states,
        )
    };
    let first = explored();
    assert!(first.3 > 100, "{first:?}");
    assert_eq!([explored(), explored()], [first, first]);
}
