//! Users: how they prove who they are, and what they may do.

pub(crate) mod authn;
pub(crate) mod authz;
pub(crate) mod keyring;
pub(crate) mod token;
