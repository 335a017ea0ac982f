//! Explores a program in any language.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use operator_chaos::{Chaos, Progress, Report as Findings};
use tokio::sync::{mpsc, oneshot};

use super::screen::Screen;
use super::{Campaign, ChaosError, Program};
use crate::failure::Failure;
use crate::process::signal::Ends;
use crate::report::Report;

/// The default budget, because a plan takes seconds.
const BUDGET: Duration = Duration::from_secs(300);
/// The number of concurrent plans per core. Programs wait most of the time.
const JOBS_PER_CORE: usize = 4;

/// Explores the program, or replays a finding. Returns `None` if a second signal ended it immediately.
pub(super) async fn run(
    campaign: &Campaign<'_>,
    program: &Program,
    ends: &mut Ends,
    report: &Report,
) -> Result<Option<Findings>, Failure> {
    let mut chaos = chaos(campaign, program)?;
    let stopped = Arc::new(AtomicBool::new(false));
    let stop = stopped.clone();
    chaos = chaos.stop_when(move || stop.load(Ordering::Relaxed));
    let (sender, mut progress) = mpsc::unbounded_channel::<Progress>();
    chaos = chaos.on_progress(move |progress| drop(sender.send(progress.clone())));
    let finding = campaign.finding.as_ref().map(|(_, finding)| finding.clone());
    let (done, mut result) = oneshot::channel();
    // Each plan has its own runtime. After a second signal, the thread is not waited for.
    std::thread::spawn(move || {
        let found = match finding {
            Some(finding) => chaos.workload(finding.workload).replay(&finding.plan),
            None => chaos.run(),
        };
        let _ = done.send(found);
    });
    let mut screen = Screen::new();
    loop {
        tokio::select! {
            found = &mut result => {
                screen.clear();
                let found = found.map_err(|_| ChaosError::NoReport("it panicked".to_owned()))?;
                return Ok(Some(found.map_err(ChaosError::from)?));
            }
            Some(progress) = progress.recv() => screen.show(&progress),
            () = ends.next() => {
                screen.clear();
                if stopped.swap(true, Ordering::Relaxed) {
                    return Ok(None);
                }
                report.progress("Stopping; press Ctrl-C again to end at once.");
            }
        }
    }
}

fn chaos(campaign: &Campaign<'_>, program: &Program) -> Result<Chaos, ChaosError> {
    let (name, _) = program.command.split_first().ok_or(ChaosError::NoWorkload)?;
    check_executable(name)?;
    let mut chaos = Chaos::command(&program.command)?;
    for path in &program.crds {
        chaos = chaos.crd_path(path);
    }
    for field in &program.ignore {
        chaos = chaos.ignore(field);
    }
    let Some(args) = campaign.run else {
        return Ok(chaos);
    };
    let workload = args.workload.as_ref().ok_or(ChaosError::NoWorkload)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    chaos = chaos
        .workload_path(workload)
        .budget(args.budget.unwrap_or(BUDGET))
        .jobs(args.jobs.unwrap_or(cores * JOBS_PER_CORE));
    if let Some(plans) = args.plans {
        chaos = chaos.plans(plans);
    }
    if let Some(seed) = args.seed {
        chaos = chaos.seed(seed);
    }
    Ok(chaos)
}

/// Returns an error if no executable file with this name exists. A name that is not a path is searched in `PATH`.
fn check_executable(name: &str) -> Result<(), ChaosError> {
    let failed = |reason: &str| {
        Err(ChaosError::Program {
            program: name.into(),
            reason: reason.to_owned(),
        })
    };
    let is_executable = |path: &Path| {
        let metadata = path.metadata();
        metadata.is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        let path = Path::new(name);
        return match path.exists() {
            true if is_executable(path) => Ok(()),
            true => failed("it is not an executable file"),
            false => failed("no such file"),
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_found = |folder: std::path::PathBuf| is_executable(&folder.join(OsStr::new(name)));
    match std::env::split_paths(&path).any(is_found) {
        true => Ok(()),
        false => failed("it is not in the directories of PATH"),
    }
}
