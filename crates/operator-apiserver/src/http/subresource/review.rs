//! Reviews: kinds whose objects are evaluated when they are created, but never stored.

use apimachinery::object;
use apimachinery::selector::{FieldSelector, LabelSelector};
use http::StatusCode;
use serde_json::{Value, json};

use crate::admission::{self, Operation};
use crate::codec::Form;
use crate::http::call::Answer;
use crate::http::handler::Handler;
use crate::identity::authn::User;
use crate::identity::authz::{self, Attributes, Decision, Rule, Selectors};
use crate::patch::managed_fields;
use crate::registry::create::{SERVER_FIELDS, fill_namespace};
use crate::resource::Definition;
use crate::status::{self, NamedResource, Status};
use crate::write::Write;

/// Returns true if a resource is a review.
pub(crate) fn is_review(definition: &Definition) -> bool {
    !definition.is_custom() && definition.verbs == ["create"]
}

/// Serves a review.
pub(crate) async fn serve(
    handler: &Handler,
    write: &Write,
    form: Form,
    mut review: Value,
) -> Result<Answer, Status> {
    for field in SERVER_FIELDS {
        object::set_meta(&mut review, field, None);
    }
    fill_namespace(write, &mut review)?;
    managed_fields::update(&handler.registry.timestamp(), write, None, &mut review);
    let user = &write.user;
    let resource = write.definition.subject.resource.as_str();
    if resource == "tokenreviews" {
        keep_status(&mut review);
    } else {
        review["status"] = unanswered(resource);
    }
    admission::mutate_body(&handler.registry.admission, write, Operation::Create, &mut review).await?;
    match resource {
        "selfsubjectreviews" => {}
        "selfsubjectaccessreviews" | "subjectaccessreviews" | "localsubjectaccessreviews" => {
            validate(&write.definition, &review)?;
        }
        "selfsubjectrulesreviews" => check_namespace_given(&review)?,
        "tokenreviews" => check_token_given(&review)?,
        _ => return Err(status::method_not_allowed()),
    }
    admission::validate_body(&handler.registry.admission, write, Operation::Create, &review).await?;
    let answered = match resource {
        "selfsubjectreviews" => who_am_i(handler, user, &review),
        "selfsubjectaccessreviews" => may(handler, user, review).await,
        "selfsubjectrulesreviews" => self_subject_rules(handler, user, &review),
        "tokenreviews" => token_review(handler, review).await,
        _ => {
            let subject = authz::user_of(&review["spec"]);
            may(handler, &subject, review).await
        }
    };
    Ok(super::transient(StatusCode::CREATED, &answered, form))
}

/// Returns the status of a review before its evaluation, as admission receives it.
fn unanswered(resource: &str) -> Value {
    match resource {
        "selfsubjectreviews" => json!({"userInfo": {}}),
        "selfsubjectrulesreviews" => {
            json!({"resourceRules": null, "nonResourceRules": null, "incomplete": false})
        }
        _ => json!({"allowed": false}),
    }
}

/// Keeps the status that the client gave to a TokenReview in fields that the review does not set.
fn keep_status(review: &mut Value) {
    if !review["status"].is_object() {
        review["status"] = json!({});
    }
    if let Some(status) = review["status"].as_object_mut() {
        status.remove("authenticated");
        status.entry("user").or_insert_with(|| json!({}));
    }
}

/// Validates a review. The errors name only the group of the resource.
fn validate(definition: &Definition, review: &Value) -> Result<(), Status> {
    let errors = definition.validate_create(review).errors;
    if errors.is_empty() {
        return Ok(());
    }
    let subject = NamedResource {
        kind: String::new(),
        ..definition.subject.clone()
    };
    Err(status::invalid(&subject, "", &errors))
}

fn who_am_i(handler: &Handler, user: &User, review: &Value) -> Value {
    let metadata = json!({"creationTimestamp": handler.registry.timestamp()});
    let status = json!({"userInfo": user.info()});
    answer(review, [("metadata", metadata), ("status", status)])
}

/// Returns a new object of a review's kind, without the request.
fn answer<const N: usize>(review: &Value, parts: [(&str, Value); N]) -> Value {
    let mut answer = json!({"apiVersion": review.get("apiVersion"), "kind": review.get("kind")});
    for (field, value) in parts {
        answer[field] = value;
    }
    answer
}

async fn may(handler: &Handler, user: &User, mut review: Value) -> Value {
    let selectors = object::get(&review, &["spec", "resourceAttributes"]).map(Selectors::read);
    let asked = Attributes {
        selectors: selectors.as_ref(),
        ..authz::asked_by(user, &review["spec"])
    };
    let decision = handler.registry.authorizer.authorize(&asked).await;
    review["status"] = access_status(&decision);
    let ignored = ignored_selectors(&review);
    if !ignored.is_empty() {
        review["status"]["evaluationError"] = ignored.join("; ").into();
    }
    review
}

/// Returns the errors about selectors of a review that cannot be parsed.
fn ignored_selectors(review: &Value) -> Vec<String> {
    type IsValid = fn(&Value) -> bool;
    let kinds: [(&str, IsValid); 2] = [
        ("fieldSelector", is_field_selector),
        ("labelSelector", is_label_selector),
    ];
    kinds
        .into_iter()
        .filter_map(|(name, is_readable)| {
            let selector = object::get(review, &["spec", "resourceAttributes", name])?;
            let why = format!("spec.resourceAttributes.{name} ignored due to parse error");
            (selector.is_object() && !is_readable(selector)).then_some(why)
        })
        .collect()
}

fn requirements(selector: &Value) -> impl Iterator<Item = (&str, usize)> {
    let all = object::get(selector, &["requirements"]).and_then(Value::as_array);
    all.into_iter().flatten().map(|requirement| {
        let values = object::get(requirement, &["values"]).and_then(Value::as_array);
        (
            object::text(requirement, &["operator"]),
            values.map_or(0, Vec::len),
        )
    })
}

fn is_field_selector(selector: &Value) -> bool {
    let raw = object::text(selector, &["rawSelector"]);
    raw.parse::<FieldSelector>().is_ok()
        && requirements(selector).all(|(operator, values)| match operator {
            "In" | "NotIn" => values == 1,
            _ => false,
        })
}

fn is_label_selector(selector: &Value) -> bool {
    let raw = object::text(selector, &["rawSelector"]);
    raw.parse::<LabelSelector>().is_ok()
        && requirements(selector)
            .all(|(operator, _)| matches!(operator, "In" | "NotIn" | "Exists" | "DoesNotExist"))
}

fn access_status(decision: &Decision) -> Value {
    let mut status = json!({"allowed": decision.allowed});
    if decision.denied {
        status["denied"] = true.into();
    }
    for (field, text) in [("reason", &decision.reason), ("evaluationError", &decision.error)] {
        if !text.is_empty() {
            status[field] = text.as_str().into();
        }
    }
    status
}

fn check_namespace_given(review: &Value) -> Result<(), Status> {
    if object::text(review, &["spec", "namespace"]).is_empty() {
        return Err(status::bad_request("no namespace on request"));
    }
    Ok(())
}

fn check_token_given(review: &Value) -> Result<(), Status> {
    if object::text(review, &["spec", "token"]).is_empty() {
        return Err(status::bad_request(
            "token is required for TokenReview in authentication",
        ));
    }
    Ok(())
}

fn self_subject_rules(handler: &Handler, user: &User, review: &Value) -> Value {
    let namespace = object::text(review, &["spec", "namespace"]);
    let (rules, unresolved) = handler.registry.authorizer.rules_of_user(user, namespace);
    let listed = |is_listed: fn(&Rule) -> bool, part: fn(&Rule) -> Rule| -> Vec<Value> {
        let rules = rules.iter().filter(|rule| is_listed(rule));
        rules.map(|rule| part(rule).to_json()).collect()
    };
    let resources = listed(
        |rule| !rule.resources.is_empty(),
        |rule| Rule {
            non_resource_urls: Vec::new(),
            ..rule.clone()
        },
    );
    let paths = listed(
        |rule| !rule.non_resource_urls.is_empty(),
        |rule| Rule {
            verbs: rule.verbs.clone(),
            non_resource_urls: rule.non_resource_urls.clone(),
            ..Rule::default()
        },
    );
    let mut texts: Vec<String> = unresolved.iter().map(ToString::to_string).collect();
    let is_incomplete = handler.registry.authorizer.has_webhooks();
    if is_incomplete {
        texts.push("webhook authorizer does not support user rule resolution".to_owned());
    }
    let mut status =
        json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": is_incomplete});
    if !texts.is_empty() {
        status["evaluationError"] = authz::aggregate(texts).into();
    }
    let parts = [("metadata", json!({})), ("spec", json!({})), ("status", status)];
    answer(review, parts)
}

async fn token_review(handler: &Handler, mut review: Value) -> Value {
    let token = object::text(&review, &["spec", "token"]);
    let audiences = texts(object::get(&review, &["spec", "audiences"]));
    let answer = match handler.authenticator.authenticate(token, &audiences).await {
        Ok(known) => json!({
            "authenticated": true, "user": known.user.info(), "audiences": known.audiences,
        }),
        Err(why) => json!({"error": why}),
    };
    for (name, value) in answer.as_object().into_iter().flatten() {
        review["status"][name] = value.clone();
    }
    review
}

fn texts(list: Option<&Value>) -> Vec<String> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}
