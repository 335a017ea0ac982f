//! `docs`: the book, rendered into a cache directory and opened in a browser.

mod render;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs, io};

use crate::args::DocsArgs;
use crate::failure::{Failure, Hinted};
use crate::report::Report;

/// The pages of the book: their paths in docs/book/src and their texts, with the included code.
const PAGES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/book.rs"));

#[derive(Debug, thiserror::Error)]
enum DocsError {
    #[error("no page {page:?} in the book")]
    NoSuchPage { page: String },
    #[error("cannot write the book to {}: {source}", directory.display())]
    Write { directory: PathBuf, source: io::Error },
}

impl Hinted for DocsError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NoSuchPage { .. } => {
                let pages = PAGES.iter().filter(|(path, _)| *path != "SUMMARY.md");
                let names: Vec<&str> = pages.map(|(path, _)| path.trim_end_matches(".md")).collect();
                Some(format!("the pages are {}", names.join(", ")))
            }
            Self::Write { .. } => Some("set XDG_CACHE_HOME to a directory that you can write to".to_owned()),
        }
    }
}

/// Runs `operator-sdk docs`.
pub(crate) fn docs(args: &DocsArgs, report: &Report) -> Result<(), Failure> {
    let page = format!("{}.md", args.page.trim_end_matches(".md"));
    if page == "SUMMARY.md" || !PAGES.iter().any(|(path, _)| *path == page) {
        return Err(DocsError::NoSuchPage {
            page: args.page.clone(),
        }
        .into());
    }
    let directory = cache().join(format!("operator-sdk/book-{}", env!("CARGO_PKG_VERSION")));
    write(&directory).map_err(|source| DocsError::Write {
        directory: directory.clone(),
        source,
    })?;
    let path = directory.join(page).with_extension("html");
    if !args.path && open(&path) {
        report.line(&format!("opened {}", path.display()));
    } else {
        report.line(&path.display().to_string());
    }
    Ok(())
}

fn write(directory: &Path) -> io::Result<()> {
    let summary = PAGES.iter().find(|(path, _)| *path == "SUMMARY.md");
    let summary = summary.map_or("", |(_, text)| text);
    for (path, text) in PAGES.iter().filter(|(path, _)| *path != "SUMMARY.md") {
        let file = directory.join(path).with_extension("html");
        if let Some(parent) = file.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(file, render::page(path, text, summary))?;
    }
    Ok(())
}

/// Returns the user's cache directory.
fn cache() -> PathBuf {
    let set = |name| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    set("XDG_CACHE_HOME")
        .or_else(|| set("HOME").map(|home| home.join(".cache")))
        .or_else(|| set("LOCALAPPDATA"))
        .unwrap_or_else(env::temp_dir)
}

/// Opens a file in a browser. Returns false without a browser.
fn open(path: &Path) -> bool {
    let browser = env::var_os("BROWSER").filter(|value| !value.is_empty());
    let program = if let Some(browser) = browser {
        browser
    } else if cfg!(target_os = "macos") {
        "open".into()
    } else if cfg!(windows) {
        "explorer".into()
    } else if env::var_os("DISPLAY").is_some() || env::var_os("WAYLAND_DISPLAY").is_some() {
        "xdg-open".into()
    } else {
        return false;
    };
    let mut command = Command::new(program);
    command
        .arg(path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().is_ok()
}
