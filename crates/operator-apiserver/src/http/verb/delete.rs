//! DELETE of an object or of a collection.

use std::sync::Arc;

use apimachinery::go;
use apimachinery::object;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};

use super::{options, render, write};
use crate::codec::Form;
use crate::codec::body::{self, Media};
use crate::http::call::{Answer, Call};
use crate::http::router;
use crate::registry::{DeleteOptions, Page, Registry};
use crate::resource::Definition;
use crate::resource::crd::conversion;
use crate::status::{self, Status};
use crate::write::Write;

pub(super) async fn serve(
    registry: &Registry,
    call: &Call,
    definition: &Arc<Definition>,
    form: Form,
) -> Result<Answer, Status> {
    let mut write = write(call, definition)?;
    let options = delete_options(call, &mut write)?;
    let deleted = registry.delete(&write, &options).await?;
    if write.dry_run && deleted.gone && !object::finalizers(&deleted.object).is_empty() {
        let empty = Arc::new(not_computed(definition));
        return render::object(registry, call, definition, form, StatusCode::OK, &empty);
    }
    if deleted.gone && !definition.returns_deleted_object() {
        let uid = object::uid(&deleted.object);
        let body = status::deleted(&definition.subject, &write.name, uid);
        Ok(Answer::object(StatusCode::OK, &body, form))
    } else {
        // If the client uses the deprecated option for dependents, an incomplete deletion returns 202.
        let waits = write.options.get("orphanDependents") == Some(&Value::Bool(false)) && !deleted.gone;
        let code = if waits {
            StatusCode::ACCEPTED
        } else {
            StatusCode::OK
        };
        render::object(registry, call, definition, form, code, &deleted.object)
    }
}

/// Returns the response to a dry run in which the policy removes the last finalizers. The API server does not compute the
/// object, and writes its internal type without any field.
fn not_computed(definition: &Definition) -> Value {
    let mut empty = definition.empty_object();
    match (
        definition.subject.group.as_str(),
        definition.subject.resource.as_str(),
    ) {
        // Only the internal types of these kinds always have a number.
        ("apps", "deployments" | "replicasets" | "statefulsets") => {
            object::child_mut(&mut empty, "spec").insert("replicas".to_owned(), 0.into());
        }
        ("apps", "daemonsets") => {
            let annotations = json!({"deprecated.daemonset.template.generation": "0"});
            object::set_meta(&mut empty, "annotations", Some(annotations));
        }
        _ => {}
    }
    empty
}

/// Deletes the objects of a list, one by one, and returns the list.
pub(super) async fn serve_collection(
    registry: &Registry,
    call: &Call,
    definition: &Arc<Definition>,
    form: Form,
) -> Result<Answer, Status> {
    let mut write = write(call, definition)?;
    let options = options::list_options(call, definition)?;
    let delete_options = delete_options(call, &mut write)?;
    let mut page: Page = registry.list(definition, &call.info.namespace, &options)?;
    if definition.namespaced && call.info.namespace.is_empty() && !page.items.is_empty() {
        return Err(router::no_namespace());
    }
    let stored = page.items.iter().map(|stored| &stored.value);
    conversion::prepare(&registry.converter, definition, stored).await?;
    for stored in &page.items {
        let one = Write {
            definition: definition.clone(),
            namespace: object::namespace(&stored.value).to_owned(),
            name: object::name(&stored.value).to_owned(),
            subresource: String::new(),
            user: write.user.clone(),
            manager: write.manager.clone(),
            tracked: false,
            replaces: false,
            dry_run: write.dry_run,
            options: write.options.clone(),
            warnings: write.warnings.clone(),
            in_collection: true,
            conversions: Arc::default(),
            decisions: Arc::default(),
            requested_name: Default::default(),
            deadline: write.deadline,
        };
        match registry.delete(&one, &delete_options).await {
            Err(missing) if missing.code == 404 => {}
            result => drop(result?),
        }
    }
    page.token = String::new();
    render::list(registry, call, definition, form, &page)
}

const PODS_OF_JOBS_STAY: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning";

/// Returns the options in the body, or those in the query if the body is empty.
fn delete_options(call: &Call, write: &mut Write) -> Result<DeleteOptions, Status> {
    let body = if call.body.is_empty() {
        query_options(call)?
    } else {
        let media = Media::parse(call.header(CONTENT_TYPE), false)?;
        let body = body::decode_typed(&call.body, media, ("v1", "DeleteOptions"))?;
        check_type(&body)?;
        body
    };
    let dry_run = body.get("dryRun").and_then(Value::as_array);
    write.dry_run = dry_run.is_some_and(|list| !list.is_empty());
    options::check_delete(call, &body)?;
    let options = DeleteOptions::from_json(&body);
    write.options = body;
    let has_policy = options.propagation_policy.is_some() || options.orphan_dependents.is_some();
    if !has_policy && write.definition.is("batch", "jobs") {
        write.warnings.add(PODS_OF_JOBS_STAY);
    }
    Ok(options)
}

/// Checks the kind of the options, and the types of their fields.
fn check_type(body: &Value) -> Result<(), Status> {
    let kind = object::text(body, &["kind"]);
    if !kind.is_empty() && kind != "DeleteOptions" {
        return Err(status::bad_request(format!(
            "no kind {} is registered for version {} in scheme \"pkg/apis/meta/internalversion/scheme/register.go:27\"",
            go::quote(kind),
            go::quote(object::text(body, &["apiVersion"])),
        )));
    }
    builtin_kinds::decode_type(OPTIONS, &mut body.clone())
        .map(drop)
        .map_err(|error| status::bad_request(error.to_string()))
}

/// The OpenAPI name of the type DeleteOptions.
const OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";

/// Returns the query parameters as a DeleteOptions object.
fn query_options(call: &Call) -> Result<Value, Status> {
    let mut body = json!({});
    if let Some(seconds) = options::integer(call, "gracePeriodSeconds")? {
        body["gracePeriodSeconds"] = seconds.into();
    }
    if let Some(policy) = call.query.get("propagationPolicy") {
        body["propagationPolicy"] = policy.into();
    }
    if call.query.get("orphanDependents").is_some() {
        body["orphanDependents"] = call.query.flag("orphanDependents").into();
    }
    let dry_runs = options::dry_runs(call);
    if !dry_runs.is_empty() {
        body["dryRun"] = dry_runs.into();
    }
    Ok(body)
}
