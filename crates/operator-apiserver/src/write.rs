//! The description of one write by the HTTP layer or the in-process client ([`Write`]).

pub(crate) mod object_body;
mod warnings;

use std::sync::{Arc, OnceLock};

use apimachinery::object;
use serde_json::Value;

pub(crate) use self::warnings::Warnings;
use crate::identity::authn::User;
use crate::identity::authz::DecisionMemo;
use crate::resource::Definition;
use crate::resource::crd::conversion_memo::ConversionMemo;
use crate::status::{self, Status};

/// A write: its target, user and options.
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
    /// True if the object is one of many that a request deletes: admission does not see its name.
    pub(crate) in_collection: bool,
    /// Conversions to the versions of field managers.
    pub(crate) conversions: Arc<ConversionMemo>,
    /// Decisions of authorization webhooks that policies ask for.
    pub(crate) decisions: Arc<DecisionMemo>,
    /// The name of the object of a create before admission changed it; empty if there was none.
    pub(crate) requested_name: OnceLock<String>,
    /// The deadline of the request.
    pub(crate) deadline: Option<tokio::time::Instant>,
}

/// The handling of unknown fields.
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

    /// Returns the name in the path, or the name of the object of a create before admission changed it.
    pub(crate) fn admitted_name(&self) -> &str {
        match self.name.as_str() {
            "" => self.requested_name.get().map_or("", String::as_str),
            name => name,
        }
    }

    /// Returns a rejection with the text of admission. `object` is the requested object, which may have no name yet.
    pub(crate) fn forbidden(&self, object: Option<&Value>, why: &str) -> Status {
        let of_object = |field| object.map(|object| object::text(object, &["metadata", field]));
        // The objects of a collection are deleted without their names.
        let own = Some(self.admitted_name()).filter(|_| !self.in_collection);
        let names = [own, of_object("name"), of_object("generateName")];
        let name = names.into_iter().flatten().find(|name| !name.is_empty());
        status::forbidden(&self.definition.subject, name.unwrap_or("Unknown"), why)
    }

    /// Returns the storage's conflict for an object whose `UID` or `ResourceVersion` (`what`) is not the wanted one.
    pub(crate) fn precondition_failed(&self, what: &str, wanted: &str, found: &str) -> Status {
        let (folder, key) = (self.definition.storage_folder(), self.key());
        // A dry run is checked before the keys get their prefix.
        let prefix = if self.dry_run { "" } else { "/registry" };
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {prefix}/{folder}/{key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
        );
        status::conflict(&self.definition.subject, &self.name, &why)
    }
}
