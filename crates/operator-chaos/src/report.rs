//! [`Report`], the result of a campaign.

mod align;
mod html;
mod junit;
mod rust;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::oracle::Violation;
use crate::plan::{Fault, Plan};
use crate::progress::counted_findings;
use crate::workload::Workload;

/// The result of a campaign.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The seed of random plans.
    pub seed: u64,
    /// The number of plans that were run, without reruns and shrinking.
    pub plans: usize,
    /// The number of single faults that are possible in the run without faults.
    pub single_faults: usize,
    /// The number of single faults that were run.
    pub single_faults_run: usize,
    /// The number of different sequences of writes that were seen.
    pub traces: usize,
    /// The number of different states of the cluster that were seen.
    #[serde(default)]
    pub states: usize,
    /// The number of different end states that were seen.
    pub end_states: usize,
    /// The number of plans that ended early because another plan had the same remaining states.
    #[serde(default)]
    pub pruned: usize,
    /// The number of changes of the spec that were run.
    #[serde(default)]
    pub mutations: usize,
    /// The single faults by kind.
    #[serde(default)]
    pub faults: Vec<FaultCoverage>,
    /// The number of requests of the operator without faults, except for watches.
    pub reference_calls: usize,
    /// The number of fields that differ between runs without faults and are not compared.
    pub masked_fields: usize,
    /// The real time in milliseconds.
    pub elapsed_ms: u64,
    /// True if the campaign was stopped early.
    #[serde(default)]
    pub stopped: bool,
    /// The findings.
    pub findings: Vec<Finding>,
}

/// The single faults of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultCoverage {
    /// The kind, such as `CrashBefore`.
    pub kind: String,
    /// The number of faults that were run.
    pub run: usize,
    /// The number of faults that are possible in the run without faults.
    pub total: usize,
}

/// A plan that leads to violations, after shrinking.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The ID, for a replay.
    pub id: String,
    /// The plan. It has no faults if the operator fails without faults.
    pub plan: Plan,
    /// The description of the plan in English.
    pub text: String,
    /// The steps that are needed.
    pub workload: Workload,
    /// The violations.
    pub violations: Vec<Violation>,
    /// The number of plans that lead to the same first violation.
    pub plans: usize,
    /// The number of plans that were run before the first one.
    pub found_after: usize,
    /// The time that shrinking took, in milliseconds.
    pub shrink_ms: u64,
    /// The first difference between two runs of the plan, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nondeterminism: Option<String>,
    /// The first write that differs from the run without faults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_divergence: Option<String>,
    /// The number of the line of that write in the timeline, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub divergent_line: Option<usize>,
    /// The differences between the end state and the one without faults.
    #[serde(default)]
    pub state_diff: Vec<String>,
    /// The timeline of the run.
    pub timeline: Vec<String>,
    /// The timeline of the run without faults.
    pub reference_timeline: Vec<String>,
}

/// The format of a report file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Text,
    Json,
    Junit,
    Html,
}

// === impl Report ===

impl Report {
    /// Returns the duration of the campaign.
    fn seconds(&self) -> f64 {
        f64::from(u32::try_from(self.elapsed_ms).unwrap_or(u32::MAX)) / 1000.0
    }

    /// Returns true if there are no findings.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    /// Asserts that there are no findings. For tests.
    ///
    /// # Panics
    /// Panics with the text of the report if there are findings.
    #[track_caller]
    #[expect(clippy::panic, reason = "an assertion of a test")]
    pub fn assert_clean(&self) {
        if !self.is_clean() {
            panic!("\n{self}");
        }
    }

    /// Sets the possible single faults.
    pub(crate) fn set_singles<'a>(&mut self, faults: impl IntoIterator<Item = &'a Fault>) {
        for kind in faults.into_iter().map(|fault| fault.action.kind()) {
            self.single_faults += 1;
            match self.faults.iter_mut().find(|fault| fault.kind == kind) {
                Some(fault) => fault.total += 1,
                None => self.faults.push(FaultCoverage {
                    kind,
                    run: 0,
                    total: 1,
                }),
            }
        }
    }

    /// Sets the number of single faults that were run, by kind.
    pub(crate) fn cover(&mut self, run: &BTreeMap<String, usize>) {
        for fault in &mut self.faults {
            fault.run = run.get(&fault.kind).copied().unwrap_or(0);
        }
        self.faults.sort_by(|left, right| left.kind.cmp(&right.kind));
    }

    /// Returns the report as JUnit XML.
    pub fn to_junit(&self) -> String {
        junit::render(self)
    }

    /// Returns the report as a self-contained HTML page.
    pub fn to_html(&self) -> String {
        html::render(self)
    }

    /// Returns the report as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Writes the report to a file. The format depends on the extension: `.json`, `.xml` (JUnit), `.html`, and
    /// otherwise text.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let text = match Format::of(path) {
            Format::Text => self.to_string(),
            Format::Json => self.to_json(),
            Format::Junit => self.to_junit(),
            Format::Html => self.to_html(),
        };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(path, text)
    }

    /// Writes each finding to a file in a directory, named after its ID, for a replay. Returns the paths of the files.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written.
    pub fn write_findings(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        std::fs::create_dir_all(directory)?;
        let write = |finding: &Finding| {
            let path = directory.join(format!("{}.json", finding.id));
            std::fs::write(&path, serde_json::to_string_pretty(finding).unwrap_or_default())?;
            Ok(path)
        };
        self.findings.iter().map(write).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.seconds();
        writeln!(
            formatter,
            "{} plans in {seconds:.1} s: {}. {} of {} single faults, {} changes of the spec; {} traces, \
             {} states, {} end states; {} requests without faults, {} fields masked; seed {}.",
            self.plans,
            counted_findings(self.findings.len()),
            self.single_faults_run,
            self.single_faults,
            self.mutations,
            self.traces,
            self.states,
            self.end_states,
            self.reference_calls,
            self.masked_fields,
            self.seed,
        )?;
        if self.stopped {
            writeln!(formatter, "The campaign was stopped before its end.")?;
        }
        for finding in &self.findings {
            write!(formatter, "\n{finding}")?;
        }
        Ok(())
    }
}

// === impl Finding ===

impl Finding {
    /// Returns a Rust test that replays the plan. `operator` is the expression of the operator under test.
    pub fn rust_test(&self) -> String {
        rust::render(self)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "Finding {}: {}", self.id, self.text)?;
        for violation in &self.violations {
            let severe = if violation.severe { " (severe)" } else { "" };
            writeln!(
                formatter,
                "  {:?}{severe} {}: {}",
                violation.oracle, violation.subject, violation.message
            )?;
        }
        let steps: Vec<String> = self
            .workload
            .steps
            .iter()
            .map(|step| step.change.to_string())
            .collect();
        writeln!(formatter, "  Workload: {}", steps.join(", "))?;
        if self.plans > 1 {
            writeln!(formatter, "  {} plans lead to it.", self.plans)?;
        }
        if let Some(difference) = &self.nondeterminism {
            writeln!(formatter, "  Two runs of the plan differ: {difference}")?;
        }
        if let Some(write) = &self.first_divergence {
            writeln!(formatter, "  The first write that differs: {write}")?;
        }
        writeln!(formatter, "  Timeline:")?;
        for (index, line) in self.timeline.iter().enumerate() {
            let mark = if self.divergent_line == Some(index) {
                "→"
            } else {
                " "
            };
            writeln!(formatter, " {mark}{line}")?;
        }
        if !self.state_diff.is_empty() {
            writeln!(formatter, "  End state, without faults → with the fault:")?;
        }
        for line in &self.state_diff {
            writeln!(formatter, "    {line}")?;
        }
        writeln!(formatter, "  Replay: operator-sdk chaos replay {}", self.id)
    }
}

// === impl Format ===

impl Format {
    fn of(path: &Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("json") => Self::Json,
            Some("xml") => Self::Junit,
            Some("html") => Self::Html,
            _ => Self::Text,
        }
    }
}

/// Escapes a text for XML and HTML.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // XML does not allow other control characters.
            letter if letter < ' ' && !matches!(letter, '\n' | '\t') => escaped.push('\u{fffd}'),
            letter => escaped.push(letter),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::Oracle;

    fn report() -> Report {
        let violation = Violation {
            oracle: Oracle::EndState,
            severe: true,
            subject: "secrets default/a".to_owned(),
            message: "size 1 < 2 & more".to_owned(),
        };
        let finding = Finding {
            id: "0123456789ab".to_owned(),
            text: "crash before the 1st `create secrets default/a`".to_owned(),
            violations: vec![violation],
            timeline: [
                "    1.000 s  FAULT <x>",
                "    2.000 s  operator: delete secrets default/a → 200",
            ]
            .map(str::to_owned)
            .to_vec(),
            reference_timeline: vec!["    1.500 s  step 1: apply Secret a".to_owned()],
            divergent_line: Some(1),
            state_diff: vec!["secrets default/a: object {} → nothing".to_owned()],
            ..Finding::default()
        };
        Report {
            plans: 7,
            findings: vec![finding],
            ..Report::default()
        }
    }

    #[test]
    fn every_form_has_the_finding_and_is_escaped() {
        let report = report();
        let text = report.to_string();
        assert!(text.contains("Finding 0123456789ab: crash before"), "{text}");
        assert!(
            text.contains("EndState (severe) secrets default/a: size 1 < 2 & more"),
            "{text}"
        );
        let read: Report = serde_json::from_str(&report.to_json()).unwrap_or_default();
        assert_eq!(read.findings.len(), 1);
        for markup in [report.to_html(), report.to_junit()] {
            assert!(markup.contains("size 1 &lt; 2 &amp; more"), "{markup}");
            assert!(markup.contains("0123456789ab"), "{markup}");
        }
        assert!(report.to_junit().contains("failures=\"1\""));
        assert!(text.contains(" →    2.000 s  operator: delete"), "{text}");
        assert!(
            text.contains("    secrets default/a: object {} → nothing"),
            "{text}"
        );
        let page = report.to_html();
        let first =
            "<td class=\"first\" title=\"the first write that differs\">    2.000 s  operator: delete";
        assert!(page.contains(first), "{page}");
        assert!(
            page.contains("<td class=\"fault\">    1.000 s  FAULT &lt;x&gt;</td>"),
            "{page}"
        );
        assert!(
            page.contains("<code>secrets default/a: object {} → nothing</code>"),
            "{page}"
        );
        let test = report.findings[0].rust_test();
        assert!(test.contains("fn replay_0123456789ab()"), "{test}");
    }
}
