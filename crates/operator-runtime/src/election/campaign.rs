//! [`Campaign`]: an election for a manager, in its own task. The task renews independently of the manager, which may
//! drop the future of a call and call again.

use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use super::{ElectionError, Leadership};
use crate::error::{Error, Result};

#[derive(Debug)]
pub(super) struct Campaign {
    leadership: watch::Receiver<Leadership>,
    stop: CancellationToken,
    /// `None` after the end.
    task: Option<JoinHandle<Result<(), ElectionError>>>,
}

// === impl Campaign ===

impl Campaign {
    /// Runs a campaign until it ends or its token is cancelled.
    pub(super) fn start<R>(
        leadership: watch::Receiver<Leadership>,
        run: impl FnOnce(CancellationToken) -> R,
    ) -> Self
    where
        R: Future<Output = Result<(), ElectionError>> + Send + 'static,
    {
        let stop = CancellationToken::new();
        let task = Some(tokio::spawn(run(stop.clone())));
        Self {
            leadership,
            stop,
            task,
        }
    }

    /// Waits until this instance leads.
    pub(super) async fn acquire(&mut self) -> Result<()> {
        let mut leadership = self.leadership.clone();
        tokio::select! {
            biased;
            error = self.ended() => Err(error),
            Ok(_) = leadership.wait_for(Leadership::is_leader) => Ok(()),
        }
    }

    /// Waits until this instance no longer leads, and returns the reason.
    pub(super) async fn keep(&mut self) -> Error {
        self.ended().await
    }

    /// Ends the campaign and releases the lease.
    pub(super) async fn release(&mut self) {
        self.stop.cancel();
        if self.task.is_some() {
            let ended = self.ended().await;
            tracing::debug!(reason = %ended, "Leader election over");
        }
    }

    async fn ended(&mut self) -> Error {
        let Some(task) = &mut self.task else {
            return ElectionError::Lost("the campaign is over").into();
        };
        let ended = task.await;
        self.task = None;
        reason(ended)
    }
}

impl Drop for Campaign {
    /// A campaign without an owner must release the lease.
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

fn reason(ended: Result<Result<(), ElectionError>, JoinError>) -> Error {
    match ended {
        Ok(Ok(())) => ElectionError::Lost("the campaign was stopped").into(),
        Ok(Err(error)) => error.into(),
        Err(error) => error.into(),
    }
}
