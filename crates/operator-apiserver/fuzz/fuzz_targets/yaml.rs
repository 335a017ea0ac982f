//! `cargo fuzz run yaml`: the kind of object in the first byte, and its text.
#![no_main]

#[path = "../claims.rs"]
#[expect(dead_code, reason = "other targets have other claims")]
mod claims;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| claims::yaml(bytes));
