//! Runs the target that `FUZZ_TARGET` names with the inputs of libFuzzer.
#![no_main]

#[path = "../targets.rs"]
mod targets;

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use targets::{TARGETS, Target};

static TARGET: OnceLock<Target> = OnceLock::new();

fn named() -> Target {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|(known, _)| *known == name);
    let names = TARGETS.map(|(known, _)| known).join(", ");
    found.map_or_else(|| panic!("FUZZ_TARGET must be one of {names}"), |(_, target)| *target)
}

fuzz_target!(|bytes: &[u8]| TARGET.get_or_init(named)(bytes));
