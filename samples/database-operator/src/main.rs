// SPDX-License-Identifier: Apache-2.0

//! Runs the operator; with the argument `manifests` it prints the operator's manifests.

use std::process::ExitCode;

fn main() -> ExitCode {
    database_operator::operator().main()
}
