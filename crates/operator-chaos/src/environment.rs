//! The settings of a campaign in environment variables, which `operator-sdk chaos` sets.

use std::path::PathBuf;
use std::time::Duration;

use crate::campaign::Chaos;
use crate::error::Error;
use crate::progress;

impl Chaos {
    /// Reads settings from the environment variables that `operator-sdk chaos` sets: `OPERATOR_CHAOS_BUDGET` (seconds),
    /// `OPERATOR_CHAOS_PLANS`, `OPERATOR_CHAOS_SEED`, `OPERATOR_CHAOS_JOBS`, `OPERATOR_CHAOS_WORKLOAD` (a file),
    /// `OPERATOR_CHAOS_REPORT` (files, separated by commas), `OPERATOR_CHAOS_REPLAY` (the ID of a finding, or a file),
    /// `OPERATOR_CHAOS_PROGRESS` (`1` to print the progress, or a file to write it to as JSON), and
    /// `OPERATOR_CHAOS_STOP` (a file whose creation ends the campaign). Empty values are ignored.
    ///
    /// # Errors
    /// Returns an error if the value of a variable is not a number.
    pub fn from_env(mut self) -> Result<Self, Error> {
        if let Some(seconds) = number("OPERATOR_CHAOS_BUDGET")? {
            self = self.budget(Duration::from_secs(seconds));
        }
        if let Some(plans) = number("OPERATOR_CHAOS_PLANS")? {
            self = self.plans(usize::try_from(plans).unwrap_or(usize::MAX));
        }
        if let Some(seed) = number("OPERATOR_CHAOS_SEED")? {
            self = self.seed(seed);
        }
        if let Some(jobs) = number("OPERATOR_CHAOS_JOBS")? {
            self = self.jobs(usize::try_from(jobs).unwrap_or(usize::MAX));
        }
        if let Some(path) = variable("OPERATOR_CHAOS_WORKLOAD") {
            self = self.workload_path(path);
        }
        let reports = variable("OPERATOR_CHAOS_REPORT").unwrap_or_default();
        for path in reports.split(',').filter(|path| !path.is_empty()) {
            self = self.report_path(path);
        }
        if let Some(id) = variable("OPERATOR_CHAOS_REPLAY") {
            self = self.replay_finding(id);
        }
        match variable("OPERATOR_CHAOS_PROGRESS") {
            None => {}
            Some(value) if value == "1" => self = self.with_progress(),
            Some(path) => self = self.on_progress(progress::file(path.into())),
        }
        if let Some(path) = variable("OPERATOR_CHAOS_STOP").map(PathBuf::from) {
            self = self.stop_when(move || path.exists());
        }
        Ok(self)
    }

    /// Explores the operator with the settings of [`Chaos::from_env`], and asserts that there are no findings. For
    /// tests.
    ///
    /// ```no_run
    /// use operator_chaos::Chaos;
    ///
    /// async fn operator(client: kube::Client) -> Result<(), kube::Error> {
    ///     // Runs the operator with the client.
    ///     # drop(client);
    ///     std::future::pending().await
    /// }
    ///
    /// // In a function with `#[test]`:
    /// Chaos::new(operator)
    ///     .crd_path("config/crd/bases")
    ///     .workload_path("tests/chaos.yaml")
    ///     .assert_clean();
    /// ```
    ///
    /// # Panics
    /// Panics with the text of the report if there are findings, or with the error if the campaign fails.
    #[track_caller]
    #[expect(clippy::panic, reason = "an assertion of a test")]
    pub fn assert_clean(self) {
        match self.from_env().and_then(Self::run) {
            Ok(report) => report.assert_clean(),
            Err(error) => panic!("{error}"),
        }
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn number(name: &'static str) -> Result<Option<u64>, Error> {
    let Some(value) = variable(name) else {
        return Ok(None);
    };
    let parsed = value.parse();
    parsed.map(Some).map_err(|_| Error::Variable { name, value })
}
