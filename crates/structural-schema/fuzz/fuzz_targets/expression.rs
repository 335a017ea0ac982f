//! `cargo fuzz run expression`: any bytes as a CEL expression.
#![no_main]

#[path = "../claims.rs"]
mod claims;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| claims::expression(bytes));
