//! The bounds of a variable, for the estimate of the cost.

use std::collections::BTreeMap;

use crate::types::Type;

/// The size limit of a request, in bytes.
pub const MAX_REQUEST_BYTES: u64 = 3 << 20;

/// A type with bounds on its size.
#[derive(Clone, Debug)]
pub struct Declared {
    /// The type.
    pub kind: Type,
    /// The maximum number of characters, bytes, items or entries.
    pub max_elements: u64,
    /// The minimum number of bytes that a value takes in JSON.
    pub min_size: u64,
    /// The bounds of the parts.
    pub parts: Parts,
}

/// The bounds of the parts of a value.
#[derive(Clone, Debug)]
pub enum Parts {
    /// The value has no parts.
    None,
    /// Items of a list or values of a map.
    Items(Box<Declared>),
    /// Fields of an object.
    Fields(BTreeMap<String, Declared>),
}

impl Declared {
    /// Returns the maximum number of such values in one request.
    pub fn max_cardinality(&self) -> u64 {
        MAX_REQUEST_BYTES / (self.min_size + 1)
    }
}
