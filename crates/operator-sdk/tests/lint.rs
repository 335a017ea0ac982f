//! Tests of the messages of `generate manifests` about types that an API server would reject: the type, the field, the
//! line and the correction.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod common;

use common::{Dir, sdk, target_dir};

const TYPES: &str = "src/api/v1/store_types.rs";

/// A project with one kind, in which the file of types ends with a given text.
struct Linted {
    dir: Dir,
    plain: String,
}

impl Linted {
    fn new() -> Self {
        let dir = Dir::built("lint-operator");
        dir.ok(&[
            "create",
            "api",
            "--group",
            "shop",
            "--version",
            "v1",
            "--kind",
            "Store",
            "--controller=false",
        ]);
        let plain = dir.read(TYPES);
        Self { dir, plain }
    }

    /// Adds fields to the spec, and types after it. Returns the exit code and the output.
    fn generate(&self, fields: &str, more: &str) -> (Option<i32>, String) {
        let mark = "    /// An example field";
        assert!(self.plain.contains(mark));
        let fields: String = fields
            .lines()
            .map(|line| format!("    {}\n", line.trim()))
            .collect();
        // A spec that derives `Default` cannot contain fields without a default.
        let text = self.plain.replace(mark, &format!("{fields}{mark}"));
        let text = text.replacen("Clone, Debug, Default, PartialEq", "Clone, Debug, PartialEq", 1);
        self.dir.write(TYPES, &format!("{text}\n{more}"));
        let output = sdk()
            .args(["generate", "manifests"])
            .env("CARGO_TARGET_DIR", target_dir())
            .env("CARGO_TERM_QUIET", "true")
            .current_dir(&self.dir.path)
            .output()
            .unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), errors)
    }

    /// Returns the line of a text in the file.
    fn line(&self, text: &str) -> usize {
        let source = self.dir.read(TYPES);
        1 + source.lines().position(|line| line.contains(text)).expect(text)
    }

    #[track_caller]
    fn says(&self, said: &str, level: &str, at: &str, subject: &str, rule: &str, fix: &str) {
        let begin = format!("{level}: {TYPES}:{}: {subject}: ", self.line(at));
        let mut lines = said
            .lines()
            .skip_while(|line| !(line.starts_with(&begin) && line.ends_with(&format!("[{rule}]"))));
        assert!(lines.next().is_some(), "no {begin:?} with [{rule}] in: {said}");
        let hint = lines.next().unwrap_or_default();
        assert!(
            hint.starts_with("hint: ") && hint.contains(fix),
            "{fix:?} is not in {hint:?}"
        );
    }
}

const DERIVES: &str = "#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]\n";

#[test]
#[ignore = "slow: builds a project several times"]
fn types_are_linted_by_type_and_field() {
    let linted = Linted::new();
    let before = linted.dir.files();

    // Errors: all are reported at once, and nothing is written.
    let more = format!(
        "{DERIVES}#[serde(tag = \"type\")]\npub enum Tagged {{ A {{ x: i32 }}, B {{ y: String }} }}\n\
         {DERIVES}pub enum Mixed {{ Plain, Data {{ y: String }} }}\n\
         {DERIVES}#[serde(untagged)]\npub enum Untagged {{ Number(i32), Text(String) }}\n\
         {DERIVES}pub struct Tree {{ pub children: Vec<Tree> }}\n\
         {DERIVES}pub struct Open {{ pub a: i32, #[serde(flatten)] pub rest: std::collections::BTreeMap<String, String> }}\n"
    );
    let (code, said) = linted.generate(
        "pub tagged: Tagged,\npub mixed: Mixed,\npub untagged: Untagged,\npub tree: Tree,\npub open: Open,\n\
         pub pair_of: (i32, String),\npub by_port: std::collections::BTreeMap<u16, String>,\npub any: serde_json::Value,",
        &more,
    );
    assert_eq!(code, Some(1), "{said}");
    let cases = [
        ("pub enum Tagged", "Tagged", "tagged-enum", "remove the `tag`"),
        (
            "pub enum Mixed",
            "Mixed",
            "mixed-enum",
            "give the plain variants braces",
        ),
        ("pub enum Untagged", "Untagged", "untagged-enum", "IntOrString"),
        (
            "pub struct Tree",
            "Tree",
            "recursive-type",
            "names of other objects",
        ),
        ("pub struct Open", "Open", "flattened-map", "remove `flatten`"),
        (
            "pub pair_of",
            "StoreSpec.pair_of",
            "tuple",
            "a struct with a name for each position",
        ),
        (
            "pub by_port",
            "StoreSpec.by_port",
            "map-key",
            "use `String` as the key",
        ),
        (
            "pub any",
            "StoreSpec.any",
            "any-value",
            "x-kubernetes-preserve-unknown-fields",
        ),
    ];
    for (at, subject, rule, fix) in cases {
        linted.says(&said, "error", at, subject, rule, fix);
    }
    let errors = said.lines().filter(|line| line.starts_with("error: ")).count();
    assert_eq!(errors, cases.len(), "each once: {said}");
    let mut after = linted.dir.files();
    after.insert(TYPES.to_owned(), before[TYPES].clone());
    after.remove("Cargo.lock");
    let mut wanted = before.clone();
    wanted.remove("Cargo.lock");
    assert_eq!(after, wanted, "nothing is written");

    // Warnings: accepted, but not what the author intended.
    let more = format!("{DERIVES}pub struct Item {{ pub name: String }}\n");
    let (code, said) = linted.generate(
        "pub ratio: f64,\npub twice: Option<Option<i32>>,\npub null: Option<i32>,\n\
         #[serde(skip_serializing_if = \"Vec::is_empty\")]\npub list: Vec<Item>,\n#[serde(default)]\npub text: String,\n\
         pub bytes: u64,\npub small: u8,",
        &more,
    );
    assert_eq!(code, Some(0), "{said}");
    for (at, rule, fix) in [
        ("pub ratio", "floating-point", "use an integer of a smaller unit"),
        ("pub twice", "nested-option", "use a single `Option`"),
        (
            "pub null",
            "writes-null",
            "skip_serializing_if = \"Option::is_none\"",
        ),
        ("pub list", "atomic-list", "x-kubernetes-list-type"),
        ("pub text", "empty-default", "make it an `Option`"),
        ("pub bytes", "large-integer", "use `i64` or `u32`"),
    ] {
        let field = at.replace("pub ", "StoreSpec.");
        linted.says(&said, "warning", at, &field, rule, fix);
    }
    let crd = linted.dir.read("config/crd/bases/shop.example.com_stores.yaml");
    assert!(!crd.contains("uint"), "{crd}");
    assert!(
        !said.contains("StoreSpec.small"),
        "an unsigned integer is completed: {said}"
    );
}
