//! Certificates for CertificateSigningRequests, signed by the authority of the server.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use builtin_kinds::certificate_request::Request;
use jiff::Timestamp;
use rcgen::{Issuer, KeyPair, SigningKey};
use yasna::models::ObjectIdentifier;
use yasna::{DERWriter, DERWriterSeq, Tag};

use crate::error::Error;

/// The time before its signature from which a certificate is valid, for clocks that are behind.
const BACKDATED: Duration = Duration::from_secs(300);

const ECDSA_WITH_SHA256: &[u64] = &[1, 2, 840, 10_045, 4, 3, 2];
const BASIC_CONSTRAINTS: &[u64] = &[2, 5, 29, 19];
const KEY_USAGE: &[u64] = &[2, 5, 29, 15];
const EXTENDED_KEY_USAGE: &[u64] = &[2, 5, 29, 37];
const ALTERNATIVE_NAMES: &[u64] = &[2, 5, 29, 17];

/// The usages of a key by their names in a CertificateSigningRequest, in the order of their bits.
const USAGES: [&str; 9] = [
    "digital signature",
    "content commitment",
    "key encipherment",
    "data encipherment",
    "key agreement",
    "cert sign",
    "crl sign",
    "encipher only",
    "decipher only",
];

/// The extended usages with the last number of their identifiers.
const EXTENDED_USAGES: [(&str, u64); 5] = [
    ("server auth", 1),
    ("client auth", 2),
    ("code signing", 3),
    ("email protection", 4),
    ("timestamping", 8),
];

/// Signs certificates with the authority of a server's certificates.
#[derive(Clone)]
pub struct CertificateSigner(Arc<Authority>);

struct Authority {
    /// The subject of the authority, in DER.
    subject: Vec<u8>,
    issuer: Issuer<'static, KeyPair>,
}

impl std::fmt::Debug for CertificateSigner {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("CertificateSigner")
            .finish_non_exhaustive()
    }
}

impl CertificateSigner {
    /// Returns the signer of an authority whose key is on the curve P-256.
    pub(crate) fn new(certificate: &[u8], issuer: Issuer<'static, KeyPair>) -> Result<Self, Error> {
        let subject = yasna::parse_der(certificate, |reader| {
            reader.read_sequence(|certificate| {
                let subject = certificate.next().read_sequence(|body| {
                    // Version, number and algorithm come before the issuer, which is the authority itself.
                    for _ in 0..3 {
                        body.next().read_der()?;
                    }
                    let subject = body.next().read_der()?;
                    while body.read_optional(|rest| rest.read_der())?.is_some() {}
                    Ok(subject)
                })?;
                certificate.next().read_der()?;
                certificate.next().read_der()?;
                Ok(subject)
            })
        });
        let subject = subject.map_err(|error| Error::Certificates(error.to_string()))?;
        Ok(Self(Arc::new(Authority { subject, issuer })))
    }

    /// Returns a certificate in PEM.
    ///
    /// # Errors
    /// The signature cannot be made.
    pub fn sign(
        &self,
        request: &Request,
        usages: &[&str],
        lifetime: Duration,
        now: SystemTime,
    ) -> Result<String, Error> {
        let failed = |why: String| Error::Certificates(why);
        let mut number = [0_u8; 16];
        ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut number)
            .map_err(|error| failed(error.to_string()))?;
        let begin = now.checked_sub(BACKDATED).unwrap_or(now);
        let end = begin.checked_add(lifetime).unwrap_or(begin);
        let body = yasna::construct_der(|writer| {
            writer.write_sequence(|body| {
                body.next()
                    .write_tagged(Tag::context(0), |version| version.write_u8(2));
                body.next().write_bigint_bytes(&number, true);
                algorithm(body.next());
                body.next().write_der(&self.0.subject);
                body.next().write_sequence(|validity| {
                    validity.next().write_der(&time(begin));
                    validity.next().write_der(&time(end));
                });
                body.next().write_der(&request.subject);
                body.next().write_der(&request.public_key);
                body.next().write_tagged(Tag::context(3), |extensions| {
                    extensions.write_sequence(|extensions| write_extensions(extensions, request, usages));
                });
            });
        });
        let signature = self
            .0
            .issuer
            .key()
            .sign(&body)
            .map_err(|error| failed(error.to_string()))?;
        let der = yasna::construct_der(|writer| {
            writer.write_sequence(|certificate| {
                certificate.next().write_der(&body);
                algorithm(certificate.next());
                certificate
                    .next()
                    .write_bitvec_bytes(&signature, signature.len() * 8);
            });
        });
        Ok(super::pem::encode("CERTIFICATE", &der))
    }
}

fn algorithm(writer: DERWriter<'_>) {
    writer.write_sequence(|parts| {
        parts
            .next()
            .write_oid(&ObjectIdentifier::from_slice(ECDSA_WITH_SHA256));
    });
}

fn write_extensions(extensions: &mut DERWriterSeq<'_>, request: &Request, usages: &[&str]) {
    let bits: Vec<usize> = (0..USAGES.len())
        .filter(|bit| USAGES.get(*bit).is_some_and(|usage| usages.contains(usage)))
        .collect();
    if let Some(last) = bits.last() {
        let mut bytes = [0_u8; 2];
        for bit in &bits {
            if let Some(byte) = bytes.get_mut(bit / 8) {
                *byte |= 0x80 >> (bit % 8);
            }
        }
        let used = bytes.get(..=last / 8).unwrap_or(&bytes);
        let value = yasna::construct_der(|writer| writer.write_bitvec_bytes(used, last + 1));
        extension(extensions.next(), KEY_USAGE, true, &value);
    }
    let extended: Vec<u64> = EXTENDED_USAGES
        .iter()
        .filter(|(usage, _)| usages.contains(usage))
        .map(|(_, number)| *number)
        .collect();
    if !extended.is_empty() {
        let value = yasna::construct_der(|writer| {
            writer.write_sequence(|list| {
                for number in &extended {
                    let oid = [1, 3, 6, 1, 5, 5, 7, 3, *number];
                    list.next().write_oid(&ObjectIdentifier::from_slice(&oid));
                }
            });
        });
        extension(extensions.next(), EXTENDED_KEY_USAGE, false, &value);
    }
    // Without a field, it is not an authority.
    let value = yasna::construct_der(|writer| writer.write_sequence(|_| {}));
    extension(extensions.next(), BASIC_CONSTRAINTS, true, &value);
    if let Some(names) = &request.alternative_names {
        extension(extensions.next(), ALTERNATIVE_NAMES, false, names);
    }
}

fn extension(writer: DERWriter<'_>, kind: &[u64], critical: bool, value: &[u8]) {
    writer.write_sequence(|parts| {
        parts.next().write_oid(&ObjectIdentifier::from_slice(kind));
        if critical {
            parts.next().write_bool(true);
        }
        parts.next().write_bytes(value);
    });
}

/// Returns a time in whole seconds, in DER: with two digits of the year before 2050.
fn time(time: SystemTime) -> Vec<u8> {
    let time = Timestamp::try_from(time).unwrap_or(Timestamp::UNIX_EPOCH);
    let text = time.strftime("%Y%m%d%H%M%SZ").to_string();
    let (tag, text) = match text.get(..4) {
        Some(year) if ("1950".."2050").contains(&year) => (0x17, text.get(2..).unwrap_or_default()),
        _ => (0x18, text.as_str()),
    };
    let length = u8::try_from(text.len()).unwrap_or_default();
    [&[tag, length], text.as_bytes()].concat()
}
