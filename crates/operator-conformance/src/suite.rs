//! Replays a folder of recordings on a server, and compares the result with a list of known differences ([`check`]).
//!
//! The list has one scenario on each line, `CATEGORY/NAME: REASON`; `#` starts a comment. A suite fails if a scenario
//! differs that is not listed, or if a listed scenario no longer differs. Therefore the list is always correct.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;

use futures::StreamExt;

use crate::scenario::{self, Scenario};
use crate::{ApiService, Pauses, replay_counting};

/// The number of scenarios that run in parallel, because they mostly wait for the clock.
const PARALLEL: usize = 16;

/// The result of a category.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The number of replayed scenarios.
    pub total: usize,
    /// The differing scenarios, with their differences.
    pub differing: BTreeMap<String, Vec<String>>,
}

/// Replays every scenario of `FOLDER/CATEGORY`, each on its own server, and compares the result with the list of known
/// differences. A server can take its time from the pauses of its scenario. Scenarios that need `controllers` are skipped unless `with_controllers` is true.
///
/// If the environment variable `CONFORMANCE_SHOW` is set to a part of a scenario's name or to `all`, the differences of
/// listed scenarios are printed, too.
///
/// # Errors
/// Returns a text for a failing test: scenarios that differ and are not listed, and listed ones that do not differ.
pub async fn check<S, F>(
    folder: &Path,
    category: &str,
    known_differences: &str,
    with_controllers: bool,
    server: impl Fn(Pauses) -> F,
) -> Result<Outcome, String>
where
    S: ApiService,
    F: Future<Output = S>,
{
    let scenarios = scenario::read_folder(&folder.join(category)).map_err(|error| describe(&error))?;
    let scenarios: Vec<Scenario> = scenarios
        .into_iter()
        .filter(|scenario| with_controllers || !scenario.needs.iter().any(|need| need == "controllers"))
        .collect();
    if scenarios.is_empty() {
        return Err(format!("no scenarios in {}", folder.join(category).display()));
    }
    let runs = scenarios.iter().map(|scenario| {
        let pauses = Pauses::default();
        let server = server(pauses.clone());
        async move {
            let differences = replay_counting(server.await, scenario, pauses).await;
            (scenario.name.clone(), differences)
        }
    });
    let results: Vec<(String, Vec<String>)> = futures::stream::iter(runs)
        .buffer_unordered(PARALLEL)
        .collect()
        .await;
    let total = results.len();
    let differing = results
        .into_iter()
        .filter(|(_, lines)| !lines.is_empty())
        .collect();
    let outcome = Outcome { total, differing };
    println!(
        "{category}: {} of {total} scenarios as recorded",
        total - outcome.differing.len()
    );
    verdict(category, &known(category, known_differences), outcome)
}

fn describe(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// Returns the listed scenarios of a category, with their reasons.
fn known(category: &str, list: &str) -> BTreeMap<String, String> {
    list.lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .filter_map(|line| line.split_once(':'))
        .filter_map(|(name, reason)| {
            let name = name.trim().strip_prefix(category)?.strip_prefix('/')?;
            Some((name.to_owned(), reason.trim().to_owned()))
        })
        .collect()
}

fn verdict(category: &str, known: &BTreeMap<String, String>, outcome: Outcome) -> Result<Outcome, String> {
    let shown = std::env::var("CONFORMANCE_SHOW").unwrap_or_default();
    let mut complaints = Vec::new();
    for (name, lines) in &outcome.differing {
        let is_shown = !shown.is_empty() && (shown == "all" || name.contains(&shown));
        if !known.contains_key(name) {
            complaints.push(format!("{category}/{name} differs:\n  {}", first_lines(lines)));
        } else if is_shown {
            println!("{category}/{name} differs as listed:\n  {}", lines.join("\n  "));
        }
    }
    for name in known.keys().filter(|name| !outcome.differing.contains_key(*name)) {
        complaints.push(format!(
            "{category}/{name} is listed as different, but behaves as recorded: remove it from the list"
        ));
    }
    if complaints.is_empty() {
        Ok(outcome)
    } else {
        Err(complaints.join("\n"))
    }
}

fn first_lines(lines: &[String]) -> String {
    let shown: Vec<&str> = lines.iter().take(12).map(String::as_str).collect();
    let rest = lines.len().saturating_sub(shown.len());
    let more = if rest > 0 {
        format!("\n  … and {rest} more")
    } else {
        String::new()
    };
    format!("{}{more}", shown.join("\n  "))
}
