//! Manifests as YAML text: the writers of [`apimachinery::yaml`] under the names of this crate.

pub use apimachinery::yaml::{commented, to_documents as documents, to_string as yaml};
