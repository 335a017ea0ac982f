//! Who sends a request.

/// The user of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) groups: Vec<String>,
}

/// The group whose members may do everything.
pub(crate) const MASTERS: &str = "system:masters";

impl User {
    /// The administrator: requests inside the process.
    pub(crate) fn admin() -> Self {
        Self {
            name: "kubernetes-admin".to_owned(),
            groups: vec![MASTERS.to_owned(), "system:authenticated".to_owned()],
        }
    }

    /// A request over the network without credentials.
    pub(crate) fn anonymous() -> Self {
        Self {
            name: "system:anonymous".to_owned(),
            groups: vec!["system:unauthenticated".to_owned()],
        }
    }

    /// The user that a client certificate names: the common name, with the organisations as groups.
    pub(crate) fn from_certificate(der: &[u8]) -> Option<Self> {
        let (_, certificate) = x509_parser::parse_x509_certificate(der).ok()?;
        let subject = certificate.subject();
        let name = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
        let mut groups: Vec<String> = subject
            .iter_organization()
            .filter_map(|organization| organization.as_str().ok())
            .map(str::to_owned)
            .collect();
        groups.push("system:authenticated".to_owned());
        Some(Self { name, groups })
    }

    pub(crate) fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }
}
