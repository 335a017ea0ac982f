//! Server-side apply and managed fields as pure logic.
//!
//! The rooms, in the order in which a write walks them:
//!
//! * [`builtin`]: the types of Kubernetes 1.36 as one compact table.

pub mod builtin;
