//! The public keys of an issuer, and the verification of signatures.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64_URL;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384,
    RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
    RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde_json::Value;

use super::claims::Signature;

/// The maximum number of keys of an issuer.
const KEYS_MAX: usize = 256;

/// A key of a JSON Web Key Set.
#[derive(Clone, Debug)]
pub(super) struct Key {
    id: String,
    material: Material,
}

#[derive(Clone, Debug)]
enum Material {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// The uncompressed point of a key on the curve P-256.
    P256(Vec<u8>),
    /// The uncompressed point of a key on the curve P-384.
    P384(Vec<u8>),
}

/// Parses a JSON Web Key Set. Keys of unsupported types are omitted.
///
/// # Errors
/// Returns an error if the value is not a key set.
pub(super) fn read(set: &Value) -> Result<Vec<Key>, String> {
    let keys = set.get("keys").and_then(Value::as_array);
    let keys = keys.ok_or("failed to decode keys: it has no list of keys")?;
    Ok(keys.iter().take(KEYS_MAX).filter_map(Key::read).collect())
}

impl Key {
    fn read(key: &Value) -> Option<Self> {
        let text = |field: &str| key.get(field).and_then(Value::as_str).unwrap_or_default();
        if !matches!(text("use"), "" | "sig") {
            return None;
        }
        let number = |field: &str| BASE64_URL.decode(text(field)).ok();
        let point = |size: usize| {
            let mut point = vec![4];
            for field in ["x", "y"] {
                let coordinate = number(field)?;
                let padding = size.checked_sub(coordinate.len())?;
                point.resize(point.len() + padding, 0);
                point.extend(coordinate);
            }
            Some(point)
        };
        let material = match (text("kty"), text("crv")) {
            ("RSA", _) => Material::Rsa {
                modulus: unsigned(number("n")?),
                exponent: unsigned(number("e")?),
            },
            ("EC", "P-256") => Material::P256(point(32)?),
            ("EC", "P-384") => Material::P384(point(48)?),
            _ => return None,
        };
        Some(Self {
            id: text("kid").to_owned(),
            material,
        })
    }

    /// Returns true if this key made the signature of a message.
    fn verifies(&self, message: &[u8], algorithm: &str, signature: &[u8]) -> bool {
        match (&self.material, algorithm) {
            (Material::Rsa { modulus, exponent }, _) => rsa(algorithm).is_some_and(|parameters| {
                let key = RsaPublicKeyComponents {
                    n: modulus.as_slice(),
                    e: exponent.as_slice(),
                };
                key.verify(parameters, message, signature).is_ok()
            }),
            (Material::P256(point), "ES256") => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
                .verify(message, signature)
                .is_ok(),
            (Material::P384(point), "ES384") => UnparsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, point)
                .verify(message, signature)
                .is_ok(),
            (Material::P256(_) | Material::P384(_), _) => false,
        }
    }
}

/// Returns a big-endian number without its leading zeros.
fn unsigned(mut number: Vec<u8>) -> Vec<u8> {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number.drain(..zeros);
    number
}

fn rsa(algorithm: &str) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        "RS256" => &RSA_PKCS1_2048_8192_SHA256,
        "RS384" => &RSA_PKCS1_2048_8192_SHA384,
        "RS512" => &RSA_PKCS1_2048_8192_SHA512,
        "PS256" => &RSA_PSS_2048_8192_SHA256,
        "PS384" => &RSA_PSS_2048_8192_SHA384,
        "PS512" => &RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

/// Returns true if one of the keys made the signature. If the header has no key ID, all keys are tried.
pub(super) fn verify(keys: &[Key], message: &str, signature: &Signature) -> bool {
    let id = signature.key_id();
    !signature.has_extensions()
        && keys
            .iter()
            .filter(|key| id.is_empty() || key.id == id)
            .any(|key| key.verifies(message.as_bytes(), signature.algorithm(), &signature.bytes))
}
