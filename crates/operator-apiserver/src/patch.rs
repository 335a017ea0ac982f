//! Patches: (live object, patch) → new object. Pure.

pub(crate) mod json;
pub(crate) mod managed_fields;
pub(crate) mod merge;
