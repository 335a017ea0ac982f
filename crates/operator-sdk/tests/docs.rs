//! Tests that docs/book/src/reference/cli.md equals the help texts of the program.
//!
//! After a change of a command: `UPDATE_DOCS=1 cargo test -p operator-sdk --test docs`.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod common;

use std::path::Path;

use common::sdk;

const HEAD: &str = "\
# The command line

This page is made from the program's own help: `UPDATE_DOCS=1 cargo test -p operator-sdk --test docs` writes it anew.

Every command exits with 0 if it succeeded, and with 1 if it failed. A failure prints one line with the error and one line with
a hint. `chaos` exits with 1 if it has findings, and with 2 if it failed. A command that Ctrl-C ended exits with 130. Colours are
used on terminals only, and not if `NO_COLOR` is set.
";

const LEGACY: &str = "\
## The commands of operator-sdk 0.x

The commands in the guides of that time still work. They use the current project layout, and print the current command once.

| then | now |
|---|---|
| `new NAME --repo R` | `mkdir NAME && cd NAME && operator-sdk init --repo R` |
| `add api --api-version=G.D/V --kind=K` | `create api --group G --version V --kind K --controller=false` |
| `add controller --api-version=G.D/V --kind=K` | `create api --group G --version V --kind K --resource=false` |
| `add crd --api-version=G.D/V --kind=K` | `create api --group G --version V --kind K --controller=false` |
| `generate k8s` | not needed: `#[derive(Clone)]` replaces zz_generated.deepcopy.go |
| `generate crds`, `generate openapi` | `generate manifests` |
| `build IMAGE` | `build IMAGE` |
| `up local --namespace=N`, `run --local` | `run local --watch-namespace=N` |
| `test local` | `cargo test` |
| `print-deps` | the `[dependencies]` of Cargo.toml |
| `deploy/*.yaml` and `sed` for the image | `deploy --image IMAGE` |
";

const FILES: &str = "\
## Files of a project that belong to the tool

`PROJECT` lists the kinds of the project, in kubebuilder's form (version 3). A damaged file, or one of an unknown version or
layout, is an error, and is never overwritten.

`.operator-sdk` records the commands `init`, `create`, `edit` and `delete` (`commands.yaml`), and the files as they were
written, before you changed them (`base/`). `upgrade` needs both. Commit the directory, and do not edit it.
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

/// Returns the subcommands of a command, which its help lists.
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
