//! Writes the table of descriptions, from the schemas in the source of the crate `k8s-openapi` and from the file
//! `additions-1.36.txt`, which has the descriptions that this crate does not contain.
//!
//! The source is parsed and not compiled. Compiling that crate for the build script would take ten times as long as the
//! rest of this crate. In addition, the Kubernetes version must be that of the server, which may differ from that of
//! the types in an operator.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use flate2::Compression;
use flate2::write::ZlibEncoder;

/// The folder of the Kubernetes version that the server implements.
const VERSION: &str = "src/v1_36";
/// The file of additional descriptions; `generate_additions.py` describes its format and writes it.
const ADDITIONS: &str = "src/additions-1.36.txt";
/// The minimum number of entries of a complete table.
const ENTRIES_MIN: usize = 2500;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={ADDITIONS}");
    let source = source().ok_or("the source text of the crate k8s-openapi 0.29 was not found")?;
    let mut table = BTreeMap::new();
    read_folder(&source.join(VERSION), &mut table)?;
    if table.len() < ENTRIES_MIN {
        let found = table.len();
        return Err(format!("{}: only {found} descriptions were found", source.display()).into());
    }
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or("CARGO_MANIFEST_DIR is not set")?);
    add(&fs::read_to_string(package.join(ADDITIONS))?, &mut table);
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let mut encoder = ZlibEncoder::new(fs::File::create(out.join("table"))?, Compression::best());
    for (name, text) in table {
        write!(encoder, "{name}\0{text}\0")?;
    }
    encoder.finish()?;
    Ok(())
}

// === the place of the source text ===

/// Returns the folder of the crate `k8s-openapi`. Cargo has already unpacked it, because it is a dependency.
fn source() -> Option<PathBuf> {
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR")?);
    beside(&package).or_else(|| of_cargo(&package)).or_else(in_cache)
}

/// Searches beside this package: in the sources of a registry, and in a vendored folder.
fn beside(package: &Path) -> Option<PathBuf> {
    crate_in(package.parent()?)
}

/// Returns the crate in a folder of unpacked crates.
fn crate_in(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?;
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok())
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name == "k8s-openapi" || name.starts_with("k8s-openapi-0.29.")
        })
        .map(|entry| entry.path())
        .filter(|path| path.join(VERSION).is_dir())
        .collect();
    found.sort();
    found.pop()
}

/// Asks Cargo for the folder, which also works for replaced sources.
fn of_cargo(package: &Path) -> Option<PathBuf> {
    let output = Command::new(env::var_os("CARGO")?)
        .args([
            "metadata",
            "--offline",
            "--locked",
            "--format-version=1",
            "--manifest-path",
        ])
        .arg(package.join("Cargo.toml"))
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.split("\"manifest_path\":\"")
        .filter_map(|rest| Some(PathBuf::from(unescape(rest.split('"').next()?))))
        .filter_map(|manifest| manifest.parent().map(Path::to_owned))
        .find(|folder| {
            let name = folder
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            name.starts_with("k8s-openapi") && folder.join(VERSION).is_dir()
        })
}

/// Searches the registries in Cargo's home folder.
fn in_cache() -> Option<PathBuf> {
    let home = env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(env::home_dir()?.join(".cargo")))?;
    let registries = fs::read_dir(home.join("registry/src")).ok()?;
    registries
        .filter_map(|registry| registry.ok())
        .find_map(|registry| crate_in(&registry.path()))
}

// === the schemas ===

/// Reads all files of a folder and its subfolders. They correspond to the packages of Kubernetes and are not deeply
/// nested.
fn read_folder(folder: &Path, table: &mut BTreeMap<String, String>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read_folder(&path, table)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            read_schema(&fs::read_to_string(&path)?, table);
        }
    }
    Ok(())
}

/// Reads the descriptions of a file's type and its fields. The code is generated, so the indentation of a line
/// determines the item that it belongs to.
fn read_schema(text: &str, table: &mut BTreeMap<String, String>) {
    let Some((_, text)) = text.split_once("crate::schemars::JsonSchema for ") else {
        return;
    };
    let Some(name) = between(text, "\"", "\".into()") else {
        return;
    };
    let mut field = "";
    for line in text.lines() {
        let rest = line.trim_start();
        match line.len() - rest.len() {
            12 => {
                if let Some(text) = described(rest) {
                    table.insert(name.to_owned(), text);
                }
            }
            16 => {
                if let Some(name) = between(rest, "\"", "\": ") {
                    field = name;
                }
            }
            20 => {
                if let Some(text) = described(rest) {
                    table.insert(format!("{name}/{field}"), text);
                }
            }
            _ => {}
        }
    }
}

/// Returns the description in a line: a keyword of a schema, or a call that inserts one.
fn described(line: &str) -> Option<String> {
    let keyword = line.strip_prefix("\"description\": \"");
    let keyword = keyword.and_then(|rest| rest.strip_suffix("\","));
    let call = || {
        let (_, rest) = line.split_once(".insert(\"description\".into(), \"")?;
        rest.strip_suffix("\".into());")
    };
    keyword.or_else(call).map(unescape)
}

// === the additional descriptions ===

/// Adds the texts of the file of additions to the table.
fn add(additions: &str, table: &mut BTreeMap<String, String>) {
    for line in additions.lines() {
        let Some((keys, literal)) = line.split_once(" \"") else {
            continue;
        };
        let text = unescape(literal.strip_suffix('"').unwrap_or(literal));
        for key in keys.split(' ') {
            match key.strip_prefix('+') {
                Some(key) => table.entry(key.to_owned()).or_default().push_str(&text),
                None => {
                    table.insert(key.to_owned(), text.clone());
                }
            }
        }
    }
}

fn between<'t>(text: &'t str, start: &str, end: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(start)?;
    Some(rest.split_once(end)?.0)
}

/// Returns the content of a Rust or JSON string literal.
fn unescape(literal: &str) -> String {
    let mut text = String::with_capacity(literal.len());
    let mut rest = literal.chars();
    while let Some(letter) = rest.next() {
        match (letter, letter == '\\') {
            (_, false) => text.push(letter),
            _ => match rest.next() {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some('r') => text.push('\r'),
                Some(other) => text.push(other),
                None => {}
            },
        }
    }
    text
}
