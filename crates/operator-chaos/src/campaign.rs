//! [`Chaos`], a campaign: the exploration of an operator with many plans.

use std::collections::BTreeMap;
use std::ffi::OsString;
#[cfg(feature = "simulation")]
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

#[cfg(feature = "simulation")]
use futures::FutureExt;
#[cfg(feature = "simulation")]
use kube::Client;
use operator_controlplane::Delays;
use serde_json::Value;

use crate::error::Error;
use crate::explorer::{Explorer, REFERENCE_CALLS, Settings};
use crate::file;
use crate::plan::Plan;
use crate::predicate::{Cluster, Predicate, When};
use crate::process;
use crate::progress::{self, Monitor, Progress, Sink, Stop};
use crate::report::{Finding, Report};
use crate::run::{Pace, REAL, Setup, boot};
use crate::workload::{Change, Workload};
use crate::world::{Operator, WorldOptions};

/// The directory of the findings in a project.
const DIRECTORY: &str = "target/operator-sdk/chaos";

/// A campaign. It builds a simulated cluster for each plan, and runs the operator and a workload on it.
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
    operators: BTreeMap<String, Operator>,
    objects: Vec<Value>,
    crd_paths: Vec<PathBuf>,
    workload: Workload,
    workload_path: Option<PathBuf>,
    world: WorldOptions,
    predicates: Vec<Predicate>,
    /// CEL expressions with their names.
    expressions: Vec<(When, String, String)>,
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

// === impl Chaos ===

impl Chaos {
    /// Creates a campaign for an operator. The function runs the operator with the given client. Dropping its future is
    /// a crash. Tasks that the operator has spawned must end with the future; if they do not, their client does nothing
    /// any more.
    ///
    /// Default: no workload, one node, a budget of 10 seconds, one thread per core.
    #[cfg(feature = "simulation")]
    pub fn new<F, R, E>(operator: F) -> Self
    where
        F: Fn(Client) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), E>> + 'static,
        E: Display,
    {
        Self::of(in_process(operator), &crate::run::SIMULATED)
    }

    /// Adds another version of the operator. A workload can upgrade to it by its name.
    #[cfg(feature = "simulation")]
    pub fn version<F, R, E>(mut self, name: impl Into<String>, operator: F) -> Self
    where
        F: Fn(Client) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), E>> + 'static,
        E: Display,
    {
        self.operators.insert(name.into(), in_process(operator));
        self
    }

    /// Creates a campaign for an operator in a separate process, in any language. Each life of the operator runs the
    /// command, with the path of a kubeconfig in `KUBECONFIG`. A crash kills the process and the processes that it
    /// started in its group.
    ///
    /// Time is real, so a plan takes seconds. Two runs of a plan can differ, which a finding reports.
    ///
    /// # Errors
    /// Returns an error if the certificate of the server cannot be created.
    pub fn command(command: impl IntoIterator<Item = impl Into<OsString>>) -> Result<Self, Error> {
        let command = command.into_iter().map(Into::into).collect();
        Ok(Self::of(process::operator(command)?, &REAL))
    }

    fn of(operator: Operator, pace: &'static Pace) -> Self {
        Self {
            operators: BTreeMap::from([(String::new(), operator)]),
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
            expressions: Vec::new(),
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

    /// Reads the workload from a file.
    pub fn workload_path(mut self, path: impl Into<PathBuf>) -> Self {
        self.workload_path = Some(path.into());
        self
    }

    /// Sets the number of simulated nodes. Default: 1.
    pub fn nodes(mut self, nodes: usize) -> Self {
        self.world.nodes = nodes;
        self
    }

    /// Sets the times that simulated pods take to start, to finish and to stop, in simulated time. Default: zero.
    pub fn delays(mut self, delays: Delays) -> Self {
        self.world.delays = delays;
        self
    }

    /// Sets the simulated time at the start of each run, in whole seconds; [`now`](crate::now) returns it as it
    /// advances. Default: the time of the machine.
    pub fn starts_at(mut self, time: SystemTime) -> Self {
        self.world.starts_at = Some(time);
        self
    }

    /// Excludes a field from comparisons: `RESOURCE FIELD`, such as `widgets.example.com status.lastBackup`, or `FIELD`
    /// for every resource. `RESOURCE *` excludes a whole resource.
    pub fn ignore(mut self, field: impl Into<String>) -> Self {
        self.ignored.push(field.into());
        self
    }

    /// Checks that a predicate is true in every state.
    pub fn always(self, name: &str, holds: impl Fn(&Cluster<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.predicate(name, When::Always, holds)
    }

    /// Checks that a predicate is false in every state.
    pub fn never(self, name: &str, holds: impl Fn(&Cluster<'_>) -> bool + Send + Sync + 'static) -> Self {
        self.predicate(name, When::Never, holds)
    }

    /// Checks that a predicate is true in at least one state.
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

    /// Checks that a CEL expression is true in every state. `objects["deployments.apps"]` is the list of all
    /// Deployments; the name of a resource must be a string literal. An expression whose evaluation fails violates the
    /// check.
    ///
    /// ```
    /// # use operator_chaos::Chaos;
    /// # fn example(chaos: Chaos) -> Chaos {
    /// chaos.always_cel("one set", "objects['statefulsets.apps'].size() <= 1")
    /// # }
    /// ```
    pub fn always_cel(mut self, name: impl Into<String>, expression: impl Into<String>) -> Self {
        self.expressions
            .push((When::Always, name.into(), expression.into()));
        self
    }

    /// Checks that a CEL expression is false in every state; see [`Chaos::always_cel`].
    pub fn never_cel(mut self, name: impl Into<String>, expression: impl Into<String>) -> Self {
        self.expressions
            .push((When::Never, name.into(), expression.into()));
        self
    }

    /// Checks that a CEL expression is true in at least one state; see [`Chaos::always_cel`].
    pub fn eventually_cel(mut self, name: impl Into<String>, expression: impl Into<String>) -> Self {
        self.expressions
            .push((When::Eventually, name.into(), expression.into()));
        self
    }

    /// Sets the seed of random plans. Default: 1.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the number of threads. Default: one per core.
    pub fn jobs(mut self, jobs: usize) -> Self {
        self.jobs = Some(jobs.max(1));
        self
    }

    /// Sets the real time after which no more plans are started. Default: 10 seconds.
    pub fn budget(mut self, budget: Duration) -> Self {
        self.budget = budget;
        self
    }

    /// Sets the maximum number of plans. Single faults come first, then random delays and pairs of faults. Default: no
    /// limit.
    pub fn plans(mut self, plans: usize) -> Self {
        self.plans = plans;
        self
    }

    /// Starts no more plans after the first finding.
    pub fn stop_at_first_finding(mut self) -> Self {
        self.stops_at_first = true;
        self
    }

    /// Writes the report of [`Chaos::run`] to a file, in the format of its extension: `.txt`, `.json`, `.xml` (JUnit)
    /// or `.html`.
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

    /// Calls a function with the progress when the campaign enters another phase, and at most ten times per second.
    pub fn on_progress(mut self, sink: impl Fn(&Progress) + Send + Sync + 'static) -> Self {
        self.sinks.push(Box::new(sink));
        self
    }

    /// Ends the campaign early when the function returns true. The report then has the results so far. The function is
    /// called frequently, from several threads.
    pub fn stop_when(mut self, stop: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.stops.push(Box::new(stop));
        self
    }

    /// Makes [`Chaos::run`] replay a finding: one in `target/operator-sdk/chaos` by its ID, or one in another file.
    pub fn replay_finding(mut self, id: impl Into<String>) -> Self {
        self.replay = Some(id.into());
        self
    }

    /// Disables the check that a restart of an idle operator changes nothing.
    pub fn without_idempotence_check(mut self) -> Self {
        self.checks_idempotence = false;
        self
    }

    /// Explores the operator until the budget is used up. Must not be called within a tokio runtime.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or written, an object cannot be created, or the first run without
    /// faults fails.
    pub fn run(mut self) -> Result<Report, Error> {
        let reports = std::mem::take(&mut self.reports);
        let writes_findings = self.writes_findings || Path::new("PROJECT").is_file();
        let (report, is_new) = match self.replay.take() {
            Some(id) => {
                let finding = finding_of(&id)?;
                self = self.workload(finding.workload);
                (self.replay(&finding.plan)?, false)
            }
            None => (self.explorer()?.explore()?, true),
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
        self.explorer()?.replay(plan)
    }

    fn explorer(&mut self) -> Result<Explorer, Error> {
        let (setup, workload) = self.setup()?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let settings = Settings {
            ignored: self.ignored.clone(),
            seed: self.seed,
            plans: self.plans,
            jobs: self.jobs.unwrap_or(cores),
            budget: self.budget,
            stops_at_first: self.stops_at_first,
            checks_idempotence: self.checks_idempotence,
        };
        Ok(Explorer::new(settings, setup, workload))
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
        let mut predicates = std::mem::take(&mut self.predicates);
        let of_workload = [
            (When::Always, &workload.always),
            (When::Never, &workload.never),
            (When::Eventually, &workload.eventually),
        ];
        let of_workload = of_workload.into_iter().flat_map(|(when, expressions)| {
            let all = expressions.iter();
            all.map(move |(name, expression)| (when, name.clone(), expression.clone()))
        });
        for (when, name, expression) in self.expressions.drain(..).chain(of_workload) {
            let predicate = Predicate::cel(&name, when, &expression);
            predicates.push(predicate.map_err(|problem| Error::Predicate { name, problem })?);
        }
        let mut upgrades = BTreeMap::new();
        let mut operators = self.operators.clone();
        for step in &workload.steps {
            let Change::Upgrade(upgrade) = &step.change else {
                continue;
            };
            if let Some(path) = &upgrade.crds {
                upgrades.insert(path.clone(), file::documents(path)?);
            }
            let Some(version) = upgrade.version() else {
                continue;
            };
            if !upgrade.command.is_empty() && !operators.contains_key(&version) {
                let command = upgrade.command.iter().map(OsString::from).collect();
                operators.insert(version.clone(), process::operator(command)?);
            }
            if !operators.contains_key(&version) {
                return Err(Error::Version { name: version });
            }
        }
        let setup = Setup {
            operators,
            boot: boot(&self.world, &objects, self.pace)?,
            objects,
            upgrades,
            world: self.world.clone(),
            predicates: Arc::new(predicates),
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
}

/// Reads a finding by its ID or from a file.
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

/// Returns an operator in this process.
#[cfg(feature = "simulation")]
fn in_process<F, R, E>(operator: F) -> Operator
where
    F: Fn(Client) -> R + Send + Sync + 'static,
    R: Future<Output = Result<(), E>> + 'static,
    E: Display,
{
    Arc::new(move |client| {
        let running = operator(client);
        async move { running.await.map_err(|error| error.to_string()) }.boxed_local()
    })
}
