//! OpenID Connect tokens: JSON Web Tokens of other issuers.

mod claims;
mod configuration;
mod keys;
mod mapping;
mod provider;
mod validation;

use apimachinery::go::quote;
use serde_json::Value;

use self::claims::{Claims, Token};
pub use self::configuration::{AuthenticationConfiguration, OidcOptions};
use self::mapping::Rules;
use self::provider::Provider;
use super::User;
use crate::identity::authz::go_list;
use crate::webhook_client::Services;

/// The allowed difference between clocks at the start of a token's validity, in seconds.
const LEEWAY: i64 = 60;

/// Authenticates the tokens of one issuer.
#[derive(Debug)]
pub(super) struct JwtAuthenticator {
    url: String,
    audiences: Vec<String>,
    /// The accepted algorithms, sorted.
    algorithms: Vec<String>,
    provider: Provider,
    rules: Rules,
}

impl JwtAuthenticator {
    /// Parses a validated `jwt` entry of an AuthenticationConfiguration.
    fn new(config: &Value, algorithms: &[String]) -> Result<Self, String> {
        let issuer = config.get("issuer").unwrap_or(&Value::Null);
        Ok(Self {
            url: apimachinery::object::text(issuer, &["url"]).to_owned(),
            audiences: configuration::texts(issuer, "audiences"),
            algorithms: algorithms.to_vec(),
            provider: Provider::new(issuer)?,
            rules: Rules::read(config),
        })
    }

    /// Returns the issuers of a configuration.
    pub(super) fn all(configuration: &AuthenticationConfiguration) -> Result<Vec<Self>, String> {
        let issuers = configuration.issuers();
        issuers
            .map(|config| Self::new(config, configuration.algorithms()))
            .collect()
    }

    /// Returns the user of a token; `None` if the token is from another issuer.
    pub(super) async fn authenticate(
        &self,
        services: &Services,
        token: &str,
        now: i64,
    ) -> Option<Result<User, String>> {
        let token = Token::parse(token)?;
        if token.issuer()? != self.url {
            return None;
        }
        Some(self.verify(services, &token, now).await)
    }

    async fn verify(&self, services: &Services, token: &Token<'_>, now: i64) -> Result<User, String> {
        let at = |why: String| format!("oidc: {why}");
        let unverified = |why: String| format!("oidc: verify token: {why}");
        self.provider.ready(services, &self.url).await.map_err(at)?;
        let claims = token.claims().map_err(|why| unverified(at(why)))?;
        self.check_claims(&claims, now)
            .map_err(|why| unverified(at(why)))?;
        let signature = token.signature().map_err(|why| unverified(at(why)))?;
        let algorithm = signature.algorithm();
        if !self.algorithms.iter().any(|known| known == algorithm) {
            return Err(unverified(at(format!(
                "id token signed with unsupported algorithm, expected {} got {}",
                quoted(&self.algorithms),
                quote(algorithm)
            ))));
        }
        let verified = self.provider.verify(services, token.message(), &signature).await;
        verified.map_err(|why| unverified(format!("failed to verify signature: {why}")))?;
        self.rules.user(token.payload()).map_err(at)
    }

    fn check_claims(&self, claims: &Claims, now: i64) -> Result<(), String> {
        if !claims
            .audiences
            .iter()
            .any(|given| self.audiences.contains(given))
        {
            let got = if claims.audiences.is_empty() {
                go_list(&claims.audiences)
            } else {
                quoted(&claims.audiences)
            };
            let wanted = match self.audiences.as_slice() {
                [only] => quote(only),
                several => format!("in {}", quoted(several)),
            };
            return Err(format!("expected audience {wanted} got {got}"));
        }
        if claims.expiry.is_none_or(|end| end < now) {
            let end = claims
                .expiry
                .map_or("0001-01-01 00:00:00 +0000 UTC".to_owned(), go_time);
            return Err(format!("token is expired (Token Expiry: {end})"));
        }
        if let Some(begin) = claims
            .not_before
            .filter(|begin| now.saturating_add(LEEWAY) < *begin)
        {
            return Err(format!(
                "current time {} before the nbf (not before) time: {}",
                go_time(now),
                go_time(begin)
            ));
        }
        Ok(())
    }
}

/// Formats strings as Go's `%q` does.
fn quoted(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| quote(text)).collect();
    format!("[{}]", texts.join(" "))
}

/// Formats a time as Go prints it.
fn go_time(seconds: i64) -> String {
    match jiff::Timestamp::from_second(seconds) {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M:%S +0000 UTC").to_string(),
        Err(_) => seconds.to_string(),
    }
}
