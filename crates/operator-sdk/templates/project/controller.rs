{{ header }}//! The controllers of this operator.
