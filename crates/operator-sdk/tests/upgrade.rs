//! `upgrade`: what the tool wrote, what it writes now, and what the user made of it.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod common;

use std::collections::BTreeMap;
use std::io::{Read, Write};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use common::{CREATE_MEMCACHED, Dir};

const RECORD: &str = ".operator-sdk/scaffold";

/// The texts of the record.
fn recorded(dir: &Dir) -> BTreeMap<String, String> {
    let text = dir.read(RECORD);
    let packed: String = text
        .split("files: |-")
        .nth(1)
        .unwrap()
        .split_whitespace()
        .collect();
    let mut json = String::new();
    let bytes = BASE64_STANDARD.decode(packed).unwrap();
    flate2::read::GzDecoder::new(bytes.as_slice())
        .read_to_string(&mut json)
        .unwrap();
    serde_json::from_str(&json).unwrap()
}

/// Has an earlier version have written other texts than this one writes.
fn written_by_an_earlier_version(dir: &Dir, change: impl FnOnce(&mut BTreeMap<String, String>)) {
    let mut files = recorded(dir);
    let before = files.clone();
    let project = files["PROJECT"].replace("cliVersion: 0.1.0", "cliVersion: 0.0.9");
    files.insert("PROJECT".to_owned(), project);
    change(&mut files);
    for (path, text) in &files {
        if before.get(path) != Some(text) {
            dir.write(path, text);
        }
    }
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&serde_json::to_vec(&files).unwrap()).unwrap();
    let packed = BASE64_STANDARD.encode(encoder.finish().unwrap());
    let text = dir.read(RECORD);
    let head = text.split("files: |-").next().unwrap().replace("0.1.0", "0.0.9");
    dir.write(RECORD, &format!("{head}files: |-\n  {packed}\n"));
}

fn project() -> Dir {
    let dir = Dir::project();
    dir.ok(CREATE_MEMCACHED);
    dir
}

#[test]
#[ignore = "slow: builds projects"]
fn a_project_of_this_version_stays_as_it_is() {
    let dir = project();
    let record = dir.read(RECORD);
    assert!(
        record.contains("[\"init\", \"--domain\", \"example.com\""),
        "{record}"
    );
    assert!(
        record.contains("\"create\", \"api\", \"--group\", \"cache\""),
        "{record}"
    );
    let before = dir.files();
    assert!(dir.ok(&["upgrade"]).contains("Nothing has changed"));
    dir.write("README.md", "mine\n");
    assert!(
        dir.ok(&["upgrade"]).contains("Nothing has changed"),
        "own changes are no reason"
    );
    dir.write("README.md", before.get("README.md").unwrap());
    assert_eq!(dir.files(), before);
    assert_eq!(dir.read(RECORD), record);
}

#[test]
#[ignore = "slow: builds projects"]
fn new_texts_and_own_changes_are_merged() {
    let dir = project();
    let new = dir.files();
    let readme = new["README.md"].clone();
    written_by_an_earlier_version(&dir, |files| {
        // Of an earlier version: another first line of the Makefile, no rustfmt.toml, a file more, other texts in two.
        let makefile = files["Makefile"].replacen('#', "# Old:", 1);
        files.insert("Makefile".to_owned(), makefile);
        files.remove("rustfmt.toml");
        files.insert("old.txt".to_owned(), "old\n".to_owned());
        let first = readme.lines().next().unwrap();
        files.insert("README.md".to_owned(), readme.replacen(first, "# Old title", 1));
        let main = files["src/main.rs"].replacen("use std", "// old\nuse std", 1);
        files.insert("src/main.rs".to_owned(), main);
    });
    std::fs::remove_file(dir.path.join("rustfmt.toml")).unwrap();
    // Of the user: a target at the end of the Makefile, a title, and main.rs is gone.
    dir.write(
        "Makefile",
        &format!("{}\nmine:\n\techo mine\n", dir.read("Makefile")),
    );
    dir.write(
        "README.md",
        &dir.read("README.md").replacen("# Old title", "# My title", 1),
    );
    std::fs::remove_file(dir.path.join("src/main.rs")).unwrap();

    let before = dir.files();
    let diff = dir.ok(&["upgrade", "--dry-run"]);
    assert!(diff.contains("--- /dev/null\n+++ rustfmt.toml\n"), "{diff}");
    assert_eq!(dir.files(), before, "a dry run writes nothing");

    let said = dir.ok(&["upgrade"]);
    assert!(said.contains("conflict in README.md: 1 to resolve"), "{said}");
    assert!(
        said.contains("`old.txt` is no longer scaffolded; it stays"),
        "{said}"
    );
    let after = dir.files();
    assert_eq!(
        after["Makefile"],
        format!("{}\nmine:\n\techo mine\n", new["Makefile"])
    );
    assert_eq!(after["rustfmt.toml"], new["rustfmt.toml"]);
    assert_eq!(after["old.txt"], "old\n");
    assert!(
        !after.contains_key("src/main.rs"),
        "what the user deleted stays deleted"
    );
    let title = new["README.md"].lines().next().unwrap();
    let marked = format!("<<<<<<< yours\n# My title\n=======\n{title}\n>>>>>>> operator-sdk 0.1.0\n");
    assert!(after["README.md"].starts_with(&marked), "{}", after["README.md"]);
    assert!(
        after["PROJECT"].contains("cliVersion: 0.1.0"),
        "{}",
        after["PROJECT"]
    );
    assert!(
        after["PROJECT"].contains("kind: Memcached"),
        "{}",
        after["PROJECT"]
    );
    assert_eq!(
        recorded(&dir)["README.md"],
        new["README.md"],
        "the next upgrade begins here"
    );
    assert!(dir.ok(&["upgrade"]).contains("Nothing has changed"));
}

#[test]
#[ignore = "slow: builds projects"]
fn what_cannot_be_upgraded() {
    let dir = project();
    let good = dir.read(RECORD);
    dir.write(RECORD, &good.replace("\"0.1.0\"", "\"99.0.0\""));
    assert!(dir.fails(&["upgrade"]).contains("made by version 99.0.0"));
    for damaged in ["", "version: [", &good.replace("files: |-", "files: |-\n  !!")] {
        dir.write(RECORD, damaged);
        assert!(
            dir.fails(&["upgrade"])
                .contains(".operator-sdk/scaffold is damaged")
        );
        let again = [
            "create",
            "api",
            "--group",
            "cache",
            "--version",
            "v1alpha1",
            "--kind",
            "Other",
        ];
        assert!(
            !dir.run(&again).status.success(),
            "a damaged record is not written over"
        );
        assert_eq!(dir.read(RECORD), damaged);
    }
    dir.write(RECORD, &good.replace("\"--kind\"", "\"--kin\""));
    let errors = dir.fails(&["upgrade"]);
    assert!(
        errors.contains("cannot write the scaffold of this version: `operator-sdk create api"),
        "{errors}"
    );
    std::fs::remove_file(dir.path.join(RECORD)).unwrap();
    assert!(dir.fails(&["upgrade"]).contains("is missing"));
}

#[test]
#[ignore = "slow: builds projects"]
fn changes_that_are_not_committed_are_not_mixed_with_an_upgrade() {
    let dir = project();
    written_by_an_earlier_version(&dir, |files| {
        files.insert("README.md".to_owned(), "old\n".to_owned());
    });
    let git = |arguments: &[&str]| {
        let identity = ["-c", "user.name=A", "-c", "user.email=a@example.com"];
        let status = std::process::Command::new("git")
            .args(identity)
            .args(arguments)
            .current_dir(&dir.path)
            .status()
            .unwrap();
        assert!(status.success(), "{arguments:?}");
    };
    git(&["init", "--quiet"]);
    git(&["add", "--all"]);
    git(&["commit", "--quiet", "--message", "all"]);
    dir.write("Dockerfile", "FROM scratch\n");
    let errors = dir.fails(&["upgrade"]);
    assert!(
        errors.contains("changes that are not committed: Dockerfile"),
        "{errors}"
    );
    git(&["commit", "--quiet", "--all", "--message", "mine"]);
    dir.ok(&["upgrade"]);
    assert_ne!(dir.read("README.md"), "old\n");
    assert_eq!(dir.read("Dockerfile"), "FROM scratch\n");
}

/// Neither a later version of the file nor a damaged one is touched by any command.
#[test]
#[ignore = "slow: builds projects"]
fn a_project_file_that_is_not_known_is_left_alone() {
    let dir = project();
    let good = dir.read("PROJECT");
    let damaged = [
        (
            good.replace("version: \"3\"", "version: \"4\""),
            "its version is \"4\"",
        ),
        (
            good.replace("rust.operator-sdk.dev/v1", "rust.operator-sdk.dev/v2"),
            "its layout is",
        ),
        (good.replace("kind: Memcached", "kind: memcached"), "memcached"),
        (
            good.replace("domain: example.com\n", "domain: [\n"),
            "not valid YAML",
        ),
    ];
    let commands: [&[&str]; 12] = [
        &["build", "op:v1"],
        &["install"],
        &["uninstall"],
        &["deploy"],
        &["undeploy"],
        &["generate", "installer"],
        &["generate", "k8s"],
        &["run", "local"],
        &["dev"],
        &["upgrade"],
        &["add", "api", "--api-version=cache.example.com/v1", "--kind=Other"],
        &[
            "create",
            "api",
            "--group",
            "cache",
            "--version",
            "v1",
            "--kind",
            "Other",
        ],
    ];
    for (text, part) in damaged {
        assert_ne!(text, good);
        dir.write("PROJECT", &text);
        for command in commands {
            let before = dir.files();
            let output = dir.run(command);
            let errors = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{command:?}: {errors}");
            assert!(
                errors.contains("the PROJECT file cannot be used"),
                "{command:?}: {errors}"
            );
            assert!(
                errors.contains(part),
                "{command:?}: {part:?} is missing: {errors}"
            );
            assert_eq!(dir.files(), before, "{command:?}");
        }
    }
}
