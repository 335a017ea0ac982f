//! Tests that process groups end with the process that started them.

#![expect(clippy::unwrap_used, reason = "a test may fail")]

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::time::Duration;

use operator_controlplane::ProcessGroup;
use tokio::io::AsyncReadExt;
use tokio::process::Command;

/// A program that prints a line when it runs, and another line at SIGTERM, which does not end it.
const STUBBORN: &str = "trap 'echo terminated' TERM; echo running; while :; do sleep 0.2; done";
/// The environment variable that makes `a_process_with_a_group` start a group.
const GRACE: &str = "TEST_GROUP_GRACE";

#[tokio::test]
async fn a_group_that_is_dropped_is_killed_with_the_children_of_its_programs() {
    let group = ProcessGroup::start(Duration::from_secs(60)).unwrap();
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", &format!("sh -c '{}'", STUBBORN.replace('\'', "\""))])
        .stdout(Stdio::piped());
    let mut program = group.spawn(&mut command).unwrap();
    let mut output = program.stdout.take().unwrap();
    let mut begin = [0; 8];
    output.read_exact(&mut begin).await.unwrap();
    assert_eq!(&begin, b"running\n");
    drop(group);
    // The output closes when the last process has ended.
    let mut rest = String::new();
    output.read_to_string(&mut rest).await.unwrap();
    assert_eq!(rest, "");
    assert!(!program.wait().await.unwrap().success());
}

/// Runs as the process that the other tests kill.
#[tokio::test]
async fn a_process_with_a_group() {
    let Ok(grace) = std::env::var(GRACE) else {
        return;
    };
    let group = ProcessGroup::start(Duration::from_secs(grace.parse().unwrap())).unwrap();
    let mut command = Command::new("/bin/sh");
    let mut program = group.spawn(command.args(["-c", STUBBORN])).unwrap();
    program.wait().await.unwrap();
}

/// Returns the output of a program whose parent is killed while it runs. The output ends when the program has ended.
fn output_after_kill(grace: &str) -> String {
    let mut parent = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_process_with_a_group", "--nocapture"])
        .env(GRACE, grace)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(parent.stdout.take().unwrap());
    let mut line = String::new();
    while !line.ends_with("running\n") {
        line.clear();
        assert_ne!(
            output.read_line(&mut line).unwrap(),
            0,
            "the program does not run"
        );
    }
    parent.kill().unwrap();
    parent.wait().unwrap();
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    rest
}

#[test]
fn a_program_ends_at_once_if_the_group_has_no_grace_period() {
    assert_eq!(output_after_kill("0"), "");
}

#[test]
fn a_program_that_ignores_sigterm_is_killed_after_the_grace_period() {
    assert_eq!(output_after_kill("1"), "terminated\n");
}
