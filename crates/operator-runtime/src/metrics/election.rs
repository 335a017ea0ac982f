//! Metrics of a leader election.

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{Label, gauges};

/// The metric of a leader election, for elections that the operator creates itself.
#[derive(Clone, Debug, Default)]
pub struct LeaderMetrics {
    status: Gauge,
}

#[derive(Debug)]
pub(super) struct Families {
    status: Family<[Label; 1], Gauge>,
}

impl LeaderMetrics {
    /// Sets the gauge to 1 for the leader and 0 for others.
    pub fn leading(&self, leading: bool) {
        self.status.set(i64::from(leading));
    }
}

impl Families {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let help = "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, \
                    1 indicates master. 'name' is the string used to identify the lease";
        Self {
            status: gauges(registry, "leader_election_master_status", help),
        }
    }

    pub(super) fn handle(&self, name: &str) -> LeaderMetrics {
        let status = self.status.get_or_create_owned(&[("name", name.to_owned())]);
        LeaderMetrics { status }
    }
}
