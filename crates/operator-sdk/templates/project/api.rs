{{ header }}//! The kinds of this operator, by version.
