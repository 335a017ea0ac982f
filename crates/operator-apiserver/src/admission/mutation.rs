//! Mutations by admission, and the reinvocation of plug-ins after a change.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Operation;
use super::attributes::Attributes;
use crate::admission::Admission;
use crate::identity::authz::Authorizer;
use crate::resource::scale;
use crate::resource::{Definition, Source};
use crate::status::{self, Status};
use crate::write::FieldValidation;
use crate::write::Write;
use crate::write::object_body::{self, StrictFaults};

/// An object that passes through the mutating plug-ins.
#[derive(Clone, Debug)]
pub(super) struct MutatedObject<'a> {
    admission: &'a Admission,
    write: &'a Write,
    operation: Operation,
    object: Option<Value>,
    old: Option<Value>,
}

impl<'a> MutatedObject<'a> {
    /// Creates the object of a write, in the form that the request has.
    pub(super) fn new(
        admission: &'a Admission,
        write: &'a Write,
        operation: Operation,
        object: Option<&Value>,
        old: Option<&Value>,
    ) -> Self {
        let body = |object: Option<&Value>| object.map(|object| body_of(write, object));
        Self {
            admission,
            write,
            operation,
            object: body(object),
            old: body(old),
        }
    }

    /// Returns the authorizer and the write.
    pub(super) fn parts(&self) -> (&'a Authorizer, &'a Write) {
        (&self.admission.authorizer, self.write)
    }

    pub(super) fn object(&self) -> Option<&Value> {
        self.object.as_ref()
    }

    /// Returns the attributes for hooks, with a copy of the current object.
    pub(super) fn attributes<'s>(&'s self, object: Option<&'s Value>) -> Attributes<'s> {
        Attributes {
            admission: self.admission,
            write: self.write,
            operation: self.operation,
            object,
            old: self.old.as_ref(),
        }
    }

    /// Replaces the object by a changed one, which is in the version of `target`. Unknown fields of built-in kinds are
    /// removed, or are an error if `is_strict` is true.
    pub(super) fn replace(
        &mut self,
        changed: Value,
        target: &Definition,
        is_strict: bool,
    ) -> Result<(), Status> {
        if has_own_body(&self.write.subresource) {
            self.object = Some(changed);
            return Ok(());
        }
        if let Source::Builtin { gvk, .. } = &target.source {
            let decoded = builtin_kinds::decode(gvk, &mut changed.clone());
            let unknown = decoded.map_err(|error| status::internal(&error.to_string()))?;
            if is_strict && !unknown.is_empty() {
                let shown = unknown.iter().map(|field| object_body::unknown_field(field));
                let shown: Vec<String> = shown.collect();
                let why = format!("strict decoding error: {}", shown.join(", "));
                return Err(status::internal(&why));
            }
        }
        let own = &self.write.definition;
        let mut changed = if own.is_same_version(target) {
            changed
        } else {
            target.in_version(changed, own)
        };
        object_body::complete(
            own,
            &mut changed,
            StrictFaults::default(),
            FieldValidation::Ignore,
            &self.write.warnings,
        )?;
        self.object = Some(changed);
        Ok(())
    }

    /// Returns the object, unless it is the body of a subresource.
    pub(super) fn own_object(&mut self) -> Option<&mut Value> {
        self.object
            .as_mut()
            .filter(|_| !has_own_body(&self.write.subresource))
    }

    /// Writes the result back to the object of the write.
    pub(super) fn finish(self, object: &mut Value) {
        let Some(changed) = self.object else { return };
        if self.write.subresource == "scale" {
            scale::set_replicas(&self.write.definition, object, &changed);
        } else {
            *object = changed;
        }
    }
}

/// Returns true if the body of a subresource is of another kind than its resource.
pub(super) fn has_own_body(subresource: &str) -> bool {
    const BODIES: [&str; 8] = [
        "attach",
        "binding",
        "eviction",
        "exec",
        "portforward",
        "proxy",
        "scale",
        "token",
    ];
    BODIES.contains(&subresource)
}

/// Returns the body of a request to a resource or to its scale.
pub(super) fn body_of(write: &Write, object: &Value) -> Value {
    if write.subresource == "scale" {
        scale::scale_of(&write.definition, object)
    } else {
        object.clone()
    }
}

/// The hooks that were called, and those that must be called again because of later changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Reinvocation {
    second: bool,
    /// Hooks with a reinvocation policy that were called since the last change.
    invoked: BTreeSet<String>,
    due: BTreeSet<String>,
    output: Option<Value>,
    needed: bool,
}

impl Reinvocation {
    /// Starts a pass. If other plug-ins changed the object since the last pass, all hooks are due.
    pub(super) fn begin(&mut self, object: Option<&Value>) {
        if self.second && self.output.as_ref() != object {
            self.due.append(&mut self.invoked);
        }
    }

    /// Ends a pass.
    pub(super) fn end(&mut self, object: Option<&Value>) {
        self.output = object.cloned();
        self.second = true;
    }

    /// Returns true if the hook is called in this pass.
    pub(super) fn is_due(&self, key: &str) -> bool {
        !self.second || self.due.contains(key)
    }

    /// Records the call of a hook with a reinvocation policy.
    pub(super) fn invoked(&mut self, key: String) {
        self.invoked.insert(key);
    }

    /// Records a change of the object: hooks that were called before are due.
    pub(super) fn changed(&mut self) {
        self.due.append(&mut self.invoked);
        self.needed = true;
    }

    /// Returns true if a second pass is needed.
    pub(super) fn is_needed(&self) -> bool {
        self.needed
    }
}
