//! `cargo fuzz run continue_token`: what a continue token says, or the token itself.
#![no_main]

#[path = "../claims.rs"]
#[expect(dead_code, reason = "other targets have other claims")]
mod claims;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| claims::continue_token(bytes));
