//! One write, as the HTTP layer or the in-process client describes it.

pub(crate) mod object_body;
mod warnings;

use std::sync::Arc;

use serde_json::Value;

pub(crate) use self::warnings::Warnings;
use crate::identity::authn::User;
use crate::resource::Definition;
use crate::resource::crd::conversion_memo::ConversionMemo;
use crate::status::{self, Status};

/// A write: to what, by whom, how.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) definition: Arc<Definition>,
    pub(crate) namespace: String,
    /// Empty for a create without a name in its path.
    pub(crate) name: String,
    /// Empty for the resource itself.
    pub(crate) subresource: String,
    pub(crate) user: User,
    pub(crate) manager: String,
    /// True if the managed fields are already those of the new object (server-side apply).
    pub(crate) tracked: bool,
    /// True if the request is a PUT: a uid in its body is then a precondition.
    pub(crate) replaces: bool,
    pub(crate) dry_run: bool,
    /// The options that the client gave, as an object without its type; null if there are none.
    pub(crate) options: Value,
    pub(crate) warnings: Warnings,
    /// The object is one of many that a request deletes: admission does not see its name.
    pub(crate) in_collection: bool,
    /// Conversions to the versions that managers of fields have used.
    pub(crate) conversions: Arc<ConversionMemo>,
    /// When the time of the request ends.
    pub(crate) deadline: Option<tokio::time::Instant>,
}

/// The handling of fields that a type does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    #[default]
    Warn,
    Strict,
}

impl Write {
    pub(crate) fn not_found(&self) -> Status {
        status::not_found(&self.definition.subject, &self.name)
    }

    pub(crate) fn key(&self) -> String {
        self.definition.key(&self.namespace, &self.name)
    }

    /// The conflict of a storage whose object is not the one that the writer means; `what` is `UID` or
    /// `ResourceVersion`.
    pub(crate) fn precondition_failed(&self, what: &str, wanted: &str, found: &str) -> Status {
        let (folder, key) = (self.definition.storage_folder(), self.key());
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: /registry/{folder}/{key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
        );
        status::conflict(&self.definition.subject, &self.name, &why)
    }
}
