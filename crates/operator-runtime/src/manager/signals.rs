//! [`Listener`] handles SIGINT and SIGTERM.

use std::sync::mpsc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Time for the process to end by itself.
const PATIENCE: Duration = Duration::from_secs(1);

/// Listens for signals during its lifetime, in its own thread with its own runtime, because a blocking reconcile may
/// block the runtime of the operator.
pub(super) struct Listener {
    first: oneshot::Receiver<()>,
    _stop: DropGuard,
}

impl Listener {
    /// Starts to listen. No signal is missed after this returns.
    pub(super) fn start() -> Self {
        let ((heard, first), stop) = (oneshot::channel(), CancellationToken::new());
        let (listens, is_listening) = mpsc::channel();
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().name("signals".to_owned());
        if let Err(error) = thread.spawn(move || listen(heard, &listens, &stopped)) {
            tracing::error!(%error, "Failed to install the signal handlers");
        }
        // It fails if the handler cannot be installed, which is logged.
        let _ = is_listening.recv();
        Self {
            first,
            _stop: stop.drop_guard(),
        }
    }

    /// Completes at the first signal. The second ends the process with exit code 1.
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
        Err(error) => return tracing::error!(%error, "Failed to install the signal handlers"),
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

/// Ends the process after [`PATIENCE`]. It uses its own thread, because those of the runtime may be blocked, and the
/// runtime waits for them when it is dropped.
pub(super) fn end_soon() {
    tracing::error!(
        "A reconcile or runnable blocks its thread and cannot be aborted, the process ends in {PATIENCE:?}"
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
                tracing::error!(%error, "Failed to install the handler of {name}");
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
            tracing::error!(%error, "Failed to install the handler of SIGINT");
            std::future::pending::<()>().await;
        }
    }
}
