//! Anonymous requests: allowed, not allowed, or only for some paths.

/// The requests without credentials that are answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Anonymous {
    /// All of them.
    All,
    /// None of them.
    Nothing,
    /// Those for exactly these paths.
    Paths(Vec<String>),
}

impl Anonymous {
    /// Returns true if a request without credentials is answered.
    pub(crate) fn allows(&self, path: &str) -> bool {
        match self {
            Self::All => true,
            Self::Nothing => false,
            Self::Paths(paths) => paths.iter().any(|known| known == path),
        }
    }
}
