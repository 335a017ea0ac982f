//! The parts of a JSON value's schema that expressions depend on: [`Schema`].

use std::fmt::Debug;

/// The schema of a JSON value, which determines the type of the value in an expression.
pub trait Schema: Debug + Send + Sync {
    /// Returns the type, such as `string`; empty if any type is allowed.
    fn kind(&self) -> &str;

    /// Returns the format of a string, such as `date-time`, or an empty string.
    fn format(&self) -> &str;

    /// Returns the schema of the items of a list.
    fn items(&self) -> Option<&dyn Schema>;

    /// Returns the schema of a property, or else the schema of additional properties.
    fn property(&self, name: &str) -> Option<&dyn Schema>;

    /// Returns true if the value is a map with arbitrary keys. Expressions use its keys without escapes.
    fn is_map(&self) -> bool;

    /// Returns `x-kubernetes-list-type`.
    fn list_type(&self) -> Option<&str>;

    /// Returns `x-kubernetes-list-map-keys`.
    fn list_map_keys(&self) -> &[String];
}
