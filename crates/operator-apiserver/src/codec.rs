//! The formats of bodies: JSON, YAML and protobuf, and content negotiation.

mod accept;
pub(crate) mod body;
pub(crate) mod protobuf;

pub(crate) use self::accept::{Form, Representations, Transform, negotiate, negotiate_error};
