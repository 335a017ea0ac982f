//! Tests that the public items of the crates for operators and their tests equal the golden files in
//! `tests/public_api`. After a change of the API, the test fails until the golden file is updated, so that a reviewer
//! sees the change:
//!
//! ```text
//! UPDATE_API=1 cargo test -p operator-sdk --test public_api
//! ```
//!
//! The test reads the source, because rustdoc's JSON needs an unstable compiler. It does not see items that
//! `macro_rules!` creates, nor traits that the compiler implements (`Send`, `Sync`).

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{Attribute, Fields, ImplItem, Item, ItemImpl, TraitItem, Type, UseTree, Visibility};

const CRATES: [&str; 5] = [
    "operator-runtime",
    "operator-lib",
    "operator-macros",
    "operator-envtest",
    "operator-chaos",
];

/// Maximum length of a chain of re-exports.
const LONGEST_CHAIN: usize = 16;

#[test]
fn a_change_of_the_api_is_reviewed() {
    let update = std::env::var_os("UPDATE_API").is_some();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut changed = String::new();
    for name in CRATES {
        let found = listing(&here.join("..").join(name), name);
        let golden = here.join("tests/public_api").join(format!("{name}.txt"));
        if update {
            std::fs::write(&golden, &found).unwrap();
        }
        let expected = std::fs::read_to_string(&golden).unwrap_or_default();
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
        for line in lines(&expected).difference(&lines(&found)) {
            writeln!(changed, "{name}: -{line}").unwrap();
        }
        for line in lines(&found).difference(&lines(&expected)) {
            writeln!(changed, "{name}: +{line}").unwrap();
        }
        if changed.is_empty() && expected != found {
            writeln!(changed, "{name}: lines moved").unwrap();
        }
    }
    assert!(
        changed.is_empty(),
        "the public API changed; if that is intended, write the golden files with\n\
         UPDATE_API=1 cargo test -p operator-sdk --test public_api\n{changed}"
    );
}

/// The listing contains the items that users of a crate see.
#[test]
fn the_listing_has_what_users_see() {
    let dir = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = dir.path().join("src").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write(
        "lib.rs",
        "pub use kube;\nmod a;\npub mod b;\nmod hidden;\npub use a::{One, Two as Second};\n\
         #[cfg(test)] pub mod tests { pub fn no() {} }\n",
    );
    write(
        "a.rs",
        "mod deep;\npub use self::deep::One;\n#[derive(Debug, Clone)] pub enum Two { A, B { x: u8 } }\n\
         impl<T: Into<u8>> From<T> for Two { fn from(_: T) -> Self { Two::A } }\npub struct Unreached;\n",
    );
    write(
        "a/deep.rs",
        "#[non_exhaustive] pub struct One<T = u8> { pub x: Vec<T>, y: u8 }\n\
         impl<T> One<T> where T: Copy { pub async fn get<'a>(&'a self, f: impl Fn(&str) -> u8 + Send) -> Option<&'a T> { None } fn no(&self) {} }\n\
         impl Drop for Private { fn drop(&mut self) {} }\nstruct Private;\n",
    );
    write(
        "b/mod.rs",
        "use crate::hidden::Inner;\n/// Documented.\npub trait T: Send { type X; fn a(&self); fn b(&self) -> [u8; 2] { [0; 2] } }\n\
         impl T for String { type X = u8; fn a(&self) {} }\nimpl Inner { pub fn seen(&self) {} }\npub use crate::hidden::*;\n\
         pub const C: &str = \"x\";\n#[doc(hidden)] pub fn no() {}\n",
    );
    write(
        "hidden.rs",
        "pub struct Inner(pub u8, u8);\npub(crate) fn no() {}\n",
    );
    let expected = "\
pub enum sample::Second { A, B { x: u8 } }
    impl Clone
    impl Debug
    impl<T: Into<u8>> From<T> for Two
pub mod sample::b
pub const sample::b::C: &str
pub struct sample::b::Inner(pub u8, ..)
    impl Inner: pub fn seen(&self)
pub trait sample::b::T: Send { type X; fn a(&self); fn b(&self) -> [u8; 2] default; }
    impl T for String
pub use kube as sample::kube
";
    let one = "\
#[non_exhaustive] pub struct sample::One<T = u8> { pub x: Vec<T>, .. }
    impl<T> One<T> where T: Copy: pub async fn get<'a>(&'a self, f: impl Fn(&str) -> u8 + Send) -> Option<&'a T>
";
    assert_eq!(listing(dir.path(), "sample"), format!("{one}{expected}"));
}

/// Returns the public items of a crate, each with its path, its fields and functions, and its traits.
fn listing(directory: &Path, name: &str) -> String {
    let name = name.replace('-', "_");
    let root = directory.join("src/lib.rs");
    let mut tree = Tree::default();
    tree.load(Vec::new(), &root, &directory.join("src"));
    let mut found = BTreeMap::new();
    tree.walk(&[], &name, &mut found, &mut BTreeSet::new());

    // For a re-exported item, only the shortest path has the details.
    let mut paths: BTreeMap<Id, Vec<String>> = BTreeMap::new();
    for (path, id) in &found {
        paths.entry(id.clone()).or_default().push(path.clone());
    }
    let mut text = String::new();
    for (path, id) in &found {
        let shortest = paths[id]
            .iter()
            .min_by_key(|path| (path.matches("::").count(), *path));
        match shortest.filter(|shortest| *shortest != path) {
            Some(shortest) => writeln!(text, "pub use {shortest} as {path}").unwrap(),
            None => tree.describe(path, id, &mut text),
        }
    }
    text
}

/// An item: the module that defines it, and its name there. External items have the path of the `use`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Id {
    Module(Vec<String>),
    Item(Vec<String>, String),
    External(String),
}

/// The modules of a crate by path, except for those of tests.
#[derive(Default)]
struct Tree(BTreeMap<Vec<String>, Vec<Item>>);

impl Tree {
    /// Reads a module and its submodules, whose files are in `folder`.
    fn load(&mut self, path: Vec<String>, file: &Path, folder: &Path) {
        let text =
            std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        self.add(path, syn::parse_file(&text).unwrap().items, folder);
    }

    fn add(&mut self, path: Vec<String>, items: Vec<Item>, folder: &Path) {
        let items: Vec<Item> = items
            .into_iter()
            .filter(|item| !is_test(attributes(item)))
            .collect();
        for item in &items {
            let Item::Mod(module) = item else { continue };
            let name = module.ident.to_string();
            let inner = [&path[..], std::slice::from_ref(&name)].concat();
            let folder = folder.join(&name);
            match &module.content {
                Some((_, items)) => self.add(inner, items.clone(), &folder),
                None => {
                    let files: [PathBuf; 2] = [folder.with_extension("rs"), folder.join("mod.rs")];
                    let file = files.iter().find(|file| file.is_file()).unwrap();
                    self.load(inner, file, &folder);
                }
            }
        }
        self.0.insert(path, items);
    }

    /// Adds the public items of a module under the public path `prefix`.
    fn walk(
        &self,
        module: &[String],
        prefix: &str,
        found: &mut BTreeMap<String, Id>,
        open: &mut BTreeSet<Vec<String>>,
    ) {
        if !open.insert(module.to_vec()) {
            return;
        }
        for item in &self.0[module] {
            if !is_public(item) || is_hidden(attributes(item)) {
                continue;
            }
            match item {
                Item::Use(item) => {
                    for (path, name) in flatten(&item.tree) {
                        if name == "*" {
                            if let Some(Id::Module(inner)) = self.resolve(module, &path, 0) {
                                self.walk(&inner, prefix, found, open);
                            }
                            continue;
                        }
                        let id = self
                            .resolve(module, &path, 0)
                            .unwrap_or_else(|| Id::External(path.join("::")));
                        self.found(id, format!("{prefix}::{name}"), found, open);
                    }
                }
                Item::Mod(item) => {
                    let inner = [module, &[item.ident.to_string()]].concat();
                    self.found(
                        Id::Module(inner),
                        format!("{prefix}::{}", item.ident),
                        found,
                        open,
                    );
                }
                _ => {
                    let Some(name) = name_of(item) else { continue };
                    let path = format!("{prefix}::{name}");
                    found.insert(path, Id::Item(module.to_vec(), name));
                }
            }
        }
        open.remove(module);
    }

    fn found(
        &self,
        id: Id,
        path: String,
        found: &mut BTreeMap<String, Id>,
        open: &mut BTreeSet<Vec<String>>,
    ) {
        if let Id::Module(module) = &id {
            self.walk(module, &path, found, open);
        }
        found.insert(path, id);
    }

    /// Returns the item of this crate for a path in a module.
    fn resolve(&self, module: &[String], path: &[String], depth: usize) -> Option<Id> {
        if depth > LONGEST_CHAIN {
            return None;
        }
        let mut at = module.to_vec();
        let mut rest = path;
        loop {
            match rest.split_first()? {
                (first, after) if first == "crate" => (at, rest) = (Vec::new(), after),
                (first, after) if first == "self" => rest = after,
                (first, after) if first == "super" => {
                    at.pop();
                    rest = after;
                }
                _ => break,
            }
        }
        let (name, after) = rest.split_first()?;
        let inner = [&at[..], std::slice::from_ref(name)].concat();
        if self.0.contains_key(&inner) {
            return if after.is_empty() {
                Some(Id::Module(inner))
            } else {
                self.resolve(&inner, &prefixed(after), depth + 1)
            };
        }
        let items = self.0.get(&at)?;
        if after.is_empty() && items.iter().any(|item| name_of(item).as_ref() == Some(name)) {
            return Some(Id::Item(at, name.clone()));
        }
        // An import in that module. Imports from other crates are not found, which ends the search.
        let uses = items.iter().filter_map(|item| {
            if let Item::Use(item) = item {
                Some(item)
            } else {
                None
            }
        });
        let imports: Vec<_> = uses.flat_map(|item| flatten(&item.tree)).collect();
        for (path, imported) in &imports {
            if imported == name && path != rest {
                let full = [&path[..], after].concat();
                return self.resolve(&at, &full, depth + 1);
            }
        }
        imports
            .iter()
            .filter(|(_, imported)| imported == "*")
            .find_map(|(path, _)| {
                let Some(Id::Module(inner)) = self.resolve(&at, path, depth + 1) else {
                    return None;
                };
                self.resolve(&inner, &prefixed(rest), depth + 1)
            })
    }

    /// Writes an item and its implementations.
    fn describe(&self, path: &str, id: &Id, text: &mut String) {
        let (module, name) = match id {
            Id::Module(_) => return writeln!(text, "pub mod {path}").unwrap(),
            Id::External(external) => return writeln!(text, "pub use {external} as {path}").unwrap(),
            Id::Item(module, name) => (module, name),
        };
        let mut lines = BTreeSet::new();
        for item in &self.0[module] {
            if name_of(item).as_ref() == Some(name) {
                writeln!(text, "{}", signature(item).replacen("\u{0}", path, 1)).unwrap();
                for derived in derives(attributes(item)) {
                    lines.insert(format!("impl {derived}"));
                }
            }
        }
        for (at, items) in &self.0 {
            for item in items {
                if let Item::Impl(item) = item {
                    self.implemented(at, item, id, &mut lines);
                }
            }
        }
        for line in lines {
            writeln!(text, "    {line}").unwrap();
        }
    }

    /// Adds an `impl` of a type, or of a trait for a type of another crate.
    fn implemented(&self, module: &[String], item: &ItemImpl, id: &Id, lines: &mut BTreeSet<String>) {
        let resolve = |path: &syn::Path| {
            let path: Vec<String> = path
                .segments
                .iter()
                .map(|segment| segment.ident.to_string())
                .collect();
            self.resolve(module, &path, 0)
        };
        let mut target = &*item.self_ty;
        while let Type::Reference(reference) = target {
            target = &reference.elem;
        }
        let of = if let Type::Path(path) = target {
            resolve(&path.path)
        } else {
            None
        };
        let of_trait = item.trait_.as_ref().and_then(|(path, ..)| resolve(path));
        if of.as_ref() != Some(id) && (of.is_some() || of_trait.as_ref() != Some(id)) {
            return;
        }
        let (generics, _, conditions) = item.generics.split_for_impl();
        let cfg = conditional(&item.attrs);
        let parameters = &item.generics.params;
        let generics = if parameters.is_empty() {
            generics.to_token_stream()
        } else {
            quote!(<#parameters>)
        };
        let ty = &item.self_ty;
        match &item.trait_ {
            Some((path, ..)) => {
                lines.insert(render(quote!(#(#cfg)* impl #generics #path for #ty #conditions)));
            }
            None => {
                let header = render(quote!(#(#cfg)* impl #generics #ty #conditions));
                for member in &item.items {
                    let (vis, attrs, signature) = match member {
                        ImplItem::Fn(member) => (&member.vis, &member.attrs, member.sig.to_token_stream()),
                        ImplItem::Const(member) => {
                            let (name, ty) = (&member.ident, &member.ty);
                            (&member.vis, &member.attrs, quote!(const #name: #ty))
                        }
                        _ => continue,
                    };
                    if matches!(vis, Visibility::Public(_)) && !is_hidden(attrs) {
                        let cfg = conditional(attrs);
                        lines.insert(format!("{header}: {}", render(quote!(#(#cfg)* pub #signature))));
                    }
                }
            }
        }
    }
}

fn prefixed(path: &[String]) -> Vec<String> {
    [&["self".to_owned()], path].concat()
}

/// Returns the paths in a `use`, and the names that they get. The name `*` means all names of a module.
fn flatten(tree: &UseTree) -> Vec<(Vec<String>, String)> {
    match tree {
        UseTree::Path(path) => {
            let first = path.ident.to_string();
            let inner = flatten(&path.tree).into_iter();
            let with_first = inner.map(|(rest, name)| match rest.as_slice() {
                [only] if only == "self" && name == "self" => (vec![first.clone()], first.clone()),
                _ => ([std::slice::from_ref(&first), &rest[..]].concat(), name),
            });
            with_first.collect()
        }
        UseTree::Name(name) => vec![(vec![name.ident.to_string()], name.ident.to_string())],
        UseTree::Rename(rename) => vec![(vec![rename.ident.to_string()], rename.rename.to_string())],
        UseTree::Glob(_) => vec![(Vec::new(), "*".to_owned())],
        UseTree::Group(group) => group.items.iter().flat_map(flatten).collect(),
    }
}

/// Returns an item without bodies, values, private fields and documentation. Its name is U+0000.
fn signature(item: &Item) -> String {
    let name = quote!(NAME_OF_THE_ITEM);
    let attrs = attributes(item);
    let kept = attrs.iter().filter(|attribute| {
        let name = render(attribute.path().to_token_stream());
        name == "non_exhaustive"
            || name == "must_use"
            || name == "deprecated"
            || name == "cfg"
            || name.starts_with("proc_macro")
    });
    let tokens = match item {
        Item::Fn(item) => {
            let mut signature = item.sig.clone();
            signature.ident = syn::parse_quote!(NAME_OF_THE_ITEM);
            quote!(pub #signature)
        }
        Item::Struct(item) => {
            let (parameters, conditions) = generics(&item.generics);
            let fields = fields(&item.fields, true);
            quote!(pub struct #name #parameters #conditions #fields)
        }
        Item::Enum(item) => {
            let (parameters, conditions) = generics(&item.generics);
            let variants = item.variants.iter().map(|variant| {
                let (ident, fields) = (&variant.ident, fields(&variant.fields, false));
                let value = variant.discriminant.as_ref().map(|(_, value)| quote!(= #value));
                let non_exhaustive = variant
                    .attrs
                    .iter()
                    .filter(|attribute| attribute.path().is_ident("non_exhaustive"));
                quote!(#(#non_exhaustive)* #ident #fields #value)
            });
            quote!(pub enum #name #parameters #conditions { #(#variants),* })
        }
        Item::Trait(item) => {
            let (parameters, conditions) = generics(&item.generics);
            let bounds = &item.supertraits;
            let bounds = (!bounds.is_empty()).then(|| quote!(: #bounds));
            let members = item.items.iter().map(|member| match member {
                TraitItem::Fn(member) => {
                    let (signature, default) =
                        (&member.sig, member.default.as_ref().map(|_| quote!(default)));
                    quote!(#signature #default;)
                }
                TraitItem::Const(member) => {
                    let (name, ty, default) = (
                        &member.ident,
                        &member.ty,
                        member.default.as_ref().map(|_| quote!(default)),
                    );
                    quote!(const #name: #ty #default;)
                }
                other => {
                    let mut other = other.clone();
                    if let TraitItem::Type(other) = &mut other {
                        other.attrs.clear();
                    }
                    other.to_token_stream()
                }
            });
            quote!(pub trait #name #parameters #bounds #conditions { #(#members)* })
        }
        Item::Type(item) => {
            let (parameters, conditions) = generics(&item.generics);
            let ty = &item.ty;
            quote!(pub type #name #parameters = #ty #conditions)
        }
        Item::Const(item) => {
            let ty = &item.ty;
            quote!(pub const #name: #ty)
        }
        Item::Static(item) => {
            let ty = &item.ty;
            quote!(pub static #name: #ty)
        }
        Item::Macro(_) => quote!(macro #name),
        other => panic!("unknown item: {}", other.to_token_stream()),
    };
    render(quote!(#(#kept)* #tokens)).replace("NAME_OF_THE_ITEM", "\u{0}")
}

fn generics(generics: &syn::Generics) -> (TokenStream, TokenStream) {
    let (parameters, conditions) = (&generics.params, &generics.where_clause);
    let parameters = if parameters.is_empty() {
        quote!()
    } else {
        quote!(<#parameters>)
    };
    (parameters, conditions.to_token_stream())
}

/// Returns the public fields, and `..` for private ones. The fields of variants are public.
fn fields(fields: &Fields, need_pub: bool) -> TokenStream {
    let is_seen = |field: &&syn::Field| {
        (!need_pub || matches!(field.vis, Visibility::Public(_))) && !is_hidden(&field.attrs)
    };
    let seen: Vec<_> = fields.iter().filter(is_seen).collect();
    let rest = (seen.len() < fields.len()).then(|| quote!(..));
    let seen = seen.into_iter().map(|field| {
        let (cfg, vis, ty) = (conditional(&field.attrs), &field.vis, &field.ty);
        let name = field.ident.as_ref().map(|name| quote!(#name:));
        quote!(#(#cfg)* #vis #name #ty)
    });
    let parts: Vec<_> = seen.chain(rest).collect();
    match fields {
        Fields::Named(_) => quote!({ #(#parts),* }),
        Fields::Unnamed(_) => quote!((#(#parts),*)),
        Fields::Unit => quote!(),
    }
}

fn derives(attrs: &[Attribute]) -> Vec<String> {
    let mut names = Vec::new();
    for attribute in attrs
        .iter()
        .filter(|attribute| attribute.path().is_ident("derive"))
    {
        let parsed = attribute.parse_nested_meta(|meta| {
            names.push(render(meta.path.segments.last().to_token_stream()));
            Ok(())
        });
        parsed.unwrap();
    }
    names
}

fn conditional(attrs: &[Attribute]) -> Vec<&Attribute> {
    attrs
        .iter()
        .filter(|attribute| attribute.path().is_ident("cfg"))
        .collect()
}

fn is_test(attrs: &[Attribute]) -> bool {
    conditional(attrs)
        .iter()
        .any(|attribute| render(attribute.to_token_stream()) == "#[cfg(test)]")
}

fn is_hidden(attrs: &[Attribute]) -> bool {
    attrs
        .iter()
        .any(|attribute| render(attribute.to_token_stream()) == "#[doc(hidden)]")
}

fn is_public(item: &Item) -> bool {
    let vis = match item {
        Item::Const(item) => &item.vis,
        Item::Enum(item) => &item.vis,
        Item::Fn(item) => &item.vis,
        Item::Mod(item) => &item.vis,
        Item::Static(item) => &item.vis,
        Item::Struct(item) => &item.vis,
        Item::Trait(item) => &item.vis,
        Item::Type(item) => &item.vis,
        Item::Use(item) => &item.vis,
        Item::Macro(item) => {
            return item
                .attrs
                .iter()
                .any(|attribute| attribute.path().is_ident("macro_export"));
        }
        _ => return false,
    };
    matches!(vis, Visibility::Public(_))
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Returns the name of an item that is neither a module nor an import.
fn name_of(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

/// Returns tokens as rustfmt would write them on one line, because the text of `TokenStream` is not specified.
fn render(tokens: TokenStream) -> String {
    let mut words = Vec::new();
    collect(tokens, &mut words);
    let mut text = String::new();
    let mut before = "";
    for (index, word) in words.iter().enumerate() {
        let next = words.get(index + 1).map_or("", String::as_str);
        // rustfmt ends multi-line lists with a comma.
        if word == "," && [")", "]", ">", "}"].contains(&next) {
            continue;
        }
        let is_name =
            |word: &str| word.starts_with(|first: char| first.is_alphanumeric() || "_'\"".contains(first));
        let spaced = ["->", "=", "+", "=>", "{", "}"];
        let space = (is_name(before) && is_name(word))
            || ([",", ";", ":"].contains(&before)
                || spaced.contains(&before)
                || spaced.contains(&word.as_str()))
            || ([")", "]", ">"].contains(&before) && is_name(word))
            || (is_name(before) && ["&", "*", "#"].contains(&word.as_str()));
        if space && !text.is_empty() && ![",", ";"].contains(&word.as_str()) {
            text.push(' ');
        }
        text.push_str(word);
        before = word;
    }
    text
}

/// Collects the words and signs of tokens.
fn collect(tokens: TokenStream, words: &mut Vec<String>) {
    let mut joined = String::new();
    for token in tokens {
        match token {
            TokenTree::Punct(punct) => {
                joined.push(punct.as_char());
                // Angle brackets are not joined with other signs, and a sign may precede a lifetime.
                let whole = joined != "'"
                    && (punct.spacing() == Spacing::Alone
                        || !["-", ":", "=", "."].contains(&joined.as_str()));
                if whole {
                    words.push(std::mem::take(&mut joined));
                }
            }
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                words.push(open.to_owned());
                collect(group.stream(), words);
                words.push(close.to_owned());
            }
            other => words.push(format!("{}{other}", std::mem::take(&mut joined))),
        }
    }
}
