//! The operator of the page for users of kopf, in Python.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::greeting::{greet, start};

/// The packages that the test installs.
const PACKAGES: [&str; 2] = ["kopf==1.45.2", "kubernetes==37.0.2"];

/// A process that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn succeeds(command: &mut Command) {
    assert!(command.status().unwrap().success(), "{command:?}");
}

#[tokio::test]
#[ignore = "needs python3 and the Python package index"]
async fn the_kopf_operator_of_the_book_works() {
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let environment = temporary.join("kopf-of-the-book");
    let program = environment.join("bin/kopf");
    if !program.is_file() {
        succeeds(Command::new("python3").args(["-m", "venv"]).arg(&environment));
        let mut pip = Command::new(environment.join("bin/pip"));
        succeeds(pip.args(["install", "--quiet"]).args(PACKAGES));
    }
    let env = start().await;
    let kubeconfig = temporary.join("kopf-of-the-book.kubeconfig");
    std::fs::write(&kubeconfig, env.kubeconfig().await.unwrap()).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/book/kopf/greeting.py");
    let mut kopf = Command::new(program);
    kopf.args(["run", "--standalone", "-A"])
        .arg(script)
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::null());
    let _process = Process(kopf.spawn().unwrap());
    greet(&env, "hello").await;
}
