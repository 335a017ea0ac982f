//! Lists objects: revisions, selectors, pages.

use std::sync::Arc;

use apimachinery::json;
use apimachinery::object;
use apimachinery::selector::{FieldSelector, LabelSelector};
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::NO_PAD;
use base64::{Engine, alphabet};
use serde_json::Value;

use super::{Definition, Registry};
use crate::status::{self, Status};
use crate::store::{Selection, Stored};

/// The meaning of a list's revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RevisionMatch {
    #[default]
    Unset,
    NotOlderThan,
    Exact,
}

/// The options of a list or a watch.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListOptions {
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
    /// The requested revision; `None` is the most recent one.
    pub(crate) revision: Option<u64>,
    pub(crate) revision_match: RevisionMatch,
    /// The maximum number of objects; 0 means no limit.
    pub(crate) limit: usize,
    pub(crate) token: String,
}

/// One page of a list.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) revision: u64,
    pub(crate) items: Vec<Arc<Stored>>,
    /// The continue token; empty on the last page.
    pub(crate) token: String,
    pub(crate) remaining: Option<usize>,
}

impl ListOptions {
    pub(crate) fn has_selector(&self) -> bool {
        !self.labels.is_everything() || !self.fields.is_everything()
    }

    /// Returns true if an object is selected. The field labels must have been checked before.
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

    /// Returns the requested revision of a list; `None` for the current one.
    fn past_revision(&self, options: &ListOptions, start: Option<&Token>) -> Result<Option<u64>, Status> {
        if let Some(token) = start {
            if options.revision.is_some_and(|revision| revision != 0) {
                return Err(status::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            // A negative token continues from the current revision.
            let past = u64::try_from(token.revision).ok();
            let current = self.store.revision();
            return match past {
                Some(revision) if revision > current => Err(status::too_large_revision(revision, current)),
                past => Ok(past),
            };
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

    /// Returns the error of an expired token; it contains a token that continues from the current revision.
    fn expired_token(&self, token: &Token) -> Status {
        let mut expired = status::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
        );
        let fresh = Token {
            revision: -1,
            start: token.start.clone(),
            relative: token.relative.clone(),
        };
        expired.body["metadata"] = serde_json::json!({"continue": fresh.encode()});
        expired
    }
}

/// The version of the token's content.
const TOKEN_VERSION: &str = "meta.k8s.io/v1";

/// The encoding of tokens: base64 without padding; surplus bits are ignored.
const TOKENS: GeneralPurpose =
    GeneralPurpose::new(&alphabet::URL_SAFE, NO_PAD.with_decode_allow_trailing_bits(true));

/// Returns the position of a base64 error: the first invalid byte, or the start of the last four bytes.
fn corrupt_at(text: &str) -> usize {
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let foreign = text.bytes().position(|byte| !is_known(byte));
    foreign.unwrap_or(text.len() / 4 * 4)
}

/// Returns true if a key has no empty, `.` or `..` segments.
fn is_clean(key: &str) -> bool {
    let key = key.strip_prefix('/').unwrap_or(key);
    key.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

/// The start of the next page.
#[derive(Debug)]
struct Token {
    revision: i64,
    /// The first key of the page.
    start: String,
    /// The first key relative to the prefix of the list, as in the token.
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
        let body = serde_json::json!({"v": TOKEN_VERSION, "rv": self.revision, "start": self.relative});
        TOKENS.encode(body.to_string())
    }

    fn parse(text: &str, prefix: &str) -> Result<Option<Self>, Status> {
        if text.is_empty() {
            return Ok(None);
        }
        let invalid = |why: &str| {
            status::bad_request(format!(
                "invalid continue token: continue key is not valid: {why}"
            ))
        };
        let bytes = TOKENS
            .decode(text)
            .map_err(|_| invalid(&format!("illegal base64 data at input byte {}", corrupt_at(text))))?;
        let body = json::parse(&bytes).map_err(|why| invalid(&why))?.value;
        let version = object::text(&body, &["v"]);
        if version != TOKEN_VERSION {
            return Err(invalid(&format!(
                "server does not recognize this encoded version {version}"
            )));
        }
        let revision = body.get("rv").and_then(Value::as_i64).unwrap_or_default();
        let relative = object::text(&body, &["start"]);
        if revision == 0 {
            let why = format!("incorrect encoded start resourceVersion (version {TOKEN_VERSION})");
            return Err(invalid(&why));
        }
        if relative.is_empty() {
            return Err(invalid(&format!(
                "encoded start key empty (version {TOKEN_VERSION})"
            )));
        }
        if !is_clean(relative) {
            return Err(invalid(relative));
        }
        Ok(Some(Self {
            revision,
            start: format!("{prefix}{relative}"),
            relative: relative.to_owned(),
        }))
    }
}
