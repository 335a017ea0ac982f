//! [`Writes`] of an operator, which the audit log of its control plane records.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use operator_apiserver::{AuditLog, AuditOptions};
use serde_json::Value;

use crate::process::objects::text;

/// A successful write.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Write {
    pub(super) verb: String,
    /// The API root, such as `apis/cache.example.com/v1` for `memcacheds/status`.
    root: String,
    pub(super) resource: String,
    subresource: String,
    namespace: String,
    name: String,
    /// True if the request created the object.
    pub(super) created: bool,
}

impl Write {
    fn of(event: &Value) -> Option<Self> {
        let at = |pointer: &str| text(event, pointer).to_owned();
        let code = event.pointer("/responseStatus/code")?.as_u64()?;
        let is_dry = text(event, "/requestURI").contains("dryRun=");
        if !(200..300).contains(&code) || is_dry {
            return None;
        }
        let version = text(event, "/objectRef/apiVersion");
        let root = match text(event, "/objectRef/apiGroup") {
            "" => format!("/api/{version}"),
            group => format!("/apis/{group}/{version}"),
        };
        let subresource = at("/objectRef/subresource");
        Some(Self {
            verb: at("/verb"),
            root,
            resource: at("/objectRef/resource"),
            namespace: at("/objectRef/namespace"),
            name: at("/objectRef/name"),
            created: code == 201 && subresource.is_empty(),
            subresource,
        })
    }

    /// Returns the path of the object, or `None` if the request had no name.
    pub(super) fn path(&self) -> Option<String> {
        let Self {
            root,
            resource,
            namespace,
            name,
            ..
        } = self;
        if name.is_empty() {
            return None;
        }
        Some(match namespace.as_str() {
            "" => format!("{root}/{resource}/{name}"),
            namespace => format!("{root}/namespaces/{namespace}/{resource}/{name}"),
        })
    }

    /// Returns the object in the form of messages.
    pub(super) fn object(&self) -> String {
        format!("{}/{}", self.resource, self.name)
    }

    /// Returns the verb, the resource and the name.
    pub(super) fn shown(&self) -> String {
        let subresource = match self.subresource.as_str() {
            "" => String::new(),
            subresource => format!("/{subresource}"),
        };
        format!("{} {}{subresource} {}", self.verb, self.resource, self.name)
    }
}

/// The recorded writes.
#[derive(Debug)]
pub(super) struct Writes {
    path: PathBuf,
    offset: u64,
    /// The beginning of a line whose end has not been written yet.
    rest: String,
    found: Vec<Write>,
}

impl Writes {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            offset: 0,
            rest: String::new(),
            found: Vec::new(),
        }
    }

    /// Returns the audit options for the writes of the service accounts of a namespace. Leases, Events and reviews are
    /// excluded, because they do not belong to the state of an operator.
    pub(super) fn audit(path: &Path, namespace: &str) -> AuditOptions {
        let policy = format!(
            "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n\
             - level: None\n  resources:\n  - {{group: \"\", resources: [events]}}\n  - {{group: events.k8s.io}}\n\
             \x20 - {{group: coordination.k8s.io}}\n  - {{group: authentication.k8s.io}}\n\
             \x20 - {{group: authorization.k8s.io}}\n\
             - level: Metadata\n  verbs: [create, update, patch, delete, deletecollection]\n\
             \x20 userGroups: [\"system:serviceaccounts:{namespace}\"]\n"
        );
        let mut options = AuditOptions::new(policy);
        options.log = Some(AuditLog::new(path));
        options
    }

    /// Reads the new lines, and returns the number of writes so far.
    pub(super) fn mark(&mut self) -> io::Result<usize> {
        let mut file = match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            file => file?,
        };
        file.seek(SeekFrom::Start(self.offset))?;
        let mut text = Vec::new();
        self.offset += file.read_to_end(&mut text)? as u64;
        self.rest += &String::from_utf8_lossy(&text);
        let end = self.rest.rfind('\n').map_or(0, |end| end + 1);
        let lines: String = self.rest.drain(..end).collect();
        let events = lines.lines().filter_map(|line| serde_json::from_str(line).ok());
        self.found
            .extend(events.filter_map(|event: Value| Write::of(&event)));
        Ok(self.found.len())
    }

    /// Returns the writes since a mark, up to the last call of `mark`.
    pub(super) fn since(&self, mark: usize) -> &[Write] {
        self.found.get(mark..).unwrap_or_default()
    }
}
