//! Campaigns on a simulated network. Candidates start at different times, their clocks run at different speeds, and
//! their wall clocks jump. They are paused, crash and restart, and leaders release the lease. Requests and responses
//! are late or lost. The server knows only resource versions.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use proptest::prelude::*;

use super::lease::{Action, Candidate, Input, Moment, Timing};

/// The length of a campaign in milliseconds, and the time in milliseconds after which nothing fails.
const END: u64 = 240_000;
const CALM: u64 = 180_000;

/// The parameters of a campaign.
#[derive(Clone, Debug)]
struct Setup {
    seed: u64,
    /// The start of each candidate in milliseconds, and the speed of its clock in percent.
    candidates: Vec<(u64, u64)>,
    /// The percentage of lost messages.
    loss: u64,
    /// The maximum delay of a message in milliseconds.
    delay: u64,
    crashes: u64,
    /// The number of times that a candidate is temporarily disconnected.
    cuts: u64,
    /// The number of times that a candidate is paused, like a suspended process. Its clock continues.
    pauses: u64,
    /// The number of times that the leader stops and releases the lease.
    releases: u64,
}

/// The result of a campaign.
#[derive(Debug, Default)]
struct Verdict {
    two_leaders_at: Option<u64>,
    leaders_at_the_end: usize,
    handovers: usize,
}

struct World {
    setup: Setup,
    timing: Timing,
    zero: Instant,
    now: u64,
    random: u64,
    last_id: u64,
    agenda: BTreeMap<(u64, u64), Occurrence>,
    lease: Option<Lease>,
    revision: u64,
    nodes: Vec<Node>,
}

struct Node {
    candidate: Candidate,
    /// The message that the node waits for. Other messages are late, or belong to an earlier process.
    awaited: u64,
    cut_off_until: u64,
    stopped_until: u64,
}

enum Occurrence {
    Request {
        node: usize,
        id: u64,
        action: Action,
        sent: Instant,
    },
    Input {
        node: usize,
        id: u64,
        input: Input,
    },
    Crash {
        node: usize,
    },
    Cut {
        node: usize,
        until: u64,
    },
    Pause {
        node: usize,
        until: u64,
    },
    Release,
}

// === impl World ===

impl World {
    fn new(setup: Setup, timing: Timing) -> Self {
        let mut world = Self {
            timing,
            zero: Instant::now(),
            now: 0,
            random: setup.seed,
            last_id: 0,
            agenda: BTreeMap::new(),
            lease: None,
            revision: 0,
            nodes: Vec::new(),
            setup,
        };
        for (node, (start, _)) in world.setup.candidates.clone().into_iter().enumerate() {
            let candidate = world.candidate(node);
            world.nodes.push(Node {
                candidate,
                awaited: 0,
                cut_off_until: 0,
                stopped_until: 0,
            });
            world.wake(node, start);
        }
        for _ in 0..world.setup.crashes {
            let (at, node) = (world.below(CALM), world.below(world.nodes.len() as u64));
            world.after(at, Occurrence::Crash { node: node as usize });
        }
        for _ in 0..world.setup.cuts {
            let (at, node) = (world.below(CALM), world.below(world.nodes.len() as u64));
            let until = at + world.below(60_000);
            world.after(
                at,
                Occurrence::Cut {
                    node: node as usize,
                    until,
                },
            );
        }
        for _ in 0..world.setup.pauses {
            let (at, node) = (world.below(CALM), world.below(world.nodes.len() as u64));
            let until = CALM.min(at + world.below(60_000));
            let node = node as usize;
            world.after(at, Occurrence::Pause { node, until });
        }
        for _ in 0..world.setup.releases {
            let at = world.below(CALM);
            world.after(at, Occurrence::Release);
        }
        world
    }

    fn run(mut self) -> Verdict {
        let (mut verdict, mut last) = (Verdict::default(), None);
        while let Some(((at, _), happening)) = self.agenda.pop_first() {
            self.now = at.min(END);
            if at > END {
                break;
            }
            self.happen(happening);
            let leaders = self.leaders();
            if leaders.len() > 1 {
                verdict.two_leaders_at.get_or_insert(at);
            }
            if !leaders.is_empty() && last != leaders.first().copied() {
                last = leaders.first().copied();
                verdict.handovers += 1;
            }
        }
        verdict.leaders_at_the_end = self.leaders().len();
        verdict
    }

    fn happen(&mut self, happening: Occurrence) {
        match happening {
            Occurrence::Request {
                node,
                id,
                action,
                sent,
            } => {
                let input = self.serve(action, sent);
                if let Some(delay) = self.transit(node) {
                    self.after(delay, Occurrence::Input { node, id, input });
                }
            }
            Occurrence::Input { node, id, input } if self.now < self.nodes[node].stopped_until => {
                let wait = self.nodes[node].stopped_until - self.now;
                self.after(wait, Occurrence::Input { node, id, input });
            }
            Occurrence::Input { node, id, input } if id == self.nodes[node].awaited => self.step(node, input),
            Occurrence::Input { .. } => {}
            Occurrence::Crash { node } => {
                self.nodes[node].candidate = self.candidate(node);
                let pause = self.below(20_000);
                self.wake(node, pause);
            }
            Occurrence::Cut { node, until } => self.nodes[node].cut_off_until = until,
            Occurrence::Pause { node, until } => self.nodes[node].stopped_until = until,
            Occurrence::Release => {
                if let Some(node) = self.leaders().first().copied() {
                    self.release(node);
                }
            }
        }
    }

    /// Makes the node stop, release the lease if the message arrives, and restart.
    fn release(&mut self, node: usize) {
        let (wall, sent) = (self.wall(), self.local(node));
        let candidate = &self.nodes[node].candidate;
        let released = self
            .lease
            .clone()
            .and_then(|lease| candidate.released(lease, wall));
        self.happen(Occurrence::Crash { node });
        if let Some(lease) = released {
            let id = self.next_id();
            self.send(node, id, Action::Replace(Box::new(lease)), sent);
        }
    }

    /// Returns a wall-clock time, which is arbitrary.
    fn wall(&mut self) -> Timestamp {
        let shown = self.below(4_000_000_000_000);
        Timestamp::from_millisecond(shown as i64).unwrap()
    }

    /// Serves a request. A write succeeds if it has the latest revision.
    fn serve(&mut self, action: Action, sent: Instant) -> Input {
        let current = self
            .lease
            .as_ref()
            .and_then(|lease| lease.metadata.resource_version.clone());
        match action {
            Action::Get => self
                .lease
                .clone()
                .map_or(Input::Missing, |lease| Input::Found(Box::new(lease))),
            Action::Create(lease) | Action::Replace(lease) if lease.metadata.resource_version == current => {
                self.revision += 1;
                let mut lease = *lease;
                lease.metadata.resource_version = Some(self.revision.to_string());
                self.lease = Some(lease.clone());
                Input::Written {
                    lease: Box::new(lease),
                    sent,
                }
            }
            Action::Create(_) | Action::Replace(_) => Input::Refused,
            Action::Wait(_) | Action::Lost(_) => unreachable!("not a request"),
        }
    }

    fn step(&mut self, node: usize, input: Input) {
        let moment = Moment {
            now: self.local(node),
            wall: self.wall(),
            jitter: self.below(100) as f64 / 100.0,
        };
        match self.nodes[node].candidate.step(input, moment) {
            Action::Wait(wait) => {
                let wait = self.global(node, wait);
                self.wake(node, wait);
            }
            Action::Lost(_) => self.after(0, Occurrence::Crash { node }),
            action => self.request(node, action, moment.now),
        }
    }

    fn request(&mut self, node: usize, action: Action, sent: Instant) {
        let id = self.next_id();
        self.nodes[node].awaited = id;
        self.send(node, id, action, sent);
        let patience = self.global(node, self.timing.request_timeout());
        let input = Input::Failed;
        self.after(patience, Occurrence::Input { node, id, input });
    }

    /// Sends a request, unless it is lost.
    fn send(&mut self, node: usize, id: u64, action: Action, sent: Instant) {
        if let Some(delay) = self.transit(node) {
            let request = Occurrence::Request {
                node,
                id,
                action,
                sent,
            };
            self.after(delay, request);
        }
    }

    fn wake(&mut self, node: usize, after: u64) {
        let id = self.next_id();
        self.nodes[node].awaited = id;
        let input = Input::Wake;
        self.after(after, Occurrence::Input { node, id, input });
    }

    fn candidate(&mut self, node: usize) -> Candidate {
        Candidate::new(format!("{node}-{}", self.next_id()), self.timing)
    }

    fn leaders(&self) -> Vec<usize> {
        let leads = |node: &usize| {
            let until = self.nodes[*node].candidate.leads_until();
            until.is_some_and(|until| self.local(*node) < until)
        };
        (0..self.nodes.len()).filter(leads).collect()
    }

    /// Returns the local time of the node. The clocks of the nodes differ.
    fn local(&self, node: usize) -> Instant {
        let speed = self.setup.candidates[node].1;
        self.zero + Duration::from_secs(1_000 * node as u64) + Duration::from_millis(self.now * speed / 100)
    }

    /// Returns the real time until the clock of the node has advanced by `local`.
    fn global(&self, node: usize, local: Duration) -> u64 {
        let speed = self.setup.candidates[node].1;
        (local.as_millis() as u64 * 100).div_ceil(speed)
    }

    /// Returns the delay of a message, or `None` if it is lost.
    fn transit(&mut self, node: usize) -> Option<u64> {
        if self.now >= CALM {
            return Some(self.below(50));
        }
        let lost = self.below(100) < self.setup.loss || self.now < self.nodes[node].cut_off_until;
        let delay = self.below(self.setup.delay + 1);
        (!lost).then_some(delay)
    }

    fn after(&mut self, delay: u64, happening: Occurrence) {
        let id = self.next_id();
        self.agenda.insert((self.now + delay, id), happening);
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % limit
    }
}

fn setups() -> impl Strategy<Value = Setup> {
    // Clocks may differ by the factor 1.5: 15 s / 10 s.
    let candidates = prop::collection::vec((0..60_000_u64, 84..=125_u64), 2..5);
    (
        any::<u64>(),
        candidates,
        0..60_u64,
        0..20_000_u64,
        (0..8_u64, 0..8_u64, 0..8_u64, 0..8_u64),
    )
        .prop_map(
            |(seed, candidates, loss, delay, (crashes, cuts, pauses, releases))| Setup {
                seed,
                candidates,
                loss,
                delay,
                crashes,
                cuts,
                pauses,
                releases,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn never_two_leaders_and_one_without_faults(setup in setups()) {
        let verdict = World::new(setup, Timing::default()).run();
        prop_assert_eq!(verdict.two_leaders_at, None);
        prop_assert_eq!(verdict.leaders_at_the_end, 1);
    }
}

#[test]
fn released_lease_is_acquired_at_once() {
    let candidates = vec![(0, 100), (1_000, 100)];
    let setup = Setup {
        seed: 3,
        candidates,
        loss: 0,
        delay: 0,
        crashes: 0,
        cuts: 0,
        pauses: 0,
        releases: 5,
    };
    let verdict = World::new(setup, Timing::default()).run();
    assert_eq!((verdict.two_leaders_at, verdict.leaders_at_the_end), (None, 1));
    assert!(verdict.handovers > 1, "{verdict:?}");
}

#[test]
fn leader_without_faults_stays() {
    let candidates = vec![(0, 100), (10, 100), (20, 100)];
    let setup = Setup {
        seed: 1,
        candidates,
        loss: 0,
        delay: 100,
        crashes: 0,
        cuts: 0,
        pauses: 0,
        releases: 0,
    };
    let verdict = World::new(setup, Timing::default()).run();
    assert_eq!((verdict.two_leaders_at, verdict.handovers), (None, 1));
}

/// The simulation finds two leaders if leaders lead for longer than others wait.
#[test]
fn unsafe_durations_are_detected() {
    let reckless = Timing {
        renew_deadline: Duration::from_secs(25),
        ..Timing::default()
    };
    let found = (0..50).any(|seed| {
        let candidates = vec![(0, 100), (1_000, 100), (2_000, 100)];
        let setup = Setup {
            seed,
            candidates,
            loss: 0,
            delay: 100,
            crashes: 0,
            cuts: 8,
            pauses: 0,
            releases: 0,
        };
        World::new(setup, reckless).run().two_leaders_at.is_some()
    });
    assert!(found);
}
