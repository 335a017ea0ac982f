//! The revisions of a ClusterExtension: one Secret for each version that was rolled out ([`Revision`]).

use std::sync::Arc;

use operator_olm::catalog::Bundle;
use serde_json::{Value, json};

use super::resolve::{Installed, version_of};
use super::{NAMESPACE, REVISION, is_owned, owner_labels, owner_reference};
use crate::object::{Object, set};
use crate::objects::Objects;
use crate::olm::kinds::SECRET;
use crate::plan::{Action, create, update};

const TYPE: &str = "olm.operatorframework.io/revision";
const BUNDLE: &str = "olm.operatorframework.io/bundle-name";
const VERSION: &str = "olm.operatorframework.io/bundle-version";
const RELEASE: &str = "olm.operatorframework.io/bundle-release";
const IMAGE: &str = "olm.operatorframework.io/bundle-reference";
const PACKAGE: &str = "olm.operatorframework.io/package-name";
const HASH: &str = "olm.operatorframework.io/content-hash";
const SUCCEEDED: &str = "olm.operatorframework.io/succeeded";

/// A version that was rolled out, or is being rolled out.
#[derive(Clone)]
pub(super) struct Revision<'a> {
    pub(super) number: u64,
    pub(super) secret: &'a Arc<Value>,
}

impl Revision<'_> {
    fn text(&self, annotation: &str) -> &str {
        self.secret.annotation(annotation).unwrap_or_default()
    }

    pub(super) fn name(&self) -> &str {
        self.secret.name()
    }

    pub(super) fn is_succeeded(&self) -> bool {
        self.text(SUCCEEDED) == "true"
    }

    /// Returns true if the content of the revision has this hash.
    pub(super) fn has(&self, hash: &str) -> bool {
        self.text(HASH) == hash
    }

    pub(super) fn bundle(&self) -> Installed {
        Installed {
            name: self.text(BUNDLE).to_owned(),
            version: self.text(VERSION).to_owned(),
            release: self.text(RELEASE).to_owned(),
        }
    }

    pub(super) fn image(&self) -> &str {
        self.text(IMAGE)
    }

    /// Marks the revision as rolled out.
    pub(super) fn succeed(&self) -> Action {
        let mut secret = Value::clone(self.secret);
        set(
            &mut secret,
            &["metadata", "annotations", SUCCEEDED],
            "true".into(),
        );
        update(&SECRET, secret, None)
    }
}

/// Returns the revisions of an extension, oldest first.
pub(super) fn list<'a>(objects: &'a Objects, extension: &Value) -> Vec<Revision<'a>> {
    let secrets = objects.list(&SECRET, NAMESPACE);
    let of_extension = secrets.filter(|secret| secret.text("/type") == TYPE && is_owned(secret, extension));
    let mut revisions: Vec<Revision<'_>> = of_extension
        .filter(|secret| !secret.is_terminating())
        .filter_map(|secret| {
            let number = secret.annotation(REVISION)?.parse().ok()?;
            Some(Revision { number, secret })
        })
        .collect();
    revisions.sort_by_key(|revision| revision.number);
    revisions
}

/// Creates the next revision of an extension.
pub(super) fn next(extension: &Value, number: u64, bundle: &Bundle, hash: &str) -> Action {
    let (version, release) = version_of(bundle);
    let object = json!({
        "metadata": {
            "name": format!("{}-{number}", extension.name()),
            "namespace": NAMESPACE,
            "labels": owner_labels(extension),
            "ownerReferences": [owner_reference(extension)],
            "annotations": {
                REVISION: number.to_string(), BUNDLE: bundle.name, VERSION: version, RELEASE: release,
                IMAGE: bundle.image, PACKAGE: bundle.package, HASH: hash,
            },
        },
        "type": TYPE,
    });
    create(&SECRET, object, None)
}
