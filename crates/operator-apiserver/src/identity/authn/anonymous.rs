//! Anonymous requests: allowed, rejected, or allowed for some paths only.

/// The requests without credentials that are allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Anonymous {
    /// All requests.
    All,
    /// No requests.
    Nothing,
    /// Requests for exactly these paths.
    Paths(Vec<String>),
}

impl Anonymous {
    /// Returns true if a request without credentials is allowed.
    pub(crate) fn allows(&self, path: &str) -> bool {
        match self {
            Self::All => true,
            Self::Nothing => false,
            Self::Paths(paths) => paths.iter().any(|known| known == path),
        }
    }
}
