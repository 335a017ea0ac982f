//! [`LeaderElection`] connects a [`Candidate`] to the API server and the clocks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, PostParams};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::campaign::Campaign;
use super::lease::{Action, Candidate, Input, Moment, Timing};
use super::{Election, ElectionError, Leadership, identity, namespace, publish};
use crate::clock::{self, jitter};
use crate::error::{Error, Result};
use crate::metrics::LeaderMetrics;

/// A candidate for a lease; see [the module](super) for its guarantee.
///
/// ```no_run
/// use operator_runtime::election::{LeaderElection, LeaderElectionOptions};
/// use tokio_util::sync::CancellationToken;
///
/// # async fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let options = LeaderElectionOptions { namespace: Some("operators".to_owned()), ..LeaderElectionOptions::default() };
/// let election = LeaderElection::new(client, "memcached-operator-lock", options)?;
/// let mut leadership = election.leadership();
/// let stop = CancellationToken::new();
/// let campaign = tokio::spawn(election.run(stop.clone()));
///
/// leadership.wait_for(|leadership| leadership.is_leader()).await?;
/// // Act. When everything has ended:
/// stop.cancel();
/// campaign.await??;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "give it to a manager, or call `run`"]
pub struct LeaderElection {
    core: Arc<Core>,
    campaign: Option<Campaign>,
}

#[derive(Debug)]
struct Core {
    api: Api<Lease>,
    name: String,
    identity: String,
    labels: BTreeMap<String, String>,
    timing: Timing,
    release: bool,
    leadership: watch::Sender<Leadership>,
    metrics: LeaderMetrics,
}

/// Options of an election through a Lease.
#[derive(Clone, Debug)]
pub struct LeaderElectionOptions {
    /// The namespace of the Lease. Default: that of the pod's service account.
    pub namespace: Option<String>,
    /// The identity of this candidate, which must be unique. Default: `<hostname>_<uuid>`.
    pub identity: Option<String>,
    /// The labels of the Lease if this candidate creates it. An existing Lease keeps its labels. Default: none.
    pub labels: BTreeMap<String, String>,
    /// Time after the last observed renewal until another candidate takes over. The Lease stores whole seconds, rounded
    /// up. All candidates should have the same durations. Default: 15 s.
    pub lease_duration: Duration,
    /// Time after the last successful renewal until the leader stops. Default: 10 s.
    pub renew_deadline: Duration,
    /// Time between two attempts to acquire or renew the Lease. Default: 2 s.
    pub retry_period: Duration,
    /// Releases the Lease at the end, so that the next leader need not wait until it expires. This is safe only if
    /// everything that the leader did has ended, which a manager ensures. Default: true.
    pub release_on_cancel: bool,
    /// Reports `leader_election_master_status`. A manager sets it. Default: not reported.
    pub metrics: LeaderMetrics,
}

impl Default for LeaderElectionOptions {
    fn default() -> Self {
        Self {
            namespace: None,
            identity: None,
            labels: BTreeMap::new(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            release_on_cancel: true,
            metrics: LeaderMetrics::default(),
        }
    }
}

// === impl LeaderElection ===

impl LeaderElection {
    /// Creates an election for the Lease `name`, which must be unique to the operator in its namespace. No request is
    /// sent yet.
    ///
    /// # Errors
    /// Returns an error if the name is empty, the namespace is unknown, or the durations contradict each other:
    /// `lease_duration` > `renew_deadline` > `retry_period` with its jitter.
    pub fn new(
        client: kube::Client,
        name: &str,
        options: LeaderElectionOptions,
    ) -> Result<Self, ElectionError> {
        if name.is_empty() {
            return Err(ElectionError::NoName);
        }
        let timing = Timing {
            lease_duration: options.lease_duration,
            renew_deadline: options.renew_deadline,
            retry_period: options.retry_period,
        };
        timing.check()?;
        let namespace = options.namespace.map_or_else(namespace, Ok)?;
        let core = Core {
            api: Api::namespaced(client, &namespace),
            name: name.to_owned(),
            identity: options.identity.unwrap_or_else(identity),
            labels: options.labels,
            timing,
            release: options.release_on_cancel,
            leadership: watch::Sender::new(Leadership::Standby),
            metrics: options.metrics,
        };
        Ok(Self {
            core: Arc::new(core),
            campaign: None,
        })
    }

    /// Returns the leadership of this candidate as it changes. Renewals do not wake receivers.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.core.leadership.subscribe()
    }

    /// Campaigns and leads until `stop`. Then the lease is released, so cancel `stop` only after everything else has
    /// ended.
    ///
    /// # Errors
    /// Returns [`ElectionError::Lost`] if this candidate no longer leads. Everything that only the leader may do must
    /// then end immediately, preferably by ending the process.
    pub async fn run(self, stop: CancellationToken) -> Result<(), ElectionError> {
        self.core.run(stop).await
    }

    fn campaign(&mut self) -> &mut Campaign {
        let core = &self.core;
        self.campaign.get_or_insert_with(|| {
            let running = core.clone();
            Campaign::start(core.leadership.subscribe(), |stop| async move {
                running.run(stop).await
            })
        })
    }
}

impl Election for LeaderElection {
    fn acquire(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.campaign().acquire())
    }

    fn keep(&mut self) -> BoxFuture<'_, Error> {
        Box::pin(self.campaign().keep())
    }

    fn leadership(&self) -> Option<watch::Receiver<Leadership>> {
        Some(self.core.leadership.subscribe())
    }

    fn release(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(self.campaign().release())
    }
}

// === impl Core ===

impl Core {
    async fn run(&self, stop: CancellationToken) -> Result<(), ElectionError> {
        tracing::info!(
            lease = self.name,
            identity = self.identity,
            "Attempting to acquire leader lease"
        );
        self.metrics.leading(false);
        let mut candidate = Candidate::new(self.identity.clone(), self.timing);
        let campaign = self.campaign(&mut candidate);
        let lost = tokio::select! {
            biased;
            () = stop.cancelled() => None,
            lost = campaign => Some(lost),
        };
        self.metrics.leading(false);
        if let Some(reason) = lost {
            publish(&self.leadership, Leadership::Lost);
            tracing::error!(
                lease = self.name,
                identity = self.identity,
                reason,
                "Leader election lost"
            );
            return Err(ElectionError::Lost(reason));
        }
        publish(&self.leadership, Leadership::Standby);
        if self.release {
            self.give_back(&candidate).await;
        }
        Ok(())
    }

    /// Runs until leadership is lost, and returns the reason.
    async fn campaign(&self, candidate: &mut Candidate) -> &'static str {
        let mut input = Input::Wake;
        loop {
            let action = candidate.step(input, moment());
            self.report(candidate.leads_until());
            input = match action {
                Action::Lost(reason) => return reason,
                Action::Wait(wait) => {
                    tokio::time::sleep(wait).await;
                    Input::Wake
                }
                request => self.send(request, candidate.leads_until()).await,
            };
        }
    }

    fn report(&self, until: Option<Instant>) {
        let before = matches!(*self.leadership.borrow(), Leadership::Leader { .. });
        if until.is_some() && !before {
            tracing::info!(
                lease = self.name,
                identity = self.identity,
                "Successfully acquired lease"
            );
        }
        self.metrics.leading(until.is_some());
        match until {
            Some(_) => publish(&self.leadership, Leadership::Leader { until }),
            None => publish(&self.leadership, Leadership::Standby),
        }
    }

    /// Sends a request and waits for the response, at most until the end of leadership.
    async fn send(&self, request: Action, until: Option<Instant>) -> Input {
        let sent = clock::instant();
        let patience = self.timing.request_timeout();
        let patience = until.map_or(patience, |until| {
            patience.min(until.saturating_duration_since(sent))
        });
        let answer = tokio::time::timeout(patience, self.ask(request)).await;
        match answer {
            Ok(Ok(Some(lease))) => Input::Written { lease, sent },
            Ok(Ok(None)) => Input::Missing,
            Ok(Err(input)) => input,
            Err(_) => {
                tracing::warn!(
                    lease = self.name,
                    ?patience,
                    "No response from the API server to a request for the leader lease"
                );
                Input::Failed
            }
        }
    }

    /// Returns the lease that was written as `Ok`, or `None` for no lease, and all other inputs as `Err`.
    async fn ask(&self, request: Action) -> Result<Option<Box<Lease>>, Input> {
        let params = PostParams::default();
        let written = match request {
            Action::Get => return self.read().await,
            Action::Create(lease) => self.api.create(&params, &self.named(*lease)).await,
            Action::Replace(lease) => self.api.replace(&self.name, &params, &lease).await,
            Action::Wait(_) | Action::Lost(_) => return Err(Input::Failed),
        };
        match written {
            Ok(lease) => Ok(Some(Box::new(lease))),
            Err(kube::Error::Api(status)) if status.code == 409 => Err(Input::Refused),
            Err(error) => Err(self.failed("write", &error)),
        }
    }

    async fn read(&self) -> Result<Option<Box<Lease>>, Input> {
        match self.api.get_opt(&self.name).await {
            Ok(Some(lease)) => Err(Input::Found(Box::new(lease))),
            Ok(None) => Ok(None),
            Err(error) => Err(self.failed("read", &error)),
        }
    }

    fn failed(&self, verb: &str, error: &kube::Error) -> Input {
        tracing::warn!(lease = self.name, %error, "Failed to {verb} the leader lease");
        Input::Failed
    }

    fn named(&self, mut lease: Lease) -> Lease {
        lease.metadata.name = Some(self.name.clone());
        if !self.labels.is_empty() {
            lease.metadata.labels = Some(self.labels.clone());
        }
        lease
    }

    /// The campaign may have been stopped during a write, so only the server knows the holder.
    async fn give_back(&self, candidate: &Candidate) {
        let patience = self.timing.request_timeout();
        let given_back = tokio::time::timeout(patience, async {
            let Some(lease) = self.api.get_opt(&self.name).await? else {
                return Ok(false);
            };
            let Some(released) = candidate.released(lease, clock::now()) else {
                return Ok(false);
            };
            self.api
                .replace(&self.name, &PostParams::default(), &released)
                .await?;
            Ok::<_, kube::Error>(true)
        });
        match given_back.await {
            Ok(Ok(true)) => tracing::info!(
                lease = self.name,
                identity = self.identity,
                "Released leader lease"
            ),
            Ok(Ok(false)) => {}
            Ok(Err(error)) => tracing::warn!(lease = self.name, %error, "Failed to release the leader lease"),
            Err(_) => tracing::warn!(
                lease = self.name,
                ?patience,
                "No time to release the leader lease"
            ),
        }
    }
}

fn moment() -> Moment {
    Moment {
        now: clock::instant(),
        wall: clock::now(),
        jitter: jitter(),
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use crate::election::fake::Server;
    use crate::metrics::Metrics;

    fn options(identity: &str) -> LeaderElectionOptions {
        LeaderElectionOptions {
            namespace: Some("default".to_owned()),
            identity: Some(identity.to_owned()),
            // The Lease holds whole seconds.
            lease_duration: Duration::from_secs(1),
            renew_deadline: Duration::from_millis(700),
            retry_period: Duration::from_millis(50),
            ..LeaderElectionOptions::default()
        }
    }

    fn election(server: &Server, identity: &str) -> LeaderElection {
        LeaderElection::new(server.client(), "lock", options(identity)).unwrap()
    }

    async fn leads(leadership: &mut watch::Receiver<Leadership>) {
        leadership.wait_for(Leadership::is_leader).await.unwrap();
    }

    fn spec(server: &Server) -> k8s_openapi::api::coordination::v1::LeaseSpec {
        let lease: Lease = serde_json::from_value(server.object("lock").unwrap()).unwrap();
        lease.spec.unwrap()
    }

    #[tokio::test]
    async fn released_lease_goes_to_the_next_candidate() {
        let (server, metrics) = (Server::default(), Metrics::default());
        let counted = LeaderElectionOptions {
            metrics: metrics.leader("lock"),
            ..options("one")
        };
        let one = LeaderElection::new(server.client(), "lock", counted).unwrap();
        let (mut leadership, stop) = (one.leadership(), CancellationToken::new());
        let campaign = tokio::spawn(one.run(stop.clone()));
        leads(&mut leadership).await;
        assert!(
            metrics
                .to_text()
                .contains("leader_election_master_status{name=\"lock\"} 1")
        );

        let other = election(&server, "other");
        let mut other_leadership = other.leadership();
        let other_stop = CancellationToken::new();
        let other_campaign = tokio::spawn(other.run(other_stop.clone()));
        assert!(!other_leadership.borrow().is_leader());

        stop.cancel();
        campaign.await.unwrap().unwrap();
        assert_eq!(*leadership.borrow_and_update(), Leadership::Standby);
        assert!(
            metrics
                .to_text()
                .contains("leader_election_master_status{name=\"lock\"} 0")
        );
        leads(&mut other_leadership).await;
        assert_eq!(spec(&server).holder_identity.as_deref(), Some("other"));
        assert_eq!(spec(&server).lease_transitions, Some(1));
        other_stop.cancel();
        other_campaign.await.unwrap().unwrap();
        assert_eq!(spec(&server).holder_identity.as_deref(), Some(""));
    }

    #[tokio::test]
    async fn leader_without_a_server_loses_and_another_takes_over() {
        let server = Server::default();
        let one = election(&server, "one");
        let mut leadership = one.leadership();
        let campaign = tokio::spawn(one.run(CancellationToken::new()));
        leads(&mut leadership).await;

        let other = election(&server, "other");
        let mut other_leadership = other.leadership();
        let stop = CancellationToken::new();
        let other_campaign = tokio::spawn(other.run(stop.clone()));
        server.refuse("one");
        assert!(matches!(campaign.await.unwrap(), Err(ElectionError::Lost(_))));
        assert_eq!(*leadership.borrow(), Leadership::Lost);
        assert!(
            !other_leadership.borrow().is_leader(),
            "the lease outlasts its leader"
        );
        leads(&mut other_leadership).await;
        stop.cancel();
        other_campaign.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn stolen_lease_ends_the_leadership() {
        let server = Server::default();
        let one = election(&server, "one");
        let mut leadership = one.leadership();
        let campaign = tokio::spawn(one.run(CancellationToken::new()));
        leads(&mut leadership).await;
        server.edit("lock", |lease| lease["spec"]["holderIdentity"] = "thief".into());
        let lost = campaign.await.unwrap().unwrap_err();
        assert_eq!(
            lost.to_string(),
            "leader election lost: another candidate has taken the lease"
        );
        assert_eq!(spec(&server).holder_identity.as_deref(), Some("thief"));
    }

    #[tokio::test]
    async fn relabelled_lease_is_kept() {
        let server = Server::default();
        let one = election(&server, "one");
        let (mut leadership, stop) = (one.leadership(), CancellationToken::new());
        let campaign = tokio::spawn(one.run(stop.clone()));
        leads(&mut leadership).await;
        let version = server.edit("lock", |lease| {
            lease["metadata"]["labels"] = serde_json::json!({"a": "b"});
        });
        server.changed_after("lock", version).await;
        assert!(leadership.borrow().is_leader());
        assert_eq!(server.object("lock").unwrap()["metadata"]["labels"]["a"], "b");
        stop.cancel();
        campaign.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn lease_is_kept_if_release_on_cancel_is_false() {
        let server = Server::default();
        let one = LeaderElection::new(
            server.client(),
            "lock",
            LeaderElectionOptions {
                release_on_cancel: false,
                ..options("one")
            },
        )
        .unwrap();
        let (mut leadership, stop) = (one.leadership(), CancellationToken::new());
        let campaign = tokio::spawn(one.run(stop.clone()));
        leads(&mut leadership).await;
        stop.cancel();
        campaign.await.unwrap().unwrap();
        assert_eq!(spec(&server).holder_identity.as_deref(), Some("one"));
    }

    #[tokio::test]
    async fn futures_of_an_election_can_be_dropped() {
        let server = Server::default();
        let mut one = election(&server, "one");
        one.acquire().await.unwrap();
        assert!(one.keep().now_or_never().is_none());
        let renewed = server.edit("lock", |_| ());
        server.changed_after("lock", renewed).await;
        assert!(one.leadership().borrow().is_leader());
        one.release().await;
        assert_eq!(spec(&server).holder_identity.as_deref(), Some(""));
    }

    #[tokio::test]
    async fn keep_returns_the_reason() {
        let server = Server::default();
        let mut one = election(&server, "one");
        one.acquire().await.unwrap();
        server.edit("lock", |lease| lease["spec"]["holderIdentity"] = "thief".into());
        let error = one.keep().await;
        assert_eq!(
            error.to_string(),
            "leader election lost: another candidate has taken the lease"
        );
    }

    #[tokio::test]
    async fn invalid_options_are_errors_before_the_start() {
        let server = Server::default();
        let unnamed = LeaderElection::new(server.client(), "", options("one"));
        assert!(matches!(unnamed, Err(ElectionError::NoName)));
        let hasty = LeaderElectionOptions {
            renew_deadline: Duration::from_secs(2),
            ..options("one")
        };
        let hasty = LeaderElection::new(server.client(), "lock", hasty);
        assert!(matches!(hasty, Err(ElectionError::Timing { .. })));
        let homeless = LeaderElection::new(server.client(), "lock", LeaderElectionOptions::default());
        assert!(matches!(homeless, Err(ElectionError::NoNamespace { .. })));
    }
}
