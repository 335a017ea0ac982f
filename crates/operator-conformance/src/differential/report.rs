//! The totals and the causes of a run: [`Report`].

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

/// The maximum number of causes that are counted separately.
const CAUSES_MAX: usize = 5_000;

/// A sequence with different responses.
#[derive(Debug, Serialize)]
pub struct Difference<'a> {
    /// The number of the sequence.
    pub sequence: u64,
    /// The family and the resource.
    pub subject: &'a str,
    /// The cause.
    pub cause: &'a str,
    /// True if the cause is listed as accepted.
    pub is_kept: bool,
    /// The steps, in the format of a scenario.
    pub steps: Vec<String>,
    /// The normalised responses of the real server.
    pub real: &'a [Value],
    /// The normalised responses of the embedded server.
    pub embedded: &'a [Value],
}

/// The requests that differ for the same cause.
#[derive(Clone, Debug)]
pub struct Group {
    /// The number of requests that differ for this cause.
    pub count: usize,
    /// The resources of these requests, with their numbers.
    pub subjects: BTreeMap<String, usize>,
    /// The steps of one sequence, in the format of a scenario.
    pub example: Vec<String>,
    /// The number of the first sequence.
    pub sequence: u64,
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// The number of requests that were sent to each server.
    pub requests: usize,
    /// The number of requests by the HTTP status of the first server.
    pub statuses: BTreeMap<String, usize>,
    /// The number of requests that differ for a listed reason.
    pub kept: usize,
    /// The differences by cause.
    pub groups: BTreeMap<String, Group>,
}

impl Report {
    /// Counts a difference; returns the group if the cause is new.
    pub(crate) fn add(&mut self, cause: String, subject: &str, sequence: u64) -> Option<&mut Group> {
        let cause = if self.groups.len() >= CAUSES_MAX && !self.groups.contains_key(&cause) {
            "other causes".to_owned()
        } else {
            cause
        };
        let mut is_new = false;
        let group = self.groups.entry(cause).or_insert_with(|| {
            is_new = true;
            Group {
                count: 0,
                subjects: BTreeMap::new(),
                example: Vec::new(),
                sequence,
            }
        });
        group.count += 1;
        if group.subjects.len() < 20 || group.subjects.contains_key(subject) {
            *group.subjects.entry(subject.to_owned()).or_default() += 1;
        }
        is_new.then_some(group)
    }

    /// Returns the number of requests that differ for an unlisted reason.
    #[must_use]
    pub fn differences(&self) -> usize {
        self.groups.values().map(|group| group.count).sum()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut groups: Vec<_> = self.groups.iter().collect();
        groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.count));
        for (cause, group) in groups {
            let mut subjects: Vec<_> = group.subjects.iter().collect();
            subjects.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            let named: Vec<String> = subjects
                .iter()
                .take(5)
                .map(|(name, count)| format!("{name} {count}"))
                .collect();
            writeln!(
                f,
                "{:6}  {cause}\n        in {} (sequence {})",
                group.count,
                named.join(", "),
                group.sequence
            )?;
            for step in &group.example {
                writeln!(f, "        {step}")?;
            }
        }
        let statuses: Vec<String> = self
            .statuses
            .iter()
            .map(|(status, count)| format!("{status}: {count}"))
            .collect();
        writeln!(f, "statuses: {}", statuses.join(", "))?;
        write!(
            f,
            "seed {}: {} requests, {} differences in {} causes, {} listed differences",
            self.seed,
            self.requests,
            self.differences(),
            self.groups.len(),
            self.kept
        )
    }
}
