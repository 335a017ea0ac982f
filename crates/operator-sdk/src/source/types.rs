//! Rust types in source: the line of each type and field, and their serde attributes.

use proc_macro2::TokenStream;
use syn::visit::{self, Visit};
use syn::{
    Attribute, Expr, ExprLit, Fields, GenericArgument, Ident, ItemEnum, ItemStruct, Lit, PathArguments,
    Token, Type,
};

use super::{Place, SourceFile, Sources};

/// A struct or an enum.
#[derive(Clone, Debug)]
pub(crate) struct TypeSource {
    pub(crate) name: String,
    /// The kind in the `kube` attribute.
    kind: Option<String>,
    pub(crate) place: Place,
    pub(crate) fields: Vec<FieldSource>,
}

/// A field, or a variant of an enum.
#[derive(Clone, Debug)]
pub(crate) struct FieldSource {
    /// The name in Rust.
    pub(crate) name: String,
    /// The name in JSON.
    pub(crate) json: String,
    pub(crate) place: Place,
    /// A serialization that an API server does not expect.
    pub(crate) remark: Option<Remark>,
}

/// A property that a schema does not show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remark {
    /// An `Option` in an `Option`.
    NestedOption,
    /// Required by the CRD, but not always serialized.
    RequiredButSkipped,
    /// `None` is serialized as null.
    WritesNull,
}

/// Returns all types of the source.
pub(crate) fn types(sources: &Sources) -> Vec<TypeSource> {
    let mut all = Vec::new();
    for file in sources.files() {
        let mut types = Types { file, all: &mut all };
        if let Some(syntax) = &file.syntax {
            types.visit_file(syntax);
        }
    }
    all
}

/// Returns the type with a name in a schema. If there are several, returns the one whose module is nearest to that of
/// `near`, the path of a type.
pub(crate) fn find<'a>(types: &'a [TypeSource], name: &str, near: &str) -> Option<&'a TypeSource> {
    // The names of generic types contain their arguments.
    let plain = name.split("_for_").next().unwrap_or(name);
    let named = |there: &&TypeSource| {
        there.name == name || there.name == plain || there.kind.as_deref() == Some(name)
    };
    let shared = |there: &&TypeSource| {
        let module = there
            .place
            .file
            .trim_start_matches("src/")
            .trim_end_matches(".rs");
        let steps = module.split('/');
        steps
            .zip(near.split("::").skip(1))
            .take_while(|(left, right)| left == right)
            .count()
    };
    types.iter().filter(named).max_by_key(shared)
}

struct Types<'a, 'b> {
    file: &'a SourceFile,
    all: &'b mut Vec<TypeSource>,
}

impl<'ast> Visit<'ast> for Types<'_, '_> {
    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        let container = Serde::of(&item.attrs);
        let fields = self.fields(&item.fields, &container, container.value("rename_all"));
        self.add(&item.ident, &item.attrs, fields);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast ItemEnum) {
        let container = Serde::of(&item.attrs);
        let mut fields = Vec::new();
        for variant in &item.variants {
            let serde = Serde::of(&variant.attrs);
            fields.push(FieldSource {
                name: variant.ident.to_string(),
                json: serde.json_name(&variant.ident.to_string(), container.value("rename_all"), true),
                place: self.place(variant.ident.span().byte_range().start),
                remark: None,
            });
            let case = serde.value("rename_all").or(container.value("rename_all_fields"));
            fields.extend(self.fields(&variant.fields, &container, case));
        }
        self.add(&item.ident, &item.attrs, fields);
        visit::visit_item_enum(self, item);
    }
}

impl Types<'_, '_> {
    fn place(&self, byte: usize) -> Place {
        self.file.place(byte)
    }

    fn add(&mut self, name: &Ident, attributes: &[Attribute], fields: Vec<FieldSource>) {
        let kube = Words::of(attributes, "kube");
        self.all.push(TypeSource {
            name: name.to_string(),
            kind: kube.value("kind").map(str::to_owned),
            place: self.place(name.span().byte_range().start),
            fields,
        });
    }

    fn fields(&self, fields: &Fields, container: &Serde, case: Option<&str>) -> Vec<FieldSource> {
        let Fields::Named(named) = fields else {
            return Vec::new();
        };
        let field = |field: &syn::Field| {
            let name = field.ident.as_ref()?;
            let plain = name.to_string().trim_start_matches("r#").to_owned();
            let serde = Serde::of(&field.attrs);
            Some(FieldSource {
                json: serde.json_name(&plain, case, false),
                name: plain,
                place: self.place(name.span().byte_range().start),
                remark: remark(&field.ty, &serde, container),
            })
        };
        named.named.iter().filter_map(field).collect()
    }
}

fn remark(type_: &Type, serde: &Serde, container: &Serde) -> Option<Remark> {
    if serde.has("skip") || serde.has("flatten") || serde.has("with") {
        return None;
    }
    let inner = inner_of_option(type_);
    if inner.is_some_and(|inner| inner_of_option(inner).is_some()) {
        return Some(Remark::NestedOption);
    }
    let skipped = serde.has("skip_serializing_if") || serde.has("skip_serializing");
    match inner {
        Some(_) if skipped || container.skips_none || serde.has("serialize_with") => None,
        Some(_) => Some(Remark::WritesNull),
        None if skipped && !serde.has("default") && !container.has("default") => {
            Some(Remark::RequiredButSkipped)
        }
        None => None,
    }
}

fn inner_of_option(type_: &Type) -> Option<&Type> {
    let Type::Path(path) = type_ else { return None };
    let last = path.path.segments.last()?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else {
        return None;
    };
    match arguments.args.first() {
        Some(GenericArgument::Type(inner)) if last.ident == "Option" => Some(inner),
        _ => None,
    }
}

/// The arguments of attributes with one name: `word`, `word = value` or `word(...)`.
struct Words(Vec<(String, Option<String>)>);

impl Words {
    fn of(attributes: &[Attribute], name: &str) -> Self {
        let mut words = Vec::new();
        for attribute in attributes
            .iter()
            .filter(|attribute| attribute.path().is_ident(name))
        {
            // The compiler reports arguments that cannot be parsed here.
            let _ = attribute.parse_nested_meta(|meta| {
                let word = meta.path.get_ident().map(Ident::to_string).unwrap_or_default();
                let mut value = None;
                if meta.input.peek(Token![=]) {
                    if let Expr::Lit(ExprLit {
                        lit: Lit::Str(text), ..
                    }) = meta.value()?.parse::<Expr>()?
                    {
                        value = Some(text.value());
                    }
                } else if meta.input.peek(syn::token::Paren) {
                    let inner;
                    syn::parenthesized!(inner in meta.input);
                    inner.parse::<TokenStream>()?;
                }
                words.push((word, value));
                Ok(())
            });
        }
        Self(words)
    }

    fn value(&self, word: &str) -> Option<&str> {
        let found = self.0.iter().find(|(there, _)| there == word);
        found.and_then(|(_, value)| value.as_deref())
    }
}

/// The arguments of serde and schemars attributes.
struct Serde {
    words: Words,
    schemars: Words,
    /// `#[skip_serializing_none]` of the crate `serde_with`.
    skips_none: bool,
}

impl Serde {
    fn of(attributes: &[Attribute]) -> Self {
        let last = |attribute: &Attribute| {
            attribute
                .path()
                .segments
                .last()
                .map(|name| name.ident.to_string())
        };
        Self {
            words: Words::of(attributes, "serde"),
            schemars: Words::of(attributes, "schemars"),
            skips_none: attributes
                .iter()
                .any(|attribute| last(attribute).as_deref() == Some("skip_serializing_none")),
        }
    }

    fn has(&self, word: &str) -> bool {
        self.words.0.iter().any(|(there, _)| there == word)
    }

    /// Returns a value. schemars takes precedence over serde.
    fn value(&self, word: &str) -> Option<&str> {
        self.schemars.value(word).or_else(|| self.words.value(word))
    }

    fn json_name(&self, name: &str, case: Option<&str>, is_variant: bool) -> String {
        match (self.value("rename"), case) {
            (Some(renamed), _) => renamed.to_owned(),
            (None, Some(case)) => in_case(name, case, is_variant),
            (None, None) => name.to_owned(),
        }
    }
}

/// Converts a name to one of serde's cases. Fields must be in `snake_case`, variants in `PascalCase`.
fn in_case(name: &str, case: &str, is_variant: bool) -> String {
    let snake = match is_variant {
        true => crate::names::snake_case(name),
        false => name.to_owned(),
    };
    let pascal: String = snake.split('_').map(capitalized).collect();
    match case {
        "lowercase" => snake.replace('_', ""),
        "UPPERCASE" => snake.replace('_', "").to_uppercase(),
        "PascalCase" => pascal,
        "camelCase" => {
            let mut letters = pascal.chars();
            let first = letters.next().map(|first| first.to_ascii_lowercase());
            first.into_iter().chain(letters).collect()
        }
        "SCREAMING_SNAKE_CASE" => snake.to_uppercase(),
        "kebab-case" => snake.replace('_', "-"),
        "SCREAMING-KEBAB-CASE" => snake.to_uppercase().replace('_', "-"),
        _ => snake,
    }
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_serde() {
        let cases = [
            ("max_size", "camelCase", false, "maxSize"),
            ("max_size", "PascalCase", false, "MaxSize"),
            ("max_size", "kebab-case", false, "max-size"),
            ("max_size", "SCREAMING_SNAKE_CASE", false, "MAX_SIZE"),
            ("max_size", "lowercase", false, "maxsize"),
            ("LastFirst", "camelCase", true, "lastFirst"),
            ("LastFirst", "snake_case", true, "last_first"),
            ("LastFirst", "UPPERCASE", true, "LASTFIRST"),
        ];
        for (name, case, is_variant, wanted) in cases {
            assert_eq!(in_case(name, case, is_variant), wanted, "{name} {case}");
        }
    }

    #[test]
    fn remarks_are_about_what_serde_writes() {
        let remarks = |text: &str| {
            let item: ItemStruct = syn::parse_str(text).unwrap();
            let container = Serde::of(&item.attrs);
            let remark = |field: &syn::Field| remark(&field.ty, &Serde::of(&field.attrs), &container);
            item.fields.iter().map(remark).collect::<Vec<_>>()
        };
        let fields = "struct S {
            a: Option<Option<i32>>,
            b: Option<i32>,
            #[serde(default, skip_serializing_if = \"Option::is_none\")] c: Option<i32>,
            #[serde(skip_serializing_if = \"Vec::is_empty\")] d: Vec<i32>,
            #[serde(default, skip_serializing_if = \"Vec::is_empty\")] e: Vec<i32>,
            #[serde(skip)] f: Option<i32>,
            g: i32,
        }";
        let wanted = [
            Some(Remark::NestedOption),
            Some(Remark::WritesNull),
            None,
            Some(Remark::RequiredButSkipped),
            None,
            None,
            None,
        ];
        assert_eq!(remarks(fields), wanted);
        assert_eq!(
            remarks("#[serde_with::skip_serializing_none] struct S { a: Option<i32> }"),
            [None]
        );
        let defaults =
            "#[serde(default)] struct S { #[serde(skip_serializing_if = \"Vec::is_empty\")] a: Vec<i32> }";
        assert_eq!(remarks(defaults), [None]);
    }
}
