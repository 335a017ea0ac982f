//! Checks that the pages "Configuration" and "Metrics of an operator" are complete.

use operator_runtime::manager::Args;
use operator_runtime::prelude::*;

use crate::controller_runtime::operator;
use crate::greeting::{greet, options, start};

const CONFIGURATION: &str = include_str!("../../../../docs/book/src/reference/configuration.md");
const METRICS: &str = include_str!("../../../../docs/book/src/reference/metrics.md");

#[test]
fn each_flag_of_an_operator_is_described() {
    let command = <Args as clap::Args>::augment_args(clap::Command::new("operator"));
    let flags: Vec<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
    assert!(flags.len() > 15, "{flags:?}");
    for flag in flags {
        let ends = [format!("`--{flag}`"), format!("`--{flag} ")];
        assert!(ends.iter().any(|text| CONFIGURATION.contains(text)), "--{flag}");
    }
}

#[tokio::test]
async fn each_metric_of_an_operator_is_described() -> Result<()> {
    let env = start().await;
    let manager = Manager::new("greeting-operator", options(env.client())).await?;
    operator().add_to(&manager)?;
    tokio::spawn(manager.clone().run_until(std::future::pending()));
    greet(&env, "hello").await;
    let text = manager.metrics().to_text();
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let names: Vec<&str> = types.filter_map(|rest| rest.split(' ').next()).collect();
    assert!(names.len() > 20, "{names:?}");
    for name in names {
        assert!(METRICS.contains(&format!("`{name}`")), "{name}");
    }
    Ok(())
}
