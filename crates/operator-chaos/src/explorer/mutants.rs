//! Workloads with changes of the spec of the user's custom resources.

use std::time::Instant;

use serde_json::Value;

use super::{Explorer, Results, Subject, parallel};
use crate::error::Error;
use crate::mutate::{mutations, schema_of};
use crate::oracle::{Oracle, Violation};
use crate::report::Finding;
use crate::run::accepted;
use crate::workload::{Change, Workload, merged};

/// Maximum number of workloads with changes that are explored with faults.
const SUBJECTS_MAX: usize = 8;

/// A workload with a change of the spec, and the same workload with the change reverted.
struct Mutant {
    there: Workload,
    back: Workload,
}

/// The results of a mutant.
enum Outcome {
    Finding(Box<Finding>),
    Clean(Box<Subject>),
    /// A violated predicate: the predicates of the user are written for the user's workload only.
    Other,
}

impl Explorer {
    /// Runs the user's workload up to its first custom resource with each change of the spec that the API server
    /// accepts. Each change and its reversal must lead to the state of a fresh deployment. Changes that lead to new
    /// states are explored further.
    pub(super) fn explore_mutants(&self, results: &mut Results, end: Instant) -> Result<(), Error> {
        let left = self.settings.plans.saturating_sub(results.generated);
        let mut mutants = self.mutants()?;
        mutants.truncate(left);
        for batch in mutants.chunks(super::BATCH) {
            let runs = parallel(self.settings.jobs, batch, |mutant| {
                let has_time = Instant::now() < end && !self.monitor.is_stopped();
                has_time.then(|| self.explore_mutant(mutant))
            });
            for result in runs.into_iter().flatten() {
                results.generated += 1;
                results.plans += 1;
                results.mutations += 1;
                let outcome = match result {
                    Err(Error::Stopped) => return Ok(()),
                    outcome => outcome?,
                };
                match outcome {
                    Outcome::Finding(finding) => {
                        if results.is_new(&finding.violations) {
                            let found_after = results.generated;
                            results.findings.push(Finding {
                                found_after,
                                ..*finding
                            });
                        }
                    }
                    Outcome::Other => {}
                    Outcome::Clean(subject) => {
                        let is_new = results.cover(&subject.baseline.coverage);
                        if is_new && results.subjects.len() <= SUBJECTS_MAX {
                            results.subjects.push(*subject);
                        }
                    }
                }
            }
            if self.settings.stops_at_first && !results.findings.is_empty() {
                break;
            }
        }
        Ok(())
    }

    fn explore_mutant(&self, mutant: &Mutant) -> Result<Outcome, Error> {
        let mut subject = None;
        for workload in [&mutant.there, &mutant.back] {
            let baseline = match self.baseline_of(workload)? {
                Ok(baseline) => baseline,
                Err(finding) => {
                    // The server or a webhook can refuse the change of an object that it accepts as a new one.
                    let is_refused =
                        |it: &Violation| matches!(it.oracle, Oracle::Predicate | Oracle::Workload);
                    if finding.violations.iter().all(is_refused) {
                        break;
                    }
                    return Ok(Outcome::Finding(finding));
                }
            };
            if let Some(finding) = self.compared_with_fresh(workload, &baseline)? {
                return Ok(Outcome::Finding(Box::new(finding)));
            }
            subject = subject.or_else(|| Some(Subject::new(workload.clone(), baseline)));
        }
        Ok(subject.map_or(Outcome::Other, |subject| Outcome::Clean(Box::new(subject))))
    }

    /// Returns the changes of the first custom resource of the workload that the server accepts.
    fn mutants(&self) -> Result<Vec<Mutant>, Error> {
        let mut steps = self.workload.steps.iter().enumerate();
        let found = steps.find_map(|(index, step)| match &step.change {
            Change::Apply(object) => Some((index, object, schema_of(&self.setup.objects, object)?)),
            _ => None,
        });
        let Some((index, object, schema)) = found else {
            return Ok(Vec::new());
        };
        let mut base = self.workload.clone();
        base.steps.truncate(index + 1);
        let all = mutations(schema, object);
        let objects: Vec<Value> = all
            .iter()
            .map(|mutation| merged(object, &mutation.change))
            .collect();
        let before = base.steps.get(..index).unwrap_or_default();
        let is_accepted = accepted(&self.setup, before, &objects)?;
        let mut identity = serde_json::json!({
            "apiVersion": object.get("apiVersion"), "kind": object.get("kind"),
            "metadata": {"name": object.pointer("/metadata/name")},
        });
        if let Some(namespace) = object.pointer("/metadata/namespace") {
            identity["metadata"]["namespace"] = namespace.clone();
        }
        let mutants = all
            .iter()
            .zip(is_accepted)
            .filter(|(_, is_accepted)| *is_accepted);
        Ok(mutants
            .map(|(mutation, _)| {
                let there = base.clone().patch(with(&identity, &mutation.change));
                let back = there.clone().patch(with(&identity, &mutation.undo));
                Mutant { there, back }
            })
            .collect())
    }
}

/// Returns the patch of an object: its identity, and a change whose nulls remove fields.
fn with(identity: &Value, change: &Value) -> Value {
    let mut patch = identity.clone();
    if let (Some(fields), Some(changes)) = (patch.as_object_mut(), change.as_object()) {
        fields.extend(changes.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
    patch
}
