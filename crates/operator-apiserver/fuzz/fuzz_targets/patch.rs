//! `cargo fuzz run patch`: the kind of patch and of object in the first byte, and the patch.
#![no_main]

#[path = "../claims.rs"]
#[expect(dead_code, reason = "other targets have other claims")]
mod claims;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| claims::patch(bytes));
