//! Users: authentication and authorization.

pub(crate) mod authn;
pub(crate) mod authz;
pub(crate) mod keyring;
mod pem;
pub(crate) mod signing;
pub(crate) mod strict;
pub(crate) mod token;
pub(crate) mod ttl_cache;
