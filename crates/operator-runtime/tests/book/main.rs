//! The Rust samples of the book that are not part of a sample project: docs/book includes the parts between anchors.
#![expect(clippy::unwrap_used, reason = "a test fails so, and so do its helpers")]
#![expect(unreachable_pub, reason = "the book shows items as operators write them")]

mod clusters;
mod conditions;
mod controller_runtime;
mod faults;
mod greeting;
mod here;
mod kopf;
mod kube_rs;
mod markers;
mod options;
mod reads;
mod reference;
mod retries;
