//! The bounds of a variable, for cost estimates: [`Declared`].

use std::collections::BTreeMap;

use crate::types::Type;

/// The maximum size of a request, in bytes.
pub const MAX_REQUEST_BYTES: u64 = 3 << 20;

/// A type with bounds on the size of its values.
#[derive(Clone, Debug)]
pub struct Declared {
    /// The type.
    pub kind: Type,
    /// The maximum number of characters, bytes, items or entries.
    pub max_elements: u64,
    /// The minimum number of bytes of a value in JSON.
    pub min_size: u64,
    /// The bounds of the parts.
    pub parts: Parts,
}

/// The bounds of the parts of a value.
#[derive(Clone, Debug)]
pub enum Parts {
    /// The value has no parts.
    None,
    /// The items of a list or the values of a map.
    Items(Box<Declared>),
    /// The fields of an object.
    Fields(BTreeMap<String, Declared>),
}

impl Declared {
    /// Returns the maximum number of values of this type in one request.
    pub fn max_cardinality(&self) -> u64 {
        MAX_REQUEST_BYTES / (self.min_size + 1)
    }
}
