//! Operations on typed values. Each operation has its own file and uses `Form`.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::go;
use crate::path::PathElement;
use crate::schema::{Arena, Atom, List, Map, Scalar, TypeId};

mod compare;
mod fields;
mod merge;
mod overlay;
mod reconcile;
mod remove;
mod validate;

pub use compare::Comparison;
pub(crate) use compare::{compare, compare_valid};
pub(crate) use fields::{field_set, with_named_fields};
pub(crate) use merge::merge;
pub use overlay::overlay;
pub(crate) use reconcile::reconcile;
pub(crate) use remove::{extract, remove};
pub(crate) use validate::{Duplicates, validate};

/// A mismatch between a value and its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedError {
    path: String,
    message: String,
}

/// All mismatches between a value and its type; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedErrors(Vec<TypedError>);

/// The maximum size of the errors of a value, in bytes. Each field below many long keys has an error with these keys.
const ERROR_BYTES_MAX: usize = 4 << 20;

/// Collects the errors of a value, up to the size limit.
#[derive(Default)]
struct Errors {
    found: Vec<TypedError>,
    size: usize,
}

impl Errors {
    fn push(&mut self, place: Place<'_>, message: impl Into<String>) {
        if self.is_full() {
            return;
        }
        let error = TypedError {
            path: place.to_string(),
            message: message.into(),
        };
        self.size += size_of::<TypedError>() + error.path.len() + error.message.len();
        self.found.push(error);
        if self.is_full() {
            self.found.push(TypedError {
                path: String::new(),
                message: "there are too many errors: the others are not shown".to_owned(),
            });
        }
    }

    fn is_full(&self) -> bool {
        self.size > ERROR_BYTES_MAX
    }

    fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Returns `Ok` if there are no errors.
    fn finish(self) -> Result<(), TypedErrors> {
        if self.found.is_empty() {
            Ok(())
        } else {
            Err(TypedErrors(self.found))
        }
    }
}

/// The place of a value: the path elements above it, which are formatted for errors only.
#[derive(Clone, Copy, Default)]
struct Place<'p>(Option<(&'p Place<'p>, &'p dyn fmt::Display)>);

impl<'p> Place<'p> {
    fn below(&'p self, element: &'p dyn fmt::Display) -> Self {
        Self(Some((self, element)))
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some((above, element)) => write!(f, "{above}{element}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for TypedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.path.as_str(), self.message.as_str()) {
            ("", message) => f.write_str(message),
            (path, "") => f.write_str(path),
            (path, message) => write!(f, "{path}: {message}"),
        }
    }
}

impl fmt::Display for TypedErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return only.fmt(f);
        }
        f.write_str("errors:")?;
        self.0.iter().try_for_each(|error| write!(f, "\n  {error}"))
    }
}

impl std::error::Error for TypedErrors {}

/// The description of an atom that applies to a value.
#[derive(Clone, Copy)]
enum Form<'a> {
    Scalar(Scalar),
    List(&'a List),
    Map(&'a Map),
    Nothing,
}

/// The form of a value of a type with several forms, or all forms if the value selects none.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Deduced {
    Scalar,
    List,
    Map,
    Any,
}

impl Deduced {
    fn of(atom: &Atom, value: Option<&Value>) -> Self {
        let forms = (atom.scalar.is_some(), atom.list.is_some(), atom.map.is_some());
        match (value, forms) {
            (_, (true, false, false)) => Self::Scalar,
            (_, (false, true, false)) => Self::List,
            (_, (false, false, true)) => Self::Map,
            (Some(Value::Number(_) | Value::String(_) | Value::Bool(_)), (true, ..)) => Self::Scalar,
            (Some(Value::Array(_)), (_, true, _)) => Self::List,
            (Some(Value::Object(_)), (.., true)) => Self::Map,
            _ => Self::Any,
        }
    }

    fn form(self, atom: &Atom) -> Form<'_> {
        let map = || atom.map.as_ref().map(Form::Map);
        let scalar = || atom.scalar.map(Form::Scalar);
        let list = || atom.list.as_ref().map(Form::List);
        match self {
            Self::Scalar => scalar(),
            Self::List => list(),
            Self::Map => map(),
            Self::Any => map().or_else(scalar).or_else(list),
        }
        .unwrap_or(Form::Nothing)
    }
}

/// Returns the form in which `value` is interpreted as a value of type `kind`.
fn form<'a>(types: &'a Arena, kind: TypeId, value: &Value) -> Form<'a> {
    let atom = types.get(kind);
    Deduced::of(atom, Some(value)).form(atom)
}

const NO_FORM: &str = "schema error: invalid atom: inlined";

/// Checks that a value is a scalar of a type; null is always valid.
fn check_scalar(scalar: Scalar, value: Option<&Value>, side: &str) -> Result<(), String> {
    let Some(value) = value.filter(|value| !value.is_null()) else {
        return Ok(());
    };
    let fits = match scalar {
        Scalar::Numeric => value.is_number(),
        Scalar::String => value.is_string(),
        Scalar::Boolean => value.is_boolean(),
        Scalar::Untyped => !value.is_array() && !value.is_object(),
    };
    if fits {
        return Ok(());
    }
    Err(match scalar {
        Scalar::Numeric => format!(
            "{side}expected numeric (int or float), got {}",
            go::type_name(value)
        ),
        Scalar::String => {
            format!(
                "{side}expected string, got &value.valueUnstructured{{Value:{}}}",
                go::syntax(value)
            )
        }
        Scalar::Boolean => format!("{side}expected boolean, got &{{{}}}", go::plain(value)),
        Scalar::Untyped => format!("{side}expected any scalar, got &{{{}}}", go::plain(value)),
    })
}

/// Checks that an item of an associative list can be identified; cheaper than [`list_element`].
fn check_element(types: &Arena, list: &List, item: &Value) -> Result<(), String> {
    let has_key = |key: &Arc<str>| item.get(&**key).is_some();
    let keyed = !list.keys.is_empty() && item.is_object() && list.keys.iter().all(has_key);
    let scalar = list.keys.is_empty() && !(item.is_object() || item.is_array() || item.is_null());
    if keyed || scalar {
        Ok(())
    } else {
        list_element(types, list, item).map(|_| ())
    }
}

/// Returns the path element that identifies an item of an associative list.
fn list_element(types: &Arena, list: &List, item: &Value) -> Result<PathElement, String> {
    if !list.associative {
        return Err("invalid indexing of non-associative list".to_owned());
    }
    if list.keys.is_empty() {
        set_element(item)
    } else {
        key_element(types, list, item)
    }
}

fn set_element(item: &Value) -> Result<PathElement, String> {
    match item {
        Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
        Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
        Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
        scalar => Ok(PathElement::value(scalar.clone())),
    }
}

fn key_element(types: &Arena, list: &List, item: &Value) -> Result<PathElement, String> {
    if item.is_null() {
        return Err("associative list with keys may not have a null element".to_owned());
    }
    let Some(map) = item.as_object() else {
        return Err("associative list with keys may not have non-map elements".to_owned());
    };
    let mut fields: Vec<(Arc<str>, Value)> = Vec::with_capacity(list.keys.len());
    for key in &list.keys {
        let value = match map.get(&**key) {
            Some(value) => Some(value.clone()),
            None => key_default(types, list, key)?,
        };
        // A missing key is not part of the identity.
        fields.extend(value.map(|value| (Arc::clone(key), value)));
    }
    if fields.is_empty() {
        let keys: Vec<String> = list.keys.iter().map(|key| apimachinery::go::quote(key)).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
            keys.join(" ")
        ));
    }
    Ok(PathElement::key(fields))
}

fn key_default(types: &Arena, list: &List, key: &str) -> Result<Option<Value>, String> {
    let Some(map) = &types.get(list.element).map else {
        return Err(format!(
            "couldn't find default value for {key}: associative list may not have non-map types"
        ));
    };
    let default = map.field(key).and_then(|field| field.default.clone());
    Ok(default.filter(|default| !default.is_null()))
}
