//! [`Error`], the error of a campaign.

use std::io;
use std::path::PathBuf;

/// An error of running a campaign.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The simulated cluster could not be started.
    #[error("cannot start the simulated cluster: {0}")]
    Server(String),
    /// The server rejected an object that must exist before the operator starts.
    #[error("cannot create {object}: {problem}")]
    Object {
        /// The name of the object.
        object: String,
        /// The error of the server.
        problem: String,
    },
    /// A file could not be read.
    #[error("cannot read {}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("cannot write {}: {source}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A file does not have the expected content.
    #[error("{}: {problem}", .path.display())]
    Yaml {
        /// The file.
        path: PathBuf,
        /// The position and the cause.
        problem: String,
    },
    /// A CEL expression is invalid.
    #[error("predicate {name:?}: {problem}")]
    Predicate {
        /// The name of the predicate.
        name: String,
        /// The cause.
        problem: String,
    },
    /// A workload upgrades to a version that does not exist.
    #[error("the workload upgrades to operator {name:?}, which was not added with `Chaos::version`")]
    Version {
        /// The name of the version.
        name: String,
    },
    /// The value of an environment variable is not a number.
    #[error("{name}={value} is not a number")]
    Variable {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
    },
    /// The campaign was stopped during a run.
    #[error("the campaign was stopped")]
    Stopped,
}
