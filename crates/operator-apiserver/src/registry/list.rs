//! Listing objects: revisions, selectors, pages.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::{Definition, Registry};
use crate::selector::{FieldSelector, LabelSelector};
use crate::status::{self, Status};
use crate::store::{Selection, Stored};

/// How the revision of a list is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RevisionMatch {
    #[default]
    Unset,
    NotOlderThan,
    Exact,
}

/// What a list or a watch asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListOptions {
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
    /// `None` is the most recent.
    pub(crate) revision: Option<u64>,
    pub(crate) revision_match: RevisionMatch,
    /// 0 is no limit.
    pub(crate) limit: usize,
    pub(crate) token: String,
}

/// One page of a list.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) revision: u64,
    pub(crate) items: Vec<Arc<Stored>>,
    /// Empty on the last page.
    pub(crate) token: String,
    pub(crate) remaining: Option<usize>,
}

impl ListOptions {
    pub(crate) fn has_selector(&self) -> bool {
        !self.labels.is_everything() || !self.fields.is_everything()
    }

    /// Whether an object is selected. Field labels must have been checked before.
    pub(crate) fn matches(&self, definition: &Definition, object: &Value) -> bool {
        self.labels.matches(object) && self.fields_match(definition, object)
    }

    fn fields_match(&self, definition: &Definition, object: &Value) -> bool {
        self.fields.terms.iter().all(|term| {
            let value = definition.field_label(object, &term.field).unwrap_or_default();
            (value == term.value) == term.equal
        })
    }
}

const LIST_EXPIRED: &str = "The resourceVersion for the provided list is too old.";

impl Registry {
    pub(crate) fn list(
        &self,
        definition: &Definition,
        namespace: &str,
        options: &ListOptions,
    ) -> Result<Page, Status> {
        let prefix = definition.key_prefix(namespace);
        let start = Token::parse(&options.token, &prefix)?;
        let limit = match options.limit {
            0 => None,
            _ if options.revision == Some(0) && start.is_none() => None,
            limit => Some(limit),
        };
        let selection = Selection {
            prefix: &prefix,
            start: start.as_ref().map_or("", |token| &token.start),
            limit: limit.filter(|_| !options.has_selector()),
            revision: self.past_revision(options, start.as_ref())?,
        };
        let listing = self.store.select(&definition.table, selection);
        let mut listing = listing.map_err(|_| match &start {
            Some(token) => self.expired_token(token),
            None => status::expired(LIST_EXPIRED),
        })?;
        let mut remaining = (!options.has_selector()).then_some(listing.remaining);
        let mut more = listing.remaining > 0;
        if options.has_selector() {
            listing
                .objects
                .retain(|object| options.matches(definition, &object.value));
            let limit = limit.unwrap_or(usize::MAX);
            more = listing.objects.len() > limit;
            listing.objects.truncate(limit);
        }
        let mut token = String::new();
        if !more {
            remaining = None;
        } else if let Some(last) = listing.objects.last() {
            token = Token::after(listing.revision, &last.key, &prefix);
        }
        Ok(Page {
            revision: listing.revision,
            items: listing.objects,
            token,
            remaining,
        })
    }

    /// The revision that a list has to show; `None` for the present.
    fn past_revision(&self, options: &ListOptions, start: Option<&Token>) -> Result<Option<u64>, Status> {
        if let Some(token) = start {
            // A token below zero goes on from the present.
            return Ok(u64::try_from(token.revision).ok());
        }
        let Some(revision) = options.revision.filter(|revision| *revision > 0) else {
            return Ok(None);
        };
        let exact = options.revision_match == RevisionMatch::Exact
            || (options.revision_match == RevisionMatch::Unset && options.limit > 0);
        let current = self.store.revision();
        if revision > current {
            return Err(status::too_large_revision(revision, current));
        }
        Ok(exact.then_some(revision))
    }

    /// The answer to a token beyond the horizon; it offers a token that goes on from the present.
    fn expired_token(&self, token: &Token) -> Status {
        let mut expired = status::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
        );
        let fresh = Token {
            revision: -1,
            start: token.start.clone(),
            relative: token.relative.clone(),
        };
        expired.body["metadata"] = json!({"continue": fresh.encode()});
        expired
    }
}

/// Where the next page begins.
#[derive(Debug)]
struct Token {
    revision: i64,
    /// The first key that may appear.
    start: String,
    /// The same below the prefix of the list: what the token says.
    relative: String,
}

impl Token {
    fn after(revision: u64, last: &str, prefix: &str) -> String {
        let relative = last.strip_prefix(prefix).unwrap_or(last);
        Self {
            revision: i64::try_from(revision).unwrap_or(i64::MAX),
            start: String::new(),
            relative: format!("{relative}\0"),
        }
        .encode()
    }

    fn encode(&self) -> String {
        let body = json!({"v": "meta.k8s.io/v1", "rv": self.revision, "start": self.relative});
        BASE64_URL_SAFE_NO_PAD.encode(body.to_string())
    }

    fn parse(text: &str, prefix: &str) -> Result<Option<Self>, Status> {
        if text.is_empty() {
            return Ok(None);
        }
        let invalid = |why: &str| status::bad_request(format!("continue key is not valid: {why}"));
        let bytes = BASE64_URL_SAFE_NO_PAD
            .decode(text.trim_end_matches('='))
            .map_err(|error| invalid(&error.to_string()))?;
        let body: Value = serde_json::from_slice(&bytes).map_err(|error| invalid(&error.to_string()))?;
        if body.get("v").and_then(Value::as_str) != Some("meta.k8s.io/v1") {
            return Err(invalid("server does not recognize this encoded version"));
        }
        let revision = body.get("rv").and_then(Value::as_i64).unwrap_or_default();
        let relative = body.get("start").and_then(Value::as_str).unwrap_or_default();
        if revision == 0 {
            return Err(invalid("incorrect encoded start resourceVersion"));
        }
        if relative.is_empty() {
            return Err(invalid("encoded start key empty"));
        }
        Ok(Some(Self {
            revision,
            start: format!("{prefix}{relative}"),
            relative: relative.to_owned(),
        }))
    }
}
