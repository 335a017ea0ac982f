//! Tests of projects that were changed by hand: the command prints one clear line and a hint, or it works nevertheless.
//! Existing files are kept in any case.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod common;

use std::os::unix::fs::symlink;

use common::{CREATE_MEMCACHED, Dir};

const KUSTOMIZATION: &str = "config/default/kustomization.yaml";

/// Checks that `create api` fails in this project with a message that contains these parts.
#[track_caller]
fn fails(dir: &Dir, parts: &[&str]) {
    let errors = dir.fails(CREATE_MEMCACHED);
    for part in parts {
        assert!(errors.contains(part), "{part:?} is missing: {errors}");
    }
}

/// Checks that `create api` fails in a project in which a file is not valid text.
#[track_caller]
fn fails_with_bytes(path: &str, parts: &[&str]) {
    let dir = Dir::project();
    let file = dir.path.join(path);
    std::fs::write(&file, b"\xff\xfe\0").unwrap();
    let output = dir.run(CREATE_MEMCACHED);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (output.status.code(), errors.lines().count()),
        (Some(1), 2),
        "{errors}"
    );
    for part in parts {
        assert!(errors.contains(part), "{part:?} is missing: {errors}");
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"\xff\xfe\0");
    assert!(!dir.path.join("src/api/v1alpha1").exists(), "nothing is written");
}

#[test]
fn files_that_are_no_text() {
    fails_with_bytes("src/lib.rs", &["src/lib.rs cannot be edited"]);
    fails_with_bytes(
        "PROJECT",
        &["the PROJECT file cannot be used", "git checkout PROJECT"],
    );
    // A binary file that no command reads is ignored.
    let dir = Dir::project();
    std::fs::write(dir.path.join("config/logo.png"), b"\xff\xfe\0").unwrap();
    assert_eq!(dir.run(CREATE_MEMCACHED).status.code(), Some(0));
}

/// Reading a pipe without a writer would never end.
#[test]
fn pipes_devices_and_directories_in_place_of_files() {
    let make_pipe = |path: &std::path::Path| {
        assert!(
            std::process::Command::new("mkfifo")
                .arg(path)
                .status()
                .unwrap()
                .success()
        );
    };
    let says = |dir: &Dir, part: &str| {
        let output = dir.run(CREATE_MEMCACHED);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains(part) && errors.contains("hint: "), "{errors}");
    };
    let dir = Dir::project();
    let project = dir.path.join("PROJECT");
    std::fs::remove_file(&project).unwrap();
    symlink("/dev/zero", &project).unwrap();
    says(&dir, "the PROJECT file cannot be used: it is not a regular file");
    std::fs::remove_file(&project).unwrap();
    std::fs::create_dir(&project).unwrap();
    says(&dir, "the PROJECT file cannot be used");
    std::fs::remove_dir(&project).unwrap();
    make_pipe(&project);
    says(&dir, "the PROJECT file cannot be used: it is not a regular file");
    assert_eq!(dir.run(&["version"]).status.code(), Some(0));

    for (path, part) in [
        ("src/lib.rs", "src/lib.rs cannot be edited"),
        (".operator-sdk/commands.yaml", "it is not a regular file"),
        ("src/api/v1alpha1.rs", "src/api/v1alpha1.rs"),
    ] {
        let dir = Dir::project();
        let file = dir.path.join(path);
        let _ = std::fs::remove_file(&file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        make_pipe(&file);
        says(&dir, part);
    }
    // A pipe that no command reads is ignored.
    let dir = Dir::project();
    make_pipe(&dir.path.join("config/pipe"));
    assert_eq!(dir.run(CREATE_MEMCACHED).status.code(), Some(0));
}

#[test]
fn names_in_the_project_file_that_are_not_valid() {
    for (old, new) in [
        ("projectName: memcached-operator", "projectName: a/b"),
        ("domain: example.com", "domain: ../etc"),
    ] {
        let dir = Dir::project();
        dir.replace("PROJECT", old, new);
        fails(&dir, &["is not valid", "git checkout PROJECT"]);
    }
}

#[test]
fn files_that_are_missing() {
    for path in ["src/lib.rs", "PROJECT"] {
        let dir = Dir::project();
        std::fs::remove_file(dir.path.join(path)).unwrap();
        fails(&dir, &[path]);
    }
    // A kustomization that the user removed is not required.
    let dir = Dir::project();
    std::fs::remove_file(dir.path.join(KUSTOMIZATION)).unwrap();
    dir.ok(CREATE_MEMCACHED);
}

#[test]
fn folders_where_files_should_be_and_files_where_folders_should_be() {
    let dir = Dir::project();
    std::fs::remove_file(dir.path.join("PROJECT")).unwrap();
    std::fs::create_dir(dir.path.join("PROJECT")).unwrap();
    fails(&dir, &["the PROJECT file cannot be used: it is a directory"]);

    let dir = Dir::project();
    dir.write("src/controller", "");
    fails(&dir, &["cannot write src/controller/", "nothing was changed"]);
}

#[test]
fn links() {
    // For a link to a file, the target is edited, and the link is kept.
    let dir = Dir::project();
    let lib = dir.path.join("src/lib.rs");
    std::fs::rename(&lib, dir.path.join("src/real.rs")).unwrap();
    symlink("real.rs", &lib).unwrap();
    dir.ok(CREATE_MEMCACHED);
    assert!(lib.is_symlink());
    assert!(
        dir.read("src/real.rs")
            .contains("memcached_controller::controller()")
    );

    // A link to a directory is not followed, and does no harm.
    let dir = Dir::project();
    symlink(".", dir.path.join("docs")).unwrap();
    symlink("..", dir.path.join("config/up")).unwrap();
    dir.ok(CREATE_MEMCACHED);

    // A dangling link.
    let dir = Dir::project();
    std::fs::remove_file(dir.path.join("PROJECT")).unwrap();
    symlink("nowhere", dir.path.join("PROJECT")).unwrap();
    let output = dir.run(CREATE_MEMCACHED);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(
        errors.contains("the PROJECT file cannot be used: it is a link to a file that does not exist"),
        "{errors}"
    );
    assert!(!dir.path.join("nowhere").exists());
}

#[test]
fn source_that_is_broken_or_without_end() {
    let dir = Dir::project();
    let lib = dir.read("src/lib.rs");
    dir.write("src/lib.rs", &format!("{lib}\nfn broken( {{\n"));
    fails(&dir, &["src/lib.rs cannot be edited: it is not valid Rust"]);
    let nested = format!("fn deep() {{ {}{} }}", "(".repeat(100_000), ")".repeat(100_000));
    dir.write("src/lib.rs", &format!("{lib}\n{nested}\n"));
    fails(&dir, &["src/lib.rs cannot be edited", "nested deeper"]);
}

#[test]
fn yaml_that_cannot_be_edited() {
    let dir = Dir::project();
    let bomb: String = ('b'..='h')
        .map(|name| {
            let before = char::from(name as u8 - 1);
            format!("{name}: &{name} [{}]\n", vec![format!("*{before}"); 9].join(","))
        })
        .collect();
    for (text, wanted) in [
        (
            "resources:\n\t- ../rbac\n".to_owned(),
            "line 2 column 2: tabs disallowed",
        ),
        (
            "resources: &all\n- ../rbac\nmore: *all\n".to_owned(),
            "add `- ../crd` by hand",
        ),
        (format!("a: &a [x]\n{bomb}resources: *h\n"), "budget"),
        (format!("resources: {}", "[".repeat(100_000)), "recursion limit"),
        ("resources: [../rbac".to_owned(), "it is not valid YAML"),
        ("resources: {a: b}\n".to_owned(), "not a list"),
    ] {
        dir.write(KUSTOMIZATION, &text);
        fails(
            &dir,
            &["config/default/kustomization.yaml cannot be edited", wanted],
        );
    }
}

#[test]
fn comments_anchors_and_windows_lines_stay() {
    let dir = Dir::project();
    let text = "# Mine.\r\nresources:\r\n- ../rbac # why\r\n- ../manager\r\nlabels: &labels\r\n- pairs: {a: b}\r\nx-more: *labels\r\n";
    dir.write(KUSTOMIZATION, text);
    let lib = dir.read("src/lib.rs").replace('\n', "\r\n");
    dir.write("src/lib.rs", &lib);
    dir.ok(CREATE_MEMCACHED);
    let edited = dir.read(KUSTOMIZATION);
    for kept in [
        "# Mine.\r\n",
        "- ../rbac # why\r\n",
        "labels: &labels\r\n",
        "x-more: *labels\r\n",
        "../crd",
    ] {
        assert!(edited.contains(kept), "{kept:?}: {edited:?}");
    }
    assert!(
        dir.read("src/lib.rs")
            .contains(".crd::<api::v1alpha1::Memcached>()")
    );
}

#[test]
fn large_files_are_no_obstacle() {
    let dir = Dir::project();
    dir.write("config/large.txt", &"x".repeat(20_000_000));
    dir.ok(CREATE_MEMCACHED);
}

#[test]
fn kinds_that_cannot_be() {
    let create = |kind: &str, more: &[&str]| {
        let dir = Dir::project();
        dir.ok(CREATE_MEMCACHED);
        let kind = format!("--kind={kind}");
        dir.fails(
            &[
                &["create", "api", "--group=cache", "--version=v1alpha1", &kind],
                more,
            ]
            .concat(),
        )
    };
    for used in [
        "Self",
        "Result",
        "Condition",
        "Conditions",
        "Api",
        "Reconciler",
        "JsonSchema",
    ] {
        let errors = create(used, &[]);
        assert!(errors.contains(&format!("--kind My{used}")), "{errors}");
    }
    for odd in [
        "Ünicode",
        "Mem cached",
        "Mem\u{202e}cached",
        "💾",
        "",
        "9Lives",
        &"A".repeat(300),
    ] {
        let errors = create(odd, &[]);
        assert!(errors.contains("is not valid"), "{errors}");
    }
    let errors = create("Cache", &["--plural=memcacheds"]);
    assert!(
        errors.contains("the plural \"memcacheds\" is already used by Memcached in cache/v1alpha1"),
        "{errors}"
    );
}

#[test]
fn kind_whose_webhook_would_hide_what_it_uses() {
    let dir = Dir::project();
    let kind = ["--group=cache", "--version=v1", "--kind=Webhook"];
    dir.ok(&[&["create", "api"][..], &kind].concat());
    let errors = dir.fails(&[&["create", "webhook", "--defaulting"][..], &kind].concat());
    assert!(errors.contains("a type Webhook is used"), "{errors}");
}
