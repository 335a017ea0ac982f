//! Tests of `upgrade`: it merges the earlier scaffold, the current scaffold, and the user's changes.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod common;

use std::collections::BTreeMap;
use std::io::Write;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use common::{CREATE_MEMCACHED, Dir, sdk};

/// The commands of the record, and the files as they were scaffolded.
const RECORD: &str = ".operator-sdk/commands.yaml";
const BASE: &str = ".operator-sdk/base";

/// Returns the texts in the record.
fn recorded(dir: &Dir) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let base = dir.path.join(BASE);
    common::collect(&base, &base, &mut files);
    files
}

/// Changes the record as if an earlier version had written other texts than this version.
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
    dir.remove(BASE);
    for (path, text) in &files {
        let path = dir.path.join(BASE).join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    dir.write(RECORD, &dir.read(RECORD).replace("0.1.0", "0.0.9"));
}

/// Converts the record to the single file that versions before 0.1.0 wrote.
fn in_one_file(dir: &Dir) {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder
        .write_all(&serde_json::to_vec(&recorded(dir)).unwrap())
        .unwrap();
    let packed = BASE64_STANDARD.encode(encoder.finish().unwrap());
    let text = format!("{}files: |-\n  {packed}\n", dir.read(RECORD));
    dir.remove(".operator-sdk");
    std::fs::create_dir(dir.path.join(".operator-sdk")).unwrap();
    dir.write(OLD_RECORD, &text);
}

const OLD_RECORD: &str = ".operator-sdk/scaffold";

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
        record.contains("[\"init\", \"--domain\", \"example.com\"")
            && record.contains("\"--project-name=memcached-operator\"]"),
        "{record}"
    );
    assert!(
        record.contains("\"create\", \"api\", \"--group\", \"cache\""),
        "{record}"
    );
    let before = dir.files();
    assert!(dir.ok(&["upgrade"]).contains("No changes"));
    dir.write("README.md", "mine\n");
    assert!(
        dir.ok(&["upgrade"]).contains("No changes"),
        "own changes are not a reason"
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
        // Changes of the earlier version: another first line of the Makefile, no rustfmt.toml, one more file, other
        // texts in two files.
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
    // Changes of the user: a target at the end of the Makefile, a title, and the deletion of main.rs.
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
        said.contains("`old.txt` is not scaffolded any more; delete it if you do not need it"),
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
    assert!(dir.ok(&["upgrade"]).contains("No changes"));
}

#[test]
#[ignore = "slow: builds projects"]
fn errors_of_upgrades() {
    let dir = project();
    let good = dir.read(RECORD);
    dir.write(RECORD, &good.replace("\"0.1.0\"", "\"99.0.0\""));
    assert!(dir.fails(&["upgrade"]).contains("created by version 99.0.0"));
    for damaged in ["", "version: [", &format!("{good}more: 1\n")] {
        dir.write(RECORD, damaged);
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
        let init = ["init", "--project-name", "other"];
        for command in [&["upgrade"][..], &again, &["edit", "--multigroup"], &init] {
            let errors = dir.fails(command);
            assert!(
                errors.contains(".operator-sdk/commands.yaml is damaged"),
                "{errors}"
            );
        }
        assert_eq!(dir.read(RECORD), damaged, "a damaged record is not overwritten");
    }
    dir.write(RECORD, &good.replace("\"--kind\"", "\"--kin\""));
    let errors = dir.fails(&["upgrade"]);
    assert!(
        errors.contains("cannot create the scaffold of this version: `operator-sdk create api"),
        "{errors}"
    );
    std::fs::remove_file(dir.path.join(RECORD)).unwrap();
    assert!(dir.fails(&["upgrade"]).contains("is missing"));
}

/// The directory of a clone may have another name, and therefore another default for the name of the project.
#[test]
fn an_upgrade_keeps_the_name_of_a_project_in_another_directory() {
    let dir = project();
    let clone = dir.path.with_file_name("mc-clone");
    std::fs::rename(&dir.path, &clone).unwrap();
    let upgraded = || {
        let output = sdk().arg("upgrade").current_dir(&clone).output().unwrap();
        common::succeeded(&["upgrade"], output)
    };
    assert!(upgraded().contains("No changes"));
    // Records of earlier versions do not contain the name of the project.
    let path = clone.join(RECORD);
    let record = std::fs::read_to_string(&path).unwrap();
    let unnamed = record.replace(", \"--project-name=memcached-operator\"", "");
    assert_ne!(unnamed, record);
    std::fs::write(&path, unnamed).unwrap();
    assert!(upgraded().contains("No changes"));
}

/// Cargo.toml of earlier versions contained the path of a checkout.
#[test]
fn an_upgrade_directs_cargo_to_the_checkout_that_a_path_named() {
    let dir = Dir::project();
    let new = dir.read("Cargo.toml");
    let config = dir.read(".cargo/config.toml");
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    written_by_an_earlier_version(&dir, |files| {
        let mut manifest = files["Cargo.toml"].clone();
        for krate in ["operator-runtime", "operator-envtest"] {
            let path = crates.join(krate);
            let by_path = format!("{krate} = {{ path = {path:?} }}");
            manifest = manifest.replace(&format!("{krate} = \"0.1\""), &by_path);
        }
        assert!(manifest.contains("path = "), "{manifest}");
        files.insert("Cargo.toml".to_owned(), manifest);
    });
    dir.remove(".cargo");
    dir.ok(&["upgrade"]);
    assert_eq!(dir.read("Cargo.toml"), new);
    assert_eq!(dir.read(".cargo/config.toml"), config);
}

#[test]
fn a_record_in_one_file_is_read_and_replaced() {
    let dir = project();
    let base = recorded(&dir);
    in_one_file(&dir);
    assert!(dir.ok(&["upgrade"]).contains("No changes"));
    dir.ok(&["edit", "--multigroup"]);
    assert!(!dir.path.join(OLD_RECORD).exists());
    assert_eq!(recorded(&dir)["Makefile"], base["Makefile"]);
    assert!(dir.read(RECORD).contains("[\"edit\", \"--multigroup\"]"));
    for damaged in [
        "",
        "version: 1",
        "version: \"0.1.0\"\ncommands: []\nfiles: |-\n  AAAA\n",
    ] {
        dir.remove(".operator-sdk");
        std::fs::create_dir(dir.path.join(".operator-sdk")).unwrap();
        dir.write(OLD_RECORD, damaged);
        let errors = dir.fails(&["upgrade"]);
        assert!(errors.contains(".operator-sdk/scaffold is damaged"), "{errors}");
    }
}

/// Each scaffolded file has its own file in the record, so that a command changes only the records of its own files.
#[test]
fn a_command_changes_few_files_of_the_record() {
    let dir = project();
    let before = recorded(&dir);
    dir.ok(&["edit", "--prometheus"]);
    let after = recorded(&dir);
    let changed = before
        .iter()
        .filter(|(path, text)| after.get(*path) != Some(*text))
        .count();
    assert!((1..5).contains(&changed), "{changed} of {} files", before.len());
}

/// A write beyond the file size limit fails like every other write.
#[test]
fn a_limit_of_the_file_size_leaves_nothing_behind() {
    let dir = Dir::named("memcached-operator");
    let limited = "ulimit -f 8 && exec \"$0\" init --domain example.com";
    let output = std::process::Command::new("sh")
        .args(["-c", limited, env!("CARGO_BIN_EXE_operator-sdk")])
        .current_dir(&dir.path)
        .output()
        .unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("error: cannot write Cargo.lock"), "{errors}");
    let left: Vec<_> = std::fs::read_dir(&dir.path).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
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

/// No command changes a PROJECT file of a later version or a damaged one.
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
