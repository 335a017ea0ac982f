//! DELETE of an object or of a collection.

use std::sync::Arc;

use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::Value;

use super::{options, render, warned, write};
use crate::call::{Answer, Call};
use crate::negotiate::Form;
use crate::negotiate::body::{self, Media};
use crate::object;
use crate::registry::{Definition, DeleteOptions, Page, Registry, Write};
use crate::status::{self, Status};

pub(super) async fn serve(
    registry: &Registry,
    call: &Call,
    definition: &Arc<Definition>,
    form: Form,
) -> Result<Answer, Status> {
    let mut write = write(call, definition)?;
    let options = delete_options(call, &mut write)?;
    let deleted = registry.delete(&write, &options).await?;
    let answer = if deleted.gone && !definition.returns_deleted_object() {
        let uid = object::uid(&deleted.object);
        let body = status::deleted(&definition.subject, &write.name, uid);
        Answer::object(StatusCode::OK, &body, form)
    } else {
        render::object(registry, call, definition, form, StatusCode::OK, &deleted.object)?
    };
    Ok(warned(answer, &write))
}

/// Deletes what a list would show, one by one, and answers with the list.
pub(super) async fn serve_collection(
    registry: &Registry,
    call: &Call,
    definition: &Arc<Definition>,
    form: Form,
) -> Result<Answer, Status> {
    let mut write = write(call, definition)?;
    let delete_options = delete_options(call, &mut write)?;
    let options = options::list_options(call, definition)?;
    let mut page: Page = registry.list(definition, &call.info.namespace, &options)?;
    for stored in &page.items {
        let one = Write {
            definition: definition.clone(),
            namespace: object::namespace(&stored.value).to_owned(),
            name: object::name(&stored.value).to_owned(),
            subresource: String::new(),
            user: write.user.clone(),
            manager: write.manager.clone(),
            tracked: false,
            dry_run: write.dry_run,
            warnings: Default::default(),
        };
        match registry.delete(&one, &delete_options).await {
            Err(missing) if missing.code == 404 => {}
            result => drop(result?),
        }
    }
    page.remaining = None;
    page.token = String::new();
    let answer = render::list(registry, call, definition, form, &page)?;
    Ok(warned(answer, &write))
}

/// The options in the body; without a body, those in the query.
fn delete_options(call: &Call, write: &mut Write) -> Result<DeleteOptions, Status> {
    if call.body.is_empty() {
        let query = &call.query;
        return Ok(DeleteOptions {
            grace_period_seconds: query.text("gracePeriodSeconds").parse().ok(),
            propagation_policy: query
                .get("propagationPolicy")
                .map(str::to_owned)
                .or_else(|| orphan_policy(query.get("orphanDependents")?)),
            uid: None,
            resource_version: None,
        });
    }
    let media = Media::parse(call.header(CONTENT_TYPE), false)?;
    let decoded =
        body::decode(&call.body, media, ("v1", "DeleteOptions")).map_err(|why| status::bad_request(why))?;
    let body = decoded.value;
    if body
        .get("dryRun")
        .and_then(Value::as_array)
        .is_some_and(|list| !list.is_empty())
    {
        write.dry_run = true;
    }
    let text = |path: &[&str]| {
        object::get(&body, path)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    Ok(DeleteOptions {
        grace_period_seconds: body.get("gracePeriodSeconds").and_then(Value::as_i64),
        propagation_policy: text(&["propagationPolicy"]).or_else(|| {
            let orphan = body.get("orphanDependents")?.as_bool()?;
            orphan_policy(if orphan { "true" } else { "false" })
        }),
        uid: text(&["preconditions", "uid"]),
        resource_version: text(&["preconditions", "resourceVersion"]),
    })
}

fn orphan_policy(orphan: &str) -> Option<String> {
    let policy = if orphan == "true" { "Orphan" } else { "Background" };
    Some(policy.to_owned())
}
