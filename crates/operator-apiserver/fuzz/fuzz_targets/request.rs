//! `cargo fuzz run request`: a method, a header and a path, each in a line, and the body that follows.
#![no_main]

#[path = "../claims.rs"]
#[expect(dead_code, reason = "other targets have other claims")]
mod claims;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| claims::request(bytes));
