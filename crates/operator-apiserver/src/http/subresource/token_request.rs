//! `serviceaccounts/token`: creates a token for a service account.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use apimachinery::field::{Error, Path};
use apimachinery::object;
use http::StatusCode;
use serde_json::{Value, json};

use crate::admission::{self, Operation};
use crate::clock::{rfc3339, unix_seconds};
use crate::codec::Form;
use crate::http::call::{Answer, Call};
use crate::http::handler::Handler;
use crate::http::verb::{self, object_body};
use crate::identity::authn::service_account_name;
use crate::patch::managed_fields;
use crate::registry::create::fill_namespace;
use crate::resource::{Definition, builtin_catalog, token_requests};
use crate::status::{self, NamedResource, Status};

const SECONDS_MIN: i64 = 600;
const SECONDS_MAX: i64 = 1 << 32;
/// The expiration that kubelets request. The server extends it to a year, for clients that read the token once.
const KUBELET_SECONDS: i64 = 3607;
const EXTENDED_SECONDS: i64 = 365 * 24 * 3600;

pub(super) async fn serve(
    handler: &Handler,
    call: &Call,
    definition: &Arc<Definition>,
    form: Form,
) -> Result<Answer, Status> {
    let write = verb::write(call, definition)?;
    let tracking = verb::write(call, token_requests())?;
    let mut request = object_body::read(call, token_requests(), &call.warnings, None)?;
    fill_namespace(&write, &mut request)?;
    managed_fields::update(&handler.registry.timestamp(), &tracking, None, &mut request);
    admission::mutate_body(
        &handler.registry.admission,
        &write,
        Operation::Create,
        &mut request,
    )
    .await?;
    check_name(&request, &write.name)?;
    let account = handler
        .registry
        .get(definition, &write.namespace, &write.name)?
        .value
        .clone();
    if handler
        .gates
        .is_enabled("TokenRequestServiceAccountUIDValidation")
    {
        check_account_uid(&request, &account)?;
    }
    let now = handler.registry.clock.now();
    complete(handler, &account, now, &mut request);
    validate(&request)?;
    admission::validate_body(&handler.registry.admission, &write, Operation::Create, &request).await?;
    let bound = Bound::of(handler, &account, &request)?;
    let claims = claims(handler, &account, &bound, now, &request);
    let token = sign(handler, claims).await?;
    let end = now + Duration::from_secs(seconds(&request).unsigned_abs());
    request["status"] = json!({"token": token, "expirationTimestamp": rfc3339(end)});
    Ok(super::transient(StatusCode::CREATED, &request, form))
}

fn subject() -> &'static NamedResource {
    &token_requests().subject
}

fn check_name(request: &Value, name: &str) -> Result<(), Status> {
    let given = object::name(request);
    if given.is_empty() || given == name {
        return Ok(());
    }
    let why = "must match the service account name if specified";
    let error = Error::invalid(Path::new("metadata").child("name"), given.into(), why);
    Err(status::invalid(subject(), name, &[error]))
}

/// Checks that a uid in the request is the uid of the account.
fn check_account_uid(request: &Value, account: &Value) -> Result<(), Status> {
    let (wanted, found) = (object::uid(request), object::uid(account));
    if wanted.is_empty() || wanted == found {
        return Ok(());
    }
    let named_by_kind = NamedResource {
        resource: subject().kind.clone(),
        ..subject().clone()
    };
    let why = format!(
        "the UID in the token request ({wanted}) does not match the UID of the service account ({found})"
    );
    Err(status::conflict(&named_by_kind, object::name(account), &why))
}

/// Sets the defaults of the request.
fn complete(handler: &Handler, account: &Value, now: SystemTime, request: &mut Value) {
    let spec = object::child_mut(request, "spec");
    let audiences = spec.get("audiences").and_then(Value::as_array);
    if audiences.is_none_or(Vec::is_empty) {
        spec.insert(
            "audiences".to_owned(),
            json!(handler.authenticator.issuer.audiences()),
        );
    }
    for field in ["name", "namespace", "uid"] {
        object::copy_meta(request, account, field);
    }
    object::set_meta(request, "creationTimestamp", Some(rfc3339(now).into()));
    object::child_mut(request, "status").clear();
}

fn seconds(request: &Value) -> i64 {
    let seconds = object::get(request, &["spec", "expirationSeconds"]);
    seconds.and_then(Value::as_i64).unwrap_or_default()
}

fn validate(request: &Value) -> Result<(), Status> {
    let seconds = seconds(request);
    let why = if seconds < SECONDS_MIN {
        "may not specify a duration less than 10 minutes"
    } else if seconds > SECONDS_MAX {
        "may not specify a duration larger than 2^32 seconds"
    } else {
        return Ok(());
    };
    let path = Path::new("spec").child("expirationSeconds");
    Err(status::invalid(
        subject(),
        "",
        &[Error::invalid(path, seconds.into(), why)],
    ))
}

/// The object that a token is bound to: the token becomes invalid when the object is deleted.
#[derive(Default)]
struct Bound {
    /// The references of the token by type (`pod`, `secret` or `node`), with name and uid; includes the node of a pod.
    references: Vec<(&'static str, Value)>,
}

impl Bound {
    fn of(handler: &Handler, account: &Value, request: &Value) -> Result<Self, Status> {
        let Some(reference) = object::get(request, &["spec", "boundObjectRef"]).filter(|r| r.is_object())
        else {
            return Ok(Self::default());
        };
        let text = |field: &str| object::text(reference, &[field]);
        let (group, version) = text("apiVersion")
            .split_once('/')
            .unwrap_or(("", text("apiVersion")));
        let (part, resource) = match (group, text("kind")) {
            ("", "Pod") => ("pod", "pods"),
            ("", "Secret") => ("secret", "secrets"),
            ("", "Node") => ("node", "nodes"),
            (_, kind) => {
                return Err(status::bad_request(format!(
                    "cannot bind token to object of type {group}/{version}, Kind={kind}"
                )));
            }
        };
        if text("name").is_empty() {
            return Err(status::bad_request("Name parameter required."));
        }
        let bound = find(handler, resource, object::namespace(account), text("name"))?;
        let mut references = vec![(part, identity(&bound))];
        if part == "pod" {
            check_account(account, &bound)?;
            references.extend(node_of(handler, &bound));
        }
        check_uid(text("kind"), &bound, text("uid"))?;
        Ok(Self { references })
    }

    fn is_pod(&self) -> bool {
        self.references.iter().any(|(part, _)| *part == "pod")
    }
}

fn find(handler: &Handler, resource: &str, namespace: &str, name: &str) -> Result<Arc<Value>, Status> {
    let definition = builtin_catalog()
        .find("", "v1", resource)
        .ok_or_else(status::unknown_resource)?;
    Ok(handler.registry.get(&definition, namespace, name)?.value.clone())
}

fn identity(object: &Value) -> Value {
    json!({"name": object::name(object), "uid": object::uid(object)})
}

fn check_account(account: &Value, pod: &Value) -> Result<(), Status> {
    let name = object::name(account);
    if object::text(pod, &["spec", "serviceAccountName"]) == name {
        return Ok(());
    }
    Err(status::bad_request(format!(
        "cannot bind token for serviceaccount {} to pod running with different serviceaccount name.",
        apimachinery::go::quote(name)
    )))
}

/// Returns the node of a pod; without a uid if the node does not exist.
fn node_of(handler: &Handler, pod: &Value) -> Option<(&'static str, Value)> {
    let name = object::text(pod, &["spec", "nodeName"]);
    if name.is_empty() {
        return None;
    }
    let node = find(handler, "nodes", "", name);
    Some((
        "node",
        node.map_or_else(|_| json!({"name": name}), |node| identity(&node)),
    ))
}

fn check_uid(kind: &str, bound: &Value, uid: &str) -> Result<(), Status> {
    if uid.is_empty() || uid == object::uid(bound) {
        return Ok(());
    }
    let named_by_kind = NamedResource {
        group: String::new(),
        resource: kind.to_owned(),
        kind: kind.to_owned(),
    };
    let why = format!(
        "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
    );
    Err(status::conflict(&named_by_kind, object::name(bound), &why))
}

fn claims(handler: &Handler, account: &Value, bound: &Bound, now: SystemTime, request: &Value) -> Value {
    let now = unix_seconds(now);
    let mut lifetime = seconds(request);
    let (namespace, name) = (object::namespace(account), object::name(account));
    let mut own = json!({"namespace": namespace, "serviceaccount": identity(account)});
    for (part, reference) in &bound.references {
        own[*part] = reference.clone();
    }
    let audiences = object::get(request, &["spec", "audiences"]);
    if bound.is_pod()
        && lifetime == KUBELET_SECONDS
        && audiences == Some(&json!(handler.authenticator.issuer.audiences()))
    {
        own["warnafter"] = (now + lifetime).into();
        lifetime = EXTENDED_SECONDS;
    }
    json!({
        "aud": audiences, "exp": now + lifetime, "iat": now, "nbf": now, "jti": handler.registry.random.uuid(),
        "sub": service_account_name(namespace, name), "kubernetes.io": own,
    })
}

/// Signs a token on a separate thread, because a key may have to be created first.
async fn sign(handler: &Handler, claims: Value) -> Result<String, Status> {
    let issuer = handler.authenticator.issuer.clone();
    let signed = tokio::task::spawn_blocking(move || issuer.sign(claims)).await;
    signed
        .map_err(|error| status::internal(&error.to_string()))?
        .map_err(|error| status::plain(format!("failed to generate token: {error}")))
}
