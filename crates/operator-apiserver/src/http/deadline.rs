//! Time limits of requests: the server's limit, the client's `timeout`, and the limit of writes.

use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use apimachinery::time::parse_timeout;
use tokio::time::Instant;

use crate::http::call::Call;
use crate::http::request_info::RequestInfo;
use crate::status::{self, Status};

/// The default time limit of a request: `--request-timeout` of kube-apiserver.
pub(crate) const REQUEST_MAX: Duration = Duration::from_secs(60);
/// The maximum duration of a write, regardless of the other limits.
const WRITE_MAX: Duration = Duration::from_secs(34);

/// Subresources without a time limit.
const LONG_RUNNING: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

/// The time limit of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadline {
    /// The limit for the whole request; `None` means no limit.
    whole: Option<Duration>,
    writes: bool,
}

/// Returns true for requests without a time limit, such as watches.
pub(crate) fn is_long_running(info: &RequestInfo) -> bool {
    info.verb == "watch" || LONG_RUNNING.contains(&info.subresource.as_str())
}

impl Deadline {
    /// Returns the time limit of a request under the server's limit.
    ///
    /// # Errors
    /// Returns an error if the `timeout` parameter is not a duration.
    pub(crate) fn of(call: &Call, limit: Duration) -> Result<Self, Status> {
        let info = &call.info;
        let writes = info.is_resource
            && matches!(
                info.verb,
                "create" | "update" | "patch" | "delete" | "deletecollection"
            );
        if is_long_running(info) {
            return Ok(Self { whole: None, writes });
        }
        let wanted = match call.query.text("timeout") {
            "" => Duration::ZERO,
            text => parse_timeout(text).map_err(|why| {
                status::bad_request(format!("invalid timeout specified in the request URL - {why}"))
            })?,
        };
        // Zero means that the client sets no limit.
        let whole = if wanted.is_zero() {
            limit
        } else {
            wanted.min(limit)
        };
        Ok(Self {
            whole: Some(whole),
            writes,
        })
    }

    /// Returns the deadline of a request that starts now.
    pub(crate) fn end(self) -> Option<Instant> {
        let whole = if self.writes {
            self.whole.map(|whole| whole.min(WRITE_MAX))
        } else {
            self.whole
        };
        Instant::now().checked_add(whole?)
    }

    /// Waits for the body of the request, within the limit. Work is pinned by the caller, because each function that
    /// takes it would copy it.
    pub(crate) async fn read<T>(
        self,
        work: Pin<&mut impl Future<Output = Result<T, Status>>>,
    ) -> Result<T, Status> {
        within(self.whole, work)
            .await
            .unwrap_or_else(|| Err(status::timeout()))
    }

    /// Waits for the response, within the limit. A request that is cancelled before its commit changes nothing.
    pub(crate) async fn answer<T>(
        self,
        work: Pin<&mut impl Future<Output = Result<T, Status>>>,
    ) -> Result<T, Status> {
        if !self.writes {
            return self.read(work).await;
        }
        let limit = self.whole.map(|whole| whole.min(WRITE_MAX));
        let done = within(limit, work).await;
        let is_own = self.whole.is_some_and(|whole| whole < WRITE_MAX);
        done.unwrap_or_else(|| {
            Err(if is_own {
                status::timeout()
            } else {
                status::write_timeout()
            })
        })
    }
}

/// Returns the result of work that ends in time. Work that never waits needs no timer.
async fn within<T>(limit: Option<Duration>, mut work: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    if let Poll::Ready(done) = futures::poll!(work.as_mut()) {
        return Some(done);
    }
    match limit {
        Some(limit) => tokio::time::timeout(limit, work).await.ok(),
        None => Some(work.await),
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_late_answer_is_a_timeout_with_the_message_of_its_limit() {
        let short = Duration::from_millis(5);
        for (writes, whole, wanted) in [
            (false, short, status::timeout()),
            (false, REQUEST_MAX, status::timeout()),
            (true, short, status::timeout()),
            (true, REQUEST_MAX, status::write_timeout()),
        ] {
            let deadline = Deadline {
                whole: Some(whole),
                writes,
            };
            let late = deadline
                .answer(pin!(std::future::pending::<Result<(), _>>()))
                .await;
            assert_eq!(late, Err(wanted));
            let immediate = deadline.answer(pin!(std::future::ready(Ok(1)))).await;
            assert_eq!(immediate, Ok(1));
        }
    }

    #[test]
    fn durations_are_read_as_go_reads_them() {
        let cases = [
            ("1s", Ok(1_000)),
            ("1m30s", Ok(90_000)),
            ("1.5h", Ok(5_400_000)),
            (".5s", Ok(500)),
            ("250ms", Ok(250)),
            ("0", Ok(0)),
            ("-3s", Ok(0)),
            ("", Err("time: invalid duration \"\"")),
            ("x", Err("time: invalid duration \"x\"")),
            ("s", Err("time: invalid duration \"s\"")),
            ("5", Err("time: missing unit in duration \"5\"")),
            ("5d", Err("time: unknown unit \"d\" in duration \"5d\"")),
            ("1s2", Err("time: missing unit in duration \"1s2\"")),
            ("99999999999h", Err("time: invalid duration \"99999999999h\"")),
        ];
        for (text, wanted) in cases {
            let read = parse_timeout(text);
            let wanted = wanted.map(Duration::from_millis).map_err(str::to_owned);
            assert_eq!(read, wanted, "{text:?}");
        }
    }
}
