//! Parses the text format of [`Types`]. The text is part of this crate and tested, so invalid lines are skipped.

use std::collections::HashMap;

use super::{Field, FieldKind, ListType, MapType, Type, TypeId, Types};

/// Parses the table; the parent module describes the grammar.
pub(super) fn table(text: &'static str) -> Types {
    let names = Names::collect(text);
    let mut types: Vec<Type> = Vec::with_capacity(names.ids.len());
    let mut package = ("", "");
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix(' ') {
            let Some(last) = types.last_mut() else { continue };
            if let Some(field) = field(rest, package.0, &names, &last.required) {
                last.fields.push(field);
            }
        } else if let Some(rest) = line.strip_prefix("type ") {
            types.push(type_line(rest, package.1));
        } else if let Some(found) = package_line(line) {
            package = found;
        }
    }
    index(types)
}

fn index(types: Vec<Type>) -> Types {
    let mut table = Types {
        types,
        ..Types::default()
    };
    for (id, entry) in (0..).map(TypeId).zip(&table.types) {
        table.by_name.insert(entry.name.clone(), id);
        table.by_kind.extend(entry.kinds.iter().map(|kind| (*kind, id)));
    }
    table
}

/// The result of the first pass: the position and the full name of each type.
struct Names {
    /// The numbers of the types, by package alias and name.
    ids: HashMap<(&'static str, &'static str), TypeId>,
    specials: HashMap<TypeId, FieldKind>,
}

impl Names {
    fn collect(text: &'static str) -> Self {
        let mut names = Self {
            ids: HashMap::new(),
            specials: HashMap::new(),
        };
        let mut package = "";
        let mut next = 0;
        for line in text.lines().filter(|line| !line.starts_with(' ')) {
            if let Some((alias, _)) = package_line(line) {
                package = alias;
            } else if let Some(rest) = line.strip_prefix("type ") {
                names.add(package, rest, TypeId(next));
                next += 1;
            }
        }
        names
    }

    fn add(&mut self, alias: &'static str, line: &'static str, id: TypeId) {
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default();
        self.ids.insert((alias, name), id);
        if let Some(kind) = words.find_map(|word| word.strip_prefix("is=")).and_then(special) {
            self.specials.insert(id, kind);
        }
    }

    fn reference(&self, text: &'static str, package: &'static str) -> Option<FieldKind> {
        let (alias, name) = text.rsplit_once('.')?;
        let id = *self
            .ids
            .get(&(if alias.is_empty() { package } else { alias }, name))?;
        Some(self.specials.get(&id).cloned().unwrap_or(FieldKind::Ref(id)))
    }
}

fn package_line(line: &'static str) -> Option<(&'static str, &'static str)> {
    line.strip_prefix("package ")?.split_once(' ')
}

fn special(name: &str) -> Option<FieldKind> {
    Some(match name {
        "quantity" => FieldKind::Quantity,
        "int-or-string" => FieldKind::IntOrString,
        "time" => FieldKind::Time,
        "micro-time" => FieldKind::MicroTime,
        "object" => FieldKind::Object,
        "raw" => FieldKind::Raw,
        "any" => FieldKind::Any,
        _ => return None,
    })
}

fn type_line(line: &'static str, package: &str) -> Type {
    let mut words = line.split(' ');
    let name = words.next().unwrap_or_default();
    let mut entry = Type {
        name: format!("{package}.{name}"),
        kinds: Vec::new(),
        special: None,
        atomic: false,
        required: Vec::new(),
        fields: Vec::new(),
    };
    for word in words {
        match word.split_once('=') {
            Some(("gvk", value)) => entry.kinds.extend(kind_name(value)),
            Some(("is", value)) => entry.special = special(value),
            Some(("required", value)) => entry.required = value.split(',').collect(),
            _ => entry.atomic |= word == "atomic",
        }
    }
    entry
}

fn kind_name(text: &'static str) -> Option<(&'static str, &'static str, &'static str)> {
    let mut parts = text.split('/');
    Some((parts.next()?, parts.next()?, parts.next()?))
}

fn field(line: &'static str, package: &'static str, names: &Names, required: &[&str]) -> Option<Field> {
    let (line, values) = line.split_once(" |").map_or((line, Vec::new()), split_values);
    let mut words = line.split(' ');
    let (name, kind_text) = (words.next()?, words.next()?);
    let mut field = Field {
        name,
        kind: kind(kind_text, package, names)?,
        required: required.contains(&name),
        default: None,
        values,
        list_type: None,
        list_map_keys: Vec::new(),
        map_type: None,
        patch_strategy: None,
        patch_merge_key: None,
    };
    words.for_each(|word| mark(&mut field, word));
    Some(field)
}

fn split_values((line, values): (&'static str, &'static str)) -> (&'static str, Vec<&'static str>) {
    (line, values.split('|').collect())
}

fn kind(text: &'static str, package: &'static str, names: &Names) -> Option<FieldKind> {
    if let Some(items) = text.strip_prefix('[') {
        return Some(FieldKind::List(Box::new(kind(
            items.strip_suffix(']')?,
            package,
            names,
        )?)));
    }
    if let Some(items) = text.strip_prefix('{') {
        return Some(FieldKind::Map(Box::new(kind(
            items.strip_suffix('}')?,
            package,
            names,
        )?)));
    }
    Some(match text {
        "string" => FieldKind::String,
        "bytes" => FieldKind::Bytes,
        "boolean" => FieldKind::Boolean,
        "int32" => FieldKind::Int32,
        "int64" => FieldKind::Int64,
        "number" => FieldKind::Number,
        reference => names.reference(reference, package)?,
    })
}

fn mark(field: &mut Field, word: &'static str) {
    let is_list = matches!(field.kind, FieldKind::List(_));
    match word.split_once('=').unwrap_or((word, "")) {
        ("default", json) => field.default = serde_json::from_str(json).ok(),
        ("map", keys) => {
            field.list_type = Some(ListType::Map);
            field.list_map_keys = keys.split(',').collect();
        }
        ("set", _) => field.list_type = Some(ListType::Set),
        ("atomic", _) if is_list => field.list_type = Some(ListType::Atomic),
        ("atomic", _) => field.map_type = Some(MapType::Atomic),
        ("granular", _) => field.map_type = Some(MapType::Granular),
        ("patch", strategy) => field.patch_strategy = Some(strategy),
        ("key", key) => field.patch_merge_key = Some(key),
        _ => {}
    }
}
