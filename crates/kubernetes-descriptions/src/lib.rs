//! The descriptions of the built-in types of Kubernetes 1.36, of their fields, and of the parameters of operations, from
//! the crate `k8s-openapi` and the OpenAPI documents of a kube-apiserver.
//!
//! The embedded API server (`operator_apiserver`) takes the table as an option of its builder.

/// The table in zlib's format. Each description has the name of its type, or of its type and field
/// (`io.k8s.api.core.v1.PodSpec/containers`), or of a parameter (`parameter/pretty`), and its text. Both end with a zero
/// byte.
pub static TABLE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/table"));
