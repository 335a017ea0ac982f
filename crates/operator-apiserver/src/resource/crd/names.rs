//! The names of a CRD, and conflicts with other CRDs of its group.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use apimachinery::object;
use serde_json::{Value, json};

/// The names of `spec.names` or `status.acceptedNames`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) categories: Vec<String>,
}

impl Names {
    pub(crate) fn read(names: &Value) -> Self {
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

    pub(crate) fn write(&self) -> Value {
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

    pub(crate) fn singular_or_default(&self) -> String {
        if self.singular.is_empty() {
            self.kind.to_lowercase()
        } else {
            self.singular.clone()
        }
    }

    pub(crate) fn list_kind_or_default(&self) -> String {
        if self.list_kind.is_empty() {
            format!("{}List", self.kind)
        } else {
            self.list_kind.clone()
        }
    }

    /// Returns all names of the resource, which must not conflict: plural, singular, short names.
    fn resource_names(&self) -> impl Iterator<Item = &String> {
        [&self.plural, &self.singular]
            .into_iter()
            .chain(&self.short_names)
            .filter(|name| !name.is_empty())
    }

    /// Returns all names, including those of the kind.
    fn all(&self) -> impl Iterator<Item = Name> {
        let resources = self.resource_names().cloned().map(Name::Resource);
        resources.chain(self.kind_names().cloned().map(Name::Kind))
    }

    /// Returns true if some of these names are missing in `later`.
    pub(crate) fn lost_by(&self, later: &Self) -> bool {
        self.all().any(|name| !later.all().any(|other| other == name))
    }

    fn kind_names(&self) -> impl Iterator<Item = &String> {
        [&self.kind, &self.list_kind]
            .into_iter()
            .filter(|name| !name.is_empty())
    }
}

/// Rejected names: the reason and the text of the `NamesAccepted` condition.
pub(crate) struct NameConflict {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// The names of the CRDs of each group.
#[derive(Debug, Default)]
pub(crate) struct Taken(HashMap<String, HashMap<Name, BTreeSet<Arc<str>>>>);

/// A name of a resource or of a kind; the two do not conflict with each other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Name {
    Resource(String),
    Kind(String),
}

impl Taken {
    pub(crate) fn insert(&mut self, group: &str, names: &Names, owner: &Arc<str>) {
        let taken = self.0.entry(group.to_owned()).or_default();
        for name in names.all() {
            taken.entry(name).or_default().insert(owner.clone());
        }
    }

    pub(crate) fn remove(&mut self, group: &str, names: &Names, owner: &Arc<str>) {
        let Some(taken) = self.0.get_mut(group) else {
            return;
        };
        for name in names.all() {
            if let Some(owners) = taken.get_mut(&name) {
                owners.remove(owner);
                if owners.is_empty() {
                    taken.remove(&name);
                }
            }
        }
        if taken.is_empty() {
            self.0.remove(group);
        }
    }

    /// Returns true if a CRD other than this one has the name.
    pub(crate) fn by_another(&self, group: &str, name: &Name, owner: &str) -> bool {
        let owners = self.0.get(group).and_then(|taken| taken.get(name));
        owners.into_iter().flatten().any(|other| **other != *owner)
    }
}

/// Accepts each requested name that no other CRD of the group has; otherwise keeps the accepted name.
pub(crate) fn accept(
    requested: &Names,
    accepted: &Names,
    is_taken: &dyn Fn(&Name) -> bool,
) -> (Names, Option<NameConflict>) {
    let taken = |name: &str| !name.is_empty() && is_taken(&Name::Resource(name.to_owned()));
    let kind_taken = |kind: &str| !kind.is_empty() && is_taken(&Name::Kind(kind.to_owned()));
    let mut result = accepted.clone();
    let mut conflict = None;
    let mut refuse = |reason: &'static str, name: &str| {
        conflict = Some(NameConflict {
            reason,
            message: format!("{} is already in use", apimachinery::go::quote(name)),
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
