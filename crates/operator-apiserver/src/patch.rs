//! Patches as pure functions from the live object and a patch to the new object.

pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const MERGE_PATCH: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
pub(crate) const APPLY_PATCH: &str = "application/apply-patch+yaml";

pub(crate) mod json;
pub(crate) mod managed_fields;
pub(crate) mod merge;
