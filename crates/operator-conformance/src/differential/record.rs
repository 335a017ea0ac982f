//! Records the responses of a server to random sequences as one scenario, which tests replay: [`record`].

use serde_json::{Value, json};

use super::sequence::send;
use super::{Error, Options, load_catalog};
use crate::normalise;
use crate::scenario::Step;
use crate::session::{ApiService, Session};

/// The namespace of a scenario.
const NAMESPACE: &str = "${ns}";

/// Sends the sequences with these numbers to a server; returns a scenario in JSON with the responses.
///
/// # Errors
/// Returns an error if the server cannot be reached, or if it has no usable discovery and OpenAPI documents.
pub async fn record<S: ApiService>(
    server: S,
    options: &Options,
    name: &str,
    sequences: &[u64],
) -> Result<String, Error> {
    let catalog = load_catalog(&server, &options.kinds).await?;
    let account = send(
        "POST",
        format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts"),
        json!({"metadata": {"name": "default"}}),
    );
    let mut steps = vec![account];
    let mut cleanup = Vec::new();
    for &number in sequences {
        let (_, sequence) = options.sequence(&catalog, number, NAMESPACE);
        steps.extend(sequence.steps.into_iter().map(|step| Step {
            id: Some(format!("{}-{number}", options.seed)),
            ..step
        }));
        cleanup.extend(sequence.cleanup);
    }
    let mut session = Session::start(server, name).await;
    let answers = session.run(&steps).await;
    let answers = normalise::answers(&steps, answers, session.variables());
    super::clean(&mut session, &cleanup).await;
    // As text, because bodies keep the order of their fields and may contain duplicate fields.
    let recorded: Vec<String> = steps
        .iter()
        .zip(answers)
        .map(|(step, answer)| {
            let text = step.describe();
            let start = text.strip_suffix('}').unwrap_or(&text);
            format!("{start}, \"expect\": {answer}}}")
        })
        .collect();
    Ok(format!(
        "{{\"name\": {}, \"category\": \"random\", \"steps\": [\n{}\n]}}\n",
        Value::from(name),
        recorded.join(",\n")
    ))
}
