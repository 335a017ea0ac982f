//! `cargo fuzz run rule`: any bytes as a rule and an object, separated by a zero byte.
#![no_main]

#[path = "../claims.rs"]
mod claims;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| claims::rule(bytes));
