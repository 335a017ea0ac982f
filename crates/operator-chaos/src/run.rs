//! One run of a plan.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::Instant;

use crate::call::Names;
use crate::error::Error;
use crate::panic;
use crate::plan::Plan;
use crate::predicate::Predicate;
use crate::progress::Monitor;
use crate::session::{Objects, Session};
use crate::state::{Mask, State, differences};
use crate::trace::{Actor, Event, Trace};
use crate::transport;
use crate::workload::{Change, Workload};
use crate::world::{Operator, World, WorldOptions};

/// The times of a run.
#[derive(Debug)]
pub(crate) struct Pace {
    /// True if time passes when everything waits.
    is_simulated: bool,
    /// The interval at which the driver looks for changes.
    poll: Duration,
    /// The time that the controllers have before the operator starts.
    settle: Duration,
    /// The time without changes after which the next step follows.
    step_rest: Duration,
    /// The time without changes after which the end state is taken.
    final_rest: Duration,
    /// The longest time to wait for rest.
    rest_limit: Duration,
    /// The time that an operator has to reach the expected state after faults; exponential backoff can take that long.
    recovery_limit: Duration,
    /// The time after which a crashed operator starts again.
    restart: Duration,
    /// The longest time after which an operator that ended by itself starts again, as with a kubelet.
    restart_max: Duration,
    /// The time for which a watch is held back, in seconds: longer than several steps of a workload.
    pub(crate) hold: u32,
}

/// The times of operators in the process.
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
    hold: 30,
};

/// The times of operators in processes of their own.
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
    hold: 10,
};

/// The parts of a run that all plans share.
pub(crate) struct Setup {
    pub(crate) operator: Operator,
    pub(crate) objects: Vec<serde_json::Value>,
    pub(crate) world: WorldOptions,
    pub(crate) predicates: Arc<Vec<Predicate>>,
    pub(crate) call_limit: usize,
    pub(crate) pace: &'static Pace,
    pub(crate) monitor: Arc<Monitor>,
}

/// The result of a run.
pub(crate) struct Run {
    pub(crate) trace: Trace,
    pub(crate) state: State,
    pub(crate) names: Names,
    pub(crate) objects: Objects,
    /// The number of faults that were injected.
    pub(crate) fired: usize,
    /// True if the cluster came to rest.
    pub(crate) is_quiet: bool,
    /// True if the operator sent more requests than it may.
    pub(crate) overran: bool,
    pub(crate) panics: Vec<String>,
    /// The objects whose third-party changes were overwritten.
    pub(crate) lost: Vec<String>,
    /// The predicates that were violated.
    pub(crate) violations: Vec<(String, String)>,
    /// The writes after a restart at rest, if that was checked.
    pub(crate) writes_at_rest: Vec<String>,
    /// The workload step that failed, and the error.
    pub(crate) failed_step: Option<String>,
}

/// The checks of a run, and the state that it waits for.
#[derive(Clone, Copy)]
pub(crate) struct Expectation<'a> {
    pub(crate) state: Option<(&'a State, &'a Mask)>,
    pub(crate) checks_idempotence: bool,
}

/// Runs a workload under a plan, on this thread.
pub(crate) fn run(
    setup: &Setup,
    workload: &Workload,
    plan: &Plan,
    expectation: Expectation<'_>,
) -> Result<Run, Error> {
    let (run, panics) = panic::recorded(|| {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all();
        #[cfg(feature = "simulation")]
        builder.start_paused(setup.pace.is_simulated);
        let runtime = builder
            .build()
            .map_err(|error| Error::Server(error.to_string()))?;
        runtime.block_on(run_on(setup, workload, plan, expectation))
    });
    let mut run = run?;
    run.panics = panics;
    Ok(run)
}

async fn run_on(
    setup: &Setup,
    workload: &Workload,
    plan: &Plan,
    expectation: Expectation<'_>,
) -> Result<Run, Error> {
    let world = World::start(plan.seed, &setup.world, &setup.objects, setup.pace.settle).await?;
    let session = Arc::new(Session::new(
        world.server.clone(),
        plan.clone(),
        setup.predicates.clone(),
        setup.call_limit,
        !setup.pace.is_simulated,
    ));
    let driver = drive(&world, &session, workload, expectation, setup.pace);
    let driven = tokio::select! {
        biased;
        driven = driver => driven,
        () = live(&session, &setup.operator, setup.pace, expectation.state.is_none()) => Driven {
            is_quiet: true,
            ..Driven::default()
        },
        () = stopped(setup) => return Err(Error::Stopped),
    };
    session.end_life();
    let outcome = session.outcome();
    Ok(Run {
        trace: outcome.trace,
        names: outcome.names,
        objects: outcome.objects,
        fired: outcome.fired,
        overran: outcome.overran,
        lost: outcome.lost,
        violations: outcome.violations,
        state: driven.state,
        is_quiet: driven.is_quiet,
        writes_at_rest: driven.writes_at_rest,
        failed_step: driven.failed_step,
        panics: Vec::new(),
    })
}

/// Waits until the campaign is stopped. A run in simulated time takes milliseconds, and is not interrupted.
async fn stopped(setup: &Setup) {
    if setup.pace.is_simulated {
        return std::future::pending().await;
    }
    while !setup.monitor.is_stopped() {
        tokio::time::sleep(setup.pace.poll).await;
    }
}

/// The lives of the operator. It ends only without faults, after a life that ended by itself: nothing else needs to be known.
async fn live(session: &Arc<Session>, operator: &Operator, pace: &Pace, is_reference: bool) {
    let mut ended_by_itself = 0_u32;
    loop {
        let life = session.begin_life();
        let client = transport::client(session, life);
        let operator = AssertUnwindSafe(async { operator(client).await }).catch_unwind();
        let ended = tokio::select! {
            biased;
            () = session.crashed() => None,
            ended = operator => Some(ended),
        };
        session.end_life();
        let reason = match ended {
            None => {
                tokio::time::sleep(pace.restart).await;
                continue;
            }
            Some(Ok(Ok(()))) => "without an error".to_owned(),
            Some(Ok(Err(error))) => error,
            Some(Err(_)) => "panic".to_owned(),
        };
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

#[derive(Default)]
struct Driven {
    state: State,
    is_quiet: bool,
    writes_at_rest: Vec<String>,
    failed_step: Option<String>,
}

/// Returns the user, and the waiting for rest.
async fn drive(
    world: &World,
    session: &Arc<Session>,
    workload: &Workload,
    expectation: Expectation<'_>,
    pace: &Pace,
) -> Driven {
    let mut driven = Driven::default();
    rest(session, pace.step_rest, pace).await;
    let steps = (1..).zip(&workload.steps);
    for (number, step) in steps {
        session.record(Event::Step {
            number,
            text: step.change.to_string(),
        });
        let changed = world.change(&step.change).await;
        session.drain(Actor::User, None);
        session.touch();
        if let Err(error) = changed {
            driven.failed_step = Some(format!("step {number} ({}): {error}", step.change));
            if expectation.state.is_none() {
                // Nothing can be compared with a workload that fails without faults.
                driven.is_quiet = true;
                return driven;
            }
        }
        if step.wait {
            rest(session, pace.step_rest, pace).await;
            if matches!(step.change, Change::Delete(_)) {
                until_gone(world, &step.change, pace).await;
            }
            if session.end_of_step(number) {
                session.touch();
                rest(session, pace.step_rest, pace).await;
            }
        }
    }
    session.record(Event::Rest);
    while session.holds_watches() {
        tokio::time::sleep(pace.poll).await;
    }
    session.touch();
    driven.is_quiet = rest(session, pace.final_rest, pace).await;
    driven.state = session.state();
    if let Some((expected, mask)) = expectation.state {
        let since = Instant::now();
        while !differences(expected, &driven.state, mask).is_empty()
            && since.elapsed() < pace.recovery_limit
            && !session.overran()
        {
            tokio::time::sleep(pace.final_rest).await;
            session.drain(Actor::Cluster, None);
            driven.state = session.state();
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

/// Waits until the object of a step is gone, as `kubectl delete` does.
async fn until_gone(world: &World, change: &Change, pace: &Pace) {
    let since = Instant::now();
    while world.has_object(change).await && since.elapsed() < pace.rest_limit {
        tokio::time::sleep(pace.poll).await;
    }
}

/// Waits until nothing has changed for `time`. Returns false if that never happens.
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
