//! Embeds this workspace's lock file, so that a scaffolded operator gets the same versions of its dependencies.
//!
//! Uses only the standard library: a build dependency would slow down every build of the tool.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let crates = package.join("..");
    // A checkout has the lock file at its root; a published package contains its own.
    let lock = [package.join("../../Cargo.lock"), package.join("Cargo.lock")]
        .into_iter()
        .find(|path| path.is_file());
    let text = match &lock {
        Some(path) => {
            println!("cargo::rerun-if-changed={}", path.display());
            fs::read_to_string(path)?
        }
        None => String::new(),
    };
    fs::write(out.join("Cargo.lock"), text)?;
    fs::write(out.join("normal-dependencies"), normal_dependencies(&crates)?)?;
    fs::write(out.join("book.rs"), book(&package)?)?;
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    println!("cargo::rustc-env=OPERATOR_SDK_RUSTC={}", rustc_version(&rustc));
    println!(
        "cargo::rustc-env=OPERATOR_SDK_TARGET={}",
        env::var("TARGET").unwrap_or_default()
    );
    // A released program does not search for the checkout of the machine that built it.
    println!("cargo::rerun-if-env-changed=OPERATOR_SDK_RELEASE");
    let is_release = env::var_os("OPERATOR_SDK_RELEASE").is_some();
    // The profile of released programs inherits `dev`, whose name cargo passes.
    let is_optimized = is_release || env::var("PROFILE").as_deref() == Ok("release");
    println!(
        "cargo::rustc-env=OPERATOR_SDK_COMMIT={}",
        commit(&package, is_optimized)
    );
    let checkout = if is_release { PathBuf::new() } else { crates };
    println!("cargo::rustc-env=OPERATOR_SDK_CRATES={}", checkout.display());
    println!("cargo::rerun-if-changed=build.rs");
    Ok(())
}

/// Returns the commit of the source: of a package from its description, of a checkout from git. Only optimized builds
/// call git, because otherwise each commit would cause a rebuild of the tool.
fn commit(package: &Path, is_optimized: bool) -> String {
    let unknown = || "unknown".to_owned();
    if let Ok(text) = fs::read_to_string(package.join(".cargo_vcs_info.json")) {
        // {"git": {"sha1": "..."}, ...}
        let hash = text
            .split("\"sha1\"")
            .nth(1)
            .and_then(|rest| rest.split('"').nth(1));
        return hash.map_or_else(unknown, str::to_owned);
    }
    if !is_optimized {
        return unknown();
    }
    let git = |arguments: &[&str]| {
        let output = std::process::Command::new("git")
            .args(arguments)
            .current_dir(package)
            .output();
        let output = output.ok().filter(|output| output.status.success())?;
        Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
    };
    if let Some(log) = git(&["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"]) {
        println!("cargo::rerun-if-changed={log}");
    }
    git(&["rev-parse", "HEAD"]).unwrap_or_else(unknown)
}

/// Returns the pages of the book as a Rust expression of paths and texts. `book` is a link to docs/book in a checkout,
/// and a directory in a package. A checkout without symbolic links has only docs/book.
fn book(package: &Path) -> io::Result<String> {
    let places = [package.join("book"), package.join("../../docs/book")];
    let Some(book) = places.into_iter().find(|place| place.join("src").is_dir()) else {
        return Ok("&[]".to_owned());
    };
    let root = book.join("src");
    let mut folders = vec![root.clone()];
    let mut pages = Vec::new();
    while let Some(folder) = folders.pop() {
        println!("cargo::rerun-if-changed={}", folder.display());
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    let mut out = "&[".to_owned();
    for page in pages {
        let name = page.strip_prefix(&root).map_err(io::Error::other)?;
        // For Windows.
        let name = name.to_string_lossy().replace('\\', "/");
        out.push_str(&format!("({name:?}, {:?}),\n", with_includes(&page)?));
    }
    Ok(out + "]")
}

/// Returns a page with the text of each `{{#include FILE:ANCHOR}}` inserted.
fn with_includes(page: &Path) -> io::Result<String> {
    let mut out = String::new();
    for line in fs::read_to_string(page)?.lines() {
        let include = line
            .strip_prefix("{{#include ")
            .and_then(|rest| rest.strip_suffix("}}"));
        let Some(include) = include else {
            out.push_str(line);
            out.push('\n');
            continue;
        };
        let (file, anchor) = include.split_once(':').unwrap_or((include, ""));
        let file = page.parent().unwrap_or(page).join(file);
        println!("cargo::rerun-if-changed={}", file.display());
        let text = fs::read_to_string(&file)?;
        let is_marker = |line: &str, marker: &str| {
            let rest = line.split_once(marker).map(|(_, rest)| rest.trim());
            rest.is_some_and(|rest| anchor.is_empty() || rest == anchor)
        };
        let mut inside = anchor.is_empty();
        for line in text.lines() {
            if line.contains("ANCHOR: ") {
                inside |= is_marker(line, "ANCHOR: ");
            } else if line.contains("ANCHOR_END: ") {
                inside &= anchor.is_empty() || !is_marker(line, "ANCHOR_END: ");
            } else if inside {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    Ok(out)
}

fn rustc_version(rustc: &str) -> String {
    let output = std::process::Command::new(rustc).arg("--version").output();
    output
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .map(|text| text.trim().trim_start_matches("rustc ").to_owned())
        .unwrap_or_default()
}

/// Returns one line per crate of this workspace: its name and the names of its dependencies, without dev-dependencies.
///
/// Cargo's lock file does not distinguish them, but a project that depends on these crates does not lock
/// dev-dependencies.
fn normal_dependencies(crates: &Path) -> io::Result<String> {
    let mut lines = String::new();
    let mut folders: Vec<PathBuf> = fs::read_dir(crates)?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .collect();
    folders.sort();
    for folder in folders {
        let manifest = folder.join("Cargo.toml");
        let Some(name) = folder.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        if !name.starts_with("operator-") && !name.starts_with("structur") || !manifest.is_file() {
            continue;
        }
        println!("cargo::rerun-if-changed={}", manifest.display());
        let text = fs::read_to_string(&manifest)?;
        let dependencies = dependencies_of(&text);
        lines.push_str(&format!("{name} {}\n", dependencies.join(" ")));
    }
    Ok(lines)
}

fn dependencies_of(manifest: &str) -> Vec<&str> {
    let mut inside = false;
    let mut names = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line.trim() == "[dependencies]";
        } else if inside
            && let Some(name) = line.split(['.', '=', ' ']).next().filter(|name| !name.is_empty())
        {
            names.push(name);
        }
    }
    names
}
