//! The parts of a JSON Web Token: [`Token`], [`Claims`], [`Signature`].

use apimachinery::go::{json_kind, quote};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64_URL;
use serde_json::Value;

/// A token with a decoded payload that is not verified yet.
pub(super) struct Token<'t> {
    message: &'t str,
    header: &'t str,
    signature: &'t str,
    payload: Value,
}

/// The registered claims.
pub(super) struct Claims {
    pub(super) audiences: Vec<String>,
    pub(super) expiry: Option<i64>,
    pub(super) not_before: Option<i64>,
}

/// The header and the signature of a token.
pub(super) struct Signature {
    header: Value,
    pub(super) bytes: Vec<u8>,
}

impl<'t> Token<'t> {
    /// Parses a token; returns `None` for a text that is not a token with a JSON payload.
    pub(super) fn parse(text: &'t str) -> Option<Self> {
        let (message, signature) = text.rsplit_once('.')?;
        let (header, payload) = message.split_once('.')?;
        if payload.contains('.') {
            return None;
        }
        // The decoder limits the nesting.
        let payload: Value = serde_json::from_slice(&BASE64_URL.decode(payload).ok()?).ok()?;
        payload.is_object().then_some(Self {
            message,
            header,
            signature,
            payload,
        })
    }

    pub(super) fn issuer(&self) -> Option<&str> {
        self.payload.get("iss")?.as_str()
    }

    /// Returns the text that is signed.
    pub(super) fn message(&self) -> &str {
        self.message
    }

    pub(super) fn payload(&self) -> &Value {
        &self.payload
    }

    /// Returns the registered claims.
    ///
    /// # Errors
    /// Returns an error if a claim has a wrong type.
    pub(super) fn claims(&self) -> Result<Claims, String> {
        let unread = |why: String| format!("failed to unmarshal claims: {why}");
        let misfit = |claim: &str, value: &Value, wanted: &str| {
            unread(format!(
                "json: cannot unmarshal {} into Go struct field idToken.{claim} of type {wanted}",
                json_kind(value)
            ))
        };
        let claim = |name: &str| self.payload.get(name).filter(|value| !value.is_null());
        for name in ["sub", "nonce", "at_hash"] {
            if let Some(value) = claim(name).filter(|value| !value.is_string()) {
                return Err(misfit(name, value, "string"));
            }
        }
        let audiences = match claim("aud") {
            None => Vec::new(),
            Some(Value::String(only)) => vec![only.clone()],
            Some(Value::Array(several)) => {
                if let Some(value) = several.iter().find(|value| !value.is_string()) {
                    return Err(misfit("aud", value, "string"));
                }
                let several = several.iter().filter_map(Value::as_str);
                several.map(str::to_owned).collect()
            }
            Some(value) => return Err(misfit("aud", value, "[]string")),
        };
        let time = |name: &str| match claim(name) {
            None => Ok(None),
            Some(value) => seconds(value).map(Some).map_err(unread),
        };
        time("iat")?;
        Ok(Claims {
            audiences,
            expiry: time("exp")?,
            not_before: time("nbf")?,
        })
    }

    /// Returns the header and the signature.
    ///
    /// # Errors
    /// Returns an error if they cannot be decoded.
    pub(super) fn signature(&self) -> Result<Signature, String> {
        let malformed = |why: &dyn std::fmt::Display| format!("malformed jwt: {why}");
        let header = BASE64_URL
            .decode(self.header)
            .map_err(|error| malformed(&illegal(self.header, &error)))?;
        let header: Value = serde_json::from_slice(&header).map_err(|error| malformed(&error))?;
        let bytes = BASE64_URL.decode(self.signature);
        Ok(Signature {
            header,
            bytes: bytes.map_err(|error| malformed(&illegal(self.signature, &error)))?,
        })
    }
}

impl Signature {
    pub(super) fn algorithm(&self) -> &str {
        self.text("alg")
    }

    /// Returns the key ID; empty if the header has none.
    pub(super) fn key_id(&self) -> &str {
        self.text("kid")
    }

    /// Returns true if the header requires extensions, which are not supported.
    pub(super) fn has_extensions(&self) -> bool {
        self.header.get("crit").is_some()
    }

    fn text(&self, field: &str) -> &str {
        self.header.get(field).and_then(Value::as_str).unwrap_or_default()
    }
}

/// Formats an error as Go's decoder does.
fn illegal(text: &str, error: &base64::DecodeError) -> String {
    let at = match error {
        base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => *at,
        base64::DecodeError::InvalidLength(length) => *length,
        base64::DecodeError::InvalidPadding => text.find('=').unwrap_or(text.len()),
    };
    format!("illegal base64 data at input byte {at}")
}

/// Returns a time in seconds, which may be a number or a string with a number.
fn seconds(value: &Value) -> Result<i64, String> {
    let text = match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        other => {
            return Err(format!(
                "json: cannot unmarshal {} into Go value of type json.Number",
                json_kind(other)
            ));
        }
    };
    if let Ok(whole) = text.parse() {
        return Ok(whole);
    }
    match text.parse::<f64>() {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the fraction of a second does not matter"
        )]
        Ok(float) if float.is_finite() => Ok(float as i64),
        _ => Err(format!(
            "json: invalid number literal, trying to unmarshal {} into Number",
            quote(&value.to_string())
        )),
    }
}
