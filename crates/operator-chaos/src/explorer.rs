//! [`Explorer`] runs the plans of a campaign: the reference, then batches of plans.

mod confirm;
mod mutants;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::generate::{Combined, Pool, Random, combined};
use crate::oracle::{Reference, Violation, check, fresh_deploy};
use crate::plan::{Action, Fault, Plan, Point};
use crate::progress::{Monitor, Phase, Progress};
use crate::report::{Finding, Report};
use crate::run::{Expectation, Expected, Forks, Pruned, Recovered, Run, Setup, Shortcuts, run};
use crate::single::{Single, single_faults};
use crate::state::{Mask, differences, hash_of};
use crate::trace::{Event, Timeline, Trace};
use crate::workload::Workload;

/// Maximum number of requests of the operator in a run without a known reference.
pub(crate) const REFERENCE_CALLS: usize = 20_000;
/// Maximum number of requests of a run, as a multiple of those of the reference.
const CALLS_FACTOR: usize = 20;
/// The seed of the second reference run. It must differ from the seeds of all plans.
const SECOND_SEED: u64 = 0x5eed;
/// Maximum number of findings that are shrunk and reported. Further ones are only counted.
const FINDINGS_MAX: usize = 25;
/// The number of plans that run before their results are processed. It does not depend on the number of threads, so
/// that the same seed and number of plans lead to the same findings on every machine.
const BATCH: usize = 64;

/// One of this number of plans after the single faults of the user's workload is a single fault of another kind: in the whole
/// workload, or in a workload with a changed spec.
const WHOLE_RUNS: usize = 8;

/// The number of single faults before the changes of the spec begin, so that a small budget covers both.
const BEFORE_MUTANTS: usize = 48;

/// The settings of a campaign.
pub(crate) struct Settings {
    pub(crate) ignored: Vec<String>,
    pub(crate) seed: u64,
    pub(crate) plans: usize,
    pub(crate) jobs: usize,
    pub(crate) budget: Duration,
    pub(crate) stops_at_first: bool,
    pub(crate) checks_idempotence: bool,
}

/// The results without faults.
struct Baseline {
    reference: Reference,
    timeline: Timeline,
    trace: Trace,
    /// The possible faults of the run.
    faults: Vec<Fault>,
    forks: Forks,
    calls: usize,
    /// The number of requests and watch events.
    events: usize,
    /// The states of the cluster that were reached.
    coverage: Vec<u64>,
}

/// A workload that is explored.
struct Subject {
    workload: Workload,
    baseline: Baseline,
    singles: Vec<Single>,
    /// The number of single faults that have been planned.
    taken: usize,
    /// The faults whose plans have only run after a restart of the operator.
    later: VecDeque<Fault>,
    /// The faults whose runs from the start ended early.
    ended: VecDeque<Fault>,
    /// States from which a newly started operator is known to succeed.
    known: BTreeSet<Recovered>,
    /// States in which an operator is known to succeed that has run since the beginning.
    usual: BTreeSet<Recovered>,
}

/// A plan and its workload.
struct Task {
    subject: usize,
    plan: Plan,
    is_single: bool,
    /// True if the plan begins with the state after a step.
    is_forked: bool,
    /// True if the run ends in a state from which others succeeded, even if the operator has not started after the fault.
    is_short: bool,
}

/// The results of a campaign so far.
struct Results {
    random: Random,
    /// The user's workload, followed by workloads with changes of the spec.
    subjects: Vec<Subject>,
    has_mutants: bool,
    mutations: usize,
    /// The single faults of the user's workload that led to new states.
    corpus: Vec<Single>,
    traces: BTreeSet<u64>,
    states: BTreeSet<u64>,
    end_states: BTreeSet<u64>,
    known: BTreeSet<String>,
    generated: usize,
    plans: usize,
    pruned: usize,
    singles_run: usize,
    faults: BTreeMap<String, usize>,
    findings: Vec<Finding>,
}

/// The result of a plan.
struct Outcome {
    pruned: Option<Pruned>,
    /// The hash of the trace.
    trace: u64,
    coverage: Vec<u64>,
    /// The hash of the end state.
    end_state: u64,
    recovered: Vec<Recovered>,
    passed: Vec<Recovered>,
    /// The run and its violations, if there are any.
    failure: Option<(Run, Vec<Violation>)>,
}

/// A plan that violated an oracle in a new way.
struct Candidate {
    task: Task,
    number: usize,
    run: Run,
    violations: Vec<Violation>,
}

/// Runs the plans of a campaign.
pub(crate) struct Explorer {
    setup: Setup,
    workload: Workload,
    settings: Settings,
    monitor: Arc<Monitor>,
}

impl Explorer {
    pub(crate) fn new(settings: Settings, setup: Setup, workload: Workload) -> Self {
        Self {
            monitor: setup.monitor.clone(),
            setup,
            workload,
            settings,
        }
    }

    /// Runs plans until the budget is used up.
    pub(crate) fn explore(mut self) -> Result<Report, Error> {
        let started = Instant::now();
        let mut results = Results::new(self.settings.seed);
        match self.begin(&mut results) {
            Ok(None) => {}
            Ok(Some(finding)) => return Ok(self.report(None, vec![*finding], started)),
            Err(Error::Stopped) => return Ok(self.report(None, Vec::new(), started)),
            Err(error) => return Err(error),
        }
        let end = started + self.settings.budget;
        let is_over = |results: &Results| {
            let has_finding = self.settings.stops_at_first && !results.findings.is_empty();
            Instant::now() >= end || self.monitor.is_stopped() || has_finding
        };
        while !is_over(&results) {
            let batch = self.next_batch(&mut results, end)?;
            if batch.is_empty() {
                break;
            }
            self.run_batch(batch, &mut results, end)?;
        }
        results.findings.sort_by_key(|finding| {
            let is_severe = finding.violations.iter().any(|violation| violation.severe);
            (!is_severe, finding.found_after)
        });
        let findings = std::mem::take(&mut results.findings);
        let subject = results.subjects.first();
        let mut report = self.report(subject.map(|subject| &subject.baseline), findings, started);
        let singles = subject.map_or(&[][..], |subject| &subject.singles);
        report.set_singles(singles.iter().map(|single| &single.fault));
        report.plans = results.plans;
        report.pruned = results.pruned;
        report.mutations = results.mutations;
        report.single_faults_run = results.singles_run;
        report.traces = results.traces.len();
        report.states = results.states.len();
        report.end_states = results.end_states.len();
        report.cover(&results.faults);
        Ok(report)
    }

    /// Runs the workload without faults. Returns a finding if the operator fails even then.
    fn begin(&mut self, results: &mut Results) -> Result<Option<Box<Finding>>, Error> {
        let baseline = match self.baseline_of(&self.workload)? {
            Ok(baseline) => baseline,
            Err(finding) => return Ok(Some(finding)),
        };
        self.limit_calls(&baseline);
        results
            .findings
            .extend(self.compared_with_fresh(&self.workload, &baseline)?);
        results.cover(&baseline.coverage);
        let mut subject = Subject::new(self.workload.clone(), baseline);
        self.fork(&mut subject)?;
        results.subjects.push(subject);
        self.monitor.update(|shown| results.show(shown));
        Ok(None)
    }

    /// Runs the workload from the state after each step, with a restart of the operator. Most plans of the later steps then
    /// begin there, so that the earlier steps run only once.
    fn fork(&self, subject: &mut Subject) -> Result<(), Error> {
        let last = u32::try_from(subject.workload.steps.len()).unwrap_or(u32::MAX);
        let forks = subject.baseline.forks.range(..last);
        let tasks: Vec<Task> = forks
            .map(|(step, _)| Task {
                is_forked: true,
                ..Task::whole(Plan::single(0, Point::Step { step: *step }, Action::Restart))
            })
            .collect();
        let runs = parallel(self.settings.jobs, &tasks, |task| {
            self.run(
                &task.plan,
                &subject.workload,
                &subject.baseline.reference,
                subject.shortcuts(task),
            )
        });
        let mut traces = BTreeMap::new();
        for (task, result) in tasks.iter().zip(runs) {
            let (run, violations) = result?;
            // The restart fails also as a plan of its own.
            if let (Some(step), true) = (task.plan.restart(), violations.is_empty()) {
                subject.known.extend(run.recovered);
                traces.insert(step, run.trace);
            }
        }
        subject.set_singles(single_faults(
            &subject.baseline.trace,
            &traces,
            self.setup.pace.times,
        ));
        Ok(())
    }

    /// Runs one plan.
    pub(crate) fn replay(mut self, plan: &Plan) -> Result<Report, Error> {
        let started = Instant::now();
        match self.replayed(plan, started) {
            Err(Error::Stopped) => Ok(self.report(None, Vec::new(), started)),
            report => report,
        }
    }

    fn replayed(&mut self, plan: &Plan, started: Instant) -> Result<Report, Error> {
        let baseline = match self.baseline_of(&self.workload)? {
            Ok(baseline) => baseline,
            Err(finding) => return Ok(self.report(None, vec![*finding], started)),
        };
        self.limit_calls(&baseline);
        self.monitor.update(|shown| shown.phase = Phase::Plans);
        let findings = if *plan == Plan::default() {
            let finding = self.compared_with_fresh(&self.workload, &baseline)?;
            finding.into_iter().collect()
        } else {
            let reference = &baseline.reference;
            let (run, violations) = self.run(plan, &self.workload, reference, Shortcuts::default())?;
            match violations.is_empty() {
                true => Vec::new(),
                false => vec![self.finding(plan, self.workload.clone(), &run, violations, &baseline)],
            }
        };
        let mut report = self.report(Some(&baseline), findings, started);
        report.set_singles(&baseline.faults);
        report.plans = 1;
        Ok(report)
    }

    /// Runs a workload twice without faults, and learns the differences between runs. Returns a finding if the operator
    /// fails even without faults.
    fn baseline_of(&self, workload: &Workload) -> Result<Result<Baseline, Box<Finding>>, Error> {
        let expectation = Expectation {
            checks_idempotence: self.settings.checks_idempotence,
            ..Expectation::default()
        };
        let mut first = run(&self.setup, workload, &Plan::default(), expectation)?;
        let violations = check(&first, None);
        if !violations.is_empty() {
            return Ok(Err(Box::new(without_faults(
                "no fault",
                workload.clone(),
                violations,
                first.trace.timeline().lines,
            ))));
        }
        let second = Plan {
            seed: SECOND_SEED,
            ..Plan::default()
        };
        let second = run(&self.setup, workload, &second, expectation)?;
        let mut mask = Mask::new(&self.settings.ignored);
        mask.learn(&differences(&first.state, &second.state, &mask));
        for (step, state) in &first.step_states {
            if let Some(other) = second.step_states.get(step) {
                mask.learn(&differences(state, other, &mask));
            }
        }
        let reference = Reference::new(&mut first, mask);
        let before_check = |event: &&Event| !matches!(event, Event::IdempotenceCheck);
        let events = || first.trace.iter().take_while(before_check);
        let is_call = |event: &&Event| matches!(event, Event::Call { .. });
        let is_delivery = |event: &&Event| matches!(event, Event::Delivery { .. });
        let calls = events().filter(is_call).count();
        Ok(Ok(Baseline {
            calls,
            events: calls + events().filter(is_delivery).count(),
            faults: single_faults(&first.trace, &BTreeMap::new(), self.setup.pace.times)
                .into_iter()
                .map(|single| single.fault)
                .collect(),
            timeline: first.trace.timeline(),
            forks: first.forks,
            reference,
            coverage: first.coverage,
            trace: first.trace,
        }))
    }

    /// Compares the end state of a workload with the state after creating the same objects at once.
    fn compared_with_fresh(
        &self,
        workload: &Workload,
        baseline: &Baseline,
    ) -> Result<Option<Finding>, Error> {
        let violations = self.differences_to_fresh(workload, baseline)?;
        Ok((!violations.is_empty()).then(|| {
            without_faults(
                "no fault: the workload leads to another state than a fresh deployment",
                workload.clone(),
                violations,
                baseline.timeline.lines.clone(),
            )
        }))
    }

    fn differences_to_fresh(
        &self,
        workload: &Workload,
        baseline: &Baseline,
    ) -> Result<Vec<Violation>, Error> {
        let Some(fresh) = workload.fresh() else {
            return Ok(Vec::new());
        };
        let fresh = run(&self.setup, &fresh, &Plan::default(), Expectation::default())?;
        if !check(&fresh, None).is_empty() {
            return Ok(Vec::new());
        }
        let reference = &baseline.reference;
        Ok(fresh_deploy(&fresh.state, &reference.state, &reference.mask))
    }

    /// Limits the requests of a run to a multiple of those of the reference.
    fn limit_calls(&mut self, baseline: &Baseline) {
        self.setup.call_limit = baseline.calls * CALLS_FACTOR + 500;
    }

    fn run(
        &self,
        plan: &Plan,
        workload: &Workload,
        reference: &Reference,
        shortcuts: Shortcuts<'_>,
    ) -> Result<(Run, Vec<Violation>), Error> {
        let expectation = Expectation {
            states: Some(Expected {
                end: &reference.state,
                steps: &reference.step_states,
                recovered: &reference.recovered,
                mask: &reference.mask,
            }),
            checks_idempotence: false,
            shortcuts,
        };
        let run = run(&self.setup, workload, plan, expectation)?;
        let violations = check(&run, Some(reference));
        Ok((run, violations))
    }

    /// Returns the next plans: first single faults of the user's workload and changes of the spec, then schedules,
    /// pairs of faults, and single faults of workloads whose changes led to new states.
    fn next_batch(&self, results: &mut Results, end: Instant) -> Result<Vec<Task>, Error> {
        let mut batch = Vec::new();
        while batch.len() < BATCH && results.generated < self.settings.plans {
            let is_due = results.generated >= BEFORE_MUTANTS && !results.has_mutants;
            let single = if is_due { None } else { results.next_single(0) };
            if let Some(task) = single {
                batch.push(task);
                continue;
            }
            if !results.has_mutants {
                if !batch.is_empty() {
                    break;
                }
                results.has_mutants = true;
                self.explore_mutants(results, end)?;
                continue;
            }
            batch.push(results.next_combined());
        }
        Ok(batch)
    }

    /// Runs plans on several threads, and processes their results in the order of the plans. Plans that have not
    /// started when the budget ends are skipped.
    fn run_batch(&self, batch: Vec<Task>, results: &mut Results, end: Instant) -> Result<(), Error> {
        let first = results.generated - batch.len();
        let jobs = self.settings.jobs;
        let subjects = &results.subjects;
        let runs = parallel(jobs, &batch, |task| {
            let has_time = Instant::now() < end && !self.monitor.is_stopped();
            let subject = subjects.get(task.subject).filter(|_| has_time)?;
            let reference = &subject.baseline.reference;
            let shortcuts = subject.shortcuts(task);
            let result = self.run(&task.plan, &subject.workload, reference, shortcuts);
            self.monitor
                .update(|shown| shown.plans += usize::from(result.is_ok()));
            Some(result.map(|(run, violations)| Outcome::of(run, violations)))
        });
        let (mut candidates, mut repeated) = (Vec::new(), Vec::new());
        for (index, (task, result)) in batch.into_iter().zip(runs).enumerate() {
            let outcome = match result {
                None | Some(Err(Error::Stopped)) => continue,
                Some(result) => result?,
            };
            let Some((run, violations)) = results.take(&task, outcome) else {
                continue;
            };
            if results.is_new(&violations) {
                candidates.push(Candidate {
                    task,
                    number: first + index + 1,
                    run,
                    violations,
                });
                // The results are in the order of the plans, so that the first finding does not depend on the threads.
                if self.settings.stops_at_first {
                    break;
                }
            } else {
                repeated.extend(violations.first().map(Violation::fingerprint));
            }
        }
        if !candidates.is_empty() {
            self.monitor.update(|shown| shown.phase = Phase::Shrinking);
        }
        let subjects = &results.subjects;
        let confirmed = parallel(jobs, &candidates, |candidate| {
            let subject = subjects.get(candidate.task.subject)?;
            Some(self.confirmed(candidate, subject))
        });
        for (candidate, finding) in candidates.iter().zip(confirmed) {
            match finding.transpose()?.flatten() {
                Some(finding) => results.findings.push(finding),
                None => results.forget(&candidate.violations),
            }
        }
        for fingerprint in repeated {
            let is_same = |finding: &&mut Finding| {
                finding
                    .violations
                    .iter()
                    .any(|it| it.fingerprint() == fingerprint)
            };
            if let Some(finding) = results.findings.iter_mut().find(is_same) {
                finding.plans += 1;
            }
        }
        self.monitor.update(|shown| results.show(shown));
        Ok(())
    }

    fn report(&self, baseline: Option<&Baseline>, findings: Vec<Finding>, started: Instant) -> Report {
        self.monitor.update(|shown| {
            shown.phase = Phase::Done;
            shown.findings = findings.len();
        });
        Report {
            stopped: self.monitor.is_stopped(),
            seed: self.settings.seed,
            reference_calls: baseline.map_or(0, |baseline| baseline.calls),
            masked_fields: baseline.map_or(0, |baseline| baseline.reference.mask.learned()),
            elapsed_ms: millis(started),
            findings,
            ..Report::default()
        }
    }
}

/// Returns a finding of a run without faults.
fn without_faults(
    text: &str,
    workload: Workload,
    violations: Vec<Violation>,
    timeline: Vec<String>,
) -> Finding {
    let plan = Plan::default();
    Finding {
        id: id_of(&plan, &workload),
        text: text.to_owned(),
        plan,
        workload,
        violations,
        plans: 1,
        timeline,
        ..Finding::default()
    }
}

// === impl Task ===

impl Task {
    /// Returns the plan of single faults that occur after the same step.
    fn of(subject: usize, singles: &[Single]) -> Self {
        let fork = singles.first().and_then(|single| single.fork);
        let restart = fork.map(|step| Fault {
            at: Point::Step { step },
            action: Action::Restart,
        });
        let faults = singles.iter().map(|single| single.fault.clone());
        Self {
            subject,
            plan: Plan {
                faults: restart.into_iter().chain(faults).collect(),
                ..Plan::default()
            },
            is_single: false,
            is_forked: fork.is_some(),
            is_short: false,
        }
    }

    /// Returns a plan of the user's workload from the first to the last step.
    fn whole(plan: Plan) -> Self {
        Self {
            plan,
            ..Self::of(0, &[])
        }
    }
}

// === impl Outcome ===

impl Outcome {
    fn of(mut run: Run, violations: Vec<Violation>) -> Self {
        Self {
            pruned: run.pruned,
            trace: run.trace.hash(),
            coverage: std::mem::take(&mut run.coverage),
            end_state: hash_of(&run.state),
            recovered: std::mem::take(&mut run.recovered),
            passed: std::mem::take(&mut run.passed),
            failure: (!violations.is_empty()).then_some((run, violations)),
        }
    }
}

// === impl Subject ===

impl Subject {
    fn new(workload: Workload, baseline: Baseline) -> Self {
        let faults = baseline.faults.iter().cloned();
        Self {
            workload,
            singles: faults.map(|fault| Single { fork: None, fault }).collect(),
            taken: 0,
            later: VecDeque::new(),
            ended: VecDeque::new(),
            known: BTreeSet::new(),
            usual: baseline.reference.recovered.clone(),
            baseline,
        }
    }

    /// Sets the single faults that run first. Those that then only follow a restart run from the start later.
    fn set_singles(&mut self, singles: Vec<Single>) {
        let is_later = |fault: &&Fault| {
            !singles
                .iter()
                .any(|single| single.fork.is_none() && single.fault == **fault)
        };
        self.later = self.baseline.faults.iter().filter(is_later).cloned().collect();
        self.singles = singles;
    }

    /// Returns the shortcuts of a plan. Of a short plan with one fault, the whole workload follows later.
    fn shortcuts(&self, task: &Task) -> Shortcuts<'_> {
        let usual = match task.is_single {
            true => &self.baseline.reference.recovered,
            false => &self.usual,
        };
        Shortcuts {
            known: Some(&self.known),
            usual: task.is_short.then_some(usual),
            forks: task.is_forked.then_some(&self.baseline.forks),
        }
    }
}

// === impl Results ===

impl Results {
    fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            subjects: Vec::new(),
            has_mutants: false,
            mutations: 0,
            corpus: Vec::new(),
            traces: BTreeSet::new(),
            states: BTreeSet::new(),
            end_states: BTreeSet::new(),
            known: BTreeSet::new(),
            generated: 0,
            plans: 0,
            pruned: 0,
            singles_run: 0,
            faults: BTreeMap::new(),
            findings: Vec::new(),
        }
    }

    /// Copies the results to the progress report.
    fn show(&self, shown: &mut Progress) {
        let first = self.subjects.first();
        shown.phase = Phase::Plans;
        shown.plans = self.plans;
        shown.single_faults = first.map_or(0, |subject| subject.singles.len());
        shown.single_faults_run = self.singles_run;
        shown.traces = self.traces.len();
        shown.end_states = self.end_states.len();
        shown.findings = self.findings.len();
    }

    /// Returns the next single fault of a workload.
    fn next_single(&mut self, index: usize) -> Option<Task> {
        let subject = self.subjects.get_mut(index)?;
        let single = subject.singles.get(subject.taken)?;
        let task = Task {
            is_single: true,
            is_short: index == 0,
            ..Task::of(index, std::slice::from_ref(single))
        };
        subject.taken += 1;
        self.generated += 1;
        Some(task)
    }

    /// Returns the next plan of the user's workload that runs from the first to the last step, with a fault that ran only with a
    /// part of the workload before.
    fn next_later(&mut self) -> Option<Task> {
        let Subject { later, ended, .. } = self.subjects.first_mut()?;
        let (first, second) = match (self.generated / WHOLE_RUNS).is_multiple_of(2) {
            true => (ended, later),
            false => (later, ended),
        };
        let fault = first.pop_front().or_else(|| second.pop_front())?;
        self.generated += 1;
        Some(Task::whole(Plan {
            faults: vec![fault],
            ..Plan::default()
        }))
    }

    /// Returns the next single fault from the start of the workload or of a workload with a changed spec, or a schedule or
    /// a pair of faults.
    fn next_combined(&mut self) -> Task {
        if self.generated.is_multiple_of(WHOLE_RUNS) {
            let first = 1;
            let is_open = |index: &usize| {
                let subject = &self.subjects[*index];
                subject.taken < subject.singles.len()
            };
            let open = (first..self.subjects.len()).find(is_open);
            let task = self.next_later();
            if let Some(task) = task.or_else(|| self.next_single(open?)) {
                return task;
            }
        }
        self.generated += 1;
        let Some(subject) = self.subjects.first() else {
            return Task::whole(Plan::default());
        };
        let pool = Pool {
            singles: &subject.singles,
            corpus: &self.corpus,
            faults: &subject.baseline.faults,
            events: subject.baseline.events,
        };
        match combined(&mut self.random, &pool) {
            Combined::Whole(plan) => Task::whole(plan),
            Combined::Pair(pair) => Task {
                is_short: true,
                ..Task::of(0, &pair)
            },
        }
    }

    /// Counts states of the cluster. Returns true if one of them is new.
    fn cover(&mut self, states: &[u64]) -> bool {
        let before = self.states.len();
        self.states.extend(states);
        self.states.len() > before
    }

    /// Records the result of a plan. Returns the run and its violations, if there are any.
    fn take(&mut self, task: &Task, outcome: Outcome) -> Option<(Run, Vec<Violation>)> {
        self.plans += 1;
        self.pruned += usize::from(outcome.pruned.is_some());
        if outcome.pruned == Some(Pruned::Running)
            && task.is_single
            && !task.is_forked
            && let Some(subject) = self.subjects.get_mut(task.subject)
        {
            subject.ended.extend(task.plan.faults.last().cloned());
        }
        if task.is_single && task.subject == 0 {
            self.singles_run += 1;
            if let Some(fault) = task.plan.faults.last() {
                *self.faults.entry(fault.action.kind()).or_default() += 1;
            }
        }
        self.traces.insert(outcome.trace);
        if self.cover(&outcome.coverage) && task.is_single && task.subject == 0 {
            let fault = task.plan.faults.last().cloned();
            let fork = task.plan.restart().filter(|_| task.is_forked);
            self.corpus.extend(fault.map(|fault| Single { fork, fault }));
        }
        if outcome.pruned.is_none() {
            self.end_states.insert(outcome.end_state);
        }
        if let Some(subject) = self.subjects.get_mut(task.subject)
            && outcome.failure.is_none()
        {
            subject.known.extend(outcome.recovered);
            subject.usual.extend(outcome.passed);
        }
        outcome.failure
    }

    /// Returns true if violations must be investigated: one of them is new, and the maximum number of findings is not
    /// reached.
    fn is_new(&mut self, violations: &[Violation]) -> bool {
        let fingerprints: Vec<String> = violations.iter().map(Violation::fingerprint).collect();
        let is_known = fingerprints
            .iter()
            .all(|fingerprint| self.known.contains(fingerprint));
        if is_known || self.findings.len() >= FINDINGS_MAX {
            return false;
        }
        self.known.extend(fingerprints);
        true
    }

    /// Makes violations new again.
    fn forget(&mut self, violations: &[Violation]) {
        for violation in violations {
            self.known.remove(&violation.fingerprint());
        }
    }
}

/// Maps items on several threads. The results are in the order of the items.
fn parallel<T: Sync, R: Send>(jobs: usize, items: &[T], map: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut results = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else {
                return results;
            };
            results.push((index, map(item)));
        }
    };
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs.min(items.len())).map(|_| scope.spawn(work)).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .flat_map(|results| results.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

fn id_of(plan: &Plan, workload: &Workload) -> String {
    let json = serde_json::to_string(&(plan, workload)).unwrap_or_default();
    hash_text(&json)
}

fn hash_text(text: &str) -> String {
    let hash = Sha256::digest(text.as_bytes());
    hash.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
