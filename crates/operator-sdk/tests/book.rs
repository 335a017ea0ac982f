//! Tests of the book: the links and anchors of all Markdown files resolve, and `operator-sdk docs` writes each page.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod common;

use std::collections::{BTreeSet, HashMap};
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use common::{Dir, sdk, succeeded};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap()
}

/// Returns the paths of the committed Markdown files.
fn pages() -> Vec<PathBuf> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard", "*.md"]);
    let listed = succeeded(&["ls-files"], git.current_dir(root()).output().unwrap());
    let paths = listed.lines().map(|line| root().join(line));
    paths.filter(|path| path.is_file()).collect()
}

/// Returns the links of a page, and the anchors of its headings.
fn read(page: &Path) -> (Vec<String>, BTreeSet<String>) {
    let text = std::fs::read_to_string(page).unwrap();
    let mut links = Vec::new();
    let mut anchors = BTreeSet::new();
    let mut heading: Option<String> = None;
    for event in Parser::new_ext(&text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                links.push(dest_url.into_string());
            }
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&text);
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                let name = anchor(&heading.take().unwrap_or_default());
                let names = (0..).map(|n| {
                    if n == 0 {
                        name.clone()
                    } else {
                        format!("{name}-{n}")
                    }
                });
                let free = names.into_iter().find(|name| !anchors.contains(name));
                anchors.extend(free);
            }
            _ => {}
        }
    }
    (links, anchors)
}

/// Returns the anchor of a heading, in the form of mdBook and GitHub.
fn anchor(heading: &str) -> String {
    let letters = heading.trim().chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        _ if c.is_alphanumeric() => Some(c.to_ascii_lowercase()),
        _ => None,
    });
    letters.collect()
}

/// Returns a path without `..`. Some pages of the book are symbolic links, so the file system must not resolve the
/// path.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            normal.pop();
        } else {
            normal.push(part);
        }
    }
    normal
}

#[test]
fn all_links_and_anchors_resolve() {
    let pages: HashMap<PathBuf, _> = pages()
        .into_iter()
        .map(|page| (page.clone(), read(&page)))
        .collect();
    assert!(pages.len() > 20, "{}", pages.len());
    let mut broken = Vec::new();
    for (page, (links, own)) in &pages {
        for link in links
            .iter()
            .filter(|link| !link.contains("://") && !link.starts_with("mailto:"))
        {
            let (file, fragment) = link.split_once('#').unwrap_or((link, ""));
            let target = normal(&page.parent().unwrap().join(file));
            let anchors = match pages.get(&target) {
                Some((_, anchors)) => Some(anchors),
                None => file.is_empty().then_some(own),
            };
            let is_good = match anchors {
                Some(anchors) => fragment.is_empty() || anchors.contains(fragment),
                None => target.exists(),
            };
            if !is_good {
                broken.push(format!(
                    "{}: {link}",
                    page.strip_prefix(root()).unwrap().display()
                ));
            }
        }
    }
    broken.sort();
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}

#[test]
fn the_summary_names_every_page() {
    let source = root().join("docs/book/src");
    let (links, _) = read(&source.join("SUMMARY.md"));
    let named: BTreeSet<PathBuf> = links.iter().map(|link| source.join(link)).collect();
    let inside = pages().into_iter().filter(|page| page.starts_with(&source));
    let mut written: BTreeSet<PathBuf> = inside.collect();
    written.remove(&source.join("SUMMARY.md"));
    assert_eq!(named, written);
}

/// Rust samples must be included from files that are compiled and tested.
#[test]
fn rust_samples_are_included() {
    let source = root().join("docs/book/src");
    let mut written = Vec::new();
    for page in pages().iter().filter(|page| page.starts_with(&source)) {
        let text = std::fs::read_to_string(page).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let mut samples = lines.windows(2).filter(|pair| pair[0] == "```rust");
        let is_written = |pair: &[&str]| !pair[1].starts_with("{{#include ");
        if samples.any(is_written) {
            written.push(page.display().to_string());
        }
    }
    assert_eq!(written, [""; 0]);
}

#[test]
fn docs_writes_the_book_and_prints_its_path() {
    let dir = Dir::named("docs");
    let docs = |arguments: &[&str]| {
        let mut command = sdk();
        command
            .arg("docs")
            .args(arguments)
            .env("XDG_CACHE_HOME", &dir.path);
        for variable in ["BROWSER", "DISPLAY", "WAYLAND_DISPLAY"] {
            command.env_remove(variable);
        }
        command.output().unwrap()
    };
    let path = succeeded(&["docs"], docs(&["--path"]));
    let page = std::fs::read_to_string(path.trim()).unwrap();
    assert!(page.contains("<h1 id=\"operator-sdk-for-rust\">"), "{page}");
    assert!(page.contains("href=\"start/memcached.html\""), "{page}");

    let path = succeeded(&["docs"], docs(&["--path", "start/website"]));
    let page = std::fs::read_to_string(path.trim()).unwrap();
    assert!(
        page.contains("href=\"../start/website.html\" aria-current=\"page\""),
        "{page}"
    );
    assert!(
        page.contains("impl&lt;D: Dns&gt; Reconciler&lt;Website&gt; for Sites&lt;D&gt;"),
        "{page}"
    );
    assert!(!page.contains("{{#include"), "{page}");

    assert_eq!(
        broken_links(Path::new(path.trim()).parent().unwrap().parent().unwrap()),
        [""; 0]
    );

    let output = docs(&["no/such/page"]);
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("no page \"no/such/page\""), "{errors}");
    assert!(errors.contains("start/memcached"), "{errors}");
}

/// Returns the broken links between the written pages. There is a page for each page of the book.
fn broken_links(book: &Path) -> Vec<String> {
    let (summary, _) = read(&root().join("docs/book/src/SUMMARY.md"));
    let mut texts = HashMap::new();
    for page in summary {
        let page = book.join(page).with_extension("html");
        let text = std::fs::read_to_string(&page).expect("each page of the summary is written");
        texts.insert(page, text);
    }
    let mut broken = Vec::new();
    for (page, text) in &texts {
        let links = text.split("href=\"").skip(1);
        for link in links.filter_map(|link| link.split('"').next()) {
            if link.contains("://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => page.clone(),
                file => normal(&page.parent().unwrap().join(file)),
            };
            let target = texts.get(&target);
            let is_good =
                target.is_some_and(|text| anchor.is_empty() || text.contains(&format!("id=\"{anchor}\"")));
            if !is_good {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    broken
}

#[cfg(unix)]
#[test]
fn docs_opens_the_browser() {
    let dir = Dir::named("docs");
    let mut command = sdk();
    command
        .args(["docs", "start/memcached"])
        .env("XDG_CACHE_HOME", &dir.path);
    // A browser that does nothing.
    command.env("BROWSER", "true");
    let printed = succeeded(&["docs"], command.output().unwrap());
    assert!(printed.starts_with("opened "), "{printed}");
    assert!(printed.trim().ends_with("start/memcached.html"), "{printed}");
}
