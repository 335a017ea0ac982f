//! Runs the committed inputs of the fuzz targets, each with a time limit and all with a memory limit.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]

#[path = "../../../fuzz/targets.rs"]
mod targets;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use targets::TARGETS;

/// The environment variable of the process with limited memory.
const LIMITED: &str = "CORPUS_LIMITED";

fn run_all() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (name, target) in TARGETS {
        let mut inputs = 0;
        for entry in std::fs::read_dir(corpus.join(name)).unwrap() {
            let path = entry.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            let start = Instant::now();
            target(&bytes);
            let took = start.elapsed();
            assert!(took < Duration::from_secs(30), "{}: {took:?}", path.display());
            inputs += 1;
        }
        assert!(inputs > 0, "{name} has no inputs");
    }
}

#[test]
fn committed_inputs_hold_within_limits() {
    if std::env::var_os(LIMITED).is_some() {
        return run_all();
    }
    let run = Command::new("sh")
        .args(["-c", "ulimit -v 524288; exec \"$0\" --test-threads=1"])
        .arg(std::env::current_exe().unwrap())
        .env(LIMITED, "1")
        .env("MALLOC_ARENA_MAX", "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(
        run.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&run.stderr)
    );
    assert!(said.contains("1 passed"), "{said}");
}
