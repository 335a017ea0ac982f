//! Manifests as YAML text: re-exports the writers of [`apimachinery::yaml`].

pub use apimachinery::yaml::{commented, to_documents as documents, to_string as yaml};
