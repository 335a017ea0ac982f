//! [`Patience`], time limits for slow and silent clients, like `ReadHeaderTimeout` and `IdleTimeout` of Go's
//! `http.Server`, with the values of controller-runtime.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// The time limits of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Maximum time for the headers of a request.
    pub(crate) headers: Duration,
    /// Maximum time between two requests.
    pub(crate) idle: Duration,
}

/// The preface of HTTP/2, which has concurrent requests and pings.
const HTTP2: &[u8] = b"PRI";

/// The state of a connection, which clones share.
#[derive(Clone, Debug)]
pub(super) struct Patience {
    limits: Limits,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    wait: Wait,
    /// The task to wake after a response is complete, because a new limit begins.
    reader: Option<Waker>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Wait {
    /// Waits for the headers of a request, until this time.
    Headers(Instant),
    /// Waits for the next request, until this time.
    Request(Instant),
    /// No limit: the request is being answered.
    Answer,
    /// No limit: the connection uses HTTP/2.
    Http2,
}

/// A request that is being answered until this is dropped.
pub(super) struct Busy(Patience);

/// A stream whose reads end at the limit.
pub(super) struct Patient<S> {
    stream: S,
    patience: Patience,
    alarm: Pin<Box<Sleep>>,
}

// === impl Limits ===

impl Default for Limits {
    /// The limits of controller-runtime.
    fn default() -> Self {
        Self {
            headers: Duration::from_secs(32),
            idle: Duration::from_secs(90),
        }
    }
}

// === impl Patience ===

impl Patience {
    /// Returns the state of a new connection.
    pub(super) fn new(limits: Limits) -> Self {
        let wait = Wait::Headers(Instant::now() + limits.headers);
        let state = Arc::new(Mutex::new(State { wait, reader: None }));
        Self { limits, state }
    }

    /// Suspends the limit until the result is dropped.
    pub(super) fn busy(&self) -> Busy {
        self.change(|_| Wait::Answer);
        Busy(self.clone())
    }

    fn change(&self, next: impl FnOnce(Wait) -> Wait) {
        let mut state = self.state.lock();
        if state.wait != Wait::Http2 {
            state.wait = next(state.wait);
        }
    }

    /// Records received bytes.
    fn heard(&self, bytes: &[u8]) {
        self.change(|wait| match wait {
            Wait::Request(_) => Wait::Headers(Instant::now() + self.limits.headers),
            Wait::Headers(_) if bytes.starts_with(HTTP2) => Wait::Http2,
            wait => wait,
        });
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let idle = self.0.limits.idle;
        self.0.change(|_| Wait::Request(Instant::now() + idle));
        let reader = self.0.state.lock().reader.take();
        reader.into_iter().for_each(Waker::wake);
    }
}

// === impl Patient ===

impl<S> Patient<S> {
    pub(super) fn new(stream: S, patience: Patience) -> Self {
        let alarm = Box::pin(tokio::time::sleep(patience.limits.headers));
        Self {
            stream,
            patience,
            alarm,
        }
    }

    /// Completes when the limit is reached: between requests with an end, within headers with an error.
    fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.patience.state.lock();
        let wait = state.wait;
        let (Wait::Headers(until) | Wait::Request(until)) = wait else {
            state.reader = Some(context.waker().clone());
            return Poll::Pending;
        };
        drop(state);
        if self.alarm.deadline() != until {
            self.alarm.as_mut().reset(until);
        }
        ready!(self.alarm.as_mut().poll(context));
        Poll::Ready(match wait {
            Wait::Headers(_) => Err(io::ErrorKind::TimedOut.into()),
            _ => Ok(()),
        })
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        if let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(context, buffer) {
            self.patience
                .heard(buffer.filled().get(before..).unwrap_or_default());
            return Poll::Ready(read);
        }
        self.poll_over(context)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
