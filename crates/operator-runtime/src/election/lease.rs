//! [`Candidate`], the state machine of a candidate for a lease: it returns the next request, given the responses and
//! their times. Pure.
//!
//! The rules are those of client-go's `leaderelection`, with one safer difference: leadership lasts until
//! `renew_deadline` after the last successful renewal was *sent*, not after its response.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

use super::ElectionError;

/// Maximum factor of the retry period of candidates, so that they do not all retry at the same time.
const JITTER: f64 = 1.2;

/// The durations of an election through a Lease, as in
/// [`LeaderElectionOptions`](super::LeaderElectionOptions).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timing {
    pub(super) lease_duration: Duration,
    pub(super) renew_deadline: Duration,
    pub(super) retry_period: Duration,
}

/// One candidate.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    identity: String,
    timing: Timing,
    observed: Option<Observed>,
    /// The time at which leadership of this candidate ends.
    leads_until: Option<Instant>,
    /// True if the observed lease is the one on the server, as far as known. A leader can then renew it without a read.
    current: bool,
}

/// A lease and the local time at which it was first seen in this state.
#[derive(Clone, Debug)]
struct Observed {
    lease: Lease,
    since: Instant,
}

/// An input of the candidate.
#[derive(Clone, Debug)]
pub(super) enum Input {
    /// The time of the last [`Action::Wait`] is over, or the campaign begins.
    Wake,
    /// The lease was read.
    Found(Box<Lease>),
    /// The lease does not exist.
    Missing,
    /// The lease was written by a request that was sent at `sent`.
    Written {
        /// The lease in the response.
        lease: Box<Lease>,
        /// The time of the request.
        sent: Instant,
    },
    /// The write was rejected because of a concurrent write.
    Refused,
    /// The request failed. The server may have processed it nevertheless.
    Failed,
}

/// The next step.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    Get,
    Create(Box<Lease>),
    /// A replacement with the resource version as precondition.
    Replace(Box<Lease>),
    Wait(Duration),
    /// Stop immediately: the campaign has ended.
    Lost(&'static str),
}

/// The external values of a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// The monotonic local clock, which alone decides about leadership.
    pub(super) now: Instant,
    /// The wall clock, which is written to the lease for information only.
    pub(super) wall: Timestamp,
    /// A random number in `0.0..1.0`.
    pub(super) jitter: f64,
}

// === impl Timing ===

impl Default for Timing {
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

impl Timing {
    pub(super) fn check(&self) -> Result<(), ElectionError> {
        let (lease, renew, retry) = (self.lease_duration, self.renew_deadline, self.retry_period);
        let longest_retry = retry.mul_f64(JITTER);
        let rules = [
            ("leaseDuration", lease, "renewDeadline", renew),
            ("renewDeadline", renew, "retryPeriod*JitterFactor", longest_retry),
            ("leaseDuration", lease, "zero", Duration::ZERO),
            ("renewDeadline", renew, "zero", Duration::ZERO),
            ("retryPeriod", retry, "zero", Duration::ZERO),
        ];
        for (longer, longer_value, shorter, shorter_value) in rules {
            if longer_value <= shorter_value {
                return Err(ElectionError::Timing {
                    longer,
                    longer_value,
                    shorter,
                    shorter_value,
                });
            }
        }
        Ok(())
    }

    /// Returns the duration in whole seconds, at least one, as the API requires.
    fn lease_seconds(&self) -> i32 {
        let seconds = self.lease_duration.as_secs() + u64::from(self.lease_duration.subsec_nanos() > 0);
        i32::try_from(seconds).unwrap_or(i32::MAX).max(1)
    }

    /// Returns the timeout of one request.
    pub(super) fn request_timeout(&self) -> Duration {
        (self.renew_deadline / 2).max(Duration::from_secs(1).min(self.renew_deadline))
    }
}

// === impl Candidate ===

impl Candidate {
    pub(super) fn new(identity: String, timing: Timing) -> Self {
        Self {
            identity,
            timing,
            observed: None,
            leads_until: None,
            current: false,
        }
    }

    /// Returns the end of leadership, if this candidate leads.
    pub(super) fn leads_until(&self) -> Option<Instant> {
        self.leads_until
    }

    /// Processes an event and returns the next step.
    pub(super) fn step(&mut self, input: Input, at: Moment) -> Action {
        if self.leads_until.is_some_and(|until| at.now >= until) {
            return self.lose("the lease was not renewed in time");
        }
        match input {
            Input::Wake => self.attempt(at),
            Input::Found(lease) => self.found(*lease, at),
            Input::Missing => self.missing(at),
            Input::Written { lease, sent } => self.written(*lease, sent, at),
            Input::Refused => self.refused(at),
            Input::Failed => {
                self.current = false;
                self.wait(at)
            }
        }
    }

    /// Returns the lease without a holder, if this candidate holds it, so that others can acquire it immediately.
    pub(super) fn released(&self, mut lease: Lease, wall: Timestamp) -> Option<Lease> {
        let spec = lease.spec.as_mut().filter(|spec| holder(spec) == self.identity)?;
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        spec.renew_time = Some(MicroTime(wall));
        spec.acquire_time = Some(MicroTime(wall));
        Some(lease)
    }

    fn attempt(&self, at: Moment) -> Action {
        match &self.observed {
            Some(observed) if self.leads_until.is_some() && self.current => {
                Action::Replace(Box::new(self.claimed(observed.lease.clone(), at)))
            }
            _ => Action::Get,
        }
    }

    fn found(&mut self, lease: Lease, at: Moment) -> Action {
        self.observe(lease, at.now);
        let Some(observed) = &self.observed else {
            return Action::Get;
        };
        let holder = observed.lease.spec.as_ref().map(holder).unwrap_or_default();
        let mine = holder == self.identity;
        if self.leads_until.is_some() && !mine && !holder.is_empty() {
            return self.lose("another candidate has taken the lease");
        }
        if mine || holder.is_empty() || observed.expired(at.now, &self.timing) {
            return Action::Replace(Box::new(self.claimed(observed.lease.clone(), at)));
        }
        self.wait(at)
    }

    /// The lease was deleted. Its holder may not know this yet, so its duration still counts.
    fn missing(&mut self, at: Moment) -> Action {
        let lease = match &self.observed {
            Some(observed) if self.leads_until.is_none() && !observed.free(at.now, &self.timing) => {
                return self.wait(at);
            }
            Some(observed) => Lease {
                spec: observed.lease.spec.clone(),
                ..Lease::default()
            },
            None => Lease::default(),
        };
        Action::Create(Box::new(self.claimed(lease, at)))
    }

    fn written(&mut self, lease: Lease, sent: Instant, at: Moment) -> Action {
        self.observe(lease, at.now);
        let until = sent + self.timing.renew_deadline;
        if until <= at.now {
            // The response took so long that others may be about to take over, so leadership does not begin.
            return self.lose_quietly(at);
        }
        self.leads_until = Some(until);
        self.current = true;
        Action::Wait(self.timing.retry_period.min(until - at.now))
    }

    fn refused(&mut self, at: Moment) -> Action {
        if std::mem::take(&mut self.current) {
            return Action::Get;
        }
        self.wait(at)
    }

    /// Returns the wait before the next attempt. Leaders retry at a fixed period, candidates with jitter.
    fn wait(&self, at: Moment) -> Action {
        match self.leads_until {
            Some(until) => Action::Wait(
                self.timing
                    .retry_period
                    .min(until.saturating_duration_since(at.now)),
            ),
            None => Action::Wait(self.timing.retry_period.mul_f64(1.0 + JITTER * at.jitter)),
        }
    }

    fn lose(&mut self, reason: &'static str) -> Action {
        self.leads_until = None;
        self.current = false;
        Action::Lost(reason)
    }

    fn lose_quietly(&mut self, at: Moment) -> Action {
        self.current = false;
        self.wait(at)
    }

    /// Only a write of the holder restarts the duration: a new label does not renew the lease.
    fn observe(&mut self, lease: Lease, now: Instant) {
        let since = match &self.observed {
            Some(observed) if observed.lease.spec == lease.spec => observed.since,
            _ => now,
        };
        self.observed = Some(Observed { lease, since });
    }

    /// Returns the lease with this candidate as its holder.
    fn claimed(&self, mut lease: Lease, at: Moment) -> Lease {
        let spec = lease.spec.get_or_insert_default();
        let renewal = holder(spec) == self.identity;
        let known = spec.holder_identity.is_some();
        if !renewal {
            spec.acquire_time = Some(MicroTime(at.wall));
            let transitions = spec.lease_transitions.unwrap_or_default();
            spec.lease_transitions = Some(if known {
                transitions.saturating_add(1)
            } else {
                transitions
            });
        }
        spec.holder_identity = Some(self.identity.clone());
        spec.lease_duration_seconds = Some(self.timing.lease_seconds());
        spec.renew_time = Some(MicroTime(at.wall));
        lease
    }
}

// === impl Observed ===

impl Observed {
    fn expired(&self, now: Instant, timing: &Timing) -> bool {
        let seconds = self
            .lease
            .spec
            .as_ref()
            .and_then(|spec| spec.lease_duration_seconds);
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let duration = seconds.map_or(timing.lease_duration, Duration::from_secs);
        now.saturating_duration_since(self.since) >= duration
    }

    fn free(&self, now: Instant, timing: &Timing) -> bool {
        self.lease
            .spec
            .as_ref()
            .map(holder)
            .unwrap_or_default()
            .is_empty()
            || self.expired(now, timing)
    }
}

fn holder(spec: &LeaseSpec) -> &str {
    spec.holder_identity.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn moment(now: Instant) -> Moment {
        Moment {
            now,
            wall: Timestamp::from_second(1_000).unwrap(),
            jitter: 0.5,
        }
    }

    fn lease(holder: &str, renewed: i64) -> Lease {
        let mut lease = Lease::default();
        lease.metadata.resource_version = Some(renewed.to_string());
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(15),
            lease_transitions: Some(3),
            acquire_time: Some(MicroTime(Timestamp::from_second(500).unwrap())),
            renew_time: Some(MicroTime(Timestamp::from_second(renewed).unwrap())),
            ..LeaseSpec::default()
        });
        lease
    }

    fn candidate() -> Candidate {
        Candidate::new("me".to_owned(), Timing::default())
    }

    /// Returns a candidate that acquired the lease at `start`.
    fn leader(start: Instant) -> Candidate {
        let mut candidate = candidate();
        let lease = Box::new(lease("me", 1));
        candidate.step(Input::Written { lease, sent: start }, moment(start));
        candidate
    }

    #[track_caller]
    fn replaced(action: Action) -> LeaseSpec {
        let Action::Replace(lease) = action else {
            panic!("{action:?}")
        };
        lease.spec.unwrap()
    }

    #[test]
    fn missing_lease_is_created() {
        let (mut candidate, now) = (candidate(), Instant::now());
        assert_eq!(candidate.step(Input::Wake, moment(now)), Action::Get);
        let Action::Create(created) = candidate.step(Input::Missing, moment(now)) else {
            panic!()
        };
        let spec = created.spec.unwrap();
        assert_eq!(spec.holder_identity.as_deref(), Some("me"));
        assert_eq!(
            (spec.lease_duration_seconds, spec.lease_transitions),
            (Some(15), Some(0))
        );
        assert_eq!(spec.acquire_time, spec.renew_time);
        assert_eq!(candidate.leads_until(), None);
    }

    #[test]
    fn held_lease_is_taken_only_after_its_duration_without_a_renewal_seen() {
        let (mut candidate, start) = (candidate(), Instant::now());
        let found = |renewed| Input::Found(Box::new(lease("other", renewed)));
        assert!(matches!(candidate.step(found(1), moment(start)), Action::Wait(_)));
        assert!(matches!(
            candidate.step(found(2), moment(start + 14 * SECOND)),
            Action::Wait(_)
        ));
        assert!(matches!(
            candidate.step(found(2), moment(start + 28 * SECOND)),
            Action::Wait(_)
        ));
        let spec = replaced(candidate.step(found(2), moment(start + 29 * SECOND)));
        assert_eq!(spec.holder_identity.as_deref(), Some("me"));
        assert_eq!(spec.lease_transitions, Some(4));
        assert_eq!(spec.acquire_time, spec.renew_time);
    }

    #[test]
    fn clocks_of_others_do_not_matter() {
        let mut candidate = candidate();
        let long_ago = Input::Found(Box::new(lease("other", -1_000_000)));
        assert!(matches!(
            candidate.step(long_ago, moment(Instant::now())),
            Action::Wait(_)
        ));
    }

    #[test]
    fn other_changes_do_not_renew_the_lease() {
        let (mut candidate, start) = (candidate(), Instant::now());
        candidate.step(Input::Found(Box::new(lease("other", 1))), moment(start));
        let mut labelled = lease("other", 1);
        labelled.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
        replaced(candidate.step(Input::Found(Box::new(labelled)), moment(start + 15 * SECOND)));
    }

    #[test]
    fn released_lease_is_taken_at_once() {
        let (mut other, now) = (candidate(), Instant::now());
        let released = leader(now)
            .released(lease("me", 1), Timestamp::UNIX_EPOCH)
            .unwrap();
        let spec = released.spec.clone().unwrap();
        assert_eq!(
            (spec.holder_identity.as_deref(), spec.lease_duration_seconds),
            (Some(""), Some(1))
        );
        assert_eq!(spec.lease_transitions, Some(3));
        let spec = replaced(other.step(Input::Found(Box::new(released)), moment(now)));
        assert_eq!(spec.lease_transitions, Some(4));
    }

    #[test]
    fn only_the_holder_releases() {
        assert_eq!(
            candidate().released(lease("other", 1), Timestamp::UNIX_EPOCH),
            None
        );
    }

    #[test]
    fn leader_renews_without_reading_and_keeps_the_times_of_its_acquisition() {
        let start = Instant::now();
        let mut leader = leader(start);
        let spec = replaced(leader.step(Input::Wake, moment(start + 2 * SECOND)));
        assert_eq!(spec.lease_transitions, Some(3));
        assert_eq!(spec.acquire_time, lease("me", 1).spec.unwrap().acquire_time);
        assert_eq!(
            spec.renew_time,
            Some(MicroTime(Timestamp::from_second(1_000).unwrap()))
        );
    }

    #[test]
    fn leadership_counts_from_the_sending_of_the_last_answered_renewal() {
        let start = Instant::now();
        let mut leader = leader(start);
        let lease = Box::new(lease("me", 2));
        let (sent, answered) = (start + 2 * SECOND, start + 5 * SECOND);
        leader.step(Input::Written { lease, sent }, moment(answered));
        assert_eq!(leader.leads_until(), Some(start + 12 * SECOND));
    }

    #[test]
    fn leader_that_cannot_renew_loses_after_the_renew_deadline() {
        let start = Instant::now();
        let mut leader = leader(start);
        let late = leader.step(Input::Failed, moment(start + 9 * SECOND));
        assert_eq!(late, Action::Wait(SECOND), "the wait ends with the leadership");
        assert!(matches!(
            leader.step(Input::Wake, moment(start + 10 * SECOND)),
            Action::Lost(_)
        ));
        assert_eq!(leader.leads_until(), None);
    }

    #[test]
    fn leader_reads_after_a_write_of_unknown_outcome() {
        let start = Instant::now();
        let mut leader = leader(start);
        leader.step(Input::Failed, moment(start + SECOND));
        assert_eq!(leader.step(Input::Wake, moment(start + 3 * SECOND)), Action::Get);
        replaced(leader.step(Input::Found(Box::new(lease("me", 9))), moment(start + 3 * SECOND)));
    }

    #[test]
    fn stolen_lease_ends_the_leadership_at_once() {
        let start = Instant::now();
        let mut leader = leader(start);
        assert_eq!(leader.step(Input::Refused, moment(start + SECOND)), Action::Get);
        let found = Input::Found(Box::new(lease("thief", 2)));
        assert!(matches!(
            leader.step(found, moment(start + SECOND)),
            Action::Lost(_)
        ));
    }

    #[test]
    fn conflicts_do_not_become_a_hot_loop() {
        let start = Instant::now();
        let mut leader = leader(start);
        assert_eq!(leader.step(Input::Refused, moment(start)), Action::Get);
        replaced(leader.step(Input::Found(Box::new(lease("me", 2))), moment(start)));
        assert_eq!(
            leader.step(Input::Refused, moment(start)),
            Action::Wait(2 * SECOND)
        );
    }

    #[test]
    fn late_answer_is_no_acquisition() {
        let (mut candidate, sent) = (candidate(), Instant::now());
        let lease = Box::new(lease("me", 1));
        let action = candidate.step(Input::Written { lease, sent }, moment(sent + 10 * SECOND));
        assert!(matches!(action, Action::Wait(_)));
        assert_eq!(candidate.leads_until(), None);
    }

    #[test]
    fn deleted_lease_counts_for_its_duration() {
        let (mut candidate, start) = (candidate(), Instant::now());
        candidate.step(Input::Found(Box::new(lease("other", 1))), moment(start));
        assert!(matches!(
            candidate.step(Input::Missing, moment(start + 14 * SECOND)),
            Action::Wait(_)
        ));
        let created = candidate.step(Input::Missing, moment(start + 15 * SECOND));
        let Action::Create(created) = created else {
            panic!("{created:?}")
        };
        assert_eq!(created.spec.unwrap().lease_transitions, Some(4));
    }

    #[test]
    fn candidates_spread_their_attempts() {
        let (mut candidate, now) = (candidate(), Instant::now());
        let action = candidate.step(
            Input::Failed,
            Moment {
                jitter: 1.0,
                ..moment(now)
            },
        );
        assert_eq!(action, Action::Wait(Duration::from_millis(4_400)));
    }

    #[test]
    fn times_are_checked() {
        let seconds = |lease, renew, retry| Timing {
            lease_duration: lease * SECOND,
            renew_deadline: renew * SECOND,
            retry_period: retry * SECOND,
        };
        assert!(Timing::default().check().is_ok());
        assert!(seconds(10, 10, 2).check().is_err());
        assert!(seconds(60, 12, 10).check().is_err());
        assert!(seconds(15, 10, 0).check().is_err());
        let error = seconds(5, 10, 2).check().unwrap_err().to_string();
        assert_eq!(
            error,
            "leaseDuration must be greater than renewDeadline (5s, 10s)"
        );
    }
}
