//! Client certificates and the users they identify. The handshake has checked their signatures.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use sha2::{Digest, Sha256};
use yasna::models::ObjectIdentifier;
use yasna::{ASN1Result, Tag};

use super::{AUTHENTICATED, CREDENTIAL_ID, User};
use builtin_kinds::certificate_request::attributes_of;

/// Returns the user of a certificate: the common name, with the organizations as groups. The credential ID is the
/// fingerprint of the certificate.
pub(super) fn user(der: &[u8]) -> Option<User> {
    let subject = subject_of(der).ok()?;
    let texts = |id: &[u64]| {
        let of_type = subject
            .iter()
            .filter(|(type_, _)| type_.components().as_slice() == id);
        of_type
            .filter_map(|(_, text)| String::from_utf8(text.clone()).ok())
            .collect::<Vec<_>>()
    };
    let mut user = User {
        name: texts(COMMON_NAME).into_iter().next()?,
        groups: texts(ORGANIZATION),
        extra: BTreeMap::from([(CREDENTIAL_ID.to_owned(), vec![fingerprint(der)])]),
        ..User::default()
    };
    user.join(AUTHENTICATED);
    Some(user)
}

fn fingerprint(der: &[u8]) -> String {
    let digest = Sha256::digest(der);
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("X509SHA256={hex}")
}

const COMMON_NAME: &[u64] = &[2, 5, 4, 3];
const ORGANIZATION: &[u64] = &[2, 5, 4, 10];

/// Returns the attributes of a certificate's subject in their order: type and bytes.
fn subject_of(der: &[u8]) -> ASN1Result<Vec<(ObjectIdentifier, Vec<u8>)>> {
    yasna::parse_der(der, |reader| {
        reader.read_sequence(|certificate| {
            let attributes = certificate.next().read_sequence(|body| {
                // Before the subject: version (optional), serial number, signature algorithm, issuer, validity.
                body.read_optional(|version| {
                    version.read_tagged(Tag::context(0), |version| version.read_u8())
                })?;
                for _ in 0..4 {
                    body.next().read_der()?;
                }
                let attributes = attributes_of(body.next())?;
                while body.read_optional(|rest| rest.read_der())?.is_some() {}
                Ok(attributes)
            })?;
            certificate.next().read_der()?;
            certificate.next().read_der()?;
            Ok(attributes)
        })
    })
}

/// Returns the expiry of a certificate.
pub(crate) fn expiry(der: &[u8]) -> Option<Timestamp> {
    let not_after = yasna::parse_der(der, |reader| {
        reader.read_sequence(|certificate| {
            let not_after = certificate.next().read_sequence(|body| {
                body.read_optional(|version| {
                    version.read_tagged(Tag::context(0), |version| version.read_u8())
                })?;
                // Before the validity: serial number, signature algorithm, issuer.
                for _ in 0..3 {
                    body.next().read_der()?;
                }
                let not_after = body.next().read_sequence(|validity| {
                    validity.next().read_der()?;
                    let time = validity.next().read_tagged_der()?;
                    Ok((time.tag(), time.value().to_vec()))
                })?;
                while body.read_optional(|rest| rest.read_der())?.is_some() {}
                Ok(not_after)
            })?;
            certificate.next().read_der()?;
            certificate.next().read_der()?;
            Ok(not_after)
        })
    });
    let (tag, time) = not_after.ok()?;
    let text = String::from_utf8(time).ok()?;
    // UTCTime has two-digit years, from 1950 to 2049.
    let text = match tag {
        yasna::tags::TAG_UTCTIME if text.get(..2)? < "50" => format!("20{text}"),
        yasna::tags::TAG_UTCTIME => format!("19{text}"),
        _ => text,
    };
    let time = DateTime::strptime("%Y%m%d%H%M%SZ", text).ok()?;
    time.to_zoned(TimeZone::UTC).ok().map(|time| time.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(attributes: &[(rcgen::DnType, &str)]) -> Vec<u8> {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::default();
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        for (type_, text) in attributes {
            parameters.distinguished_name.push(type_.clone(), *text);
        }
        parameters.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn a_certificate_names_the_user_and_a_group() {
        let der = certificate(&[
            (rcgen::DnType::OrganizationName, "system:masters"),
            (rcgen::DnType::CountryName, "CH"),
            (rcgen::DnType::CommonName, "Zoë"),
        ]);
        let user = super::user(&der).unwrap();
        assert_eq!(user.name, "Zoë");
        assert_eq!(user.groups, ["system:masters", "system:authenticated"]);
        let [credential] = user.extra[CREDENTIAL_ID].as_slice() else {
            panic!("one credential: {user:?}");
        };
        assert!(
            credential.starts_with("X509SHA256=") && credential.len() == 75,
            "{credential}"
        );
    }

    #[test]
    fn a_certificate_expires() {
        for (year, expected) in [(2031, "2031-05-06T00:00:00Z"), (2100, "2100-05-06T00:00:00Z")] {
            let key = rcgen::KeyPair::generate().unwrap();
            let mut parameters = rcgen::CertificateParams::default();
            parameters.not_after = rcgen::date_time_ymd(year, 5, 6);
            let der = parameters.self_signed(&key).unwrap();
            assert_eq!(expiry(der.der()).unwrap().to_string(), expected);
        }
        assert_eq!(expiry(b"no certificate"), None);
    }

    #[test]
    fn a_certificate_without_a_common_name_has_no_user() {
        assert_eq!(super::user(&certificate(&[])), None);
        assert_eq!(super::user(b"no certificate"), None);
    }
}
