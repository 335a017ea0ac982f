//! Parses the PEM text of a CertificateSigningRequest: the subject of the certificate, and the signature.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use yasna::models::ObjectIdentifier;
use yasna::{ASN1Result, BERReader};

const BLOCK: &str = "CERTIFICATE REQUEST";
const ORGANIZATION: &[u64] = &[2, 5, 4, 10];
const COMMON_NAME: &[u64] = &[2, 5, 4, 3];
const EXTENSION_REQUEST: &[u64] = &[1, 2, 840, 113_549, 1, 9, 14];
const ALTERNATIVE_NAMES: &[u64] = &[2, 5, 29, 17];

/// An invalid certificate request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// The text is not a PEM block of a certificate request.
    #[error("PEM block type must be CERTIFICATE REQUEST")]
    Pem,
    /// The content of the block is malformed.
    #[error("{}", of_asn1(*.0))]
    Asn1(yasna::ASN1ErrorKind),
}

/// Returns the text of Go's decoder for a kind of error.
fn of_asn1(kind: yasna::ASN1ErrorKind) -> String {
    match kind {
        yasna::ASN1ErrorKind::Eof => "asn1: syntax error: data truncated".to_owned(),
        yasna::ASN1ErrorKind::Extra => "asn1: syntax error: trailing data".to_owned(),
        other => format!("asn1: structure error: {other:?}"),
    }
}

/// The parts of a request that the signature depends on, in DER. Algorithms are the contents of their sequences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The signed part.
    pub message: Vec<u8>,
    /// The algorithm of the public key.
    pub key_algorithm: Vec<u8>,
    /// The public key.
    pub key: Vec<u8>,
    /// The algorithm of the signature.
    pub algorithm: Vec<u8>,
    /// The signature.
    pub signature: Vec<u8>,
}

/// Returns the signed parts of a request, which is a PEM text in base64; `None` if it is malformed.
pub fn signed(request: &str) -> Option<Signed> {
    let der = der_of(request).ok()?;
    let parts = yasna::parse_der(&der, |reader| {
        reader.read_sequence(|parts| {
            let message = parts.next().read_der()?;
            let algorithm = parts.next().read_tagged_der()?.value().to_vec();
            let (signature, _) = parts.next().read_bitvec_bytes()?;
            Ok((message, algorithm, signature))
        })
    });
    let (message, algorithm, signature) = parts.ok()?;
    let key = yasna::parse_der(&message, |reader| {
        reader.read_sequence(|body| {
            // Skip the version and the subject.
            body.next().read_der()?;
            body.next().read_der()?;
            let key = body.next().read_sequence(|key| {
                let algorithm = key.next().read_tagged_der()?.value().to_vec();
                Ok((algorithm, key.next().read_bitvec_bytes()?.0))
            })?;
            while body.read_optional(|rest| rest.read_der())?.is_some() {}
            Ok(key)
        })
    });
    let (key_algorithm, key) = key.ok()?;
    Some(Signed {
        message,
        key_algorithm,
        key,
        algorithm,
        signature,
    })
}

/// The parts of a request that go into its certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The subject, in DER.
    pub subject: Vec<u8>,
    /// The public key with its algorithm, in DER.
    pub public_key: Vec<u8>,
    /// The content of the extension with the alternative names, in DER.
    pub alternative_names: Option<Vec<u8>>,
    /// The organizations in the subject.
    pub organizations: Vec<String>,
    /// The common name in the subject.
    pub common_name: String,
    /// The kinds of the alternative names.
    pub name_kinds: Vec<NameKind>,
}

/// The kind of an alternative name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKind {
    /// An address of electronic mail.
    Email,
    /// A DNS name.
    Dns,
    /// A URI.
    Uri,
    /// An IP address.
    Ip,
    /// Anything else.
    Other,
}

/// Reads a request, which is a PEM text in base64. The signature is not checked.
///
/// # Errors
/// Returns an error if the request has no such block, or its contents are malformed.
pub fn parse(request: &str) -> Result<Request, Unreadable> {
    let der = der_of(request)?;
    yasna::parse_der(&der, read_parts).map_err(|error| Unreadable::Asn1(error.kind()))
}

fn read_parts(reader: BERReader<'_, '_>) -> ASN1Result<Request> {
    reader.read_sequence(|request| {
        let parts = request.next().read_sequence(|body| {
            // The version comes first.
            body.next().read_der()?;
            let subject = body.next().read_der()?;
            let public_key = body.next().read_der()?;
            let mut extensions = None;
            while let Some(attributes) = body.read_optional(|rest| rest.read_der())? {
                extensions = extensions.or(alternative_names(&attributes)?);
            }
            Ok((subject, public_key, extensions))
        })?;
        request.next().read_der()?;
        request.next().read_der()?;
        let (subject, public_key, alternative_names) = parts;
        let mut read = Request {
            name_kinds: match &alternative_names {
                Some(names) => name_kinds(names)?,
                None => Vec::new(),
            },
            public_key,
            alternative_names,
            ..Request::default()
        };
        for (kind, text) in yasna::parse_der(&subject, |name| attributes_of(name))? {
            let text = String::from_utf8_lossy(&text).into_owned();
            match kind.components().as_slice() {
                ORGANIZATION => read.organizations.push(text),
                COMMON_NAME => read.common_name = text,
                _ => {}
            }
        }
        read.subject = subject;
        Ok(read)
    })
}

/// Returns the content of the alternative names in the requested extensions; `attributes` are those of a request.
fn alternative_names(attributes: &[u8]) -> ASN1Result<Option<Vec<u8>>> {
    let tag = yasna::Tag::context(0);
    let attributes = yasna::parse_der(attributes, |reader| {
        reader.read_tagged_implicit(tag, |reader| {
            reader.collect_set_of(|attribute| {
                attribute.read_sequence(|parts| {
                    let kind = parts.next().read_oid()?;
                    Ok((kind, parts.next().read_der()?))
                })
            })
        })
    })?;
    for (kind, values) in attributes {
        if kind.components().as_slice() != EXTENSION_REQUEST {
            continue;
        }
        let extensions = yasna::parse_der(&values, |reader| {
            reader.collect_set_of(|extensions| {
                extensions.collect_sequence_of(|extension| {
                    extension.read_sequence(|parts| {
                        let kind = parts.next().read_oid()?;
                        parts.read_default(false, |critical| critical.read_bool())?;
                        Ok((kind, parts.next().read_bytes()?))
                    })
                })
            })
        })?;
        let mut extensions = extensions.into_iter().flatten();
        let names = extensions.find(|(kind, _)| kind.components().as_slice() == ALTERNATIVE_NAMES);
        if let Some((_, names)) = names {
            return Ok(Some(names));
        }
    }
    Ok(None)
}

fn name_kinds(names: &[u8]) -> ASN1Result<Vec<NameKind>> {
    yasna::parse_der(names, |reader| {
        reader.collect_sequence_of(|name| {
            let tag = name.read_tagged_der()?.tag();
            Ok(match tag.tag_number {
                1 => NameKind::Email,
                2 => NameKind::Dns,
                6 => NameKind::Uri,
                7 => NameKind::Ip,
                _ => NameKind::Other,
            })
        })
    })
}

/// Returns the organizations in the subject of a request, which is a PEM text in base64. Only the first block is used;
/// it may have headers. The signature is not checked.
///
/// # Errors
/// Returns an error if the block is missing, or its content is malformed.
pub fn organizations(request: &str) -> Result<Vec<String>, Unreadable> {
    let der = der_of(request)?;
    let attributes = yasna::parse_der(&der, read_request).map_err(|error| Unreadable::Asn1(error.kind()))?;
    Ok(attributes
        .into_iter()
        .filter(|(kind, _)| kind.components().as_slice() == ORGANIZATION)
        .map(|(_, text)| String::from_utf8_lossy(&text).into_owned())
        .collect())
}

/// Returns the content of a request, which is a PEM text in base64.
fn der_of(request: &str) -> Result<Vec<u8>, Unreadable> {
    let bytes = BASE64_STANDARD.decode(request).map_err(|_| Unreadable::Pem)?;
    match first_block(&String::from_utf8_lossy(&bytes)) {
        Some((BLOCK, der)) => Ok(der),
        _ => Err(Unreadable::Pem),
    }
}

/// Returns the type and the content of the first well-formed block, like Go's `pem.Decode`.
fn first_block(text: &str) -> Option<(&str, Vec<u8>)> {
    let mut rest = text;
    let mut at_line_start = true;
    while let Some(start) = rest.find("-----BEGIN ") {
        let begins_line = (start == 0 && at_line_start) || rest.get(..start)?.ends_with('\n');
        let (_, after) = rest.split_at(start + "-----BEGIN ".len());
        if begins_line && let Some(block) = block(after) {
            return Some(block);
        }
        rest = after;
        at_line_start = false;
    }
    None
}

/// Parses a block if its first line, after `-----BEGIN `, starts with `text`.
fn block(text: &str) -> Option<(&str, Vec<u8>)> {
    let (line, body) = text.split_once('\n')?;
    let kind = line.trim_end().strip_suffix("-----")?;
    let end = format!("-----END {kind}-----");
    let (body, _) = match body.strip_prefix(end.as_str()) {
        Some(rest) => ("", rest),
        None => body.split_once(&format!("\n{end}"))?,
    };
    // Headers end with an empty line.
    let encoded = match body.lines().next() {
        Some(first) if first.contains(':') => {
            let headers = body.lines().take_while(|line| line.contains(':')).count();
            body.lines().skip(headers).collect::<Vec<_>>().join("\n")
        }
        _ => body.to_owned(),
    };
    let encoded: String = encoded.split_ascii_whitespace().collect();
    Some((kind, BASE64_STANDARD.decode(encoded).ok()?))
}

/// Returns the attributes of the subject of a request.
fn read_request(reader: BERReader<'_, '_>) -> ASN1Result<Vec<(ObjectIdentifier, Vec<u8>)>> {
    reader.read_sequence(|request| {
        let attributes = request.next().read_sequence(|body| {
            // The version precedes the subject; the public key and the attributes follow it.
            body.next().read_der()?;
            let attributes = attributes_of(body.next())?;
            body.next().read_der()?;
            while body.read_optional(|rest| rest.read_der())?.is_some() {}
            Ok(attributes)
        })?;
        request.next().read_der()?;
        request.next().read_der()?;
        Ok(attributes)
    })
}

/// Returns a distinguished name: a sequence of sets of attributes.
pub fn attributes_of(name: BERReader<'_, '_>) -> ASN1Result<Vec<(ObjectIdentifier, Vec<u8>)>> {
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

    fn pem(organizations: &[&str]) -> String {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::default();
        parameters.distinguished_name = rcgen::DistinguishedName::new();
        for organization in organizations {
            let name = rcgen::DnType::OrganizationName;
            parameters.distinguished_name.push(name, *organization);
        }
        parameters.serialize_request(&key).unwrap().pem().unwrap()
    }

    fn read(pem: &str) -> Result<Vec<String>, Unreadable> {
        organizations(&BASE64_STANDARD.encode(pem))
    }

    #[test]
    fn the_first_pem_block_is_parsed_despite_surrounding_text() {
        let request = pem(&["system:masters"]);
        let wanted = Ok(vec!["system:masters".to_owned()]);
        let begin = "-----BEGIN CERTIFICATE REQUEST-----\n";
        let with_header = request
            .replace("\r\n", "\n")
            .replace(begin, &format!("{begin}Header: x\n\n"));
        assert_ne!(with_header, request);
        for text in [
            request.clone(),
            with_header,
            format!("text\n{request}"),
            format!("{request}{}", pem(&[])),
        ] {
            assert_eq!(read(&text), wanted, "{text}");
        }
        assert_eq!(read(&format!("{}{request}", pem(&[]))), Ok(Vec::new()));
    }

    #[test]
    fn other_texts_are_refused() {
        let request = pem(&["a"]);
        let certificate = "-----BEGIN CERTIFICATE-----\neA==\n-----END CERTIFICATE-----\n";
        for text in [
            String::new(),
            "x".to_owned(),
            format!("x{request}"),
            format!("{certificate}{request}"),
            request.replace("CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST"),
            "-----BEGIN CERTIFICATE REQUEST-----\n!!!!\n-----END CERTIFICATE REQUEST-----\n".to_owned(),
        ] {
            assert_eq!(read(&text), Err(Unreadable::Pem), "{text}");
        }
        let garbage =
            "-----BEGIN CERTIFICATE REQUEST-----\nZ2FyYmFnZQ==\n-----END CERTIFICATE REQUEST-----\n";
        assert!(matches!(read(garbage), Err(Unreadable::Asn1(_))));
        assert_eq!(organizations("no base64"), Err(Unreadable::Pem));
    }
}
