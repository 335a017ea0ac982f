//! `cargo fuzz run selector`: a label selector and a field selector, separated by a zero byte.
#![no_main]

#[path = "../claims.rs"]
#[expect(dead_code, reason = "other targets have other claims")]
mod claims;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| claims::selector(bytes));
