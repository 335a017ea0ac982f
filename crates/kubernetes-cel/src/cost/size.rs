//! Ranges of sizes in characters, bytes, items or entries: [`Size`].

/// A size with a lower and an upper bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) min: u64,
    pub(super) max: u64,
}

/// The sizes of the keys and values of a list or map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) is_list: bool,
    pub(super) key: Size,
    pub(super) value: Size,
}

impl Size {
    /// An unknown size.
    pub(super) const ANY: Self = Self {
        min: 0,
        max: u64::MAX,
    };

    pub(super) fn exactly(size: u64) -> Self {
        Self { min: size, max: size }
    }

    pub(super) fn union(self, other: Self) -> Self {
        Self {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }

    pub(super) fn add(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_add(other.min),
            max: self.max.saturating_add(other.max),
        }
    }

    pub(super) fn multiply(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_mul(other.min),
            max: self.max.saturating_mul(other.max),
        }
    }

    /// Returns a tenth of the maximum size, rounded up: the cost of traversing a string.
    pub(super) fn traversal(self) -> u64 {
        tenth(self.max)
    }
}

impl Entry {
    pub(super) fn union(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        let (a, b) = (a?, b?);
        Some(Self {
            is_list: a.is_list,
            key: a.key.union(b.key),
            value: a.value.union(b.value),
        })
    }
}

/// Returns a tenth, rounded up; an unknown size stays unknown.
pub(super) fn tenth(size: u64) -> u64 {
    if size == u64::MAX { size } else { size.div_ceil(10) }
}
