//! Reviews that authentication and authorization send to webhooks, with the retries of the real client.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use super::{Broken, CallError, Sent, Services, WebhookClient, failure};

/// The maximum number of attempts of one review.
const ATTEMPTS: u32 = 5;
const FIRST_DELAY: Duration = Duration::from_millis(500);
const USER_AGENT: &str = "Go-http-client/1.1";

/// The error of a review without a result.
struct Unanswered {
    why: String,
    is_transient: bool,
}

impl WebhookClient {
    /// Sends a review and returns the response. Temporary errors of the server are retried four times.
    ///
    /// # Errors
    /// Returns an error if the call failed, or its response is invalid.
    pub(crate) async fn review(
        &self,
        services: &Services,
        review: &Value,
        timeout: Duration,
    ) -> Result<Value, String> {
        let mut delay = FIRST_DELAY;
        for _ in 1..ATTEMPTS {
            match self.try_review(services, review, timeout).await {
                Err(unanswered) if unanswered.is_transient => {}
                answered => return answered.map_err(|unanswered| unanswered.why),
            }
            tokio::time::sleep(delay).await;
            delay = delay * 3 / 2;
        }
        let last = self.try_review(services, review, timeout).await;
        last.map_err(|unanswered| unanswered.why)
    }

    async fn try_review(
        &self,
        services: &Services,
        review: &Value,
        timeout: Duration,
    ) -> Result<Value, Unanswered> {
        let lasting = |why: String| Unanswered {
            why,
            is_transient: false,
        };
        let tls = self.tls.clone().map_err(CallError::Configuration);
        let tls = tls.map_err(|error| lasting(error.to_string()))?;
        let mut target = self.target.clone();
        target.path = format!("{}?timeout={}", target.path, seconds(timeout));
        let sent = Sent {
            user_agent: USER_AGENT,
            authorization: self.authorization.as_deref(),
            body: Bytes::from(review.to_string()),
            has_body: true,
            tls,
        };
        let answer = tokio::time::timeout(timeout, self.follow(services, target.clone(), &sent)).await;
        let answer = answer.unwrap_or_else(|_| {
            let why = "net/http: request canceled (Client.Timeout exceeded while awaiting headers)";
            Err(Broken::at(&target, why))
        });
        let answer = answer.map_err(|broken| Unanswered {
            is_transient: broken.why.ends_with("connection reset by peer"),
            why: format!("Post {:?}: {}", broken.url, broken.why),
        })?;
        failure::read_answer(&answer, review).map_err(|why| Unanswered {
            why,
            is_transient: matches!(answer.code, 429 | 500 | 504),
        })
    }
}

/// Formats a duration with milliseconds as Go prints it, up to a minute.
fn seconds(duration: Duration) -> String {
    if duration < Duration::from_secs(1) {
        return format!("{}ms", duration.as_millis());
    }
    format!("{}s", duration.as_secs_f64())
}
