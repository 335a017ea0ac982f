//! SIGINT and SIGTERM.

use std::sync::mpsc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};

/// How long a process may take to end by itself.
const PATIENCE: Duration = Duration::from_secs(1);

/// Listens for signals for as long as it lives, in a thread of its own with a runtime of its own: a reconcile that blocks
/// its thread may keep the runtime of the operator from hearing anything.
pub(super) struct Listener {
    first: oneshot::Receiver<()>,
    _stop: DropGuard,
}

impl Listener {
    /// From when this returns on no signal is missed.
    pub(super) fn start() -> Self {
        let ((heard, first), stop) = (oneshot::channel(), CancellationToken::new());
        let (listens, is_listening) = mpsc::channel();
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().name("signals".to_owned());
        if let Err(error) = thread.spawn(move || listen(heard, &listens, &stopped)) {
            tracing::error!(%error, "Signals cannot be caught");
        }
        // It fails if nobody can listen, which was told.
        let _ = is_listening.recv();
        Self {
            first,
            _stop: stop.drop_guard(),
        }
    }

    /// Ready at the first signal; the second ends the process with exit code 1.
    pub(super) async fn shutdown(&mut self) {
        if (&mut self.first).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

fn listen(heard: oneshot::Sender<()>, listens: &mpsc::Sender<()>, stop: &CancellationToken) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return tracing::error!(%error, "Signals cannot be caught"),
    };
    runtime.block_on(stop.run_until_cancelled(async {
        let mut signals = Signals::new();
        let _ = listens.send(());
        signals.next().await;
        tracing::info!("Stopping; a second signal ends the process at once");
        // The manager may have ended.
        let _ = heard.send(());
        signals.next().await;
        std::process::exit(1);
    }));
}

/// Ends the process in a moment, should it still be there. A thread of its own does that, since those of the runtime may
/// be blocked, and the runtime waits for them when it is dropped.
pub(super) fn end_soon() {
    tracing::error!(
        "A reconcile or a runnable blocks its thread and cannot be aborted; the process ends in {PATIENCE:?}"
    );
    std::thread::spawn(|| {
        std::thread::sleep(PATIENCE);
        std::process::exit(1);
    });
}

#[cfg(unix)]
struct Signals {
    terminate: Option<tokio::signal::unix::Signal>,
    interrupt: Option<tokio::signal::unix::Signal>,
}

#[cfg(unix)]
impl Signals {
    fn new() -> Self {
        use tokio::signal::unix::{SignalKind, signal};

        let open = |kind, name| match signal(kind) {
            Ok(stream) => Some(stream),
            Err(error) => {
                tracing::error!(%error, "{name} cannot be caught");
                None
            }
        };
        Self {
            terminate: open(SignalKind::terminate(), "SIGTERM"),
            interrupt: open(SignalKind::interrupt(), "SIGINT"),
        }
    }

    async fn next(&mut self) {
        tokio::select! {
            () = received(&mut self.terminate) => {}
            () = received(&mut self.interrupt) => {}
        }
    }
}

#[cfg(unix)]
async fn received(stream: &mut Option<tokio::signal::unix::Signal>) {
    let signal = match stream {
        Some(stream) => stream.recv().await,
        None => None,
    };
    if signal.is_none() {
        std::future::pending::<()>().await;
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> Self {
        Self
    }

    async fn next(&mut self) {
        if let Err(error) = tokio::signal::ctrl_c().await {
            tracing::error!(%error, "SIGINT cannot be caught");
            std::future::pending::<()>().await;
        }
    }
}
