//! The descriptions of the built-in types of Kubernetes 1.36 and of their fields, from the crate `k8s-openapi`.
//!
//! The embedded API server (`operator_apiserver`) takes the table as an option of its builder.

/// The table in zlib's format. Each description has the name of its type, or of its type and field
/// (`io.k8s.api.core.v1.PodSpec/containers`), and its text. Both end with a zero byte.
pub static TABLE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/table"));
