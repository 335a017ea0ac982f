//! Why a server cannot be built, or cannot listen.

/// Why a server could not be made, or could not listen.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address could not be listened on; another program may have the port.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address that was asked for.
        address: std::net::SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// The data directory could not be opened or read.
    #[error("cannot use the data directory: {0}")]
    DataDirectory(String),
    /// A key of service account tokens could not be used.
    #[error("cannot use the {which}: {problem}")]
    ServiceAccountKey {
        /// Which one.
        which: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// The audit log cannot be kept.
    #[error("cannot use {0}")]
    Audit(String),
    /// The certificates could not be made.
    #[error("cannot make the server's certificates: {0}")]
    Certificates(String),
}
