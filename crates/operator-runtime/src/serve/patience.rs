//! How long a server waits for a client that says nothing, or says it slowly: as Go's `http.Server` does with
//! `ReadHeaderTimeout` and `IdleTimeout`, the values being those of controller-runtime's servers.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// How long clients may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// For the headers of a request.
    pub(crate) headers: Duration,
    /// From one request to the next.
    pub(crate) idle: Duration,
}

/// How a client of HTTP/2 begins, which has many requests at once and is asked whether it is there.
const HTTP2: &[u8] = b"PRI";

/// What a connection waits for; clones share it.
#[derive(Clone, Debug)]
pub(super) struct Patience {
    limits: Limits,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    wait: Wait,
    /// Who has to look at its alarm again when a request has been answered.
    reader: Option<Waker>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Wait {
    /// The headers of a request, until then.
    Headers(Instant),
    /// The next request, until then.
    Request(Instant),
    /// Nothing that has a limit: the request is being answered.
    Answer,
    /// Nothing that has a limit, whatever happens.
    Http2,
}

/// A request that is being answered, until it is dropped.
pub(super) struct Busy(Patience);

/// A stream whose reads end when the patience does.
pub(super) struct Patient<S> {
    stream: S,
    patience: Patience,
    alarm: Pin<Box<Sleep>>,
}

// === impl Limits ===

impl Default for Limits {
    /// Those of controller-runtime.
    fn default() -> Self {
        Self {
            headers: Duration::from_secs(32),
            idle: Duration::from_secs(90),
        }
    }
}

// === impl Patience ===

impl Patience {
    /// With a new connection, whose client has something to say.
    pub(super) fn new(limits: Limits) -> Self {
        let wait = Wait::Headers(Instant::now() + limits.headers);
        let state = Arc::new(Mutex::new(State { wait, reader: None }));
        Self { limits, state }
    }

    /// Waits for nothing until the answer is dropped.
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

    /// The client has said something.
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

    /// Ready when the patience is over: with an end where nothing was begun, with an error in the middle of headers.
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
