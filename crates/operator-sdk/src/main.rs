//! The command line of the Operator SDK for Rust.

fn main() {}
