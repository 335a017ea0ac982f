//! Campaigns: the exploration of an operator with many plans.

use std::collections::BTreeSet;
use std::ffi::OsString;
#[cfg(feature = "simulation")]
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

#[cfg(feature = "simulation")]
use futures::FutureExt;
#[cfg(feature = "simulation")]
use kube::Client;
use operator_controlplane::Delays;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::file;
use crate::generate::{Random, combined, single_faults};
use crate::oracle::{Reference, Violation, check};
use crate::plan::{Fault, Plan};
use crate::predicate::{Cluster, Predicate, When};
use crate::process;
use crate::progress::{self, Monitor, Phase, Progress, Sink, Stop};
use crate::report::{Finding, Report};
use crate::run::{Expectation, Pace, REAL, Run, Setup, run};
use crate::shrink::shrink;
use crate::state::{Mask, differences};
use crate::trace::Event;
use crate::workload::Workload;
use crate::world::{Operator, WorldOptions};

/// The requests that the operator may send in a run whose reference is not known yet.
const REFERENCE_CALLS: usize = 20_000;
/// The limit of the requests of a run, as a multiple of those of the reference.
const CALLS_FACTOR: usize = 20;
/// The seed of the second reference run, which must differ from that of every plan.
const SECOND_SEED: u64 = 0x5eed;
/// Findings beyond this number are counted, but not shrunk and reported.
const FINDINGS_MAX: usize = 25;
/// The number of plans that run before their results are taken. Independent of the number of threads, so that a seed and
/// a number of plans lead to the same findings on every machine.
const BATCH: usize = 16;
/// The directory of the findings in a project.
const DIRECTORY: &str = "target/operator-sdk/chaos";

/// The exploration of an operator: builds a simulated cluster for each plan, and runs the operator and a workload on it.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use kube::{Api, Client};
/// use operator_chaos::{Chaos, Workload};
/// use serde_json::json;
///
/// /// Creates an object with a generated name each time it starts.
/// async fn operator(client: Client) -> Result<(), kube::Error> {
///     let configs = Api::<ConfigMap>::default_namespaced(client);
///     let mut config = ConfigMap::default();
///     config.metadata.generate_name = Some("made-".to_owned());
///     configs.create(&Default::default(), &config).await?;
///     std::future::pending().await
/// }
///
/// let report = Chaos::new(operator).workload(Workload::new()).plans(5).run().unwrap();
/// assert!(report.to_string().contains("configmaps default/made-*"), "{report}");
/// ```
#[must_use = "call `run`"]
pub struct Chaos {
    operator: Operator,
    objects: Vec<Value>,
    crd_paths: Vec<PathBuf>,
    workload: Workload,
    workload_path: Option<PathBuf>,
    world: WorldOptions,
    predicates: Vec<Predicate>,
    ignored: Vec<String>,
    seed: u64,
    jobs: Option<usize>,
    budget: Duration,
    plans: usize,
    stops_at_first: bool,
    checks_idempotence: bool,
    pace: &'static Pace,
    replay: Option<String>,
    reports: Vec<PathBuf>,
    writes_findings: bool,
    sinks: Vec<Sink>,
    stops: Vec<Stop>,
}

/// The results without faults.
struct Baseline {
    reference: Reference,
    essence: Vec<String>,
    timeline: Vec<String>,
    singles: Vec<Fault>,
    calls: usize,
}

/// The results of a campaign up to now.
struct Results {
    random: Random,
    corpus: Vec<Fault>,
    traces: BTreeSet<String>,
    end_states: BTreeSet<String>,
    known: BTreeSet<String>,
    generated: usize,
    plans: usize,
    singles_run: usize,
    findings: Vec<Finding>,
}

/// A plan that violated an oracle in a way that no plan before it did.
struct Candidate {
    plan: Plan,
    number: usize,
    run: Run,
    violations: Vec<Violation>,
}

// === impl Chaos ===

impl Chaos {
    /// Begins the exploration of an operator. The function runs the operator with the client that it gets, until its future is
    /// dropped, which is a crash. Tasks that the operator has spawned must end with the future; in any case their client does
    /// nothing any more.
    ///
    /// Default: no workload, one node, a budget of 10 seconds, one thread for each core.
    #[cfg(feature = "simulation")]
    pub fn new<F, R, E>(operator: F) -> Self
    where
        F: Fn(Client) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), E>> + 'static,
        E: Display,
    {
        let operator: Operator = Arc::new(move |client| {
            let running = operator(client);
            async move { running.await.map_err(|error| error.to_string()) }.boxed_local()
        });
        Self::of(operator, &crate::run::SIMULATED)
    }

    /// Begins the exploration of an operator in a process of its own, in any language. Each life of the operator runs the command,
    /// with the path of a kubeconfig in `KUBECONFIG`. A crash kills the process and the processes that it started in its group.
    ///
    /// Time is real, so that a plan takes seconds. Two runs of a plan can differ; a finding says so.
    ///
    /// # Errors
    /// Returns an error if the certificate of the server cannot be made.
    pub fn command(command: impl IntoIterator<Item = impl Into<OsString>>) -> Result<Self, Error> {
        let command = command.into_iter().map(Into::into).collect();
        Ok(Self::of(process::operator(command)?, &REAL))
    }

    fn of(operator: Operator, pace: &'static Pace) -> Self {
        Self {
            operator,
            objects: Vec::new(),
            crd_paths: Vec::new(),
            workload: Workload::default(),
            workload_path: None,
            world: WorldOptions {
                nodes: 1,
                delays: Delays::default(),
                starts_at: None,
            },
            predicates: Vec::new(),
            ignored: Vec::new(),
            seed: 1,
            jobs: None,
            budget: Duration::from_secs(10),
            plans: usize::MAX,
            stops_at_first: false,
            checks_idempotence: true,
            pace,
            replay: None,
            reports: Vec::new(),
            writes_findings: false,
            sinks: Vec::new(),
            stops: Vec::new(),
        }
    }

    /// Installs CustomResourceDefinitions or other objects before the operator starts.
    pub fn objects<T: serde::Serialize>(mut self, objects: impl IntoIterator<Item = T>) -> Self {
        let values = objects
            .into_iter()
            .map(|object| serde_json::to_value(object).unwrap_or_default());
        self.objects.extend(values);
        self
    }

    /// Installs the objects of a YAML file, or of all YAML files of a directory, before the operator starts.
    pub fn crd_path(mut self, path: impl Into<PathBuf>) -> Self {
        self.crd_paths.push(path.into());
        self
    }

    /// Sets the workload.
    pub fn workload(mut self, workload: Workload) -> Self {
        self.workload = workload;
        self.workload_path = None;
        self
    }

    /// Sets the file of the workload.
    pub fn workload_path(mut self, path: impl Into<PathBuf>) -> Self {
        self.workload_path = Some(path.into());
        self
    }

    /// Sets the number of simulated nodes. Default: 1.
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.world.nodes = nodes;
        self
    }

    /// Sets how long simulated pods take to start, to finish and to stop, in simulated time. Default: no time.
    pub fn delays(mut self, delays: Delays) -> Self {
        self.world.delays = delays;
        self
    }

    /// Sets the simulated time at the start of each run, in whole seconds: [`now`](crate::now) continues it. Default: the time of
    /// the machine.
    pub fn starts_at(mut self, time: SystemTime) -> Self {
        self.world.starts_at = Some(time);
        self
    }

    /// Does not compare a field: `RESOURCE FIELD`, such as `widgets.example.com status.lastBackup`, or `FIELD` for every
    /// resource. `RESOURCE *` ignores a resource.
    pub fn ignore(mut self, field: impl Into<String>) -> Self {
        self.ignored.push(field.into());
        self
    }

    /// Checks that a predicate holds in every state.
    pub fn always(self, name: &str, holds: impl Fn(&Cluster<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.predicate(name, When::Always, holds)
    }

    /// Checks that a predicate holds in no state.
    pub fn never(self, name: &str, holds: impl Fn(&Cluster<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.predicate(name, When::Never, holds)
    }

    /// Checks that a predicate holds in some state.
    pub fn eventually(
        self,
        name: &str,
        holds: impl Fn(&Cluster<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.predicate(name, When::Eventually, holds)
    }

    fn predicate(
        mut self,
        name: &str,
        when: When,
        holds: impl Fn(&Cluster<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.predicates.push(Predicate::new(name, when, holds));
        self
    }

    /// Sets the seed of random plans. Default: 1.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the number of threads. Default: one for each core.
    pub fn jobs(mut self, jobs: usize) -> Self {
        self.jobs = Some(jobs.max(1));
        self
    }

    /// Sets the real time after which no further plan is begun. Default: 10 seconds.
    pub fn budget(mut self, budget: Duration) -> Self {
        self.budget = budget;
        self
    }

    /// Sets the number of plans. Single faults come first, then random delays and pairs of faults. Default: no limit.
    pub fn plans(mut self, plans: usize) -> Self {
        self.plans = plans;
        self
    }

    /// Begins no further plan after the first finding.
    pub fn stop_at_first_finding(mut self) -> Self {
        self.stops_at_first = true;
        self
    }

    /// Writes the report of [`Chaos::run`] to a file, in the format of its extension: `.txt`, `.json`, `.xml` (JUnit) or `.html`.
    pub fn report_path(mut self, path: impl Into<PathBuf>) -> Self {
        self.reports.push(path.into());
        self
    }

    /// Prints the progress on standard error, and writes the findings to `target/operator-sdk/chaos`.
    pub fn with_progress(mut self) -> Self {
        self.sinks.push(progress::printer());
        self.writes_findings = true;
        self
    }

    /// Calls a function with the progress: when the campaign enters another phase, and at most ten times each second.
    pub fn on_progress(mut self, sink: impl Fn(&Progress) + Send + Sync + 'static) -> Self {
        self.sinks.push(Box::new(sink));
        self
    }

    /// Ends the campaign early once the function returns true. The report then has the results up to that time. The function is
    /// called often, from several threads.
    pub fn stop_when(mut self, stop: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.stops.push(Box::new(stop));
        self
    }

    /// Lets [`Chaos::run`] replay a finding that was written to `target/operator-sdk/chaos`, by its ID, or that of another file.
    pub fn replay_finding(mut self, id: impl Into<String>) -> Self {
        self.replay = Some(id.into());
        self
    }

    /// Does not check that a restart at rest changes nothing.
    pub fn without_idempotence_check(mut self) -> Self {
        self.checks_idempotence = false;
        self
    }

    /// Explores the operator until the budget is used up. It must not be called within a tokio runtime.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or written, or an object or the first run without faults cannot be
    /// carried out.
    pub fn run(mut self) -> Result<Report, Error> {
        let reports = std::mem::take(&mut self.reports);
        let writes_findings = self.writes_findings || Path::new("PROJECT").is_file();
        let (report, is_new) = match self.replay.take() {
            Some(id) => {
                let finding = finding_of(&id)?;
                self = self.workload(finding.workload);
                (self.replay(&finding.plan)?, false)
            }
            None => (self.explore()?, true),
        };
        for path in &reports {
            report.write(path).map_err(|source| Error::Write {
                path: path.clone(),
                source,
            })?;
        }
        if is_new && writes_findings && !report.is_clean() {
            let path = PathBuf::from(DIRECTORY);
            let written = report.write_findings(&path);
            written.map_err(|source| Error::Write { path, source })?;
        }
        Ok(report)
    }

    /// Runs one plan and returns its violations as a report.
    ///
    /// # Errors
    /// As for [`Chaos::run`].
    pub fn replay(mut self, plan: &Plan) -> Result<Report, Error> {
        let started = Instant::now();
        let (setup, workload) = self.setup()?;
        let mut explorer = Explorer::new(&self, setup, workload);
        let baseline = match explorer.baseline() {
            Ok(Ok(baseline)) => baseline,
            Ok(Err(finding)) => return Ok(explorer.report(None, vec![*finding], started)),
            Err(Error::Stopped) => return Ok(explorer.report(None, Vec::new(), started)),
            Err(error) => return Err(error),
        };
        explorer.limit_calls(&baseline);
        explorer.monitor.update(|progress| progress.phase = Phase::Plans);
        let (run, violations) = match explorer.run(plan, &explorer.workload, &baseline.reference) {
            Err(Error::Stopped) => return Ok(explorer.report(Some(&baseline), Vec::new(), started)),
            run => run?,
        };
        let findings = match violations.is_empty() {
            true => Vec::new(),
            false => vec![explorer.finding(plan, explorer.workload.clone(), &run, violations, &baseline)],
        };
        let mut report = explorer.report(Some(&baseline), findings, started);
        report.plans = 1;
        Ok(report)
    }

    /// Reads the files.
    fn setup(&mut self) -> Result<(Setup, Workload), Error> {
        let mut objects = Vec::new();
        for path in &self.crd_paths {
            objects.extend(file::documents(path)?);
        }
        objects.extend(std::mem::take(&mut self.objects));
        let workload = match &self.workload_path {
            None => self.workload.clone(),
            Some(path) => Workload::from_yaml(&file::text_of(path)?).map_err(|error| Error::Yaml {
                path: path.clone(),
                problem: error.to_string(),
            })?,
        };
        let setup = Setup {
            operator: self.operator.clone(),
            objects,
            world: self.world.clone(),
            predicates: Arc::new(std::mem::take(&mut self.predicates)),
            call_limit: REFERENCE_CALLS,
            pace: self.pace,
            monitor: Arc::new(Monitor::new(
                std::mem::take(&mut self.sinks),
                std::mem::take(&mut self.stops),
                self.budget,
                self.plans,
            )),
        };
        Ok((setup, workload))
    }

    fn explore(mut self) -> Result<Report, Error> {
        let started = Instant::now();
        let (setup, workload) = self.setup()?;
        let mut explorer = Explorer::new(&self, setup, workload);
        let baseline = match explorer.baseline() {
            Ok(Ok(baseline)) => baseline,
            Ok(Err(finding)) => return Ok(explorer.report(None, vec![*finding], started)),
            Err(Error::Stopped) => return Ok(explorer.report(None, Vec::new(), started)),
            Err(error) => return Err(error),
        };
        explorer.limit_calls(&baseline);
        let mut progress = Results {
            random: Random::new(self.seed),
            corpus: Vec::new(),
            traces: BTreeSet::new(),
            end_states: BTreeSet::new(),
            known: BTreeSet::new(),
            generated: 0,
            plans: 0,
            singles_run: 0,
            findings: Vec::new(),
        };
        explorer.monitor.update(|shown| progress.show(&baseline, shown));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let jobs = self.jobs.unwrap_or(cores);
        let end = started + self.budget;
        while Instant::now() < end && !explorer.monitor.is_stopped() {
            let batch = explorer.next_batch(&baseline, &mut progress);
            if batch.is_empty() {
                break;
            }
            explorer.run_batch(batch, &baseline, &mut progress, jobs, end)?;
            if self.stops_at_first && !progress.findings.is_empty() {
                break;
            }
        }
        progress.findings.sort_by_key(|finding| {
            let is_severe = finding.violations.iter().any(|violation| violation.severe);
            (!is_severe, finding.found_after)
        });
        let mut report = explorer.report(Some(&baseline), progress.findings, started);
        report.plans = progress.plans;
        report.single_faults_run = progress.singles_run;
        report.traces = progress.traces.len();
        report.end_states = progress.end_states.len();
        Ok(report)
    }
}

/// Runs the plans of a campaign.
struct Explorer {
    setup: Setup,
    workload: Workload,
    ignored: Vec<String>,
    seed: u64,
    plans: usize,
    stops_at_first: bool,
    checks_idempotence: bool,
    monitor: Arc<Monitor>,
}

impl Explorer {
    fn new(chaos: &Chaos, setup: Setup, workload: Workload) -> Self {
        Self {
            monitor: setup.monitor.clone(),
            setup,
            workload,
            ignored: chaos.ignored.clone(),
            seed: chaos.seed,
            plans: chaos.plans,
            stops_at_first: chaos.stops_at_first,
            checks_idempotence: chaos.checks_idempotence,
        }
    }

    /// Runs the workload twice without faults, and learns what differs from run to run. Returns a finding if the operator fails
    /// undisturbed.
    fn baseline(&self) -> Result<Result<Baseline, Box<Finding>>, Error> {
        self.baseline_of(&self.workload)
    }

    fn baseline_of(&self, workload: &Workload) -> Result<Result<Baseline, Box<Finding>>, Error> {
        let expectation = Expectation {
            state: None,
            checks_idempotence: self.checks_idempotence,
        };
        let first = run(&self.setup, workload, &Plan::default(), expectation)?;
        let violations = check(&first, None);
        if !violations.is_empty() {
            let plan = Plan::default();
            let finding = Finding {
                id: id_of(&plan, workload),
                text: "no fault".to_owned(),
                plan,
                workload: workload.clone(),
                violations,
                plans: 1,
                timeline: first.trace.lines(),
                ..Finding::default()
            };
            return Ok(Err(Box::new(finding)));
        }
        let second = Plan {
            seed: SECOND_SEED,
            ..Plan::default()
        };
        let second = run(&self.setup, workload, &second, expectation)?;
        let mut mask = Mask::new(&self.ignored);
        mask.learn(&differences(&first.state, &second.state, &mask));
        let before_check = |event: &&Event| !matches!(event, Event::IdempotenceCheck);
        let calls = first
            .trace
            .iter()
            .take_while(before_check)
            .filter(|event| matches!(event, Event::Call { .. }));
        Ok(Ok(Baseline {
            singles: single_faults(&first.trace, self.setup.pace.hold),
            essence: first.trace.essence(),
            timeline: first.trace.lines(),
            calls: calls.count(),
            reference: Reference {
                deletions: first.trace.deletions(),
                state: first.state,
                mask,
            },
        }))
    }

    /// Limits the requests of a run by those of the reference.
    fn limit_calls(&mut self, baseline: &Baseline) {
        self.setup.call_limit = baseline.calls * CALLS_FACTOR + 500;
    }

    fn run(
        &self,
        plan: &Plan,
        workload: &Workload,
        reference: &Reference,
    ) -> Result<(Run, Vec<Violation>), Error> {
        let expectation = Expectation {
            state: Some((&reference.state, &reference.mask)),
            checks_idempotence: false,
        };
        let run = run(&self.setup, workload, plan, expectation)?;
        let violations = check(&run, Some(reference));
        Ok((run, violations))
    }

    /// Returns the plans that run next: single faults first.
    fn next_batch(&self, baseline: &Baseline, progress: &mut Results) -> Vec<Plan> {
        let first = progress.generated;
        progress.generated = (first + BATCH).min(self.plans);
        let plans = (first..progress.generated).map(|index| match baseline.singles.get(index) {
            Some(fault) => Plan {
                faults: vec![fault.clone()],
                ..Plan::default()
            },
            None => combined(&mut progress.random, &baseline.singles, &progress.corpus),
        });
        plans.collect()
    }

    /// Runs plans on several threads, and takes their results in the order of the plans. Plans that have not begun when the
    /// budget ends are left out.
    fn run_batch(
        &self,
        batch: Vec<Plan>,
        baseline: &Baseline,
        progress: &mut Results,
        jobs: usize,
        end: Instant,
    ) -> Result<(), Error> {
        let first = progress.generated - batch.len();
        let results = parallel(jobs, &batch, |plan| {
            let has_time = Instant::now() < end && !self.monitor.is_stopped();
            let result = has_time.then(|| self.run(plan, &self.workload, &baseline.reference))?;
            self.monitor
                .update(|progress| progress.plans += usize::from(result.is_ok()));
            Some(result)
        });
        let (mut candidates, mut repeated) = (Vec::new(), Vec::new());
        for (index, (plan, result)) in batch.into_iter().zip(results).enumerate() {
            let (run, violations) = match result {
                None | Some(Err(Error::Stopped)) => continue,
                Some(result) => result?,
            };
            let number = first + index + 1;
            progress.plans += 1;
            progress.singles_run += usize::from(number <= baseline.singles.len());
            if progress.traces.insert(run.trace.hash()) && plan.faults.len() == 1 {
                progress.corpus.extend(plan.faults.iter().cloned());
            }
            progress.end_states.insert(hash_of(&run.state));
            let candidate = Candidate {
                plan,
                number,
                run,
                violations,
            };
            let Some(violation) = candidate.violations.first() else {
                continue;
            };
            if progress.is_new(&candidate.violations) {
                candidates.push(candidate);
                // The results are in plan order, so that the first finding does not depend on the threads.
                if self.stops_at_first {
                    break;
                }
            } else {
                repeated.push(violation.fingerprint());
            }
        }
        if !candidates.is_empty() {
            self.monitor.update(|shown| shown.phase = Phase::Shrinking);
        }
        let confirmed = parallel(jobs, &candidates, |candidate| self.confirmed(candidate, baseline));
        for finding in confirmed {
            progress.findings.push(finding?);
        }
        for fingerprint in repeated {
            let is_same = |finding: &&mut Finding| {
                finding
                    .violations
                    .iter()
                    .any(|it| it.fingerprint() == fingerprint)
            };
            if let Some(finding) = progress.findings.iter_mut().find(is_same) {
                finding.plans += 1;
            }
        }
        self.monitor.update(|shown| progress.show(baseline, shown));
        Ok(())
    }

    /// Runs a failing plan again, shrinks it, and describes it.
    fn confirmed(&self, candidate: &Candidate, baseline: &Baseline) -> Result<Finding, Error> {
        let Candidate {
            plan,
            number,
            run: first,
            violations,
        } = candidate;
        let started = Instant::now();
        let again = self.run(plan, &self.workload, &baseline.reference);
        if matches!(again, Err(Error::Stopped)) {
            let violations = violations.clone();
            let mut finding = self.finding(plan, self.workload.clone(), first, violations, baseline);
            finding.found_after = *number;
            return Ok(finding);
        }
        let (second, again) = again?;
        let nondeterminism = first_difference(&first.trace.essence(), &second.trace.essence());
        let nondeterminism = nondeterminism.map(|(left, right)| format!("{left} / {right}"));
        let wanted: BTreeSet<String> = violations.iter().map(Violation::fingerprint).collect();
        let is_same = |found: &[Violation]| found.iter().any(|it| wanted.contains(&it.fingerprint()));
        let mut finding = match is_same(&again) {
            true => self.shrunk(plan, &is_same, baseline)?,
            false => None,
        };
        let mut finding = match finding.take() {
            Some(finding) => finding,
            None => self.finding(plan, self.workload.clone(), first, violations.clone(), baseline),
        };
        finding.found_after = *number;
        finding.nondeterminism = nondeterminism;
        finding.shrink_ms = millis(started);
        Ok(finding)
    }

    /// Removes faults, delays and steps that are not needed for the same violation.
    fn shrunk(
        &self,
        plan: &Plan,
        is_same: &dyn Fn(&[Violation]) -> bool,
        baseline: &Baseline,
    ) -> Result<Option<Finding>, Error> {
        let mut plan = plan.clone();
        let fails = |plan: &Plan| -> bool {
            let run = self.run(plan, &self.workload, &baseline.reference);
            run.is_ok_and(|(_, found)| is_same(&found))
        };
        let candidate = plan.clone();
        plan.faults = shrink(&candidate.faults, |faults| {
            fails(&Plan {
                faults: faults.to_vec(),
                ..candidate.clone()
            })
        });
        // A step that is removed changes the reference too.
        let mut smaller: Option<(Workload, Baseline)> = None;
        shrink(&self.workload.steps, |steps| {
            let workload = Workload {
                steps: steps.to_vec(),
            };
            let Ok(Ok(reduced)) = self.baseline_of(&workload) else {
                return false;
            };
            let run = self.run(&plan, &workload, &reduced.reference);
            let fails = run.is_ok_and(|(run, found)| run.fired >= plan.faults.len() && is_same(&found));
            if fails {
                smaller = Some((workload, reduced));
            }
            fails
        });
        let (workload, baseline) = match &smaller {
            Some((workload, baseline)) => (workload, baseline),
            None => (&self.workload, baseline),
        };
        let (run, found) = match self.run(&plan, workload, &baseline.reference) {
            Err(Error::Stopped) => return Ok(None),
            run => run?,
        };
        Ok(is_same(&found).then(|| self.finding(&plan, workload.clone(), &run, found, baseline)))
    }

    fn finding(
        &self,
        plan: &Plan,
        workload: Workload,
        run: &Run,
        violations: Vec<Violation>,
        baseline: &Baseline,
    ) -> Finding {
        let divergence = first_difference(&writes(&baseline.essence), &writes(&run.trace.essence()));
        Finding {
            id: id_of(plan, &workload),
            text: plan.to_string(),
            plan: plan.clone(),
            workload,
            violations,
            plans: 1,
            first_divergence: divergence.map(|(_, found)| found),
            timeline: run.trace.lines(),
            reference_timeline: baseline.timeline.clone(),
            ..Finding::default()
        }
    }

    fn report(&self, baseline: Option<&Baseline>, findings: Vec<Finding>, started: Instant) -> Report {
        self.monitor.update(|shown| {
            shown.phase = Phase::Done;
            shown.findings = findings.len();
        });
        Report {
            stopped: self.monitor.is_stopped(),
            seed: self.seed,
            single_faults: baseline.map_or(0, |baseline| baseline.singles.len()),
            reference_calls: baseline.map_or(0, |baseline| baseline.calls),
            masked_fields: baseline.map_or(0, |baseline| baseline.reference.mask.learned()),
            elapsed_ms: millis(started),
            findings,
            ..Report::default()
        }
    }
}

// === impl Results ===

impl Results {
    /// Copies the results to the progress that users see.
    fn show(&self, baseline: &Baseline, shown: &mut Progress) {
        shown.phase = Phase::Plans;
        shown.plans = self.plans;
        shown.single_faults = baseline.singles.len();
        shown.single_faults_run = self.singles_run;
        shown.traces = self.traces.len();
        shown.end_states = self.end_states.len();
        shown.findings = self.findings.len();
    }

    /// Reports whether violations are to be investigated: one of them is new, and there are few findings yet.
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
}

/// Reads a finding, by its ID or from its file.
fn finding_of(id: &str) -> Result<Finding, Error> {
    let path = match Path::new(id).is_file() {
        true => PathBuf::from(id),
        false => Path::new(DIRECTORY).join(format!("{id}.json")),
    };
    let text = file::text_of(&path)?;
    serde_json::from_str(&text).map_err(|error| Error::Yaml {
        path,
        problem: error.to_string(),
    })
}

/// Maps items on several threads. The results have the order of the items.
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

/// Returns the writes of an essence without their answers.
fn writes(essence: &[String]) -> Vec<String> {
    let words = |line: &String| line.split(' ').take(3).collect::<Vec<_>>().join(" ");
    essence
        .iter()
        .filter(|line| *line != "crash")
        .map(words)
        .collect()
}

fn first_difference(left: &[String], right: &[String]) -> Option<(String, String)> {
    let end = "the end".to_owned();
    (0..left.len().max(right.len())).find_map(|index| {
        let (left, right) = (left.get(index).unwrap_or(&end), right.get(index).unwrap_or(&end));
        (left != right).then(|| (left.clone(), right.clone()))
    })
}

fn id_of(plan: &Plan, workload: &Workload) -> String {
    let json = serde_json::to_string(&(plan, workload)).unwrap_or_default();
    hash_text(&json)
}

fn hash_of(value: &impl serde::Serialize) -> String {
    hash_text(&serde_json::to_string(value).unwrap_or_default())
}

fn hash_text(text: &str) -> String {
    let hash = Sha256::digest(text.as_bytes());
    hash.iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
