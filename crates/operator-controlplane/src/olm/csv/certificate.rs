//! Serving certificates of webhooks.

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// The validity period of a certificate.
pub(super) const VALID: SignedDuration = SignedDuration::from_hours(2 * 365 * 24);

/// A certificate with its key and the authority that signed it, in PEM.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) authority: String,
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// Creates an authority, and a certificate for host names.
pub(in crate::olm) fn generate(names: &[String], now: Timestamp) -> Option<Pair> {
    make(names, now)
        .inspect_err(|error| tracing::warn!(%error, "cannot create a certificate"))
        .ok()
}

fn make(names: &[String], now: Timestamp) -> Result<Pair, rcgen::Error> {
    let authority_key = KeyPair::generate()?;
    let mut authority = CertificateParams::default();
    authority
        .distinguished_name
        .push(DnType::OrganizationName, "Red Hat, Inc.");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    valid(&mut authority, now);
    let signed = authority.self_signed(&authority_key)?;
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate()?;
    let mut serving = CertificateParams::new(names.to_vec())?;
    if let Some(name) = names.first() {
        serving.distinguished_name.push(DnType::CommonName, name.as_str());
    }
    serving.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    valid(&mut serving, now);
    let certificate = serving.signed_by(&key, &issuer)?;
    Ok(Pair {
        authority: signed.pem(),
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    })
}

fn valid(parameters: &mut CertificateParams, now: Timestamp) {
    let date = |at: Timestamp| {
        let date = at.to_zoned(jiff::tz::TimeZone::UTC).date();
        let part = |part: i8| u8::try_from(part).unwrap_or(1);
        rcgen::date_time_ymd(i32::from(date.year()), part(date.month()), part(date.day()))
    };
    parameters.not_before = date(now);
    let end = now.checked_add(VALID).unwrap_or(now);
    parameters.not_after = date(end);
}
