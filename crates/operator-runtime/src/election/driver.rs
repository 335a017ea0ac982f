//! Lends [`Candidate`] the API server, the clocks and the patience.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

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

/// A candidate for a lease; see [the module](super) for what it promises.
///
/// ```no_run
/// use operator_runtime::election::LeaderElection;
/// use tokio_util::sync::CancellationToken;
///
/// # async fn example(client: kube::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let election = LeaderElection::builder(client, "memcached-operator-lock").namespace("operators").build()?;
/// let mut leadership = election.leadership();
/// let stop = CancellationToken::new();
/// let campaign = tokio::spawn(election.run(stop.clone()));
///
/// leadership.wait_for(|leadership| leadership.is_leader()).await?;
/// // Act; and when all is done:
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

/// Builds a [`LeaderElection`]; [`LeaderElection::builder`] makes it.
#[must_use = "call `build`"]
pub struct LeaderElectionBuilder {
    client: kube::Client,
    name: String,
    namespace: Option<String>,
    identity: Option<String>,
    labels: BTreeMap<String, String>,
    timing: Timing,
    release: bool,
    metrics: LeaderMetrics,
}

// === impl LeaderElectionBuilder ===

impl LeaderElectionBuilder {
    /// The namespace of the lease; that of the pod's service account unless said otherwise.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// What tells this candidate from all others, ever; `<hostname>_<uuid>` unless said otherwise.
    pub fn identity(mut self, identity: &str) -> Self {
        self.identity = Some(identity.to_owned());
        self
    }

    /// Labels of the lease, when this candidate creates it; none unless said otherwise. A lease that is there keeps its
    /// own.
    pub fn labels(mut self, labels: impl IntoIterator<Item = (String, String)>) -> Self {
        self.labels.extend(labels);
        self
    }

    /// The times; 15 s, 10 s and 2 s unless said otherwise. The lease must be longer than the deadline, and the
    /// deadline longer than the retry period with its jitter.
    pub fn timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }

    /// Whether to give the lease back when the campaign is stopped, so that the next leader need not wait for it to
    /// run out; yes unless said otherwise. It is safe if all that the leader did has ended before.
    pub fn release_on_stop(mut self, release: bool) -> Self {
        self.release = release;
        self
    }

    /// Where to tell `leader_election_master_status`; nowhere unless said otherwise. A manager tells it of its own
    /// election.
    pub fn metrics(mut self, metrics: LeaderMetrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// Checks what was said. Nothing is asked of the API server yet.
    ///
    /// # Errors
    /// If the name is empty, the namespace cannot be found out, or the times do not fit together.
    pub fn build(self) -> Result<LeaderElection, ElectionError> {
        if self.name.is_empty() {
            return Err(ElectionError::NoName);
        }
        self.timing.check()?;
        let namespace = self.namespace.map_or_else(namespace, Ok)?;
        let core = Core {
            api: Api::namespaced(self.client, &namespace),
            name: self.name,
            identity: self.identity.unwrap_or_else(identity),
            labels: self.labels,
            timing: self.timing,
            release: self.release,
            leadership: watch::Sender::new(Leadership::Standby),
            metrics: self.metrics,
        };
        Ok(LeaderElection {
            core: Arc::new(core),
            campaign: None,
        })
    }
}

// === impl LeaderElection ===

impl LeaderElection {
    /// Begins an election; `name` is the name of the lease, unique to the operator.
    pub fn builder(client: kube::Client, name: &str) -> LeaderElectionBuilder {
        LeaderElectionBuilder {
            client,
            name: name.to_owned(),
            namespace: None,
            identity: None,
            labels: BTreeMap::new(),
            timing: Timing::default(),
            release: true,
            metrics: LeaderMetrics::default(),
        }
    }

    /// Whether this candidate leads, now and from now on. Receivers are woken when that changes, not when the lease is
    /// renewed.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.core.leadership.subscribe()
    }

    /// Who this candidate is, as `spec.holderIdentity` of the lease tells it.
    pub fn identity(&self) -> &str {
        &self.core.identity
    }

    /// Campaigns, and leads, until `stop`. Then the lease is released, so stop it last of all.
    ///
    /// # Errors
    /// [`ElectionError::Lost`] if this candidate led and does not any more. Everything that only the leader may do must
    /// end at once, without grace; best is to end the process.
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

    /// Goes on until the leadership is lost.
    async fn campaign(&self, candidate: &mut Candidate) -> &'static str {
        let mut input = Input::Wake;
        loop {
            let action = candidate.step(input, moment());
            self.tell(candidate.leads_until());
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

    fn tell(&self, until: Option<Instant>) {
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

    /// Sends a request and waits for its answer, but never longer than this candidate leads.
    async fn send(&self, request: Action, until: Option<Instant>) -> Input {
        let sent = Instant::now();
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
                    "No answer from the API server about the leader lease"
                );
                Input::Failed
            }
        }
    }

    /// `Ok` is a lease that was written, or that there is none; everything else is `Err`.
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
        tracing::warn!(lease = self.name, %error, "Cannot {verb} the leader lease");
        Input::Failed
    }

    fn named(&self, mut lease: Lease) -> Lease {
        lease.metadata.name = Some(self.name.clone());
        if !self.labels.is_empty() {
            lease.metadata.labels = Some(self.labels.clone());
        }
        lease
    }

    /// The campaign may have been stopped in the middle of a write: only the server knows who holds the lease.
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
            Ok(Err(error)) => tracing::warn!(lease = self.name, %error, "Cannot release the leader lease"),
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
        now: Instant::now(),
        wall: clock::now(),
        jitter: jitter(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt as _;

    use super::*;
    use crate::election::fake::Server;
    use crate::metrics::Metrics;

    /// As fast as whole seconds in the lease allow.
    const FAST: Timing = Timing {
        lease_duration: Duration::from_secs(1),
        renew_deadline: Duration::from_millis(700),
        retry_period: Duration::from_millis(50),
    };

    fn election(server: &Server, identity: &str) -> LeaderElectionBuilder {
        LeaderElection::builder(server.client(), "lock")
            .namespace("default")
            .identity(identity)
            .timing(FAST)
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
        let (server, metrics) = (Server::default(), Metrics::new());
        let one = election(&server, "one")
            .metrics(metrics.leader("lock"))
            .build()
            .unwrap();
        let (mut leadership, stop) = (one.leadership(), CancellationToken::new());
        let campaign = tokio::spawn(one.run(stop.clone()));
        leads(&mut leadership).await;
        assert!(
            metrics
                .to_text()
                .contains("leader_election_master_status{name=\"lock\"} 1")
        );

        let other = election(&server, "other").build().unwrap();
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
        let one = election(&server, "one").build().unwrap();
        let mut leadership = one.leadership();
        let campaign = tokio::spawn(one.run(CancellationToken::new()));
        leads(&mut leadership).await;

        let other = election(&server, "other").build().unwrap();
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
        let one = election(&server, "one").build().unwrap();
        let mut leadership = one.leadership();
        let campaign = tokio::spawn(one.run(CancellationToken::new()));
        leads(&mut leadership).await;
        server.edit("lock", |lease| lease["spec"]["holderIdentity"] = "thief".into());
        let lost = campaign.await.unwrap().unwrap_err();
        assert_eq!(
            lost.to_string(),
            "leader election lost: somebody else has taken the lease"
        );
        assert_eq!(spec(&server).holder_identity.as_deref(), Some("thief"));
    }

    #[tokio::test]
    async fn lease_that_is_labelled_meanwhile_is_kept() {
        let server = Server::default();
        let one = election(&server, "one").build().unwrap();
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
    async fn lease_is_kept_where_it_is_not_to_be_released() {
        let server = Server::default();
        let one = election(&server, "one").release_on_stop(false).build().unwrap();
        let (mut leadership, stop) = (one.leadership(), CancellationToken::new());
        let campaign = tokio::spawn(one.run(stop.clone()));
        leads(&mut leadership).await;
        stop.cancel();
        campaign.await.unwrap().unwrap();
        assert_eq!(spec(&server).holder_identity.as_deref(), Some("one"));
    }

    #[tokio::test]
    async fn manager_may_ask_forget_and_ask_again() {
        let server = Server::default();
        let mut one = election(&server, "one").build().unwrap();
        one.acquire().await.unwrap();
        assert!(one.keep().now_or_never().is_none());
        let renewed = server.edit("lock", |_| ());
        server.changed_after("lock", renewed).await;
        assert!(one.leadership().borrow().is_leader());
        one.release().await;
        assert_eq!(spec(&server).holder_identity.as_deref(), Some(""));
    }

    #[tokio::test]
    async fn manager_is_told_why_the_leadership_ended() {
        let server = Server::default();
        let mut one = election(&server, "one").build().unwrap();
        one.acquire().await.unwrap();
        server.edit("lock", |lease| lease["spec"]["holderIdentity"] = "thief".into());
        let error = one.keep().await;
        assert_eq!(
            error.to_string(),
            "leader election lost: somebody else has taken the lease"
        );
    }

    #[tokio::test]
    async fn mistakes_show_before_anything_runs() {
        let server = Server::default();
        let unnamed = LeaderElection::builder(server.client(), "")
            .namespace("default")
            .build();
        assert!(matches!(unnamed, Err(ElectionError::NoName)));
        let hasty = election(&server, "one")
            .timing(Timing {
                renew_deadline: Duration::from_secs(2),
                ..FAST
            })
            .build();
        assert!(matches!(hasty, Err(ElectionError::Timing { .. })));
        let homeless = LeaderElection::builder(server.client(), "lock").build();
        assert!(matches!(homeless, Err(ElectionError::NoNamespace { .. })));
    }
}
