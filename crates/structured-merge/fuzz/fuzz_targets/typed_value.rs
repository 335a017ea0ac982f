//! `cargo fuzz run typed_value`: any bytes as a live object and a configuration, separated by a zero byte.
#![no_main]

#[path = "../claims.rs"]
mod claims;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| claims::typed_value(bytes));
