//! Who sends a request.

use yasna::models::ObjectIdentifier;
use yasna::{ASN1Result, BERReader, Tag};

/// The user of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) groups: Vec<String>,
}

/// The group whose members may do everything.
pub(crate) const MASTERS: &str = "system:masters";

impl User {
    /// The administrator: requests inside the process.
    pub(crate) fn admin() -> Self {
        Self {
            name: "kubernetes-admin".to_owned(),
            groups: vec![MASTERS.to_owned(), "system:authenticated".to_owned()],
        }
    }

    /// A request over the network without credentials.
    pub(crate) fn anonymous() -> Self {
        Self {
            name: "system:anonymous".to_owned(),
            groups: vec!["system:unauthenticated".to_owned()],
        }
    }

    /// The user that a client certificate names: the common name, with the organisations as groups.
    pub(crate) fn from_certificate(der: &[u8]) -> Option<Self> {
        let subject = subject_of(der).ok()?;
        let texts = |id: &[u64]| {
            let of_type = subject
                .iter()
                .filter(|(type_, _)| type_.components().as_slice() == id);
            of_type
                .filter_map(|(_, text)| String::from_utf8(text.clone()).ok())
                .collect::<Vec<_>>()
        };
        let name = texts(COMMON_NAME).into_iter().next()?;
        let mut groups = texts(ORGANIZATION);
        groups.push("system:authenticated".to_owned());
        Some(Self { name, groups })
    }

    /// A user by name. Service accounts bring their own groups.
    pub(crate) fn impersonated(name: &str, mut groups: Vec<String>) -> Self {
        if let Some(account) = name.strip_prefix("system:serviceaccount:")
            && groups.is_empty()
        {
            let namespace = account.split(':').next().unwrap_or_default();
            groups.push("system:serviceaccounts".to_owned());
            groups.push(format!("system:serviceaccounts:{namespace}"));
        }
        let all = if name == "system:anonymous" {
            "system:unauthenticated"
        } else {
            "system:authenticated"
        };
        if !groups.iter().any(|group| group == all) {
            groups.push(all.to_owned());
        }
        Self {
            name: name.to_owned(),
            groups,
        }
    }

    pub(crate) fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }
}

const COMMON_NAME: &[u64] = &[2, 5, 4, 3];
const ORGANIZATION: &[u64] = &[2, 5, 4, 10];

/// The attributes of a certificate's subject in their order: type, and text in bytes. The signature was checked in the
/// handshake.
fn subject_of(der: &[u8]) -> ASN1Result<Vec<(ObjectIdentifier, Vec<u8>)>> {
    yasna::parse_der(der, |reader| {
        reader.read_sequence(|certificate| {
            let attributes = certificate.next().read_sequence(|body| {
                // Version (optional), serial number, signature algorithm, issuer, validity come before the subject.
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

/// A distinguished name: a sequence of sets of attributes.
fn attributes_of(name: BERReader<'_, '_>) -> ASN1Result<Vec<(ObjectIdentifier, Vec<u8>)>> {
    let sets = name.collect_sequence_of(|set| {
        set.collect_set_of(|attribute| {
            attribute.read_sequence(|parts| {
                let type_ = parts.next().read_oid()?;
                Ok((type_, parts.next().read_tagged_der()?.value().to_vec()))
            })
        })
    })?;
    Ok(sets.into_iter().flatten().collect())
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
        let user = User::from_certificate(&der).unwrap();
        assert_eq!(user.name, "Zoë");
        assert_eq!(user.groups, ["system:masters", "system:authenticated"]);
    }

    #[test]
    fn a_certificate_without_a_common_name_names_nobody() {
        assert_eq!(User::from_certificate(&certificate(&[])), None);
        assert_eq!(User::from_certificate(b"no certificate"), None);
    }
}
