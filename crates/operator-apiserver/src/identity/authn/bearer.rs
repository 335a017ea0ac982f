//! Bearer tokens: static tokens of the builder, and tokens of service accounts, issuers and webhooks
//! ([`Authenticator`]).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use apimachinery::object;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use parking_lot::RwLock;
use serde_json::Value;

use super::jwt::{AuthenticationConfiguration, JwtAuthenticator};
use super::token_webhook::{TokenWebhook, WebhookAuthenticator};
use super::{
    AUTHENTICATED, Anonymous, CREDENTIAL_ID, NODE_NAME, User, service_account_groups, service_account_name,
};
use crate::clock::{Clock, unix_seconds};
use crate::identity::authz::aggregate;
use crate::identity::token::Issuer;
use crate::store::Store;
use crate::webhook_client::Services;

/// The allowed difference between clocks, in seconds.
const LEEWAY: i64 = 60;

/// The user of a token, and its audiences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Authenticated {
    pub(crate) user: User,
    /// The requested audiences for which the token is valid.
    pub(crate) audiences: Vec<String>,
}

/// The message for every rejected token.
const INVALID: &str = "invalid bearer token";

/// Returns the token of an `Authorization` header.
pub(crate) fn bearer_token(headers: &HeaderMap) -> Option<String> {
    // A token that is not UTF-8 cannot be valid.
    let header = String::from_utf8_lossy(headers.get(AUTHORIZATION)?.as_bytes());
    let header = header.trim();
    let mut parts = header.split(' ');
    let scheme = parts.next()?;
    let token = parts.next()?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then(|| token.to_owned())
}

/// Authenticates requests by their bearer tokens.
#[derive(Debug)]
pub(crate) struct Authenticator {
    pub(crate) store: Arc<Store>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Signs and verifies the tokens of service accounts.
    pub(crate) issuer: Arc<Issuer>,
    /// The users of static tokens.
    pub(crate) static_tokens: HashMap<String, User>,
    /// Finds the addresses of webhooks.
    pub(crate) services: Arc<Services>,
    /// The authentication that a file configures.
    configured: RwLock<Arc<Configured>>,
    /// The allowed anonymous requests if the file does not configure them.
    anonymous: Anonymous,
    webhook: Option<WebhookAuthenticator>,
}

/// The authentication that a file configures: issuers of tokens, and anonymous requests.
#[derive(Debug)]
struct Configured {
    issuers: Vec<JwtAuthenticator>,
    anonymous: Anonymous,
}

impl Configured {
    /// Parses a configuration; `anonymous` is used if the configuration has no setting for anonymous requests.
    fn new(configuration: &AuthenticationConfiguration, anonymous: Anonymous) -> Result<Self, String> {
        let anonymous = if !configuration.has_anonymous() {
            anonymous
        } else {
            match configuration.anonymous_paths() {
                None => Anonymous::All,
                Some(paths) if paths.is_empty() => Anonymous::Nothing,
                Some(paths) => Anonymous::Paths(paths),
            }
        };
        Ok(Self {
            issuers: JwtAuthenticator::all(configuration)?,
            anonymous,
        })
    }
}

impl Authenticator {
    /// Returns an authenticator of static tokens and of service accounts.
    pub(crate) fn new(
        store: Arc<Store>,
        clock: Arc<dyn Clock>,
        issuer: Arc<Issuer>,
        static_tokens: HashMap<String, User>,
        services: Arc<Services>,
        anonymous: Anonymous,
    ) -> Self {
        Self {
            store,
            clock,
            issuer,
            static_tokens,
            services,
            configured: RwLock::new(Arc::new(Configured {
                issuers: Vec::new(),
                anonymous: anonymous.clone(),
            })),
            anonymous,
            webhook: None,
        }
    }

    /// Replaces the authentication that a file configures.
    ///
    /// # Errors
    /// Returns an error if a certificate authority of an issuer is invalid.
    pub(crate) fn configure(&self, configuration: &AuthenticationConfiguration) -> Result<(), String> {
        let configured = Configured::new(configuration, self.anonymous.clone())?;
        *self.configured.write() = Arc::new(configured);
        Ok(())
    }

    /// Adds the webhook.
    ///
    /// # Errors
    /// Returns an error if its kubeconfig is invalid.
    pub(crate) fn set_webhook(&mut self, webhook: TokenWebhook) -> Result<(), String> {
        self.webhook = Some(WebhookAuthenticator::new(webhook)?);
        Ok(())
    }

    /// Returns the allowed anonymous requests.
    pub(crate) fn anonymous(&self) -> Anonymous {
        self.configured.read().anonymous.clone()
    }

    /// Returns the user of a token that is valid for one of the audiences; with no audiences, for this server.
    ///
    /// # Errors
    /// Returns the reason why the token is rejected.
    pub(crate) async fn authenticate(
        &self,
        token: &str,
        audiences: &[String],
    ) -> Result<Authenticated, String> {
        let own = self.issuer.audiences();
        let wanted = if audiences.is_empty() { &own } else { audiences };
        if let Some(user) = self.static_tokens.get(token) {
            let audiences = common(&own, wanted);
            if !audiences.is_empty() {
                return Ok(Authenticated {
                    user: user.clone(),
                    audiences,
                });
            }
        }
        let mut errors = vec![INVALID.to_owned()];
        match self.service_account(token, wanted) {
            Some(Ok(known)) => return Ok(known),
            Some(Err(why)) => errors.push(why),
            None => {}
        }
        let audiences = common(&own, wanted);
        if !audiences.is_empty() {
            match self.issued(token).await {
                Some(Ok(mut user)) => {
                    user.join(AUTHENTICATED);
                    return Ok(Authenticated { user, audiences });
                }
                Some(Err(why)) => errors.push(why),
                None => {}
            }
        }
        if let Some(webhook) = &self.webhook {
            match webhook.authenticate(&self.services, token, wanted).await {
                Ok(Some(known)) => return Ok(known),
                Ok(None) => {}
                Err(why) => errors.push(why),
            }
        }
        Err(aggregate(errors))
    }

    /// Returns the service account of a token; `None` if the token is not from this server's issuer.
    fn service_account(&self, token: &str, wanted: &[String]) -> Option<Result<Authenticated, String>> {
        let claims = self.issuer.verify(token)?;
        Some(self.account(&claims, wanted))
    }

    fn account(&self, claims: &Value, wanted: &[String]) -> Result<Authenticated, String> {
        let audiences = audiences_of(claims, wanted)?;
        check_time(claims, unix_seconds(self.clock.now()))?;
        let user = Account::of(claims).user(self)?;
        Ok(Authenticated { user, audiences })
    }

    /// Returns the user of a token of another issuer; `None` if the issuer is unknown.
    async fn issued(&self, token: &str) -> Option<Result<User, String>> {
        let configured = self.configured.read().clone();
        let now = unix_seconds(self.clock.now());
        for issuer in &configured.issuers {
            if let Some(result) = issuer.authenticate(&self.services, token, now).await {
                return Some(result);
            }
        }
        None
    }
}

pub(super) fn common(known: &[String], wanted: &[String]) -> Vec<String> {
    known
        .iter()
        .filter(|known| wanted.contains(known))
        .cloned()
        .collect()
}

fn audiences_of(claims: &Value, wanted: &[String]) -> Result<Vec<String>, String> {
    let given: Vec<String> = match claims.get("aud") {
        Some(Value::String(only)) => vec![only.clone()],
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    let audiences = common(&given, wanted);
    if audiences.is_empty() {
        let show = crate::identity::authz::go_list;
        return Err(format!(
            "token audiences {} is invalid for the target audiences {}",
            show(&given),
            show(wanted)
        ));
    }
    Ok(audiences)
}

fn check_time(claims: &Value, now: i64) -> Result<(), String> {
    let time = |claim: &str| claims.get(claim).and_then(Value::as_i64);
    if time("nbf").is_some_and(|begin| now + LEEWAY < begin) {
        return Err("service account token is not valid yet".to_owned());
    }
    if time("exp").is_none_or(|end| end + LEEWAY < now) {
        return Err("service account token has expired".to_owned());
    }
    Ok(())
}

/// The claims of a service account token.
struct Account<'a> {
    claims: &'a Value,
    namespace: &'a str,
    name: &'a str,
}

impl<'a> Account<'a> {
    fn of(claims: &'a Value) -> Self {
        let text = |path: &[&str]| {
            let own = claims.get("kubernetes.io");
            own.map(|own| object::text(own, path)).unwrap_or_default()
        };
        Self {
            claims,
            namespace: text(&["namespace"]),
            name: text(&["serviceaccount", "name"]),
        }
    }

    /// Returns the user, if the account and the bound object exist.
    fn user(&self, authenticator: &Authenticator) -> Result<User, String> {
        let uid = self.reference("serviceaccount").map_or("", |(_, uid)| uid);
        self.check_account(authenticator, uid)?;
        for (part, table, is_namespaced) in [("secret", "secrets", true), ("pod", "pods", true)] {
            self.check_bound(authenticator, part, table, is_namespaced)?;
        }
        if self.reference("pod").is_none() {
            self.check_bound(authenticator, "node", "nodes", false)?;
        }
        let mut groups = service_account_groups(self.namespace);
        groups.push(AUTHENTICATED.to_owned());
        Ok(User {
            name: service_account_name(self.namespace, self.name),
            uid: uid.to_owned(),
            groups,
            extra: self.extra(),
        })
    }

    fn reference(&self, part: &str) -> Option<(&'a str, &'a str)> {
        let reference = self.claims.get("kubernetes.io")?.get(part)?;
        Some((
            object::text(reference, &["name"]),
            object::text(reference, &["uid"]),
        ))
    }

    fn check_account(&self, authenticator: &Authenticator, uid: &str) -> Result<(), String> {
        let (namespace, name) = (self.namespace, self.name);
        let account = authenticator
            .store
            .get("serviceaccounts", &format!("{namespace}/{name}"))
            .ok_or_else(|| format!("serviceaccounts {} not found", apimachinery::go::quote(name)))?;
        if was_deleted(authenticator, &account.value) {
            return Err(format!("service account {namespace}/{name} has been deleted"));
        }
        let live = object::uid(&account.value);
        if live != uid {
            return Err(format!(
                "service account UID ({live}) does not match claim ({uid})"
            ));
        }
        Ok(())
    }

    fn check_bound(
        &self,
        authenticator: &Authenticator,
        part: &str,
        table: &str,
        is_namespaced: bool,
    ) -> Result<(), String> {
        let Some((name, uid)) = self.reference(part) else {
            return Ok(());
        };
        let key = if is_namespaced {
            format!("{}/{name}", self.namespace)
        } else {
            name.to_owned()
        };
        let bound = authenticator.store.get(table, &key);
        let Some(bound) = bound.filter(|bound| !was_deleted(authenticator, &bound.value)) else {
            return Err("service account token has been invalidated".to_owned());
        };
        let live = object::uid(&bound.value);
        if live != uid {
            return Err(format!(
                "{part} UID ({live}) does not match service account {part} ref claim ({uid})"
            ));
        }
        Ok(())
    }

    fn extra(&self) -> BTreeMap<String, Vec<String>> {
        let mut extra = BTreeMap::new();
        let mut add = |key: &str, value: &str| {
            if !value.is_empty() {
                extra.insert(key.to_owned(), vec![value.to_owned()]);
            }
        };
        let id = self.claims.get("jti").and_then(Value::as_str).unwrap_or_default();
        if !id.is_empty() {
            add(CREDENTIAL_ID, &format!("JTI={id}"));
        }
        if let Some((name, uid)) = self.reference("pod") {
            add("authentication.kubernetes.io/pod-name", name);
            add("authentication.kubernetes.io/pod-uid", uid);
        }
        if let Some((name, uid)) = self.reference("node") {
            add(NODE_NAME, name);
            add("authentication.kubernetes.io/node-uid", uid);
        }
        extra
    }
}

/// Returns true if an object has been terminating for longer than the allowed difference between clocks.
fn was_deleted(authenticator: &Authenticator, object: &Value) -> bool {
    let time = object::text(object, &["metadata", "deletionTimestamp"]);
    let time: Option<jiff::Timestamp> = time.parse().ok();
    time.is_some_and(|time| time.as_second() + LEEWAY < unix_seconds(authenticator.clock.now()))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_token_of_any_bytes_is_a_token() {
        let token = |header: &[u8]| {
            let value = HeaderValue::from_bytes(header).unwrap();
            bearer_token(&HeaderMap::from_iter([(AUTHORIZATION, value)]))
        };
        assert_eq!(token(b"Bearer abc").as_deref(), Some("abc"));
        assert_eq!(token(b"bearer  abc"), None);
        assert_eq!(token(b"Basic abc"), None);
        assert!(token("Bearer \u{e9}".as_bytes()).is_some());
        assert!(token(b"Bearer \xff\xfe").is_some());
    }
}
