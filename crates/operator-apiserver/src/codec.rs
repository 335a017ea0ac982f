//! The forms of bodies: JSON, YAML and protobuf, read and written, and the choice of the form of an answer.

mod accept;
pub(crate) mod body;
pub(crate) mod protobuf;

pub(crate) use self::accept::{Form, Representations, Transform, negotiate, negotiate_error};
