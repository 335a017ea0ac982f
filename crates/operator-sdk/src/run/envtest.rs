//! The replacement for the programs of controller-runtime's envtest: this tool under the names of these programs.

mod assets;
mod etcd;
mod kube_apiserver;

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

pub(crate) use self::assets::assets;
pub(in crate::run) use self::kube_apiserver::{parse_access_flags, with_access};
use crate::args::go_flags::{self, Flag, GoFlags, GoFlagsError};
use crate::failure::Failure;
use crate::report::Report;

/// A program that this tool replaces.
struct Program {
    name: &'static str,
    about: &'static str,
    flags: &'static [Flag],
    run: fn(&GoFlags, &Report) -> Result<(), Failure>,
}

const PROGRAMS: [Program; 2] = [
    Program {
        name: "kube-apiserver",
        about: "The embedded Kubernetes API server, instead of kube-apiserver. It needs no etcd.",
        flags: kube_apiserver::FLAGS,
        run: kube_apiserver::run,
    },
    Program {
        name: "etcd",
        about: "Serves the health endpoint of etcd; it stores nothing.",
        flags: etcd::FLAGS,
        run: etcd::run,
    },
];

/// Runs the program with the name under which this tool was started. Returns `None` for the tool itself.
pub(crate) fn by_name(arguments: impl IntoIterator<Item = std::ffi::OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.into_iter();
    let started_as = arguments.next()?;
    let name = Path::new(&started_as).file_name().and_then(OsStr::to_str)?;
    let program = PROGRAMS.iter().find(|program| program.name == name)?;
    crate::init_logging(false);
    let arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
    let report = Report::new();
    Some(match program.start(arguments, &report) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            report.failure(&failure);
            ExitCode::FAILURE
        }
    })
}

// === impl Program ===

impl Program {
    fn start(&self, arguments: impl Iterator<Item = String>, report: &Report) -> Result<(), Failure> {
        let given = GoFlags::parse(self.flags, arguments).map_err(|error| self.misuse(&error))?;
        if given.help {
            report.text(&go_flags::usage(self.name, self.about, self.flags));
            return Ok(());
        }
        if given.version {
            report.line(&format!("Kubernetes v{}", crate::template::KUBERNETES_VERSION));
            return Ok(());
        }
        (self.run)(&given, report)
    }

    fn misuse(&self, error: &GoFlagsError) -> Failure {
        Failure {
            message: error.to_string(),
            hint: Some(format!("`{} --help` lists the flags", self.name)),
        }
    }
}

/// Returns the failure for an invalid value of a flag.
fn bad_value(flag: &str, value: &str, why: impl std::fmt::Display) -> Failure {
    Failure {
        message: format!("invalid value {value:?} of --{flag}: {why}"),
        hint: Some(format!("correct --{flag}")),
    }
}
