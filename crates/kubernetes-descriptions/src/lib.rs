//! The descriptions of the built-in types of Kubernetes 1.36 and of their fields, from the crate `k8s-openapi`.
//!
//! The table is a value for the builder of the embedded API server (`operator_apiserver`).

/// The table in zlib's format: for each description the name of its type, or of its type and field
/// (`io.k8s.api.core.v1.PodSpec/containers`), and the text, each followed by a zero byte.
pub static TABLE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/table"));
