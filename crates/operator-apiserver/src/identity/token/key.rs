//! Signing and verification keys of tokens.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64_URL;
use ring::rand::SystemRandom;
use ring::rsa;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, UnparsedPublicKey,
};
use rustls::pki_types::pem::{PemObject, SectionKind};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use yasna::models::ObjectIdentifier;
use yasna::{ASN1Result, BERReader, Tag};

const RSA: &[u64] = &[1, 2, 840, 113_549, 1, 1, 1];
const ELLIPTIC: &[u64] = &[1, 2, 840, 10_045, 2, 1];
const P256: &[u64] = &[1, 2, 840, 10_045, 3, 1, 7];

/// The reason why a PEM text contains no usable key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeyError {
    #[error("not in PEM format: {0}")]
    Pem(String),
    #[error(
        "no usable key: expected an RSA key of at least 2048 bits, an EC key on the curve P-256, or a certificate of one"
    )]
    None,
    #[error("the key cannot be used: {0}")]
    Rejected(String),
}

/// The algorithm of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rs256,
    Es256,
}

impl Algorithm {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Es256 => "ES256",
        }
    }
}

/// A key that signs tokens.
pub(super) struct SigningKey {
    pair: Pair,
    public: PublicKey,
}

enum Pair {
    Rsa(Box<rsa::KeyPair>),
    Elliptic(Box<EcdsaKeyPair>),
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("SigningKey")
            .field("public", &self.public)
            .finish_non_exhaustive()
    }
}

impl SigningKey {
    /// Returns the RSA key of a PKCS#1 `RSAPrivateKey`.
    pub(super) fn from_pkcs1(der: &[u8]) -> Result<Self, KeyError> {
        Ok(Self::rsa(rsa::KeyPair::from_der(der).map_err(rejected)?))
    }

    /// Returns the first private key of a PEM text.
    pub(super) fn from_pem(pem: &[u8]) -> Result<Self, KeyError> {
        for (kind, der) in sections(pem)? {
            match kind {
                SectionKind::RsaPrivateKey => return Self::from_pkcs1(&der),
                SectionKind::PrivateKey => return Self::from_pkcs8(&der),
                SectionKind::EcPrivateKey => return Self::from_sec1(&der),
                _ => {}
            }
        }
        Err(KeyError::None)
    }

    fn from_pkcs8(der: &[u8]) -> Result<Self, KeyError> {
        if let Ok(pair) = rsa::KeyPair::from_pkcs8(der) {
            return Ok(Self::rsa(pair));
        }
        let inner = yasna::parse_der(der, |reader| {
            reader.read_sequence(|parts| {
                parts.next().read_u8()?;
                parts.next().read_der()?;
                let key = parts.next().read_bytes()?;
                while parts.read_optional(|rest| rest.read_der())?.is_some() {}
                Ok(key)
            })
        });
        Self::from_sec1(&inner.map_err(|_| KeyError::None)?)
    }

    fn from_sec1(der: &[u8]) -> Result<Self, KeyError> {
        let (private, public) = yasna::parse_der(der, sec1).map_err(|_| KeyError::None)?;
        let pair = EcdsaKeyPair::from_private_key_and_public_key(
            &ECDSA_P256_SHA256_FIXED_SIGNING,
            &private,
            &public,
            &SystemRandom::new(),
        );
        let pair = pair.map_err(rejected)?;
        let public = PublicKey::new(Algorithm::Es256, pair.public_key().as_ref());
        Ok(Self {
            pair: Pair::Elliptic(Box::new(pair)),
            public,
        })
    }

    fn rsa(pair: rsa::KeyPair) -> Self {
        let public = PublicKey::new(Algorithm::Rs256, pair.public_key().as_ref());
        Self {
            pair: Pair::Rsa(Box::new(pair)),
            public,
        }
    }

    pub(super) fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Signs a message; returns `None` if the system has no randomness.
    pub(super) fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                let signed = pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature);
                signed.ok().map(|()| signature)
            }
            Pair::Elliptic(pair) => pair
                .sign(&random, message)
                .ok()
                .map(|signature| signature.as_ref().to_vec()),
        }
    }
}

/// Returns the private and the public part of a SEC 1 `ECPrivateKey`.
fn sec1(reader: BERReader<'_, '_>) -> ASN1Result<(Vec<u8>, Vec<u8>)> {
    reader.read_sequence(|parts| {
        parts.next().read_u8()?;
        let private = parts.next().read_bytes()?;
        parts.read_optional(|curve| curve.read_tagged(Tag::context(0), |curve| curve.read_oid()))?;
        let public = parts
            .next()
            .read_tagged(Tag::context(1), |point| point.read_bitvec_bytes())?;
        Ok((private, public.0))
    })
}

/// A verification key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PublicKey {
    algorithm: Algorithm,
    /// The key: an `RSAPublicKey` in DER, or a point.
    bytes: Vec<u8>,
    /// The key ID: the digest of its SubjectPublicKeyInfo.
    id: String,
}

impl PublicKey {
    fn new(algorithm: Algorithm, bytes: &[u8]) -> Self {
        let info = yasna::construct_der(|writer| {
            writer.write_sequence(|parts| {
                parts.next().write_sequence(|identifier| match algorithm {
                    Algorithm::Rs256 => {
                        identifier.next().write_oid(&ObjectIdentifier::from_slice(RSA));
                        identifier.next().write_null();
                    }
                    Algorithm::Es256 => {
                        identifier
                            .next()
                            .write_oid(&ObjectIdentifier::from_slice(ELLIPTIC));
                        identifier.next().write_oid(&ObjectIdentifier::from_slice(P256));
                    }
                });
                parts.next().write_bitvec_bytes(bytes, bytes.len() * 8);
            });
        });
        Self {
            algorithm,
            bytes: bytes.to_vec(),
            id: BASE64_URL.encode(Sha256::digest(info)),
        }
    }

    /// Returns all keys of a PEM text: public keys, keys of certificates, and the public parts of private keys.
    pub(super) fn all_from_pem(pem: &[u8]) -> Result<Vec<Self>, KeyError> {
        let mut keys = Vec::new();
        for (kind, der) in sections(pem)? {
            match kind {
                SectionKind::PublicKey => keys.push(Self::from_info(&der)?),
                SectionKind::Certificate => keys.push(Self::from_certificate(&der)?),
                SectionKind::RsaPrivateKey => keys.push(SigningKey::from_pkcs1(&der)?.public),
                SectionKind::PrivateKey => keys.push(SigningKey::from_pkcs8(&der)?.public),
                SectionKind::EcPrivateKey => keys.push(SigningKey::from_sec1(&der)?.public),
                _ => {}
            }
        }
        if keys.is_empty() {
            return Err(KeyError::None);
        }
        Ok(keys)
    }

    fn from_info(der: &[u8]) -> Result<Self, KeyError> {
        let (algorithm, bytes) = yasna::parse_der(der, |reader| {
            reader.read_sequence(|parts| {
                let algorithm = parts.next().read_sequence(|identifier| {
                    let algorithm = identifier.next().read_oid()?;
                    while identifier.read_optional(|rest| rest.read_der())?.is_some() {}
                    Ok(algorithm)
                })?;
                Ok((algorithm, parts.next().read_bitvec_bytes()?.0))
            })
        })
        .map_err(|_| KeyError::None)?;
        match algorithm.components().as_slice() {
            RSA => Ok(Self::new(Algorithm::Rs256, &bytes)),
            // A point on P-256 has the format byte and two numbers of 32 bytes.
            ELLIPTIC if bytes.len() == 65 => Ok(Self::new(Algorithm::Es256, &bytes)),
            _ => Err(KeyError::None),
        }
    }

    fn from_certificate(der: &[u8]) -> Result<Self, KeyError> {
        let info = yasna::parse_der(der, |reader| {
            reader.read_sequence(|certificate| {
                let info = certificate.next().read_sequence(|body| {
                    body.read_optional(|version| {
                        version.read_tagged(Tag::context(0), |version| version.read_u8())
                    })?;
                    // Before the key: serial number, signature algorithm, issuer, validity, subject.
                    for _ in 0..5 {
                        body.next().read_der()?;
                    }
                    let info = body.next().read_der()?;
                    while body.read_optional(|rest| rest.read_der())?.is_some() {}
                    Ok(info)
                })?;
                certificate.next().read_der()?;
                certificate.next().read_der()?;
                Ok(info)
            })
        });
        Self::from_info(&info.map_err(|_| KeyError::None)?)
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Returns true if a signature is valid for the key.
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let verified = match self.algorithm {
            Algorithm::Rs256 => {
                UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &self.bytes).verify(message, signature)
            }
            Algorithm::Es256 => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.bytes).verify(message, signature)
            }
        };
        verified.is_ok()
    }

    /// Returns the key as a JSON Web Key.
    pub(super) fn to_jwk(&self) -> Value {
        let mut jwk = json!({"use": "sig", "kid": self.id, "alg": self.algorithm.name()});
        let encode = |bytes: &[u8]| Value::from(BASE64_URL.encode(bytes));
        match self.algorithm {
            Algorithm::Rs256 => {
                let (modulus, exponent) = rsa_numbers(&self.bytes).unwrap_or_default();
                jwk["kty"] = "RSA".into();
                jwk["n"] = encode(&modulus);
                jwk["e"] = encode(&exponent);
            }
            Algorithm::Es256 => {
                let point = self.bytes.get(1..).unwrap_or_default();
                let (x, y) = point.split_at_checked(32).unwrap_or_default();
                jwk["kty"] = "EC".into();
                jwk["crv"] = "P-256".into();
                jwk["x"] = encode(x);
                jwk["y"] = encode(y);
            }
        }
        jwk
    }
}

fn rsa_numbers(der: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let numbers = yasna::parse_der(der, |reader| {
        reader.read_sequence(|numbers| {
            let modulus = numbers.next().read_bigint_bytes()?.0;
            Ok((modulus, numbers.next().read_bigint_bytes()?.0))
        })
    });
    let unsigned = |bytes: Vec<u8>| bytes.into_iter().skip_while(|byte| *byte == 0).collect();
    let (modulus, exponent) = numbers.ok()?;
    Some((unsigned(modulus), unsigned(exponent)))
}

fn sections(pem: &[u8]) -> Result<Vec<(SectionKind, Vec<u8>)>, KeyError> {
    let sections = <(SectionKind, Vec<u8>)>::pem_slice_iter(pem);
    sections
        .collect::<Result<_, _>>()
        .map_err(|error| KeyError::Pem(error.to_string()))
}

fn rejected(error: ring::error::KeyRejected) -> KeyError {
    KeyError::Rejected(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_every_format_sign_and_verify() {
        let pair = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::default()
            .self_signed(&pair)
            .unwrap()
            .pem();
        let signing = SigningKey::from_pem(pair.serialize_pem().as_bytes()).unwrap();
        let signature = signing.sign(b"a message").unwrap();
        for pem in [pair.serialize_pem(), pair.public_key_pem(), certificate] {
            let keys = PublicKey::all_from_pem(pem.as_bytes()).unwrap();
            assert_eq!(keys, [signing.public().clone()]);
            assert!(keys[0].verifies(b"a message", &signature));
            assert!(!keys[0].verifies(b"another message", &signature));
        }
    }

    #[test]
    fn a_text_without_a_key_is_refused() {
        assert_eq!(PublicKey::all_from_pem(b"no key").unwrap_err(), KeyError::None);
        assert_eq!(SigningKey::from_pem(b"").unwrap_err(), KeyError::None);
        let broken = b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        assert_eq!(SigningKey::from_pem(broken).unwrap_err(), KeyError::None);
    }
}
