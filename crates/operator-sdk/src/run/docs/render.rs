//! Renders a page of the book as a self-contained HTML file.

use std::collections::HashMap;

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

const REPOSITORY: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/");

const STYLE: &str = include_str!("book.css");

/// Returns the HTML of a page. `path` is relative to the root of the book; `summary` is the table of contents.
pub(super) fn page(path: &str, text: &str, summary: &str) -> String {
    let up = "../".repeat(path.matches('/').count());
    let title = text
        .lines()
        .find_map(|line| line.strip_prefix("# "))
        .unwrap_or("Operator SDK");
    let title = title.replace('&', "&amp;").replace('<', "&lt;");
    // The links of the summary are relative to the root.
    let contents = markdown(summary.trim_start_matches("# Summary"), "")
        .replace("<a href=\"", &format!("<a href=\"{up}"));
    let own = format!("{up}{}.html\"", path.trim_end_matches(".md"));
    let contents = contents.replace(&own, &format!("{own} aria-current=\"page\""));
    let body = markdown(text, path);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title} - Operator SDK for Rust</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n<nav>\n{contents}</nav>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )
}

fn markdown(text: &str, path: &str) -> String {
    let mut events: Vec<Event<'_>> = Parser::new_ext(text, Options::ENABLE_TABLES).collect();
    let mut used = HashMap::new();
    let mut heading = None;
    for at in 0..events.len() {
        match &mut events[at] {
            Event::Start(Tag::Heading { .. }) => heading = Some((at, String::new())),
            Event::Text(text) | Event::Code(text) => {
                if let Some((_, title)) = &mut heading {
                    title.push_str(text);
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                if let Some((start, title)) = heading.take()
                    && let Event::Start(Tag::Heading { id, .. }) = &mut events[start]
                {
                    *id = Some(anchor(&title, &mut used).into());
                }
            }
            Event::Start(Tag::Link { dest_url, .. }) => *dest_url = target(dest_url, path).into(),
            _ => {}
        }
    }
    let mut out = String::new();
    html::push_html(&mut out, wrap_tables(events).into_iter());
    out
}

/// Wraps each table in a scrollable box, so that a wide table does not widen the page.
fn wrap_tables(events: Vec<Event<'_>>) -> Vec<Event<'_>> {
    let html = |text| Event::Html(CowStr::Borrowed(text));
    let wrap = |event| match event {
        Event::Start(Tag::Table(_)) => vec![html("<div class=\"table\">"), event],
        Event::End(TagEnd::Table) => vec![event, html("</div>\n")],
        _ => vec![event],
    };
    events.into_iter().flat_map(wrap).collect()
}

/// Returns the anchor of a heading, in the form of mdBook and GitHub.
fn anchor(title: &str, used: &mut HashMap<String, usize>) -> String {
    let letters = title.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        _ if c.is_alphanumeric() => Some(c.to_ascii_lowercase()),
        _ => None,
    });
    let name: String = letters.collect();
    let count = used.entry(name.clone()).or_insert(0);
    *count += 1;
    if *count == 1 {
        name
    } else {
        format!("{name}-{}", *count - 1)
    }
}

/// Returns the link to another page of the rendered book, or to a file of the repository.
fn target(url: &str, path: &str) -> String {
    if url.contains("://") || url.starts_with('#') {
        return url.to_owned();
    }
    let depth = path.matches('/').count();
    let ups = url.matches("../").count();
    if ups > depth {
        // docs/book/src is three directories below the root of the repository.
        let rest = url.trim_start_matches("../");
        let base = ["docs/book/src/", "docs/book/", "docs/", ""];
        let base = base.get(ups - depth).copied().unwrap_or_default();
        return format!("{REPOSITORY}{base}{rest}");
    }
    match url.split_once('#') {
        Some((file, anchor)) => format!("{}#{anchor}", file.replace(".md", ".html")),
        None => url.replace(".md", ".html"),
    }
}
