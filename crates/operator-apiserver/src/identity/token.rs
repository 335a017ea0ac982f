//! Service account tokens: JSON Web Tokens that the server signs and verifies ([`Issuer`]).

mod key;
mod rsa;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64_URL;
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

pub(crate) use self::key::KeyError;
use self::key::{PublicKey, SigningKey};
use crate::error::Error;
use crate::identity::keyring::Keyring;

/// The default issuer. It is only a name: nothing is fetched from it.
const DEFAULT_URL: &str = "https://127.0.0.1:16443/";

/// The name of the signing key in the keyring.
const KEY_FILE: &str = "service-account.key";

/// The number of verified tokens in the cache.
const REMEMBERED: usize = 256;

/// The claims of verified tokens, by the SHA-256 digest of the token.
type Verified = HashMap<Box<[u8]>, Arc<Value>>;

/// Signs and verifies service account tokens.
///
/// A missing key is created when the first token is signed or the public keys are requested, because most servers in
/// tests never need one.
#[derive(Debug)]
pub(crate) struct Issuer {
    url: String,
    /// Additional accepted issuers.
    further: Vec<String>,
    /// The audiences of tokens. Default: the issuers.
    audiences: Vec<String>,
    /// Additional verification keys.
    given: Vec<PublicKey>,
    signing: OnceLock<SigningKey>,
    /// The storage of a created key.
    keyring: Keyring,
    /// A cache: a client sends the same token with each request, and verifying a signature takes longer than
    /// responding.
    verified: Mutex<Verified>,
}

/// An error of signing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SigningError {
    #[error("cannot generate a key: the system provides no random numbers")]
    Randomness,
    #[error("cannot use the generated key: {0}")]
    Key(#[from] KeyError),
    #[error(transparent)]
    Keyring(#[from] Error),
}

impl Default for Issuer {
    fn default() -> Self {
        Self {
            url: DEFAULT_URL.to_owned(),
            further: Vec::new(),
            audiences: Vec::new(),
            given: Vec::new(),
            signing: OnceLock::new(),
            keyring: Keyring::default(),
            verified: Mutex::default(),
        }
    }
}

impl Issuer {
    /// Returns the audiences of tokens for this server.
    pub(crate) fn audiences(&self) -> Vec<String> {
        if self.audiences.is_empty() {
            return self.issuers().map(str::to_owned).collect();
        }
        self.audiences.clone()
    }

    fn issuers(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.url)
            .chain(&self.further)
            .map(String::as_str)
    }

    /// Sets the additional accepted issuers, and the audiences. Empty audiences mean the issuers.
    pub(crate) fn set_audiences(&mut self, further: Vec<String>, audiences: Vec<String>) {
        self.further = further;
        self.audiences = audiences;
    }

    pub(crate) fn set_url(&mut self, url: String) {
        self.url = url;
    }

    /// Signs with the first private key of a PEM text.
    pub(crate) fn set_signing_key(&mut self, pem: &[u8]) -> Result<(), KeyError> {
        self.signing = OnceLock::from(SigningKey::from_pem(pem)?);
        Ok(())
    }

    /// Accepts tokens that are signed with any key of a PEM text.
    pub(crate) fn add_keys(&mut self, pem: &[u8]) -> Result<(), KeyError> {
        self.given.extend(PublicKey::all_from_pem(pem)?);
        Ok(())
    }

    /// Sets the storage for a created key, and loads the stored key.
    pub(crate) fn keep_key(&mut self, keyring: &Keyring) -> Result<(), Error> {
        if self.signing.get().is_none()
            && let Some(pem) = keyring.read(KEY_FILE)?
        {
            self.set_signing_key(pem.as_bytes())
                .map_err(|error| Error::DataDirectory(format!("{KEY_FILE}: {error}")))?;
        }
        self.keyring = keyring.clone();
        Ok(())
    }

    /// Signs claims, and adds the standard ones. May take a second if it creates a key: do not call it on an async
    /// thread.
    pub(crate) fn sign(&self, mut claims: Value) -> Result<String, SigningError> {
        claims["iss"] = self.url.as_str().into();
        let key = self.signing_key()?;
        let header = json!({"alg": key.public().algorithm().name(), "kid": key.public().id()});
        let encode = |part: &Value| BASE64_URL.encode(part.to_string());
        let message = format!("{}.{}", encode(&header), encode(&claims));
        let signature = key.sign(message.as_bytes()).ok_or(SigningError::Randomness)?;
        Ok(format!("{message}.{}", BASE64_URL.encode(signature)))
    }

    /// Returns the claims of a token of this issuer; `None` for any other text.
    ///
    /// Only the signature check is cached; the caller checks the claims.
    pub(crate) fn verify(&self, token: &str) -> Option<Arc<Value>> {
        let digest = digest(&SHA256, token.as_bytes());
        if let Some(claims) = self.verified.lock().get(digest.as_ref()) {
            return Some(claims.clone());
        }
        let claims = Arc::new(self.check_signature(token)?);
        let mut verified = self.verified.lock();
        if verified.len() >= REMEMBERED {
            verified.clear();
        }
        verified.insert(digest.as_ref().into(), claims.clone());
        Some(claims)
    }

    fn check_signature(&self, token: &str) -> Option<Value> {
        let (message, signature) = token.rsplit_once('.')?;
        let (header, claims) = message.split_once('.')?;
        let decode =
            |part: &str| -> Option<Value> { serde_json::from_slice(&BASE64_URL.decode(part).ok()?).ok() };
        let (header, claims) = (decode(header)?, decode(claims)?);
        let issuer = claims.get("iss").and_then(Value::as_str)?;
        if !self.issuers().any(|known| known == issuer) {
            return None;
        }
        let signature = BASE64_URL.decode(signature).ok()?;
        let algorithm = header.get("alg").and_then(Value::as_str)?;
        let is_verified = self
            .known_keys()
            .any(|key| key.algorithm().name() == algorithm && key.verifies(message.as_bytes(), &signature));
        is_verified.then_some(claims)
    }

    /// Returns the public keys as a JSON Web Key Set. May take a second, like [`sign`](Self::sign).
    pub(crate) fn key_set(&self) -> Result<Value, SigningError> {
        self.signing_key()?;
        let keys: Vec<Value> = self.public_keys().into_iter().map(PublicKey::to_jwk).collect();
        Ok(json!({"keys": keys}))
    }

    /// Returns the provider configuration of OpenID Connect.
    pub(crate) fn configuration(&self) -> Result<Value, SigningError> {
        self.signing_key()?;
        let mut algorithms: Vec<&str> = Vec::new();
        for key in self.public_keys() {
            let name = key.algorithm().name();
            if !algorithms.contains(&name) {
                algorithms.push(name);
            }
        }
        Ok(json!({
            "issuer": self.url,
            "jwks_uri": format!("{}/openid/v1/jwks", self.url.trim_end_matches('/')),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": algorithms,
        }))
    }

    /// Returns the keys that exist. A key that has not been created has signed nothing.
    fn known_keys(&self) -> impl Iterator<Item = &PublicKey> {
        self.signing
            .get()
            .map(SigningKey::public)
            .into_iter()
            .chain(&self.given)
    }

    /// Returns all keys without duplicates.
    fn public_keys(&self) -> Vec<&PublicKey> {
        let mut keys: Vec<&PublicKey> = Vec::new();
        for key in self.known_keys() {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }

    fn signing_key(&self) -> Result<&SigningKey, SigningError> {
        if let Some(key) = self.signing.get() {
            return Ok(key);
        }
        let made = self.keyring.keep(KEY_FILE, || {
            let der = rsa::make().map_err(|_| Error::ServiceAccountKey {
                which: "service account signing key",
                problem: SigningError::Randomness.to_string(),
            })?;
            Ok(super::pem::encode("RSA PRIVATE KEY", &der))
        });
        let key = SigningKey::from_pem(made?.as_bytes())?;
        // Another request may have created a key at the same time; the first key is kept.
        Ok(self.signing.get_or_init(|| key))
    }
}
