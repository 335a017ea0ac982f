//! [`run`], one run of a plan.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use tokio::time::Instant;

use crate::call::Names;
use crate::disturb;
use crate::error::Error;
use crate::panic;
use crate::plan::Plan;
use crate::predicate::Predicate;
use crate::progress::Monitor;
use crate::session::{History, Objects, Session, Situation};
use crate::single::Times;
use crate::state::{Mask, State, differences};
use crate::trace::{Actor, Event, Trace};
use crate::transport;
use crate::workload::{Change, Step, Upgrade, Workload};
use crate::world::{FrozenWorld, Operator, World, WorldOptions};

/// The times of a run.
#[derive(Debug)]
pub(crate) struct Pace {
    /// True if time is simulated: it advances when all tasks wait.
    is_simulated: bool,
    /// The interval at which the driver checks for changes.
    poll: Duration,
    /// The time for the controllers before the operator starts.
    settle: Duration,
    /// The time without changes after which the next step follows.
    step_rest: Duration,
    /// The time without changes after which the end state is recorded.
    final_rest: Duration,
    /// Maximum time to wait until the cluster is idle.
    rest_limit: Duration,
    /// Maximum time of a run in which an operator is given to reach expected states after faults, because exponential
    /// backoff can take long.
    recovery_limit: Duration,
    /// The time after which a crashed operator is restarted.
    restart: Duration,
    /// Maximum time after which an operator that exited by itself is restarted, as by a kubelet.
    restart_max: Duration,
    /// The durations of faults.
    pub(crate) times: Times,
}

/// The times for operators in this process.
#[cfg(feature = "simulation")]
pub(crate) const SIMULATED: Pace = Pace {
    is_simulated: true,
    poll: Duration::from_millis(500),
    settle: Duration::from_secs(2),
    step_rest: Duration::from_secs(5),
    final_rest: Duration::from_secs(60),
    rest_limit: Duration::from_secs(600),
    recovery_limit: Duration::from_secs(2400),
    restart: Duration::from_secs(1),
    restart_max: Duration::from_secs(300),
    // A pod leaves an unreachable node after 300 s.
    times: Times { hold: 30, node: 400 },
};

/// The times for operators in separate processes.
pub(crate) const REAL: Pace = Pace {
    is_simulated: false,
    poll: Duration::from_millis(50),
    settle: Duration::from_millis(200),
    step_rest: Duration::from_secs(2),
    final_rest: Duration::from_secs(4),
    rest_limit: Duration::from_secs(60),
    recovery_limit: Duration::from_secs(45),
    restart: Duration::from_millis(200),
    restart_max: Duration::from_secs(10),
    times: Times { hold: 10, node: 10 },
};

/// The parts of a run that all plans share.
pub(crate) struct Setup {
    /// The versions of the operator by name. The name of the first one is empty.
    pub(crate) operators: BTreeMap<String, Operator>,
    pub(crate) objects: Vec<serde_json::Value>,
    /// The cluster with these objects, in which each run begins.
    pub(crate) boot: Origin,
    /// The objects in the files of upgrades.
    pub(crate) upgrades: BTreeMap<PathBuf, Vec<serde_json::Value>>,
    pub(crate) world: WorldOptions,
    pub(crate) predicates: Arc<Vec<Predicate>>,
    pub(crate) call_limit: usize,
    pub(crate) pace: &'static Pace,
    pub(crate) monitor: Arc<Monitor>,
}

/// The state in which runs begin: a cluster, and what was recorded until then.
#[derive(Clone)]
pub(crate) struct Origin {
    world: FrozenWorld,
    history: History,
}

/// The states after the steps of a run without faults, by the number of the step. A plan whose first fault is a restart
/// after such a step begins in its state.
pub(crate) type Forks = BTreeMap<u32, Origin>;

/// The result of a run.
pub(crate) struct Run {
    pub(crate) trace: Trace,
    pub(crate) state: State,
    /// The states after the steps of the workload, by number. In a run that is compared, only those that differ.
    pub(crate) step_states: BTreeMap<u32, State>,
    pub(crate) names: Names,
    pub(crate) objects: Objects,
    /// The states after the steps, if the run collects them.
    pub(crate) forks: Forks,
    /// The number of faults that were injected.
    pub(crate) fired: usize,
    /// True if the cluster became idle.
    pub(crate) is_quiet: bool,
    /// True if the operator sent too many requests.
    pub(crate) overran: bool,
    pub(crate) panics: Vec<String>,
    /// The objects whose third-party changes were overwritten.
    pub(crate) lost: Vec<String>,
    /// The predicates that were violated.
    pub(crate) violations: Vec<(String, String)>,
    /// The writes of an instance while another one held the lease.
    pub(crate) leadership: Vec<(String, String)>,
    /// The states of the cluster that were reached.
    pub(crate) coverage: Vec<u64>,
    /// The steps after which an operator that started after all faults was idle, with the states of the cluster.
    pub(crate) recovered: Vec<Recovered>,
    /// The same for an operator that has run since before the last fault.
    pub(crate) passed: Vec<Recovered>,
    /// The reason why the run ended early.
    pub(crate) pruned: Option<Pruned>,
    /// The writes after a restart of the idle operator, if that was checked.
    pub(crate) writes_at_rest: Vec<String>,
    /// The workload step that failed, and the error.
    pub(crate) failed_step: Option<String>,
}

/// The number of a step after which the operator was idle, and the state of the cluster and of the faults that continue.
pub(crate) type Recovered = (u32, u64);

/// The reason why a run ended before its last step: another run had already reached the same state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pruned {
    /// The operator has started after all faults, so only the state of the cluster matters.
    Restarted,
    /// The operator has run since before the last fault. What it keeps in memory could still matter.
    Running,
}

/// The states of a run without faults.
#[derive(Clone, Copy)]
pub(crate) struct Expected<'a> {
    pub(crate) end: &'a State,
    /// The states after steps, by number.
    pub(crate) steps: &'a BTreeMap<u32, State>,
    /// The hashes of these states.
    pub(crate) recovered: &'a BTreeSet<Recovered>,
    pub(crate) mask: &'a Mask,
}

/// The checks of a run, and the states that it waits for.
#[derive(Clone, Copy, Default)]
pub(crate) struct Expectation<'a> {
    pub(crate) states: Option<Expected<'a>>,
    pub(crate) checks_idempotence: bool,
    pub(crate) shortcuts: Shortcuts<'a>,
}

/// Results of other runs of the same workload, which make a run shorter.
#[derive(Clone, Copy, Default)]
pub(crate) struct Shortcuts<'a> {
    /// States from which a newly started operator is known to succeed: a run that reaches one ends.
    pub(crate) known: Option<&'a BTreeSet<Recovered>>,
    /// The states of runs that succeeded without a restart. A run that reaches one, or a known one, ends even if the operator
    /// has not started after its faults.
    pub(crate) usual: Option<&'a BTreeSet<Recovered>>,
    /// The states in which a run can begin.
    pub(crate) forks: Option<&'a Forks>,
}

impl Shortcuts<'_> {
    /// Returns the reason to end a run after a step, if there is one.
    fn ends(&self, step: u32, situation: Situation) -> Option<Pruned> {
        let Situation {
            is_restarted,
            injected,
            open,
            ..
        } = situation;
        let state = (step, situation.state);
        let is_in = |states: Option<&BTreeSet<Recovered>>| states.is_some_and(|all| all.contains(&state));
        if is_restarted && open == 0 {
            return is_in(self.known).then_some(Pruned::Restarted);
        }
        // Of two faults after the same step, the second one may not occur because of the first one.
        let own = injected.saturating_sub(usize::from(self.forks.is_some()));
        let is_short = self.usual.is_some() && (open == 0 || (open == 1 && own > 0));
        (is_short && (is_in(self.usual) || is_in(self.known))).then_some(Pruned::Running)
    }
}

/// The bit of a seed at which the number of a step is added.
const FORK_SHIFT: u32 = 40;

/// Runs a workload with a plan, on this thread.
pub(crate) fn run(
    setup: &Setup,
    workload: &Workload,
    plan: &Plan,
    expectation: Expectation<'_>,
) -> Result<Run, Error> {
    let (run, panics) =
        panic::recorded(|| runtime(setup.pace)?.block_on(run_on(setup, workload, plan, expectation)));
    let mut run = run?;
    run.panics = panics;
    Ok(run)
}

/// Starts a cluster with some objects, and returns its state.
pub(crate) fn boot(
    world: &WorldOptions,
    objects: &[serde_json::Value],
    pace: &Pace,
) -> Result<Origin, Error> {
    runtime(pace)?.block_on(async {
        let world = World::boot(world, objects, pace.settle).await?;
        Ok(Origin {
            world: world.freeze(),
            history: History::of(&world.server),
        })
    })
}

/// Returns for each object true if the server would accept it after some steps of a workload.
pub(crate) fn accepted(
    setup: &Setup,
    steps: &[Step],
    objects: &[serde_json::Value],
) -> Result<Vec<bool>, Error> {
    runtime(setup.pace)?.block_on(async {
        let world = World::start(
            0,
            &setup.world,
            &setup.boot.world,
            Duration::ZERO,
            setup.pace.settle,
        )
        .await?;
        for step in steps
            .iter()
            .filter(|step| matches!(step.change, Change::Apply(_)))
        {
            // The run without faults has shown that the steps succeed.
            let _applied = world.change(&step.change).await;
        }
        let mut accepted = Vec::new();
        for object in objects {
            accepted.push(world.accepts(object).await);
        }
        Ok(accepted)
    })
}

fn runtime(
    #[cfg_attr(
        not(feature = "simulation"),
        expect(unused_variables, reason = "only a simulation pauses the clock")
    )]
    pace: &Pace,
) -> Result<tokio::runtime::Runtime, Error> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    // The buffer of events is allocated for each run. An operator has few connections.
    builder.enable_all().max_io_events_per_tick(64);
    #[cfg(feature = "simulation")]
    builder.start_paused(pace.is_simulated);
    builder.build().map_err(|error| Error::Server(error.to_string()))
}

async fn run_on(
    setup: &Setup,
    workload: &Workload,
    plan: &Plan,
    expectation: Expectation<'_>,
) -> Result<Run, Error> {
    let fork = plan
        .restart()
        .and_then(|step| Some((step, expectation.shortcuts.forks?.get(&step)?)));
    let (step, origin) = fork.unwrap_or((0, &setup.boot));
    // UIDs and names must differ from those that were generated before.
    let seed = plan.seed ^ (u64::from(step) << FORK_SHIFT);
    let elapsed = origin.history.elapsed;
    let world = World::start(seed, &setup.world, &origin.world, elapsed, setup.pace.settle).await?;
    let session = Arc::new(Session::new(
        world.server.clone(),
        plan.clone(),
        &origin.history,
        setup.predicates.clone(),
        setup.call_limit,
        !setup.pace.is_simulated,
    ));
    if fork.is_some() {
        session.begin_with_restart(step);
    }
    let driver = drive(&world, &session, setup, workload, step, expectation);
    let driven = tokio::select! {
        biased;
        driven = driver => driven,
        () = live(&session, &setup.operators, setup.pace, expectation.states.is_none()) => Driven {
            is_quiet: true,
            ..Driven::default()
        },
        () = stopped(setup) => return Err(Error::Stopped),
    };
    session.end();
    let outcome = session.outcome(driven.pruned.is_some());
    Ok(Run {
        trace: outcome.trace,
        names: outcome.names,
        objects: outcome.objects,
        fired: outcome.fired,
        overran: outcome.overran,
        lost: outcome.lost,
        violations: outcome.violations,
        leadership: outcome.leadership,
        coverage: outcome.coverage,
        state: driven.state,
        step_states: driven.step_states,
        is_quiet: driven.is_quiet,
        writes_at_rest: driven.writes_at_rest,
        failed_step: driven.failed_step,
        recovered: driven.recovered,
        passed: driven.passed,
        forks: driven.forks,
        pruned: driven.pruned,
        panics: Vec::new(),
    })
}

/// Waits until the campaign is stopped. A run in simulated time takes only milliseconds, and is not interrupted.
async fn stopped(setup: &Setup) {
    if setup.pace.is_simulated {
        return std::future::pending().await;
    }
    while !setup.monitor.is_stopped() {
        tokio::time::sleep(setup.pace.poll).await;
    }
}

/// A running instance of the operator.
struct Instance {
    life: u32,
    running: LocalBoxFuture<'static, std::thread::Result<Result<(), String>>>,
}

/// An instance that has lost its lease, and the time at which it is killed.
struct Former {
    instance: Instance,
    end: Instant,
}

/// The way in which an instance ended.
enum End {
    Crash,
    ByItself(String),
    /// A second instance starts.
    Overlap(Instant),
}

impl Instance {
    fn start(session: &Arc<Session>, operators: &BTreeMap<String, Operator>) -> Self {
        let life = session.begin_life();
        let client = transport::client(session, life);
        let operator = operators.get(&session.version()).or_else(|| operators.get(""));
        let running = match operator {
            Some(operator) => {
                let operator = operator.clone();
                async move { operator(client).await }.boxed_local()
            }
            None => std::future::pending().boxed_local(),
        };
        Self {
            life,
            running: AssertUnwindSafe(running).catch_unwind().boxed_local(),
        }
    }
}

/// Runs the lives of the operator. Without faults, the first exit of the operator ends the run, because nothing else
/// needs to be checked.
async fn live(
    session: &Arc<Session>,
    operators: &BTreeMap<String, Operator>,
    pace: &Pace,
    is_reference: bool,
) {
    let mut ended_by_itself = 0_u32;
    let mut former: Option<Former> = None;
    loop {
        let mut instance = Instance::start(session, operators);
        let end = loop {
            tokio::select! {
                biased;
                () = session.crashed() => break End::Crash,
                end = session.overlaps() => break End::Overlap(end),
                () = ended(former.as_mut()) => {
                    if let Some(former) = former.take() {
                        let life = former.instance.life;
                        session.end_life(life);
                        session.record(Event::FormerEnded { life });
                    }
                }
                ended = &mut instance.running => break End::ByItself(match ended {
                    Ok(Ok(())) => "without an error".to_owned(),
                    Ok(Err(error)) => error,
                    Err(_) => "panic".to_owned(),
                }),
            }
        };
        match end {
            End::Overlap(end) => former = Some(Former { instance, end }),
            End::Crash => {
                session.end_life(instance.life);
                drop(instance);
                tokio::time::sleep(pace.restart).await;
            }
            End::ByItself(reason) => {
                session.end_life(instance.life);
                drop(instance);
                session.record(Event::Ended { reason });
                if is_reference {
                    return;
                }
                let pause = pace
                    .restart
                    .saturating_mul(2_u32.saturating_pow(ended_by_itself.min(10)));
                ended_by_itself += 1;
                tokio::time::sleep(pause.min(pace.restart_max)).await;
            }
        }
    }
}

/// Waits until an instance that has lost its lease ends, or its time is over.
async fn ended(former: Option<&mut Former>) {
    let Some(former) = former else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = &mut former.instance.running => {}
        () = tokio::time::sleep_until(former.end) => {}
    }
}

#[derive(Default)]
struct Driven {
    state: State,
    step_states: BTreeMap<u32, State>,
    is_quiet: bool,
    writes_at_rest: Vec<String>,
    failed_step: Option<String>,
    recovered: Vec<Recovered>,
    passed: Vec<Recovered>,
    forks: Forks,
    pruned: Option<Pruned>,
}

/// Runs the steps of the user after the step `done`, and waits until the cluster is idle.
async fn drive(
    world: &World,
    session: &Arc<Session>,
    setup: &Setup,
    workload: &Workload,
    done: u32,
    expectation: Expectation<'_>,
) -> Driven {
    let pace = setup.pace;
    let mut driven = Driven::default();
    let mut patience = pace.recovery_limit;
    rest(session, pace.step_rest, pace).await;
    disturb_after(world, session, done, pace).await;
    let steps = (1..).zip(&workload.steps);
    for (number, step) in steps.filter(|(number, _)| *number > done) {
        session.record(Event::Step {
            number,
            text: step.change.to_string(),
        });
        let changed = match &step.change {
            Change::Upgrade(upgrade) => upgraded(world, session, setup, upgrade).await,
            change => world.change(change).await.map_err(|error| error.to_string()),
        };
        session.drain(Actor::User, None);
        session.touch();
        if let Err(error) = changed {
            driven.failed_step = Some(format!("step {number} ({}): {error}", step.change));
            if expectation.states.is_none() {
                // A workload that fails without faults cannot be compared.
                driven.is_quiet = true;
                return driven;
            }
        }
        if step.wait {
            rest(session, pace.step_rest, pace).await;
            if matches!(step.change, Change::Delete(_)) && !until_gone(world, &step.change, pace).await {
                let seconds = pace.rest_limit.as_secs();
                let problem = format!("the object still exists after {seconds} s");
                driven.failed_step = Some(format!("step {number} ({}): {problem}", step.change));
            }
            if expectation.states.is_none() && pace.is_simulated {
                let origin = Origin {
                    world: world.freeze(),
                    history: session.history(),
                };
                driven.forks.insert(number, origin);
            }
            disturb_after(world, session, number, pace).await;
            if !session.has_lasting_fault() {
                let state = match expectation.states {
                    None => Some(session.state()),
                    Some(expected) if expected.recovered.contains(&(number, session.world_hash())) => None,
                    Some(Expected { steps, mask, .. }) => match steps.get(&number) {
                        Some(expected) => unexpected(session, expected, mask, pace, &mut patience).await,
                        None => None,
                    },
                };
                driven.step_states.extend(state.map(|state| (number, state)));
            }
            let situation = session.situation().filter(|_| driven.failed_step.is_none());
            if let Some(situation) = situation {
                driven.pruned = expectation.shortcuts.ends(number, situation);
                if driven.pruned.is_some() {
                    driven.is_quiet = true;
                    return driven;
                }
                if situation.open == 0 {
                    let states = match situation.is_restarted {
                        true => &mut driven.recovered,
                        false => &mut driven.passed,
                    };
                    states.push((number, situation.state));
                }
            }
        }
    }
    session.record(Event::Rest);
    while session.has_lasting_fault() {
        tokio::time::sleep(pace.poll).await;
    }
    session.touch();
    driven.is_quiet = rest(session, pace.final_rest, pace).await;
    driven.state = session.state();
    if let Some(Expected { end, mask, .. }) = expectation.states {
        let since = Instant::now();
        if let Some(state) = unexpected(session, end, mask, pace, &mut patience).await {
            driven.state = state;
        }
        if since.elapsed() > pace.final_rest {
            driven.is_quiet = rest(session, pace.final_rest, pace).await;
            driven.state = session.state();
        }
    }
    if expectation.checks_idempotence && driven.is_quiet {
        session.record(Event::IdempotenceCheck);
        session.crash();
        session.touch();
        rest(session, pace.step_rest * 2, pace).await;
        driven.writes_at_rest = session.writes_since_check();
    }
    driven
}

/// Waits until the cluster reaches a state, and subtracts the time from the patience. Returns the state of the cluster if
/// it does not.
async fn unexpected(
    session: &Session,
    expected: &State,
    mask: &Mask,
    pace: &Pace,
    patience: &mut Duration,
) -> Option<State> {
    loop {
        let state = session.state();
        if differences(expected, &state, mask).is_empty() {
            return None;
        }
        if patience.is_zero() || session.overran() {
            return Some(state);
        }
        *patience = patience.saturating_sub(pace.final_rest);
        tokio::time::sleep(pace.final_rest).await;
    }
}

/// Injects the faults at the end of a step.
async fn disturb_after(world: &World, session: &Arc<Session>, step: u32, pace: &Pace) {
    let mut is_disturbed = false;
    while let Some(action) = session.fault_of_step(step) {
        is_disturbed = true;
        disturb::carry_out(world, session, action).await;
    }
    if is_disturbed {
        session.touch();
        rest(session, pace.step_rest, pace).await;
    }
}

/// Carries out an upgrade: first the new definitions, then the operator.
async fn upgraded(
    world: &World,
    session: &Arc<Session>,
    setup: &Setup,
    upgrade: &Upgrade,
) -> Result<(), String> {
    let objects = upgrade.crds.as_ref().and_then(|path| setup.upgrades.get(path));
    for object in objects.into_iter().flatten() {
        let applied = world.change(&Change::Apply(object.clone())).await;
        applied.map_err(|error| error.to_string())?;
    }
    session.drain(Actor::User, None);
    if let Some(version) = upgrade.version() {
        session.set_version(version.clone());
        session.record(Event::Upgrade { version });
        session.crash();
    }
    Ok(())
}

/// Waits until the object of a step is gone, like `kubectl delete`.
async fn until_gone(world: &World, change: &Change, pace: &Pace) -> bool {
    let Some(object) = change.object() else {
        return true;
    };
    let since = Instant::now();
    while world.object(object).await.is_some() {
        if since.elapsed() >= pace.rest_limit {
            return false;
        }
        tokio::time::sleep(pace.poll).await;
    }
    true
}

/// Waits until nothing has changed for `time`. Returns false if the limit is reached first.
async fn rest(session: &Session, time: Duration, pace: &Pace) -> bool {
    let since = Instant::now();
    loop {
        tokio::time::sleep(pace.poll).await;
        if session.overran() {
            return false;
        }
        if session.quiet_for() >= time {
            return true;
        }
        if since.elapsed() > pace.rest_limit {
            return false;
        }
    }
}
