//! `cargo fuzz run field_set`: any bytes as the text of a FieldsV1 value.
#![no_main]

#[path = "../claims.rs"]
mod claims;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| claims::field_set(bytes));
