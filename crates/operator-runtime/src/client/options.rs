//! The ways in which a client writes and reads.

use std::sync::Arc;

use kube::api::{PatchParams, PostParams, ValidationDirective};

use crate::cache::Consistency;

/// What the server does with fields that it does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    /// It drops them.
    Ignore,
    /// It drops them, and answers with a warning: what it does unless told otherwise.
    Warn,
    /// It refuses the request.
    Strict,
}

#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) field_manager: Arc<str>,
    pub(super) dry_run: bool,
    /// True if writes are sent that would change nothing.
    pub(super) always_send: bool,
    /// True if an apply takes over the fields that others hold.
    pub(super) force: bool,
    pub(super) field_validation: Option<FieldValidation>,
    pub(super) namespace: Option<Arc<str>>,
    pub(super) consistency: Consistency,
}

// === impl Options ===

impl Options {
    pub(super) fn new(field_manager: &str) -> Self {
        Self {
            field_manager: field_manager.into(),
            dry_run: false,
            always_send: false,
            force: true,
            field_validation: None,
            namespace: None,
            consistency: Consistency::default(),
        }
    }

    pub(super) fn post(&self) -> PostParams {
        PostParams {
            dry_run: self.dry_run,
            field_manager: Some(self.field_manager.to_string()),
        }
    }

    pub(super) fn patch(&self) -> PatchParams {
        PatchParams {
            dry_run: self.dry_run,
            force: false,
            field_manager: Some(self.field_manager.to_string()),
            field_validation: self.field_validation.as_ref().map(|validation| match validation {
                FieldValidation::Ignore => ValidationDirective::Ignore,
                FieldValidation::Warn => ValidationDirective::Warn,
                FieldValidation::Strict => ValidationDirective::Strict,
            }),
        }
    }

    /// What kube's parameters of creates and updates cannot say.
    pub(super) fn post_query(&self) -> &'static str {
        match self.field_validation {
            None => "",
            Some(FieldValidation::Ignore) => "&fieldValidation=Ignore",
            Some(FieldValidation::Warn) => "&fieldValidation=Warn",
            Some(FieldValidation::Strict) => "&fieldValidation=Strict",
        }
    }
}
