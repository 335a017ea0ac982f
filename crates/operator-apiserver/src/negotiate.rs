//! Which form a body has, and which form the answer should have.

mod accept;
pub(crate) mod body;
pub(crate) mod encoding;
pub(crate) mod table;

pub(crate) use self::accept::{Asked, Form, Transform, negotiate, negotiate_error};
