//! SIGINT and SIGTERM.

/// Ready at the first signal; the second ends the process with exit code 1.
pub(super) async fn shutdown() {
    next().await;
    tracing::info!("Stopping; a second signal ends the process at once");
    tokio::spawn(async {
        next().await;
        std::process::exit(1);
    });
}

#[cfg(unix)]
async fn next() {
    use tokio::signal::unix::{SignalKind, signal};

    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! {
                () = interrupt() => {}
                _ = terminate.recv() => {}
            }
        }
        Err(error) => {
            tracing::error!(%error, "SIGTERM cannot be caught");
            interrupt().await;
        }
    }
}

#[cfg(not(unix))]
async fn next() {
    interrupt().await;
}

async fn interrupt() {
    if let Err(error) = tokio::signal::ctrl_c().await {
        tracing::error!(%error, "SIGINT cannot be caught");
        std::future::pending::<()>().await;
    }
}
