//! Custom resources: creates the served resources of a CustomResourceDefinition.

mod catalog;
pub(crate) mod condition;
pub(crate) mod conversion;
pub(crate) mod conversion_memo;
pub(crate) mod definitions;
pub(crate) mod names;
pub(crate) mod scale;
mod strategy;
pub(crate) mod version;

pub(crate) use self::catalog::{CustomCatalog, State};
pub(crate) use self::strategy::{prepare_for_delete, prepare_for_update};
pub(crate) use self::version::CustomVersion;
use crate::resource::Definition;

/// The table of CustomResourceDefinitions.
pub(crate) const TABLE: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// Returns true if writes to this resource change the served resources.
pub(crate) fn is_definition_table(definition: &Definition) -> bool {
    definition.is("apiextensions.k8s.io", "customresourcedefinitions")
}
