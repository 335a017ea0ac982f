{{ header }}//! Runs the operator; with the argument `manifests` it prints what the operator needs from a cluster.

use std::process::ExitCode;

fn main() -> ExitCode {
    {{ crate_name }}::operator().main()
}
