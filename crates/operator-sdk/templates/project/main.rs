{{ header }}//! Runs the operator; with the argument `manifests` it prints the operator's manifests.

use std::process::ExitCode;

fn main() -> ExitCode {
    {{ crate_name }}::operator().main()
}
