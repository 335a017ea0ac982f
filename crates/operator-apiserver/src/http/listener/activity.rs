//! The activity of one connection: its requests in flight, and the time limits between them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;

use super::Timeouts;

/// The state of a connection.
#[derive(Clone, Copy, Debug)]
struct State {
    requests: usize,
    /// True while the head of a request is read.
    reads_head: bool,
}

/// Counts the requests of a connection. Clones are handles of the same connection.
#[derive(Clone, Debug)]
pub(super) struct Activity {
    state: Arc<watch::Sender<State>>,
    /// False for HTTP/2, whose connections also carry other frames.
    has_heads: bool,
}

impl Activity {
    /// Returns the activity of a new connection, whose first head is expected at once.
    pub(super) fn new(is_http2: bool) -> Self {
        let state = State {
            requests: 0,
            reads_head: !is_http2,
        };
        Self {
            state: Arc::new(watch::Sender::new(state)),
            has_heads: !is_http2,
        }
    }

    pub(super) fn begin(&self) -> Active {
        self.state.send_modify(|state| {
            state.requests += 1;
            state.reads_head = false;
        });
        Active(self.clone())
    }

    /// Records that bytes were read: between requests, they start a head.
    fn read(&self) {
        if self.has_heads {
            self.state.send_if_modified(|state| {
                let begins = state.requests == 0 && !state.reads_head;
                state.reads_head |= begins;
                begins
            });
        }
    }

    /// Waits until a head took too long, or no request was in flight for too long.
    pub(super) async fn is_idle(&self, timeouts: &Timeouts) {
        let mut state = self.state.subscribe();
        loop {
            let State { requests, reads_head } = *state.borrow_and_update();
            let changed = match (requests, reads_head) {
                (0, true) => tokio::time::timeout(timeouts.header, state.changed()).await,
                (0, false) => tokio::time::timeout(timeouts.idle, state.changed()).await,
                _ => Ok(state.changed().await),
            };
            if !matches!(changed, Ok(Ok(()))) {
                return;
            }
        }
    }
}

/// A request in flight, until the last byte of its response is written or the client disconnects.
pub(super) struct Active(Activity);

impl Drop for Active {
    fn drop(&mut self) {
        let state = &self.0.state;
        state.send_modify(|state| state.requests = state.requests.saturating_sub(1));
    }
}

/// A stream that records when its client sends something.
pub(super) struct Observed<S> {
    stream: S,
    activity: Activity,
}

impl<S> Observed<S> {
    pub(super) fn new(stream: S, activity: Activity) -> Self {
        Self { stream, activity }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Observed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.activity.read();
        }
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Observed<S> {
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
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
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
