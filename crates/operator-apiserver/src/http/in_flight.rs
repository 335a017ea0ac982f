//! Limits of concurrent work: the number of requests, and the memory of their bodies.
//!
//! The numbers are the defaults of kube-apiserver (`--max-requests-inflight`, `--max-mutating-requests-inflight`).
//! Requests beyond them are rejected, and the client retries.

use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use http::StatusCode;
use http::header::RETRY_AFTER;
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use crate::http::call::{Answer, Call};
use crate::http::deadline;
use crate::http::handler::BoxError;
use crate::status::{self, Status};

/// The maximum number of read-only requests.
const READS_MAX: usize = 400;
/// The maximum number of other requests.
const WRITES_MAX: usize = 200;
/// The maximum length of a body.
const BODY_BYTES_MAX: usize = 3 << 20;
/// The size up to which a body is not counted: the number of requests already limits these bytes.
const UNCOUNTED_BYTES: usize = 64 << 10;
/// The maximum total size of all counted bodies, in kibibytes.
const BODIES_KIBIBYTES: usize = 128 << 10;
/// The time after which a rejected client should retry, in seconds.
const RETRY_SECONDS: i64 = 1;

const TOO_MANY: &str = "Too many requests, please try again later.";

/// Counts requests and the memory of their bodies.
#[derive(Debug)]
pub(crate) struct InFlight {
    reads: Semaphore,
    writes: Semaphore,
    bodies: Arc<Semaphore>,
}

/// A body, and its share of the memory.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) bytes: Bytes,
    pub(crate) memory: Option<OwnedSemaphorePermit>,
}

/// The error of a request beyond the limit.
#[derive(Debug)]
pub(crate) struct TooMany;

impl TooMany {
    pub(crate) fn answer(&self) -> Answer {
        let mut answer = Answer::text(StatusCode::TOO_MANY_REQUESTS, &format!("{TOO_MANY}\n"));
        answer.set(RETRY_AFTER, &RETRY_SECONDS.to_string());
        answer
    }
}

impl Default for InFlight {
    fn default() -> Self {
        Self {
            reads: Semaphore::new(READS_MAX),
            writes: Semaphore::new(WRITES_MAX),
            bodies: Arc::new(Semaphore::new(BODIES_KIBIBYTES)),
        }
    }
}

impl InFlight {
    /// Counts a request until the result is dropped. Watches, health checks and requests of `system:masters` are always
    /// admitted.
    ///
    /// # Errors
    /// Returns an error if the limit is reached.
    pub(crate) fn enter(&self, call: &Call) -> Result<Option<SemaphorePermit<'_>>, TooMany> {
        if deadline::is_long_running(&call.info) || is_health_check(call) {
            return Ok(None);
        }
        let limit = if matches!(call.info.verb, "get" | "list") {
            &self.reads
        } else {
            &self.writes
        };
        match limit.try_acquire() {
            Ok(slot) => Ok(Some(slot)),
            Err(_) if call.user.is_master() => Ok(None),
            Err(_) => Err(TooMany),
        }
    }

    /// Reads a body.
    ///
    /// # Errors
    /// Returns an error if the body is too long or incomplete, or the bodies of all requests take too much memory.
    pub(crate) async fn read<B>(&self, body: B) -> Result<Received, Status>
    where
        B: http_body::Body,
        B::Error: Into<BoxError>,
    {
        let mut body = std::pin::pin!(body);
        // Copied because a small frame can keep a large buffer of its connection alive.
        let mut bytes = BytesMut::new();
        let mut memory: Option<OwnedSemaphorePermit> = None;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| status::bad_request(error.into().to_string()))?;
            let Ok(mut data) = frame.into_data() else {
                continue;
            };
            let length = bytes.len().saturating_add(data.remaining());
            if length > BODY_BYTES_MAX {
                let why = format!("Request entity too large: limit is {BODY_BYTES_MAX}");
                return Err(status::too_large(why));
            }
            let wanted = length.saturating_sub(UNCOUNTED_BYTES).div_ceil(1 << 10);
            let held = memory.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
            if wanted > held {
                let more = u32::try_from(wanted - held).unwrap_or(u32::MAX);
                let more = self.bodies.clone().try_acquire_many_owned(more);
                let more = more.map_err(|_| status::too_many_requests(TOO_MANY, RETRY_SECONDS))?;
                match &mut memory {
                    Some(memory) => memory.merge(more),
                    None => memory = Some(more),
                }
            }
            while data.has_remaining() {
                let chunk = data.chunk();
                let taken = chunk.len();
                bytes.extend_from_slice(chunk);
                data.advance(taken);
            }
        }
        Ok(Received {
            bytes: bytes.freeze(),
            memory,
        })
    }
}

fn is_health_check(call: &Call) -> bool {
    let path = call.info.path.trim_start_matches('/');
    let first = path.split('/').next().unwrap_or_default();
    !call.info.is_resource && matches!(first, "healthz" | "livez" | "readyz")
}
