//! The webhook that authenticates bearer tokens with TokenReviews: [`TokenWebhook`].

use std::collections::BTreeMap;
use std::time::Duration;

use apimachinery::object;
use serde_json::{Value, json};

use super::User;
use super::bearer::{Authenticated, common};
use crate::identity::ttl_cache::TtlCache;
use crate::webhook_client::{Services, WebhookClient};

/// The time limit of one attempt.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A webhook that authenticates bearer tokens: `--authentication-token-webhook-*` of kube-apiserver.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TokenWebhook {
    /// The kubeconfig with the address and the credentials of the webhook.
    pub kubeconfig: String,
    /// The version of TokenReviews: `v1` or `v1beta1`. Default: `v1`.
    pub version: String,
    /// The time for which responses are cached; zero disables the cache. Default: 2 minutes.
    pub cache_ttl: Duration,
}

impl TokenWebhook {
    /// Returns options for the webhook of a kubeconfig, with the defaults.
    pub fn new(kubeconfig: impl Into<String>) -> Self {
        Self {
            kubeconfig: kubeconfig.into(),
            version: "v1".to_owned(),
            cache_ttl: Duration::from_secs(120),
        }
    }
}

/// The client of the webhook, and its cached responses.
#[derive(Debug)]
pub(super) struct WebhookAuthenticator {
    options: TokenWebhook,
    client: WebhookClient,
    cache: TtlCache<Option<Authenticated>>,
}

impl WebhookAuthenticator {
    pub(super) fn new(options: TokenWebhook) -> Result<Self, String> {
        if !matches!(options.version.as_str(), "v1" | "v1beta1") {
            return Err(format!(
                "unsupported authentication webhook version {:?}, supported versions are \"v1\", \"v1beta1\"",
                options.version
            ));
        }
        Ok(Self {
            client: WebhookClient::from_kubeconfig(&options.kubeconfig)?,
            cache: TtlCache::default(),
            options,
        })
    }

    /// Returns the user of a token; `None` if the webhook does not authenticate it.
    ///
    /// # Errors
    /// Returns an error if the webhook fails or reports an error.
    pub(super) async fn authenticate(
        &self,
        services: &Services,
        token: &str,
        audiences: &[String],
    ) -> Result<Option<Authenticated>, String> {
        // Audiences cannot contain the separator NUL.
        let key = format!("{}\u{0}{token}", audiences.join("\u{0}"));
        if let Some(known) = self.cache.get(&key) {
            return Ok(known);
        }
        let review = json!({
            "kind": "TokenReview", "apiVersion": format!("authentication.k8s.io/{}", self.options.version),
            "metadata": {}, "spec": {"token": token, "audiences": audiences}, "status": {"user": {}},
        });
        let answer = self.client.review(services, &review, TIMEOUT).await?;
        let status = answer.get("status").unwrap_or(&Value::Null);
        let known = read(status, audiences)?;
        self.cache.set(&key, known.clone(), self.options.cache_ttl);
        Ok(known)
    }
}

fn read(status: &Value, wanted: &[String]) -> Result<Option<Authenticated>, String> {
    if status.get("authenticated") != Some(&Value::Bool(true)) {
        return match object::text(status, &["error"]) {
            "" => Ok(None),
            error => Err(error.to_owned()),
        };
    }
    let given = texts(status.get("audiences"));
    // A webhook without support for audiences returns none.
    let audiences = if given.is_empty() {
        wanted.to_vec()
    } else {
        common(&given, wanted)
    };
    if audiences.is_empty() {
        return Ok(None);
    }
    let text = |field: &str| object::text(status, &["user", field]).to_owned();
    let extra = object::get(status, &["user", "extra"]).and_then(Value::as_object);
    let extra: BTreeMap<String, Vec<String>> = extra
        .into_iter()
        .flatten()
        .map(|(key, values)| (key.clone(), texts(Some(values))))
        .collect();
    let groups = texts(object::get(status, &["user", "groups"]));
    let mut user = User::named(text("username"), groups);
    user.uid = text("uid");
    user.extra = extra;
    Ok(Some(Authenticated { user, audiences }))
}

fn texts(list: Option<&Value>) -> Vec<String> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}
