//! The suite `behaviour`: checks a running operator with the examples of its bundle, on an embedded control plane.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use operator_olm::bundle::Bundle;
use operator_olm::scorecard::{self, Outcome, State};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::change::{Field, changed, fields, others, schema_of};
use super::writes::{Write, Writes};
use crate::args::ScorecardArgs;
use crate::failure::{Failure, Hinted};
use crate::process::api::ApiError;
use crate::process::cluster::ClusterError;
use crate::process::objects::{Objects, Place, text};
use crate::process::signal::Ends;
use crate::process::temporary::TemporaryDirectory;
use crate::report::Report;
use crate::run::crd::counted;
use crate::run::olm::{self, LocalOperator, Source};

/// The name of the suite, in its label.
pub(super) const SUITE: &str = "behaviour";

/// The names of the tests.
pub(super) const TESTS: [&str; 4] = [READY, SPEC, IDEMPOTENT, CLEANUP];

const READY: &str = "behaviour-ready";
const SPEC: &str = "behaviour-spec";
const IDEMPOTENT: &str = "behaviour-idempotent";
const CLEANUP: &str = "behaviour-cleanup";

/// The conditions that may state that an object is ready.
const CONDITIONS: [&str; 5] = ["Ready", "Available", "Succeeded", "Complete", "Completed"];

/// The time without writes after which an operator counts as idle.
const REST: Duration = Duration::from_millis(500);

/// The time in which an idle operator must not write.
const OBSERVED: Duration = Duration::from_secs(1);

/// The delay between two reads of the audit log or of an object.
const PAUSE: Duration = Duration::from_millis(20);

/// The time limit of the installation.
const INSTALLATION: Duration = Duration::from_secs(120);

/// The number of lines of the operator's log that a failed test shows.
const LOG_LINES: usize = 20;

/// The outcomes of the tests, by their names.
type Outcomes = BTreeMap<&'static str, Outcome>;

/// An error of reading the audit log of the control plane.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the audit log of the control plane: {0}")]
struct AuditError(#[from] io::Error);

impl Hinted for AuditError {
    fn hint(&self) -> Option<String> {
        Some("free space in the temporary directory, or choose another one with TMPDIR".to_owned())
    }
}

/// Returns the entries of the tests, in the form of a configuration.
pub(super) fn entries() -> impl Iterator<Item = (&'static str, Value)> {
    TESTS.into_iter().map(|name| {
        let entry = json!({
            "entrypoint": ["scorecard-test", name],
            "labels": {"suite": SUITE, "test": format!("{name}-test")},
        });
        (name, entry)
    })
}

/// Runs the tests. The first failure of the selected ones has the details. Returns `None` after a signal.
pub(super) fn run(
    args: &ScorecardArgs,
    bundle: &Bundle,
    selected: &[&'static str],
    report: &Report,
) -> Result<Option<Outcomes>, Failure> {
    let source = match Source::read(&args.bundle, args.insecure) {
        Ok(source) => source,
        Err(failure) => return Ok(Some(not_started(&failure, selected))),
    };
    crate::run::block_on(async {
        let mut ends = Ends::catch().map_err(ClusterError::from)?;
        let directory = TemporaryDirectory::create()?;
        let log = directory.path().join("audit.log");
        let audit = Writes::audit(&log, "default");
        let operator = match olm::start(&source, INSTALLATION, audit, &mut ends, report).await {
            Ok(Some(operator)) => operator,
            Ok(None) => return Ok(None),
            Err(failure) => return Ok(Some(not_started(&failure, selected))),
        };
        let mut session = Session {
            objects: Objects::new(operator.api.clone()),
            operator: &operator,
            bundle,
            selected,
            writes: Writes::new(log),
            limit: args.wait_time,
            report,
            outcomes: TESTS.into_iter().map(|test| (test, outcome(test))).collect(),
        };
        let done = tokio::select! {
            done = session.run() => Some(done),
            () = ends.next() => None,
        };
        let outcomes = std::mem::take(&mut session.outcomes);
        operator.stop().await;
        done.transpose().map(|done| done.map(|()| outcomes))
    })
}

fn outcome(test: &str) -> Outcome {
    Outcome {
        name: test.to_owned(),
        ..Outcome::default()
    }
}

/// Returns the outcomes if the operator could not be installed.
fn not_started(failure: &Failure, selected: &[&'static str]) -> Outcomes {
    let of = |test: &'static str| {
        let (error, hint) = if selected.first() == Some(&test) {
            (failure.message.as_str(), failure.hint.clone())
        } else {
            ("the operator was not installed", None)
        };
        let outcome = Outcome {
            state: State::Error,
            errors: vec![error.to_owned()],
            suggestions: hint.into_iter().collect(),
            ..outcome(test)
        };
        (test, outcome)
    };
    TESTS.into_iter().map(of).collect()
}

/// The tests of one operator.
struct Session<'a> {
    operator: &'a LocalOperator,
    objects: Objects,
    bundle: &'a Bundle,
    selected: &'a [&'static str],
    writes: Writes,
    /// The time limit of a step.
    limit: Duration,
    report: &'a Report,
    outcomes: Outcomes,
}

/// An example in the cluster.
struct Example {
    /// The kind and the name, such as `Memcached memcached-sample`.
    name: String,
    object: Value,
    place: Place,
}

impl Session<'_> {
    async fn run(&mut self) -> Result<(), Failure> {
        let examples = match scorecard::objects(self.bundle) {
            Ok(examples) => examples,
            Err(reason) => {
                TESTS.into_iter().for_each(|test| self.error(test, &reason));
                return Ok(());
            }
        };
        if examples.is_empty() {
            let reason = "the bundle has no examples: add objects to config/samples";
            TESTS.into_iter().for_each(|test| self.error(test, reason));
            return Ok(());
        }
        for example in examples {
            self.example(example).await?;
        }
        // The log is the same for all tests, and the errors of the other tests follow from the first failure.
        let mut selected = self.selected.iter().copied();
        let has_failed = |test: &&str| {
            self.outcomes
                .get(*test)
                .is_some_and(|known| known.state != State::Pass)
        };
        if let Some(test) = selected.find(has_failed) {
            let log = self.operator_log().await;
            self.outcomes.entry(test).or_default().log += &log;
        }
        Ok(())
    }

    async fn example(&mut self, mut object: Value) -> Result<(), Failure> {
        let name = format!("{} {}", text(&object, "/kind"), text(&object, "/metadata/name"));
        if !object["metadata"].is_object() {
            TESTS
                .into_iter()
                .for_each(|test| self.error(test, &format!("{name}: it has no metadata")));
            return Ok(());
        }
        object["metadata"]["namespace"] = self.operator.target.as_str().into();
        let Some(place) = self.objects.place(&object).await? else {
            let reason = format!("{name}: the bundle does not define its kind");
            TESTS.into_iter().for_each(|test| self.error(test, &reason));
            return Ok(());
        };
        if !place.collection.contains("/namespaces/")
            && let Some(metadata) = object["metadata"].as_object_mut()
        {
            metadata.remove("namespace");
        }
        self.report.progress(&format!("Checking {name}"));
        let begin = self.mark()?;
        let created = match self.operator.api.create(&place.collection, &object).await {
            Ok(created) => created,
            Err(ApiError::Refused(reason)) => {
                self.fail(READY, format!("{name}: it cannot be created: {reason}"));
                let reason = format!("{name}: it was not created");
                [SPEC, IDEMPOTENT, CLEANUP]
                    .into_iter()
                    .for_each(|test| self.error(test, &reason));
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let example = Example {
            name,
            object: created,
            place,
        };
        let ready = self.until_ready(&example).await?;
        self.report
            .progress("  Checking that a reconciliation without a change writes nothing");
        match &ready {
            Ok(condition) => self.log(READY, &format!("{}: {condition} is True", example.name)),
            Err(reason) => self.fail(READY, format!("{}: {reason}", example.name)),
        }
        if self.rest(&example).await? {
            self.idempotent(&example).await?;
        }
        if ready.is_ok() {
            self.spec(&example).await?;
        } else {
            self.error(SPEC, &format!("{}: it is not ready", example.name));
        }
        self.clean_up(&example, begin).await
    }

    /// Waits until the example is ready. Returns the condition, or the reason why it is not ready in time.
    async fn until_ready(&self, example: &Example) -> Result<Result<String, String>, Failure> {
        let mut last = "it has no status".to_owned();
        let place = &example.place;
        let ready = self
            .operator
            .api
            .follow(&place.collection, &place.name, |object| {
                let (ready, reason) = readiness(object?);
                last = reason;
                ready
            });
        match timeout(self.limit, ready).await {
            Ok(ready) => Ok(Ok(ready?)),
            Err(_) => Ok(Err(format!("not ready after {:?}: {last}", self.limit))),
        }
    }

    /// Waits until the operator stops writing. Returns false if it does not stop in time.
    async fn rest(&mut self, example: &Example) -> Result<bool, Failure> {
        let begin = self.mark()?;
        let deadline = Instant::now() + self.limit.max(REST * 2);
        let mut last = begin;
        let mut since = Instant::now();
        while since.elapsed() < REST {
            sleep(PAUSE).await;
            let now = self.mark()?;
            if now > last {
                (last, since) = (now, Instant::now());
            }
            if Instant::now() >= deadline {
                let writes = shown(self.writes.since(begin));
                self.fail(
                    IDEMPOTENT,
                    format!("{}: the operator does not stop writing: {writes}", example.name),
                );
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Checks that a reconciliation of an unchanged object writes nothing.
    async fn idempotent(&mut self, example: &Example) -> Result<(), Failure> {
        let begin = self.mark()?;
        let patch = json!({"metadata": {"annotations": {"operator-sdk.dev/scorecard": "reconcile"}}});
        self.operator
            .api
            .merge_patch(&example.place.path(), &patch)
            .await?;
        sleep(OBSERVED).await;
        self.mark()?;
        match self.writes.since(begin) {
            [] => {
                let line = format!("{}: no writes after a change of an annotation", example.name);
                self.log(IDEMPOTENT, &line);
            }
            writes => {
                let writes = shown(writes);
                self.fail(
                    IDEMPOTENT,
                    format!("{}: writes although nothing changed: {writes}", example.name),
                );
            }
        }
        Ok(())
    }

    /// Changes each field of the spec, and checks that the operator reacts.
    async fn spec(&mut self, example: &Example) -> Result<(), Failure> {
        let spec = &example.object["spec"];
        let schema = self.schema(example);
        for field in fields(spec) {
            let Some(value) = self.other(example, &field, &schema).await? else {
                let outcome = self.outcomes.entry(SPEC).or_default();
                outcome.suggestions.push(format!(
                    "{}: {} was not checked: no other value for {} was accepted",
                    example.name, field.name, field.value
                ));
                continue;
            };
            self.field(example, &field, &value).await?;
        }
        Ok(())
    }

    /// Changes a field, waits for the reaction, and restores the field.
    async fn field(&mut self, example: &Example, field: &Field, value: &Value) -> Result<(), Failure> {
        let path = example.place.path();
        let spec = &example.object["spec"];
        let change = format!("{} from {} to {value}", field.name, field.value);
        self.report.progress(&format!("  Changing {change}"));
        let change = format!("{}: {change}", example.name);
        let before = self.operator.api.get(&path).await?.unwrap_or_default();
        let begin = self.mark()?;
        let patch = json!({"spec": changed(spec, &field.pointer, value)});
        self.operator.api.merge_patch(&path, &patch).await?;
        match self.reaction(example, &before, begin).await? {
            Some(reaction) => self.log(SPEC, &format!("{change}: {reaction}")),
            None => {
                let limit = self.limit;
                self.fail(SPEC, format!("{change}: no reaction in {limit:?}"));
            }
        }
        let patch = json!({"spec": spec});
        self.operator.api.merge_patch(&path, &patch).await?;
        self.rest(example).await?;
        if let Err(reason) = self.until_ready(example).await? {
            let name = &field.name;
            self.fail(
                SPEC,
                format!("{}: after {name} was restored: {reason}", example.name),
            );
        }
        Ok(())
    }

    /// Waits for an effect of a change: a write to another object, or a changed status.
    async fn reaction(
        &mut self,
        example: &Example,
        before: &Value,
        begin: usize,
    ) -> Result<Option<String>, Failure> {
        let path = example.place.path();
        let deadline = Instant::now() + self.limit;
        loop {
            self.mark()?;
            let mut writes = self.writes.since(begin).iter();
            if let Some(write) = writes.find(|write| write.path().as_deref() != Some(path.as_str())) {
                return Ok(Some(write.shown()));
            }
            let now = self.operator.api.get(&path).await?.unwrap_or_default();
            if settled(&now["status"]) != settled(&before["status"]) {
                return Ok(Some("the status changed".to_owned()));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            sleep(PAUSE).await;
        }
    }

    /// Returns another value for a field that the API server accepts.
    async fn other(
        &self,
        example: &Example,
        field: &Field,
        schema: &Value,
    ) -> Result<Option<Value>, Failure> {
        let path = format!("{}?dryRun=All", example.place.path());
        for value in others(&field.value, schema_of(schema, &field.pointer)) {
            let patch = json!({"spec": changed(&example.object["spec"], &field.pointer, &value)});
            match self.operator.api.merge_patch(&path, &patch).await {
                // A webhook may have replaced the value.
                Ok(changed) if changed["spec"].pointer(&field.pointer) == Some(&value) => {
                    return Ok(Some(value));
                }
                Ok(_) | Err(ApiError::Refused(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    /// Returns the schema of the example's spec.
    fn schema(&self, example: &Example) -> Value {
        let api_version = text(&example.object, "/apiVersion");
        let (group, version) = api_version.rsplit_once('/').unwrap_or_default();
        let kind = text(&example.object, "/kind");
        let mut crds = self.bundle.crds.iter().map(|(_, crd)| crd);
        let crd = crds
            .find(|crd| text(crd, "/spec/group") == group && text(crd, "/spec/names/kind") == kind)
            .unwrap_or(&Value::Null);
        let versions = crd.pointer("/spec/versions").and_then(Value::as_array);
        let mut versions = versions.into_iter().flatten();
        let found = versions.find(|found| text(found, "/name") == version);
        let schema = found.and_then(|found| found.pointer("/schema/openAPIV3Schema/properties/spec"));
        schema.cloned().unwrap_or_default()
    }

    /// Deletes the example, and checks that the objects that were created for it are also deleted.
    async fn clean_up(&mut self, example: &Example, begin: usize) -> Result<(), Failure> {
        self.mark()?;
        let created: BTreeSet<Write> = self.writes.since(begin).iter().cloned().collect();
        let created = created.into_iter().filter(|write| write.created);
        let mut left: BTreeMap<String, String> = created
            .filter_map(|write| Some((write.path()?, write.object())))
            .collect();
        let count = left.len();
        let path = example.place.path();
        self.report.progress("  Deleting it");
        self.operator.api.remove(&path).await?;
        let mut finalizers = Value::Null;
        let place = &example.place;
        let gone = self
            .operator
            .api
            .follow(&place.collection, &place.name, |object| {
                finalizers = object.map_or(Value::Null, |object| object["metadata"]["finalizers"].clone());
                object.is_none().then_some(())
            });
        match timeout(self.limit, gone).await {
            Ok(gone) => gone?,
            Err(_) => {
                self.fail(
                    CLEANUP,
                    format!(
                        "{}: not deleted after {:?}; its finalizers are {finalizers}",
                        example.name, self.limit
                    ),
                );
                return Ok(());
            }
        }
        let deadline = Instant::now() + self.limit;
        while let Some(path) = left.keys().next().cloned() {
            if self.operator.api.get(&path).await?.is_none() {
                left.remove(&path);
            } else if Instant::now() >= deadline {
                break;
            } else {
                sleep(PAUSE).await;
            }
        }
        let mut remaining = Vec::new();
        for (path, object) in &left {
            if self.operator.api.get(path).await?.is_some() {
                remaining.push(object.as_str());
            }
        }
        if remaining.is_empty() {
            let objects = counted(count, "object");
            let line = format!("{}: deleted, with {objects} of the operator", example.name);
            self.log(CLEANUP, &line);
        } else {
            let remaining = remaining.join(", ");
            self.fail(CLEANUP, format!("{}: left behind: {remaining}", example.name));
            self.outcomes
                .entry(CLEANUP)
                .or_default()
                .suggestions
                .push("Set owner references, or delete the objects with a finalizer".to_owned());
        }
        Ok(())
    }

    /// Returns the last lines of the operator's log.
    async fn operator_log(&self) -> String {
        let pods = format!("/api/v1/namespaces/{}/pods", self.operator.namespace);
        let Ok(Some(list)) = self.operator.api.get(&pods).await else {
            return String::new();
        };
        let prefix = format!("{}-", self.operator.deployment);
        let items = list["items"].as_array().into_iter().flatten();
        let names = items.map(|pod| text(pod, "/metadata/name"));
        let mut log = String::new();
        for name in names.filter(|name| name.starts_with(&prefix)) {
            if let Ok(text) = self.operator.api.text(&format!("{pods}/{name}/log")).await {
                let lines: Vec<&str> = text.lines().collect();
                let start = lines.len().saturating_sub(LOG_LINES);
                log += &format!("The last lines of the log of pod {name}:\n");
                lines[start..].iter().for_each(|line| log += &format!("{line}\n"));
            }
        }
        log
    }

    fn mark(&mut self) -> Result<usize, Failure> {
        Ok(self.writes.mark().map_err(AuditError)?)
    }

    fn log(&mut self, test: &'static str, line: &str) {
        let log = &mut self.outcomes.entry(test).or_default().log;
        *log += line;
        log.push('\n');
    }

    fn fail(&mut self, test: &'static str, error: String) {
        let outcome = self.outcomes.entry(test).or_default();
        if outcome.state == State::Pass {
            outcome.state = State::Fail;
        }
        outcome.errors.push(error);
    }

    fn error(&mut self, test: &'static str, error: &str) {
        let outcome = self.outcomes.entry(test).or_default();
        outcome.state = State::Error;
        outcome.errors.push(error.to_owned());
    }
}

/// Returns the condition that states readiness, and the state of the conditions for a message.
fn readiness(object: &Value) -> (Option<String>, String) {
    let generation = &object["metadata"]["generation"];
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
    let is_current = |holder: &Value| {
        holder["observedGeneration"].is_null() || holder["observedGeneration"] == *generation
    };
    let mut states = Vec::new();
    for condition in conditions.into_iter().flatten() {
        let (kind, status) = (text(condition, "/type"), text(condition, "/status"));
        if !CONDITIONS.contains(&kind) {
            continue;
        }
        let is_current = is_current(condition) && is_current(&object["status"]);
        if status == "True" && is_current {
            return (Some(kind.to_owned()), String::new());
        }
        let message = text(condition, "/message");
        let stale = if is_current {
            ""
        } else {
            " for an older generation"
        };
        states.push(format!("{kind} is {status}{stale}: {message}"));
    }
    let state = if states.is_empty() {
        format!("its status has no condition {}", CONDITIONS.join(", "))
    } else {
        states.join("; ")
    };
    (None, state)
}

/// Returns a status without generations and times, which change with each reconcile.
fn settled(status: &Value) -> Value {
    match status {
        Value::Object(members) => members
            .iter()
            .filter(|(key, _)| *key != "observedGeneration" && !key.ends_with("Time"))
            .map(|(key, member)| (key.clone(), settled(member)))
            .collect(),
        Value::Array(items) => items.iter().map(settled).collect(),
        value => value.clone(),
    }
}

/// Returns the distinct writes with their counts.
fn shown(writes: &[Write]) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for write in writes {
        *counts.entry(write.shown()).or_default() += 1;
    }
    let parts = counts.into_iter().map(|(write, count)| match count {
        1 => write,
        count => format!("{write} ({count} times)"),
    });
    parts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outdated_condition_is_not_ready() {
        let object = |observed: u64| {
            json!({
                "metadata": {"generation": 2},
                "status": {"conditions": [{"type": "Ready", "status": "True", "observedGeneration": observed, "message": "m"}]},
            })
        };
        assert_eq!(readiness(&object(2)).0.as_deref(), Some("Ready"));
        let (ready, reason) = readiness(&object(1));
        assert_eq!(
            (ready, reason.as_str()),
            (None, "Ready is True for an older generation: m")
        );
        assert_eq!(readiness(&json!({})).0, None);
    }

    #[test]
    fn times_and_generations_are_no_reaction() {
        let status =
            json!({"observedGeneration": 2, "conditions": [{"type": "Ready", "lastTransitionTime": "now"}]});
        assert_eq!(settled(&status), json!({"conditions": [{"type": "Ready"}]}));
    }
}
