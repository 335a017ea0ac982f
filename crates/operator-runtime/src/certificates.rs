//! Certificates of the servers of an operator; see the crate [`operator_certificates`].

#[cfg(test)]
pub(crate) use operator_certificates::Authority;
pub use operator_certificates::{CertificateError, Certificates, ManagedCertificates, TlsVersion};
pub(crate) use operator_certificates::{Served, TlsOptions, shake_hands};
