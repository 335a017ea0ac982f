//! The input of admission: a write, and the object before and after it.

use std::borrow::Cow;
use std::sync::Arc;

use apimachinery::object;
use serde_json::{Map, Value, json};

use super::{Operation, mutation};
use crate::admission::Admission;
use crate::resource::Definition;
use crate::resource::crd::conversion;
use crate::status::Status;
use crate::write::Write;

/// One request in admission.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes<'a> {
    pub(crate) admission: &'a Admission,
    pub(crate) write: &'a Write,
    pub(crate) operation: Operation,
    /// The new object, in the version of the request; `None` for a delete.
    pub(crate) object: Option<&'a Value>,
    /// The live object; `None` for a create.
    pub(crate) old: Option<&'a Value>,
}

impl<'a> Attributes<'a> {
    /// Returns the name of the object; empty before a generated name is set.
    pub(crate) fn name(&self) -> &'a str {
        if self.write.in_collection {
            return "";
        }
        match self.write.admitted_name() {
            "" => self.object.map(object::name).unwrap_or_default(),
            name => name,
        }
    }

    /// Returns the namespace of the object; for a Namespace, its own name.
    pub(crate) fn namespace(&self) -> &'a str {
        if self.is_namespace() {
            return self.name();
        }
        &self.write.namespace
    }

    pub(crate) fn is_namespace(&self) -> bool {
        self.write.definition.is("", "namespaces")
    }

    /// Returns the group, version and kind of the object in a version of the resource.
    pub(crate) fn kind<'d>(&self, definition: &'d Definition) -> (&'d str, &'d str, &'d str) {
        match definition.subresource(&self.write.subresource) {
            Some(body) if !body.kind.is_empty() => (&body.group, &body.version, &body.kind),
            _ => (
                &definition.subject.group,
                &definition.version,
                &definition.subject.kind,
            ),
        }
    }

    /// Returns the new or the old object in another version of its resource.
    pub(crate) fn versioned(&self, object: &'a Value, target: &Definition) -> Cow<'a, Value> {
        let own = &self.write.definition;
        if own.is_same_version(target) || mutation::has_own_body(&self.write.subresource) {
            return Cow::Borrowed(object);
        }
        Cow::Owned(own.in_version(object.clone(), target))
    }

    /// Converts the objects with the webhook of their definition, if there is one, so that
    /// [`versioned`](Self::versioned) has them in the version of a rule.
    pub(crate) async fn prepare(&self, target: &Definition) -> Result<(), Status> {
        let own = &self.write.definition;
        let subresource = &self.write.subresource;
        if !own.is_custom() || own.is_same_version(target) || mutation::has_own_body(subresource) {
            return Ok(());
        }
        let objects: Vec<Arc<Value>> = [self.object, self.old]
            .into_iter()
            .flatten()
            .map(|object| Arc::new(object.clone()))
            .collect();
        conversion::prepare(&self.admission.converter, target, &objects).await
    }

    /// Returns the request as policies and webhooks receive it, without the objects; `target` is the version of the
    /// rule.
    pub(crate) fn request(&self, target: &Definition) -> Map<String, Value> {
        let own = &self.write.definition;
        let mut request = Map::new();
        let mut put = |field: &str, value: Value| request.insert(field.to_owned(), value);
        let subresource = &self.write.subresource;
        put("kind", kind_value(self.kind(target)));
        put("resource", resource_value(target));
        if !subresource.is_empty() {
            put("subResource", subresource.as_str().into());
        }
        put("requestKind", kind_value(self.kind(own)));
        put("requestResource", resource_value(own));
        if !subresource.is_empty() {
            put("requestSubResource", subresource.as_str().into());
        }
        for (field, value) in [("name", self.name()), ("namespace", self.namespace())] {
            if !value.is_empty() {
                put(field, value.into());
            }
        }
        put("operation", self.operation.name().into());
        put("userInfo", self.write.user.info());
        put("dryRun", self.write.dry_run.into());
        put("options", self.options());
        request
    }

    /// Returns the options of the request as an object of `meta.k8s.io/v1`: those of a patch are of a create or an
    /// update.
    fn options(&self) -> Value {
        let kind = match self.operation {
            Operation::Delete => "DeleteOptions",
            Operation::Create => "CreateOptions",
            Operation::Update => "UpdateOptions",
            Operation::Connect => return Value::Null,
        };
        let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        if let (Some(options), Some(given)) = (options.as_object_mut(), self.write.options.as_object()) {
            let fields = given
                .iter()
                .filter(|(field, _)| !matches!(field.as_str(), "kind" | "apiVersion"));
            options.extend(fields.map(|(field, value)| (field.clone(), value.clone())));
        }
        options
    }

    /// Returns a rejection with the text of admission.
    pub(crate) fn forbidden(&self, why: &str) -> Status {
        self.write.forbidden(self.object, why)
    }
}

fn kind_value((group, version, kind): (&str, &str, &str)) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}

fn resource_value(definition: &Definition) -> Value {
    let subject = &definition.subject;
    json!({"group": subject.group, "version": definition.version, "resource": subject.resource})
}
