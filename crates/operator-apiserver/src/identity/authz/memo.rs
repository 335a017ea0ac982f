//! Decisions of webhooks for expressions, which cannot wait for a response ([`DecisionMemo`]).

use std::collections::HashMap;

use parking_lot::Mutex;
use serde_json::Value;

use super::review::spec_of;
use super::{Attributes, Decision};

/// The maximum number of decisions for one write.
const DECISIONS_MAX: usize = 1024;

/// The decisions of webhooks for one write. The expressions of policies are evaluated again until none is missing.
#[derive(Debug, Default)]
pub(crate) struct DecisionMemo(Mutex<Decisions>);

#[derive(Debug, Default)]
struct Decisions {
    known: HashMap<Asked, Decision>,
    missing: Vec<Asked>,
}

/// A request to one authorizer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Asked {
    /// The index of the authorizer.
    pub(super) mode: usize,
    /// The `spec` of the SubjectAccessReview.
    spec: String,
}

impl Asked {
    pub(super) fn spec(&self) -> Value {
        serde_json::from_str(&self.spec).unwrap_or_default()
    }
}

impl DecisionMemo {
    /// Returns a decision; records it as missing if it is unknown.
    pub(super) fn get(&self, mode: usize, attributes: &Attributes<'_>) -> Option<Decision> {
        let asked = Asked {
            mode,
            spec: spec_of(attributes).to_string(),
        };
        let mut decisions = self.0.lock();
        if let Some(decision) = decisions.known.get(&asked) {
            return Some(decision.clone());
        }
        if decisions.known.len() + decisions.missing.len() >= DECISIONS_MAX {
            return Some(Decision {
                error: "too many permission checks in one request".to_owned(),
                ..Decision::default()
            });
        }
        decisions.missing.push(asked);
        None
    }

    pub(super) fn take_missing(&self) -> Vec<Asked> {
        std::mem::take(&mut self.0.lock().missing)
    }

    pub(super) fn set(&self, asked: Asked, decision: Decision) {
        self.0.lock().known.insert(asked, decision);
    }
}
