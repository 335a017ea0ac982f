//! The certificates of the servers of an operator: re-exports of [`operator_certificates`].

#[cfg(test)]
pub(crate) use operator_certificates::Authority;
pub use operator_certificates::{CertificateError, Certificates, ManagedCertificates, TlsVersion};
pub(crate) use operator_certificates::{Served, TlsOptions, shake_hands};
