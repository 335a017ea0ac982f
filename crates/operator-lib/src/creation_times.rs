//! [`CreationTimes`] exports when objects were created, as the instrumented handler of Go's operator-lib does.

use operator_runtime::Object;
use operator_runtime::event::Event;
use operator_runtime::handler::EventHandler;
use operator_runtime::metrics::Metrics;
use operator_runtime::metrics::prometheus_client::metrics::family::Family;
use operator_runtime::metrics::prometheus_client::metrics::gauge::Gauge;
use operator_runtime::{Kind, Meta, ObjectKey};

type Labels = [(&'static str, String); 5];

/// The metric `resource_created_at_seconds`, with one series for each object, such as
/// `resource_created_at_seconds{name="sample",namespace="default",group="cache.example.com",version="v1",kind="Memcached"}`.
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::ConfigMap as Memcached;
/// use operator_lib::creation_times::CreationTimes;
/// use operator_runtime::prelude::*;
///
/// # async fn reconcile(_: std::sync::Arc<Memcached>, _: Context<Memcached>) -> Result<Action> { Ok(Action::done()) }
/// # fn example(manager: &Manager) -> Result<()> {
/// let times = CreationTimes::new(manager.metrics());
/// let memcacheds = Watch::<Memcached>::new().handler(times.handler::<Memcached>());
/// manager.add_controller(Controller::new(reconcile).watches(memcacheds))?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct CreationTimes {
    times: Family<Labels, Gauge>,
}

impl CreationTimes {
    /// Registers the metric. Call it once per registry, and [`CreationTimes::handler`] once per kind.
    pub fn new(metrics: &Metrics) -> Self {
        let times = Family::<Labels, Gauge>::default();
        metrics.register(|registry| {
            let help = "Timestamp at which a resource was created";
            registry.register("resource_created_at_seconds", help, times.clone());
        });
        Self { times }
    }

    /// Returns a handler that records the objects of its watch and enqueues no requests.
    pub fn handler<K: Object>(&self) -> impl EventHandler<K> {
        let (times, kind) = (self.times.clone(), Kind::of::<K>());
        move |event: &Event<K>| {
            let metadata = event.object().metadata();
            let labels = [
                ("name", metadata.name.clone().unwrap_or_default()),
                ("namespace", metadata.namespace.clone().unwrap_or_default()),
                ("group", kind.group.clone()),
                ("version", kind.version.clone()),
                ("kind", kind.kind.clone()),
            ];
            match (event, &metadata.creation_timestamp) {
                (Event::Delete { .. }, _) => {
                    times.remove(&labels);
                }
                (_, Some(created)) => {
                    times.get_or_create(&labels).set(created.0.as_second());
                }
                (_, None) => {}
            }
            Vec::<ObjectKey>::new()
        }
    }
}
