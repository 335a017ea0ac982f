//! RBAC rules in source: `#[rbac]` attributes, and markers in comments.

use operator_manifests::rbac::Rule;
use operator_manifests::rbac::marker::{self, MarkerError};
use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, ItemFn, LitStr, ReturnType, Visibility};

use super::{Bytes, Place, SourceFile, Sources};

/// A rule and its location.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WrittenRule {
    pub(crate) rule: Rule,
    pub(crate) form: Form,
    pub(crate) place: Place,
    /// The attribute, or the line of the comment.
    pub(crate) bytes: Bytes,
}

/// The syntax of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Attribute,
    Marker,
}

/// A function that returns a controller, to which rules may be added.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Site {
    /// The name of the function.
    pub(crate) function: String,
    pub(crate) place: Place,
    /// The offset of its first attribute.
    pub(crate) start: usize,
    /// The number of its rules.
    pub(crate) rules: usize,
}

/// An invalid marker.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {error}")]
pub(crate) struct InvalidMarker {
    place: Place,
    error: MarkerError,
}

/// Returns the rules of attributes. Invalid attributes are skipped, because the compiler reports them.
pub(crate) fn attributes(sources: &Sources) -> Vec<WrittenRule> {
    let found = functions(sources).into_iter().flat_map(|(file, function)| {
        let attributes = function.attrs.iter().filter(|attribute| is_rbac(attribute));
        let rules = attributes.filter_map(|attribute| {
            let bytes = attribute.span().byte_range();
            Some(WrittenRule {
                rule: rule_of(attribute)?,
                form: Form::Attribute,
                place: file.place(bytes.start),
                bytes,
            })
        });
        rules.collect::<Vec<_>>()
    });
    found.collect()
}

/// Returns the functions that return a controller or have rules, those with the most rules first.
pub(crate) fn sites(sources: &Sources) -> Vec<Site> {
    let sites = functions(sources).into_iter().filter_map(|(file, function)| {
        let rules = function
            .attrs
            .iter()
            .filter(|attribute| is_rbac(attribute))
            .count();
        let start = start_of(function);
        (rules > 0 || returns_controller(function)).then(|| Site {
            function: function.sig.ident.to_string(),
            place: file.place(start),
            start,
            rules,
        })
    });
    let mut sites: Vec<Site> = sites.collect();
    sites.sort_by_key(|site| std::cmp::Reverse(site.rules));
    sites
}

/// Returns the offset of the first rule of a function, or of the item after its documentation.
fn start_of(function: &ItemFn) -> usize {
    let mut attributes = function.attrs.iter();
    let span = match (attributes.find(|attribute| is_rbac(attribute)), &function.vis) {
        (Some(rule), _) => rule.span(),
        (None, Visibility::Inherited) => function.sig.span(),
        (None, visibility) => visibility.span(),
    };
    span.byte_range().start
}

fn returns_controller(function: &ItemFn) -> bool {
    let ReturnType::Type(_, type_) = &function.sig.output else {
        return false;
    };
    let syn::Type::Path(path) = type_.as_ref() else {
        return false;
    };
    let name = path.path.segments.last();
    name.is_some_and(|name| name.ident == "Controller")
}

/// Returns the rules of markers in comments.
pub(crate) fn markers(sources: &Sources) -> Result<Vec<WrittenRule>, InvalidMarker> {
    let mut rules = Vec::new();
    for file in sources.files() {
        let texts = texts_of_lines(file);
        let mut start = 0;
        for line in file.text.split_inclusive('\n') {
            let bytes = start..start + line.trim_end().len();
            start += line.len();
            let in_text = texts.iter().any(|text| text.contains(&bytes.start));
            let Some(parsed) = marker::parse(line).filter(|_| !in_text) else {
                continue;
            };
            let place = file.place(bytes.start);
            match parsed {
                Ok(rule) => rules.push(WrittenRule {
                    rule,
                    form: Form::Marker,
                    place,
                    bytes,
                }),
                Err(error) => return Err(InvalidMarker { place, error }),
            }
        }
    }
    Ok(rules)
}

/// Returns a rule as an attribute, formatted like rustfmt at this indentation.
pub(crate) fn attribute(rule: &Rule, indent: &str) -> String {
    let arguments = arguments(rule, "resource_names").into_iter();
    let arguments: Vec<String> = arguments
        .map(|(name, value)| format!("{name} = {value:?}"))
        .collect();
    let line = format!("#[rbac({})]", arguments.join(", "));
    if line.len() <= ATTRIBUTE_WIDTH {
        return line;
    }
    let lines = arguments.join(&format!(",\n{indent}    "));
    format!("#[rbac(\n{indent}    {lines}\n{indent})]")
}

/// Maximum width of an attribute on one line in rustfmt: 70 characters of arguments.
const ATTRIBUTE_WIDTH: usize = 70 + "#[rbac()]".len();

/// Returns a rule as a marker comment.
pub(crate) fn comment(rule: &Rule) -> String {
    let arguments = arguments(rule, "resourceNames").into_iter();
    let arguments: Vec<String> = arguments.map(|(name, value)| format!("{name}={value}")).collect();
    format!("// {}{}", marker::PREFIX, arguments.join(","))
}

/// Returns the arguments of a rule. The name of one of them differs between the two forms.
fn arguments<'a>(rule: &Rule, resource_names: &'a str) -> Vec<(&'a str, String)> {
    let groups: Vec<String> = rule.api_groups.iter().map(|group| group_name(group)).collect();
    let mut arguments = vec![
        ("groups", groups.join(";")),
        ("resources", rule.resources.join(";")),
        (resource_names, rule.resource_names.join(";")),
        ("urls", rule.non_resource_urls.join(";")),
        ("verbs", rule.verbs.join(";")),
        ("namespace", rule.namespace.clone().unwrap_or_default()),
        ("roleName", rule.role_name.clone().unwrap_or_default()),
    ];
    arguments.retain(|(_, value)| !value.is_empty());
    arguments
}

fn group_name(group: &str) -> String {
    if group.is_empty() { "core" } else { group }.to_owned()
}

fn functions(sources: &Sources) -> Vec<(&SourceFile, &ItemFn)> {
    let mut all = Vec::new();
    for file in sources.files() {
        let mut functions = Functions(Vec::new());
        if let Some(syntax) = &file.syntax {
            functions.visit_file(syntax);
        }
        all.extend(functions.0.into_iter().map(|function| (file, function)));
    }
    all
}

/// The functions of a file, at any depth.
struct Functions<'a>(Vec<&'a ItemFn>);

impl<'a> Visit<'a> for Functions<'a> {
    fn visit_item_fn(&mut self, function: &'a ItemFn) {
        self.0.push(function);
        visit::visit_item_fn(self, function);
    }
}

fn is_rbac(attribute: &Attribute) -> bool {
    let name = attribute.path().segments.last();
    name.is_some_and(|name| name.ident == "rbac")
}

fn rule_of(attribute: &Attribute) -> Option<Rule> {
    let mut rule = Rule::default();
    let parsed = attribute.parse_nested_meta(|meta| {
        let name = meta.path.require_ident()?.to_string();
        let value = meta.value()?.parse::<LitStr>()?.value();
        let words = || value.split(';').map(|word| word.trim().to_owned());
        match name.as_str() {
            "groups" => rule.api_groups.extend(words()),
            "resources" => rule.resources.extend(words()),
            "verbs" => rule.verbs.extend(words()),
            "resource_names" => rule.resource_names.extend(words()),
            "urls" => rule.non_resource_urls.extend(words()),
            "namespace" => rule.namespace = Some(value),
            _ => return Err(meta.error("unknown argument")),
        }
        Ok(())
    });
    parsed.ok().map(|()| rule)
}

/// Returns the ranges of multi-line literals, in which comment markers are text.
fn texts_of_lines(file: &SourceFile) -> Vec<Bytes> {
    if file.syntax.is_none() || !file.text.contains(marker::PREFIX) {
        return Vec::new();
    }
    let mut texts = Vec::new();
    if let Ok(tokens) = file.text.parse::<TokenStream>() {
        collect_texts(tokens, &mut texts);
    }
    texts
}

fn collect_texts(tokens: TokenStream, texts: &mut Vec<Bytes>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => collect_texts(group.stream(), texts),
            TokenTree::Literal(literal) => {
                let span = literal.span();
                if span.start().line != span.end().line {
                    texts.push(span.byte_range());
                }
            }
            _ => {}
        }
    }
}
