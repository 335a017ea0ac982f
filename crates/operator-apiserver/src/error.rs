//! Errors of building a server and of listening: [`Error`].

/// An error of building a server, or of listening.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Could not listen on the address; another program may use the port.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The requested address.
        address: std::net::SocketAddr,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The data directory could not be opened or read.
    #[error("cannot use the data directory: {0}")]
    DataDirectory(String),
    /// A key of service account tokens could not be used.
    #[error("cannot use the {which}: {problem}")]
    ServiceAccountKey {
        /// The name of the key.
        which: &'static str,
        /// The reason.
        problem: String,
    },
    /// The audit log could not be opened.
    #[error("cannot use {0}")]
    Audit(String),
    /// The authentication could not be set up.
    #[error("cannot set up authentication: {0}")]
    Authentication(String),
    /// The authorizers could not be set up.
    #[error("cannot use the authorization webhook: {0}")]
    Authorization(String),
    /// The certificates could not be created.
    #[error("cannot create the server's certificates: {0}")]
    Certificates(String),
}
