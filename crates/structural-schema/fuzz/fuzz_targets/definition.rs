//! `cargo fuzz run definition`: any bytes as a schema, an object and the object before, separated by zero bytes.
#![no_main]

#[path = "../claims.rs"]
mod claims;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| claims::definition(bytes));
