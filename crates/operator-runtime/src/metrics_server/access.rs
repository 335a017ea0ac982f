//! [`Access`] to the metrics: the API server authenticates tokens and authorizes their users. Its responses are cached,
//! so that a scraper costs two requests in five minutes.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Request, header};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec, SubjectAccessReviewStatus,
};
use kube::api::{Api, PostParams};
use parking_lot::Mutex;

use crate::clock::jitter;

const TOKEN_FOR: Duration = Duration::from_secs(60);
const ALLOWED_FOR: Duration = Duration::from_secs(5 * 60);
const DENIED_FOR: Duration = Duration::from_secs(30);
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of cached responses, because everyone can send tokens.
const REMEMBERED_MAX: usize = 1024;
/// Maximum attempts of a review. The delay begins at half a second and grows by half.
const TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// Sends reviews to the API server and caches the responses.
#[derive(Clone)]
pub(super) struct Access {
    client: kube::Client,
    users: Arc<Mutex<Memory<String, Option<UserInfo>>>>,
    verdicts: Arc<Mutex<Memory<Question, bool>>>,
    first_pause: Duration,
}

/// The reason for denying access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The token is missing or the API server rejects it.
    Unauthenticated,
    /// The user has no permission.
    Forbidden(String),
    /// The review of the token failed.
    Unauthenticable,
    /// The review of the permission failed.
    Unauthorizable(String),
}

/// The subject of an authorization review.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Question {
    user: String,
    uid: String,
    groups: Vec<String>,
    verb: String,
    path: String,
}

/// Responses with a lifetime.
#[derive(Debug)]
struct Memory<K, V> {
    answers: HashMap<K, (V, Instant)>,
}

// === impl Access ===

impl Access {
    pub(super) fn new(client: kube::Client) -> Self {
        Self {
            client,
            users: Arc::default(),
            verdicts: Arc::default(),
            first_pause: FIRST_PAUSE,
        }
    }

    pub(super) async fn check<B>(&self, request: &Request<B>) -> Result<(), Refusal> {
        let token = bearer_token(request).ok_or(Refusal::Unauthenticated)?;
        let verb = request.method().as_str().to_ascii_lowercase();
        let path = request.uri().path().to_owned();
        let user = self.user(token).await?.ok_or(Refusal::Unauthenticated)?;
        let name = user.username.clone().unwrap_or_default();
        match self.allowed(user, verb, path).await? {
            true => Ok(()),
            false => Err(Refusal::Forbidden(name)),
        }
    }

    async fn user(&self, token: &str) -> Result<Option<UserInfo>, Refusal> {
        if let Some(user) = self
            .users
            .lock()
            .recall(&token.to_owned(), crate::clock::instant())
        {
            return Ok(user);
        }
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: token.to_owned(),
                ..TokenReviewSpec::default()
            },
            ..TokenReview::default()
        };
        let review = self.review(review).await.ok_or(Refusal::Unauthenticable)?;
        let status = review.status.unwrap_or_default();
        let user = status.user.filter(|_| status.authenticated == Some(true));
        self.users
            .lock()
            .learn(token.to_owned(), user.clone(), TOKEN_FOR, crate::clock::instant());
        Ok(user)
    }

    async fn allowed(&self, user: UserInfo, verb: String, path: String) -> Result<bool, Refusal> {
        let question = Question {
            user: user.username.clone().unwrap_or_default(),
            uid: user.uid.clone().unwrap_or_default(),
            groups: user.groups.clone().unwrap_or_default(),
            verb,
            path,
        };
        if let Some(allowed) = self.verdicts.lock().recall(&question, crate::clock::instant()) {
            return Ok(allowed);
        }
        let review = self
            .review(question.review(user))
            .await
            .ok_or_else(|| Refusal::Unauthorizable(question.user.clone()))?;
        let allowed = review.status.as_ref().is_some_and(allows);
        let remember = if allowed { ALLOWED_FOR } else { DENIED_FOR };
        self.verdicts
            .lock()
            .learn(question, allowed, remember, crate::clock::instant());
        Ok(allowed)
    }

    /// Sends a review with retries.
    async fn review<K>(&self, review: K) -> Option<K>
    where
        K: kube::Resource<DynamicType = ()>
            + Clone
            + serde::Serialize
            + serde::de::DeserializeOwned
            + std::fmt::Debug,
    {
        let api: Api<K> = Api::all(self.client.clone());
        let mut pause = self.first_pause;
        for attempt in 1..=TRIES {
            let answer =
                tokio::time::timeout(REVIEW_TIMEOUT, api.create(&PostParams::default(), &review)).await;
            match answer {
                Ok(Ok(answer)) => return Some(answer),
                Ok(Err(error)) => tracing::error!(%error, kind = %K::kind(&()), "Review failed"),
                Err(_) => tracing::error!(kind = %K::kind(&()), "Review took too long"),
            }
            if attempt < TRIES {
                tokio::time::sleep(pause.mul_f64(1.0 + 0.2 * jitter())).await;
                pause = pause.mul_f64(1.5);
            }
        }
        None
    }
}

fn bearer_token<B>(request: &Request<B>) -> Option<&str> {
    let value = request.headers().get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn allows(status: &SubjectAccessReviewStatus) -> bool {
    status.allowed && status.denied != Some(true)
}

// === impl Question ===

impl Question {
    fn review(&self, user: UserInfo) -> SubjectAccessReview {
        SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: user.username,
                uid: user.uid,
                groups: user.groups,
                extra: user.extra,
                non_resource_attributes: Some(NonResourceAttributes {
                    path: Some(self.path.clone()),
                    verb: Some(self.verb.clone()),
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        }
    }
}

// === impl Memory ===

impl<K, V> Default for Memory<K, V> {
    fn default() -> Self {
        let answers = HashMap::new();
        Self { answers }
    }
}

impl<K: Eq + Hash, V: Clone> Memory<K, V> {
    fn recall(&self, question: &K, now: Instant) -> Option<V> {
        let (answer, until) = self.answers.get(question)?;
        (now < *until).then(|| answer.clone())
    }

    fn learn(&mut self, question: K, answer: V, lasts: Duration, now: Instant) {
        if self.answers.len() >= REMEMBERED_MAX {
            self.answers.retain(|_, (_, until)| now < *until);
        }
        if self.answers.len() < REMEMBERED_MAX {
            self.answers.insert(question, (answer, now + lasts));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_expire() {
        let (mut memory, now) = (Memory::default(), Instant::now());
        memory.learn("q", true, DENIED_FOR, now);
        assert_eq!(memory.recall(&"q", now + Duration::from_secs(29)), Some(true));
        assert_eq!(memory.recall(&"q", now + Duration::from_secs(30)), None);
        assert_eq!(memory.recall(&"r", now), None);
    }

    #[test]
    fn cache_is_limited_and_drops_expired_answers() {
        let (mut memory, now) = (Memory::default(), Instant::now());
        for question in 0..2 * REMEMBERED_MAX {
            memory.learn(question, (), DENIED_FOR, now);
        }
        assert_eq!(memory.answers.len(), REMEMBERED_MAX);
        memory.learn(usize::MAX, (), DENIED_FOR, now + DENIED_FOR);
        assert_eq!(memory.answers.len(), 1);
    }

    /// Returns the outcome if all reviews fail, or only those of permissions, and the number of requests.
    async fn checked(answers_tokens: bool) -> (Result<(), Refusal>, usize) {
        use std::sync::atomic::{AtomicUsize, Ordering};

        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            counted.fetch_add(1, Ordering::Relaxed);
            let user = serde_json::json!({"authenticated": true, "user": {"username": "jane"}});
            let review = serde_json::json!({"spec": {}, "status": user}).to_string();
            let answered = answers_tokens && request.uri().path().ends_with("/tokenreviews");
            let answer = match answered {
                true => http::Response::new(review),
                false => http::Response::builder()
                    .status(500)
                    .body("{}".to_owned())
                    .unwrap_or_default(),
            };
            std::future::ready(Ok::<_, std::convert::Infallible>(answer))
        });
        let mut access = Access::new(kube::Client::new(service, "default"));
        access.first_pause = Duration::from_millis(1);
        let request = Request::builder()
            .uri("/metrics")
            .header(header::AUTHORIZATION, "Bearer t");
        let outcome = access.check(&request.body(()).unwrap()).await;
        (outcome, asked.load(Ordering::Relaxed))
    }

    #[tokio::test]
    async fn failed_review_is_tried_five_times() {
        assert_eq!(checked(false).await, (Err(Refusal::Unauthenticable), 5));
        let unauthorizable = Refusal::Unauthorizable("jane".to_owned());
        assert_eq!(checked(true).await, (Err(unauthorizable), 6));
    }

    #[test]
    fn only_bearer_tokens_count() {
        let request = |value: &str| {
            Request::builder()
                .header(header::AUTHORIZATION, value)
                .body(())
                .unwrap()
        };
        assert_eq!(bearer_token(&request("Bearer abc")), Some("abc"));
        assert_eq!(bearer_token(&request("bearer  abc ")), Some("abc"));
        assert_eq!(bearer_token(&request("Basic abc")), None);
        assert_eq!(bearer_token(&request("Bearer ")), None);
        assert_eq!(bearer_token(&Request::new(())), None);
    }
}
