{{ header }}//! The kinds in version {{ version }}.
