//! Confirms and shrinks findings.

use std::collections::BTreeSet;
use std::time::Instant;

use super::{Baseline, Candidate, Explorer, Subject, id_of, millis};
use crate::error::Error;
use crate::oracle::Violation;
use crate::plan::{Plan, Schedule};
use crate::report::Finding;
use crate::run::{Run, Shortcuts};
use crate::shrink::shrink;
use crate::state::differences;
use crate::trace::{first_divergence, shown};
use crate::workload::Workload;

/// Maximum number of reported differences of the end state.
const DIFFERENCES_MAX: usize = 40;

impl Explorer {
    /// Runs a failing plan again from the start of the workload, shrinks it, and describes it. Returns `None` if the plan
    /// fails only from the state after a step: the operator is then not the cause.
    pub(super) fn confirmed(
        &self,
        candidate: &Candidate,
        subject: &Subject,
    ) -> Result<Option<Finding>, Error> {
        let Candidate {
            task,
            number,
            run: first,
            violations,
        } = candidate;
        let started = Instant::now();
        let baseline = &subject.baseline;
        let again = self.run(
            &task.plan,
            &subject.workload,
            &baseline.reference,
            Shortcuts::default(),
        );
        if matches!(again, Err(Error::Stopped)) {
            let (plan, workload) = (&task.plan, subject.workload.clone());
            let mut finding = self.finding(plan, workload, first, violations.clone(), baseline);
            finding.found_after = *number;
            return Ok(Some(finding));
        }
        let (second, again) = again?;
        let nondeterminism = first_difference(&first.trace.essence(), &second.trace.essence());
        // A run that ended early has the same beginning.
        let nondeterminism = nondeterminism.filter(|_| first.pruned.is_none());
        let nondeterminism = nondeterminism.map(|(left, right)| format!("{left} / {right}"));
        let wanted: BTreeSet<String> = violations.iter().map(Violation::fingerprint).collect();
        let is_same = |found: &[Violation]| found.iter().any(|it| wanted.contains(&it.fingerprint()));
        let mut finding = match is_same(&again) {
            true => self.shrunk(&task.plan, &is_same, subject)?,
            false if task.is_forked => return Ok(None),
            false => None,
        };
        let mut finding = match finding.take() {
            Some(finding) => finding,
            None => self.finding(
                &task.plan,
                subject.workload.clone(),
                first,
                violations.clone(),
                baseline,
            ),
        };
        finding.found_after = *number;
        finding.nondeterminism = nondeterminism;
        finding.shrink_ms = millis(started);
        Ok(Some(finding))
    }

    /// Removes faults, steps and choices of the schedule that the violation does not need.
    fn shrunk(
        &self,
        plan: &Plan,
        is_same: &dyn Fn(&[Violation]) -> bool,
        subject: &Subject,
    ) -> Result<Option<Finding>, Error> {
        let baseline = &subject.baseline;
        let fails = |plan: &Plan| -> bool {
            let run = self.run(plan, &subject.workload, &baseline.reference, Shortcuts::default());
            run.is_ok_and(|(_, found)| is_same(&found))
        };
        let candidate = plan.clone();
        let mut plan = Plan {
            faults: shrink(&candidate.faults, |faults| {
                fails(&Plan {
                    faults: faults.to_vec(),
                    ..candidate.clone()
                })
            }),
            ..candidate.clone()
        };
        if let Some(schedule) = &candidate.schedule {
            let with = |change_points: Vec<u32>| Plan {
                schedule: Some(Schedule { change_points }),
                ..plan.clone()
            };
            let first_come = with(Vec::new());
            plan = match schedule.change_points.is_empty() || !fails(&first_come) {
                false => first_come,
                true => with(shrink(&schedule.change_points, |points| {
                    fails(&with(points.to_vec()))
                })),
            };
        }
        // Removing a step also changes the reference.
        let mut smaller: Option<(Workload, Baseline)> = None;
        shrink(&subject.workload.steps, |steps| {
            let workload = Workload {
                steps: steps.to_vec(),
                ..subject.workload.clone()
            };
            let Ok(Ok(reduced)) = self.baseline_of(&workload) else {
                return false;
            };
            let run = self.run(&plan, &workload, &reduced.reference, Shortcuts::default());
            let fails = run.is_ok_and(|(run, found)| run.fired >= plan.faults.len() && is_same(&found));
            if fails {
                smaller = Some((workload, reduced));
            }
            fails
        });
        let (workload, baseline) = match &smaller {
            Some((workload, baseline)) => (workload, baseline),
            None => (&subject.workload, baseline),
        };
        let (run, found) = match self.run(&plan, workload, &baseline.reference, Shortcuts::default()) {
            Err(Error::Stopped) => return Ok(None),
            run => run?,
        };
        Ok(is_same(&found).then(|| self.finding(&plan, workload.clone(), &run, found, baseline)))
    }

    pub(super) fn finding(
        &self,
        plan: &Plan,
        workload: Workload,
        run: &Run,
        violations: Vec<Violation>,
        baseline: &Baseline,
    ) -> Finding {
        let timeline = run.trace.timeline();
        let divergence = first_divergence(&baseline.timeline, &timeline);
        let reference = &baseline.reference;
        let differences = differences(&reference.state, &run.state, &reference.mask);
        let differences = differences.iter().filter(|_| run.pruned.is_none());
        Finding {
            id: id_of(plan, &workload),
            text: plan.to_string(),
            plan: plan.clone(),
            workload,
            violations,
            plans: 1,
            first_divergence: divergence.as_ref().map(|found| found.write.clone()),
            divergent_line: divergence.and_then(|found| found.line),
            state_diff: differences
                .take(DIFFERENCES_MAX)
                .map(|difference| format!("{}: {}", difference.object, shown(difference)))
                .collect(),
            timeline: timeline.lines,
            reference_timeline: baseline.timeline.lines.clone(),
            ..Finding::default()
        }
    }
}

fn first_difference(left: &[String], right: &[String]) -> Option<(String, String)> {
    let end = "the end".to_owned();
    (0..left.len().max(right.len())).find_map(|index| {
        let (left, right) = (left.get(index).unwrap_or(&end), right.get(index).unwrap_or(&end));
        (left != right).then(|| (left.clone(), right.clone()))
    })
}
