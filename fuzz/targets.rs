//! The fuzz targets by name, which the fuzzer and a test of the committed inputs share.

#[path = "../crates/structured-merge/fuzz/claims.rs"]
mod merge;
#[path = "../crates/structural-schema/fuzz/claims.rs"]
mod schema;
#[path = "../crates/operator-apiserver/fuzz/claims.rs"]
mod server;

/// A function that checks one input.
pub(crate) type Target = fn(&[u8]);

/// All targets.
pub(crate) const TARGETS: [(&str, Target); 16] = [
    ("json", server::json),
    ("yaml", server::yaml),
    ("protobuf", server::protobuf),
    ("patch", server::patch),
    ("selector", server::selector),
    ("continue_token", server::continue_token),
    ("headers", server::headers),
    ("quantity", server::quantity),
    ("journal", server::journal),
    ("request", server::request),
    ("expression", schema::expression),
    ("rule", schema::rule),
    ("definition", schema::definition),
    ("pattern", schema::pattern),
    ("field_set", merge::field_set),
    ("typed_value", merge::typed_value),
];
