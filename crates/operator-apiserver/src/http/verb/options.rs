//! Query parameters as options.

use apimachinery::field::{Error, Path};
use apimachinery::go;
use http::header::USER_AGENT;
use serde_json::Value;

use super::patch;
use crate::http::call::Call;
use crate::patch::managed_fields;
use crate::registry::{ListOptions, RevisionMatch};
use crate::resource::Definition;
use crate::status::{self, NamedResource, Status};
use crate::write::FieldValidation;

/// Returns `fieldManager`, or the default: the start of the user agent.
pub(crate) fn field_manager(call: &Call) -> String {
    let given = call.query.text("fieldManager");
    if !given.is_empty() {
        return given.to_owned();
    }
    let agent = call.header(USER_AGENT);
    let prefix = agent.split('/').next().unwrap_or_default();
    if prefix.is_empty() {
        "unknown".to_owned()
    } else {
        prefix.chars().take(128).collect()
    }
}

/// Returns the subject of errors about options: `CreateOptions.meta.k8s.io`.
fn options_subject(kind: &str) -> NamedResource {
    NamedResource {
        group: "meta.k8s.io".to_owned(),
        resource: String::new(),
        kind: kind.to_owned(),
    }
}

fn options_kind(call: &Call) -> &'static str {
    match call.info.verb {
        "create" => "CreateOptions",
        "update" => "UpdateOptions",
        "patch" => "PatchOptions",
        _ => "DeleteOptions",
    }
}

fn refuse(call: &Call, errors: &[Error]) -> Status {
    status::invalid(&options_subject(options_kind(call)), "", errors)
}

fn refuse_list(errors: &[Error]) -> Status {
    status::invalid(&options_subject("ListOptions"), "", errors)
}

/// Checks the options in the query of a create, an update or a patch, and reports all errors.
pub(crate) fn check(call: &Call) -> Result<(), Status> {
    let manager = call.query.text("fieldManager");
    let mut errors = Vec::new();
    if call.info.verb == "patch" {
        errors.extend(check_patch(call, manager));
    }
    errors.extend(managed_fields::validate_manager(
        || Path::new("fieldManager"),
        manager,
    ));
    errors.extend(check_dry_run(&dry_runs(call)));
    errors.extend(check_validation(call.query.text("fieldValidation")));
    if errors.is_empty() {
        Ok(())
    } else {
        Err(refuse(call, &errors))
    }
}

/// Checks that an apply has a field manager, and that other patches are not forced.
fn check_patch(call: &Call, manager: &str) -> Option<Error> {
    if patch::is_apply(call) {
        let required = || Error::required(Path::new("fieldManager"), "is required for apply patch");
        return manager.is_empty().then(required);
    }
    let forced = call.query.get("force").is_some();
    forced.then(|| Error::forbidden(Path::new("force"), "may not be specified for non-apply patch"))
}

fn check_dry_run(values: &[Value]) -> Option<Error> {
    let unknown = values.iter().any(|value| value != "All");
    unknown.then(|| Error::not_supported(Path::new("dryRun"), &values.to_vec().into(), &["All"]))
}

fn check_validation(given: &str) -> Option<Error> {
    let supported = ["", "Ignore", "Strict", "Warn"];
    let unknown = !supported.contains(&given);
    unknown.then(|| Error::not_supported(Path::new("fieldValidation"), &given.into(), &supported))
}

/// Returns the values of `dryRun` in the query.
pub(crate) fn dry_runs(call: &Call) -> Vec<Value> {
    call.query.all("dryRun").map(Into::into).collect()
}

/// Returns the options of a write from the query as an object.
pub(crate) fn given(call: &Call) -> Value {
    let mut options = serde_json::Map::new();
    for field in ["fieldManager", "fieldValidation"] {
        if let Some(value) = call.query.get(field).filter(|value| !value.is_empty()) {
            options.insert(field.to_owned(), value.into());
        }
    }
    if let Some(value) = call.query.get("dryRun") {
        options.insert("dryRun".to_owned(), vec![value].into());
    }
    Value::Object(options)
}

/// Returns the field validation that the query requests, which [`check`] has validated.
pub(crate) fn field_validation(call: &Call) -> FieldValidation {
    match call.query.text("fieldValidation") {
        "Ignore" => FieldValidation::Ignore,
        "Strict" => FieldValidation::Strict,
        _ => FieldValidation::Warn,
    }
}

/// The options that a watch has in addition to those of a list.
#[derive(Clone, Debug, Default)]
pub(crate) struct WatchOptions {
    pub(crate) bookmarks: bool,
    pub(crate) send_initial_events: Option<bool>,
    pub(crate) timeout_seconds: Option<u64>,
}

/// Parses the options of a list or a watch.
pub(crate) fn list_options(call: &Call, definition: &Definition) -> Result<ListOptions, Status> {
    let query = &call.query;
    let limit = integer(call, "limit")?.unwrap_or_default();
    integer(call, "timeoutSeconds")?;
    let labels = query
        .text("labelSelector")
        .parse()
        .map_err(|error: String| status::bad_request(error))?;
    let fields: apimachinery::selector::FieldSelector = query
        .text("fieldSelector")
        .parse()
        .map_err(|error: String| status::bad_request(error))?;
    let revision_match = revision_match(call)?;
    for term in &fields.terms {
        definition
            .field_label(&serde_json::Value::Null, &term.field)
            .map_err(status::bad_request)?;
    }
    let token = query.text("continue").to_owned();
    let text = query.text("resourceVersion");
    let revision = if text.is_empty() {
        None
    } else {
        Some(parse_revision(call, text)?)
    };
    Ok(ListOptions {
        labels,
        fields,
        revision,
        revision_match,
        limit: usize::try_from(limit).unwrap_or_default(),
        token,
    })
}

/// Parses a number parameter, with the errors of Go's `strconv`.
pub(crate) fn integer(call: &Call, name: &str) -> Result<Option<i64>, Status> {
    let text = call.query.get(name);
    text.map(go::parse_int).transpose().map_err(status::bad_request)
}

fn revision_match(call: &Call) -> Result<RevisionMatch, Status> {
    let query = &call.query;
    let wanted = query.text("resourceVersionMatch");
    let parsed = match wanted {
        "NotOlderThan" => Some(RevisionMatch::NotOlderThan),
        "Exact" => Some(RevisionMatch::Exact),
        _ => None,
    };
    if call.info.verb == "watch" {
        if !query.text("continue").is_empty() {
            // The API server names this field even if it is missing.
            let why = "resourceVersionMatch is forbidden when continue is provided";
            let error = Error::forbidden(Path::new("resourceVersionMatch"), why);
            return Err(refuse_list(&[error]));
        }
        return Ok(parsed.unwrap_or_default());
    }
    let revision = query.text("resourceVersion");
    let path = Path::new("resourceVersionMatch");
    let mut errors = Vec::new();
    if query.get("sendInitialEvents").is_some() {
        let why = "sendInitialEvents is forbidden for list";
        errors.push(Error::forbidden(Path::new("sendInitialEvents"), why));
    }
    if !wanted.is_empty() {
        if revision.is_empty() {
            let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            errors.push(Error::forbidden(path.clone(), why));
        }
        if !query.text("continue").is_empty() {
            let why = "resourceVersionMatch is forbidden when continue is provided";
            errors.push(Error::forbidden(path.clone(), why));
        }
        if parsed.is_none() {
            let supported = ["Exact", "NotOlderThan", ""];
            errors.push(Error::not_supported(path.clone(), &wanted.into(), &supported));
        }
        if parsed == Some(RevisionMatch::Exact) && revision == "0" {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            errors.push(Error::forbidden(path, why));
        }
    }
    if errors.is_empty() {
        Ok(parsed.unwrap_or_default())
    } else {
        Err(refuse_list(&errors))
    }
}

/// Parses the parameter `resourceVersion`; the error is 400 for lists and for events, which a real server does not cache,
/// and 500 otherwise.
pub(crate) fn parse_revision(call: &Call, text: &str) -> Result<u64, Status> {
    go::parse_uint(text).map_err(|why| {
        let message = format!("resourceVersion: Invalid value: {}: {why}", go::quote(text));
        let is_event = call.info.verb == "get" && call.info.resource == "events";
        if is_event || matches!(call.info.verb, "list" | "deletecollection") {
            status::bad_request(format!("invalid resource version: {message}"))
        } else {
            status::plain(message)
        }
    })
}

/// Parses the options of a watch. `is_listing` is false if the feature gate of initial events is off.
pub(crate) fn watch_options(call: &Call, is_listing: bool) -> Result<WatchOptions, Status> {
    let query = &call.query;
    let timeout = integer(call, "timeoutSeconds")?;
    let send = query
        .get("sendInitialEvents")
        .map(|_| query.flag("sendInitialEvents"));
    if send.is_some() && !is_listing {
        return Err(refuse_list(&[Error::forbidden(
            Path::new("sendInitialEvents"),
            "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
        )]));
    }
    let matches = query.text("resourceVersionMatch");
    let path = Path::new("resourceVersionMatch");
    if send.is_some() && matches != "NotOlderThan" {
        let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        let mut errors = vec![Error::forbidden(path.clone(), why)];
        if !matches.is_empty() {
            errors.push(Error::not_supported(path, &matches.into(), &["NotOlderThan"]));
        }
        return Err(refuse_list(&errors));
    }
    if send.is_none() && !matches.is_empty() {
        return Err(refuse_list(&[Error::forbidden(
            path,
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        )]));
    }
    Ok(WatchOptions {
        bookmarks: query.flag("allowWatchBookmarks"),
        send_initial_events: send,
        timeout_seconds: timeout
            .and_then(|seconds| u64::try_from(seconds).ok())
            .filter(|seconds| *seconds > 0),
    })
}

const POLICIES: [&str; 3] = ["Foreground", "Background", "Orphan"];

/// Checks the options of a delete.
pub(crate) fn check_delete(call: &Call, options: &Value) -> Result<(), Status> {
    let path = Path::new("propagationPolicy");
    let mut errors = Vec::new();
    let policy = options.get("propagationPolicy").and_then(Value::as_str);
    let both = policy.is_some() && options.get("orphanDependents").is_some_and(Value::is_boolean);
    if let Some(policy) = policy {
        if both {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(Error::invalid(path.clone(), policy.into(), why));
        }
        if !POLICIES.contains(&policy) {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            errors.push(Error::not_supported(path, &policy.into(), &supported));
        }
    }
    let dry_runs = options.get("dryRun").and_then(Value::as_array);
    errors.extend(check_dry_run(dry_runs.map_or(&[], Vec::as_slice)));
    if errors.is_empty() {
        Ok(())
    } else {
        Err(refuse(call, &errors))
    }
}
