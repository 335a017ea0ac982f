//! The names that a CRD asks for, and whether another of its group has them already.

use serde_json::{Value, json};

use crate::object;

/// The names of `spec.names` or `status.acceptedNames`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) plural: String,
    pub(super) singular: String,
    pub(super) short_names: Vec<String>,
    pub(super) kind: String,
    pub(super) list_kind: String,
    pub(super) categories: Vec<String>,
}

impl Names {
    pub(super) fn read(names: &Value) -> Self {
        let text = |field: &str| object::text(names, &[field]).to_owned();
        let list = |field: &str| -> Vec<String> {
            names
                .get(field)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect()
        };
        Self {
            plural: text("plural"),
            singular: text("singular"),
            short_names: list("shortNames"),
            kind: text("kind"),
            list_kind: text("listKind"),
            categories: list("categories"),
        }
    }

    pub(super) fn write(&self) -> Value {
        let mut names = json!({"plural": self.plural, "kind": self.kind});
        for (field, text) in [("singular", &self.singular), ("listKind", &self.list_kind)] {
            if !text.is_empty() {
                names[field] = text.as_str().into();
            }
        }
        for (field, list) in [
            ("shortNames", &self.short_names),
            ("categories", &self.categories),
        ] {
            if !list.is_empty() {
                names[field] = list.clone().into();
            }
        }
        names
    }

    pub(super) fn singular_or_default(&self) -> String {
        if self.singular.is_empty() {
            self.kind.to_lowercase()
        } else {
            self.singular.clone()
        }
    }

    pub(super) fn list_kind_or_default(&self) -> String {
        if self.list_kind.is_empty() {
            format!("{}List", self.kind)
        } else {
            self.list_kind.clone()
        }
    }

    /// All names that share one space with resources: plural, singular, short names.
    fn resource_names(&self) -> impl Iterator<Item = &String> {
        [&self.plural, &self.singular]
            .into_iter()
            .chain(&self.short_names)
            .filter(|name| !name.is_empty())
    }

    fn kind_names(&self) -> impl Iterator<Item = &String> {
        [&self.kind, &self.list_kind]
            .into_iter()
            .filter(|name| !name.is_empty())
    }
}

/// Names that are refused: the reason and the text for the `NamesAccepted` condition.
pub(super) struct NameConflict {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// Accepts each requested name that no other CRD of the group holds; keeps the accepted one otherwise.
pub(super) fn accept(requested: &Names, accepted: &Names, others: &[Names]) -> (Names, Option<NameConflict>) {
    let taken = |name: &str| {
        others
            .iter()
            .any(|other| other.resource_names().any(|known| known == name))
    };
    let kind_taken = |kind: &str| {
        others
            .iter()
            .any(|other| other.kind_names().any(|known| known == kind))
    };
    let mut result = accepted.clone();
    let mut conflict = None;
    let mut refuse = |reason: &'static str, name: &str| {
        conflict = Some(NameConflict {
            reason,
            message: format!("{} is already in use", object::go_quote(name)),
        });
    };
    if taken(&requested.plural) {
        refuse("PluralConflict", &requested.plural);
    } else {
        result.plural.clone_from(&requested.plural);
    }
    if taken(&requested.singular) {
        refuse("SingularConflict", &requested.singular);
    } else {
        result.singular.clone_from(&requested.singular);
    }
    match requested.short_names.iter().find(|name| taken(name)) {
        Some(name) => refuse("ShortNamesConflict", name),
        None => result.short_names.clone_from(&requested.short_names),
    }
    if kind_taken(&requested.kind) {
        refuse("KindConflict", &requested.kind);
    } else {
        result.kind.clone_from(&requested.kind);
    }
    if kind_taken(&requested.list_kind) {
        refuse("ListKindConflict", &requested.list_kind);
    } else {
        result.list_kind.clone_from(&requested.list_kind);
    }
    result.categories.clone_from(&requested.categories);
    (result, conflict)
}
