//! docs/book/src/reference/cli.md is made from the program's own help.
//!
//! After a change of a command: `UPDATE_DOCS=1 cargo test -p operator-sdk --test docs`.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod common;

use std::path::Path;

use common::sdk;

const HEAD: &str = "\
# The command line

This page is made from the program's own help: `UPDATE_DOCS=1 cargo test -p operator-sdk --test docs` writes it anew.

Every command ends with exit code 0 when it did what it says, and with 1 when it did not; then one line says what was
wrong, and one what to do about it. A command that Ctrl-C ended has exit code 130. Colours are shown on terminals alone,
and not with `NO_COLOR`.
";

const LEGACY: &str = "\
## The commands of operator-sdk 0.x

They do what the guides of that time say, on the layout of today, and say once what they are called now.

| then | now |
|---|---|
| `new NAME --repo R` | `mkdir NAME && cd NAME && operator-sdk init --repo R` |
| `add api --api-version=G.D/V --kind=K` | `create api --group G --version V --kind K --controller=false` |
| `add controller --api-version=G.D/V --kind=K` | `create api --group G --version V --kind K --resource=false` |
| `add crd --api-version=G.D/V --kind=K` | `create api --group G --version V --kind K --controller=false` |
| `generate k8s` | nothing: `#[derive(Clone)]` is what zz_generated.deepcopy.go is |
| `generate crds`, `generate openapi` | `generate manifests` |
| `build IMAGE` | `build IMAGE` |
| `up local --namespace=N`, `run --local` | `run local --watch-namespace=N` |
| `test local` | `cargo test` |
| `print-deps` | the `[dependencies]` of Cargo.toml |
| `deploy/*.yaml` and `sed` for the image | `deploy --image IMAGE` |
";

const FILES: &str = "\
## Files of a project that belong to the tool

`PROJECT` says what the project holds, in kubebuilder's form (version 3). A file that is damaged, or of a version or
layout that the tool does not know, is an error, and is never written over.

`.operator-sdk` keeps what `init`, `create`, `edit` and `delete` did: the commands (`commands.yaml`), and the files as
they were written, before you changed them (`base/`). `upgrade` needs it; commit it, and do not edit it.
";

fn help(command: &[&str]) -> String {
    let output = sdk()
        .args(command)
        .arg("--help")
        .env("COLUMNS", "100")
        .env_remove("IMG")
        .output()
        .unwrap();
    assert!(output.status.success(), "{command:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The commands below one, as its help lists them.
fn below(text: &str) -> Vec<String> {
    let lines = text.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| line.starts_with("  "));
    let names = lines
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

fn write(command: &[&str], page: &mut String) {
    let text = help(command);
    let name = [&["operator-sdk"], command].concat().join(" ");
    let level = if command.is_empty() { "##" } else { "###" };
    let trimmed: Vec<&str> = text.lines().map(str::trim_end).collect();
    page.push_str(&format!(
        "\n{level} `{name}`\n\n```text\n{}\n```\n",
        trimmed.join("\n").trim_end()
    ));
    for next in below(&text) {
        write(&[command, &[next.as_str()]].concat(), page);
    }
}

#[test]
fn the_page_is_current() {
    let mut page = format!("{HEAD}\n{FILES}\n{LEGACY}");
    write(&[], &mut page);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book/src/reference/cli.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == page,
        "docs/book/src/reference/cli.md is old: UPDATE_DOCS=1 cargo test -p operator-sdk --test docs"
    );
    for command in [
        "init",
        "create api",
        "deploy",
        "build",
        "run local",
        "dev",
        "upgrade",
        "generate installer",
    ] {
        assert!(
            page.contains(&format!("### `operator-sdk {command}`")),
            "{command}"
        );
    }
}
