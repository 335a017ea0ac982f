//! Sends the same random requests to two API servers, and reports the causes of different responses ([`run`]).
//!
//! Data flow: [`catalog`] (base objects, discovery, OpenAPI of the first server) → [`family`] and [`mutation`]
//! (sequences of requests) → the session that also replays recordings → [`crate::normalise`] → [`cause`] → [`report`].
//! `minimise` shortens the first sequence of each cause. A run can be repeated with the same seed.

mod catalog;
mod cause;
mod comparable;
mod family;
mod individual;
mod minimise;
mod mutation;
mod random;
mod record;
mod report;
mod sequence;
#[cfg(test)]
mod tests;

use regex::Regex;
use serde_json::{Value, json};

use self::catalog::Catalog;
pub use self::family::Family;
use self::family::Making;
use self::minimise::{Judge, minimise};
use self::random::Random;
pub use self::record::record;
pub use self::report::{Difference, Group, Report};
use self::sequence::{Sequence, patch, request, send};
use crate::normalise;
use crate::scenario::{Step, Variables};
use crate::session::{ApiService, Session};

/// The listed causes of accepted differences.
const KEPT: &str = include_str!("differential/kept.txt");

/// The number of consecutive requests without a response after which a server counts as unreachable.
const FAILURES_MAX: usize = 3;

/// The distance between the numbers in the names of two runs' objects.
const NUMBERS: u64 = 1_000_000;

/// The roles that aggregate the rules of other roles.
const AGGREGATED_ROLES: [&str; 3] = ["admin", "edit", "view"];

/// The options of a run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The seed of all random choices.
    pub seed: u64,
    /// The number of requests to send to each server.
    pub requests: usize,
    /// The kinds or resources to send requests for; all if empty.
    pub kinds: Vec<String>,
    /// The families of requests; all if empty.
    pub families: Vec<Family>,
    /// The number of causes whose first sequence is minimised.
    pub minimise: usize,
    /// The number of the only sequence to run, which is printed with both responses.
    pub only: Option<u64>,
}

impl Options {
    fn families(&self) -> &[Family] {
        if self.families.is_empty() {
            &Family::ALL[..]
        } else {
            &self.families
        }
    }

    /// Generates the sequence with a number.
    fn sequence(&self, catalog: &Catalog, number: u64, namespace: &str) -> (Family, Sequence) {
        let mut random = Random::new(self.seed, number);
        let family = Family::pick(self.families(), &mut random);
        let mut making = Making {
            catalog,
            random,
            // Runs with different seeds can use the same servers.
            number: self.seed * NUMBERS + number,
            namespace,
        };
        (family, family.sequence(&mut making))
    }
}

/// The error of a run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A server did not respond.
    #[error("cannot reach the {server} server: {reason}")]
    Unreachable {
        /// The name of the server: `real` or `embedded`.
        server: &'static str,
        /// The reason.
        reason: String,
    },
    /// The base objects or the documents of the first server cannot be used.
    #[error("{0}")]
    Data(String),
}

/// Sends random requests to both servers, and compares the responses. `observe` is called for each sequence with
/// different responses.
///
/// # Errors
/// Returns an error if a server cannot be reached, or if the first one has no usable discovery and OpenAPI documents.
pub async fn run<R: ApiService, E: ApiService>(
    real: R,
    embedded: E,
    options: &Options,
    mut observe: impl FnMut(&Difference<'_>),
) -> Result<Report, Error> {
    let catalog = load_catalog(&real, &options.kinds).await?;
    let namespace = format!("diff-{}", options.seed);
    let mut pair = Pair {
        real,
        embedded,
        namespace: namespace.clone(),
        failures: 0,
    };
    pair.prepare().await?;
    let kept: Vec<Regex> = KEPT
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .filter_map(|line| Regex::new(line).ok())
        .collect();
    let mut report = Report {
        seed: options.seed,
        ..Report::default()
    };
    let mut number = options.only.unwrap_or_default();
    while report.requests < options.requests {
        let (family, sequence) = options.sequence(&catalog, number, &namespace);
        let outcome = pair.run(&sequence).await?;
        report.requests += sequence.steps.len();
        for status in &outcome.statuses {
            *report.statuses.entry(status.clone()).or_default() += 1;
        }
        if options.only.is_some() {
            outcome.print(&sequence);
            break;
        }
        if let Some(cause) = outcome.cause {
            let subject = format!("{family} {}", sequence.subject);
            let whole = format!("{subject}: {cause}");
            let is_kept = kept.iter().any(|pattern| pattern.is_match(&whole));
            observe(&Difference {
                sequence: number,
                subject: &subject,
                cause: &cause,
                is_kept,
                steps: sequence.steps.iter().map(Step::describe).collect(),
                real: &outcome.real,
                embedded: &outcome.embedded,
            });
            if is_kept {
                report.kept += 1;
            } else {
                let minimised = report.groups.len() < options.minimise;
                if let Some(group) = report.add(cause.clone(), &subject, number) {
                    let shown = if minimised {
                        let mut judge = SameCause {
                            pair: &mut pair,
                            cause,
                        };
                        minimise(sequence, &mut judge).await
                    } else {
                        sequence
                    };
                    group.example = shown.steps.iter().map(Step::describe).collect();
                }
            }
        }
        number += 1;
    }
    Ok(report)
}

async fn load_catalog<S: ApiService>(server: &S, kinds: &[String]) -> Result<Catalog, Error> {
    let mut documents = Vec::new();
    for path in Catalog::discovery_paths()? {
        documents.push(document(server, &path).await?);
    }
    let openapi = document(server, "/openapi/v2").await?;
    Catalog::new(&documents, openapi, kinds)
}

async fn document<S: ApiService>(server: &S, path: &str) -> Result<Value, Error> {
    let mut session = Session::with_variables(server.clone(), Variables::new());
    let mut answer = session.step(&request("GET", path)).await;
    match answer.get("error") {
        Some(reason) => Err(Error::Unreachable {
            server: "real",
            reason: reason.to_string(),
        }),
        None => Ok(answer["body"].take()),
    }
}

struct Outcome {
    cause: Option<String>,
    statuses: Vec<String>,
    real: Vec<Value>,
    embedded: Vec<Value>,
}

impl Outcome {
    fn print(&self, sequence: &Sequence) {
        for (index, step) in sequence.steps.iter().enumerate() {
            println!("{}", step.describe());
            println!("  real     {}", self.real.get(index).unwrap_or(&Value::Null));
            println!("  embedded {}", self.embedded.get(index).unwrap_or(&Value::Null));
        }
        println!("{}", self.cause.as_deref().unwrap_or("no difference"));
    }
}

/// The two servers.
struct Pair<R, E> {
    real: R,
    embedded: E,
    namespace: String,
    failures: usize,
}

impl<R: ApiService, E: ApiService> Pair<R, E> {
    /// Creates the namespace of the run, with its default service account.
    async fn prepare(&mut self) -> Result<(), Error> {
        let account = format!("/api/v1/namespaces/{}/serviceaccounts", self.namespace);
        let steps = [
            send(
                "POST",
                "/api/v1/namespaces",
                json!({"metadata": {"name": self.namespace}}),
            ),
            send("POST", account, json!({"metadata": {"name": "default"}})),
        ];
        let mut real = Session::with_variables(self.real.clone(), Variables::new());
        let mut embedded = Session::with_variables(self.embedded.clone(), Variables::new());
        for step in &steps {
            reached("real", &real.step(step).await)?;
            reached("embedded", &embedded.step(step).await)?;
        }
        // A controller sets the rules of aggregated roles, but the real server may run without controllers.
        for role in AGGREGATED_ROLES {
            let path = format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{role}");
            let role = embedded.step(&request("GET", path.as_str())).await;
            reached("embedded", &role)?;
            let rules = json!({"rules": role["body"]["rules"]});
            reached("real", &real.step(&patch(path, "merge-patch+json", rules)).await)?;
        }
        Ok(())
    }

    async fn run(&mut self, sequence: &Sequence) -> Result<Outcome, Error> {
        let variables = Variables::from([
            ("ns".to_owned(), self.namespace.clone()),
            ("group".to_owned(), "unused.example.com".to_owned()),
        ]);
        let mut real = Session::with_variables(self.real.clone(), variables.clone());
        let mut embedded = Session::with_variables(self.embedded.clone(), variables);
        let (real_answers, embedded_answers) =
            tokio::join!(real.run(&sequence.steps), embedded.run(&sequence.steps));
        self.count_failures(&real_answers, &embedded_answers)?;
        let statuses = real_answers
            .iter()
            .filter_map(|answer| answer.get("status").map(ToString::to_string))
            .collect();
        let normalised = |answers: Vec<Value>, session: &Variables| {
            let answers = answers
                .into_iter()
                .map(individual::parse_yaml)
                .map(individual::parse_status)
                .map(|answer| individual::without(&answer))
                .map(without_details)
                .collect();
            normalise::answers(&sequence.steps, answers, session)
        };
        let real_answers = normalised(real_answers, real.variables());
        let embedded_answers = normalised(embedded_answers, embedded.variables());
        tokio::join!(
            clean(&mut real, &sequence.cleanup),
            clean(&mut embedded, &sequence.cleanup)
        );
        let cause = real_answers
            .iter()
            .zip(&embedded_answers)
            .find_map(|(real, embedded)| {
                let (real, embedded) = comparable::texts(real, embedded);
                cause::cause(&real, &embedded)
            });
        Ok(Outcome {
            cause,
            statuses,
            real: real_answers,
            embedded: embedded_answers,
        })
    }

    fn count_failures(&mut self, real: &[Value], embedded: &[Value]) -> Result<(), Error> {
        for (server, answers) in [("real", real), ("embedded", embedded)] {
            let Some(reason) = answers.iter().find_map(|answer| answer.get("error")) else {
                continue;
            };
            self.failures += 1;
            if self.failures > FAILURES_MAX {
                return Err(Error::Unreachable {
                    server,
                    reason: reason.to_string(),
                });
            }
            return Ok(());
        }
        self.failures = 0;
        Ok(())
    }
}

fn reached(server: &'static str, answer: &Value) -> Result<(), Error> {
    match answer.get("error") {
        Some(reason) => Err(Error::Unreachable {
            server,
            reason: reason.to_string(),
        }),
        None => Ok(()),
    }
}

/// Deletes the objects of a sequence, including those with finalizers.
async fn clean<S: ApiService>(session: &mut Session<S>, cleanup: &[String]) {
    for path in cleanup.iter().rev() {
        let answer = session
            .step(&request("DELETE", path.as_str()).query("gracePeriodSeconds", "0"))
            .await;
        if answer["body"]["metadata"]["finalizers"].is_array() {
            let finalizers = json!({"metadata": {"finalizers": null}});
            session
                .step(&patch(path.as_str(), "merge-patch+json", finalizers))
                .await;
            session
                .step(&request("DELETE", path.as_str()).query("gracePeriodSeconds", "0"))
                .await;
        }
    }
}

/// Removes the difference in Go's notation at the end of errors about changed specs, and marks the position.
fn without_details(mut answer: Value) -> Value {
    fn cut(text: &mut String) {
        if let Some(start) = text
            .find("\n  core.")
            .or_else(|| text.find("\n\u{a0}\u{a0}core."))
            .or_else(|| text.find("\n  any(").or_else(|| text.find("\n@@ ")))
        {
            text.truncate(start);
            text.push_str(comparable::CUT);
        }
    }
    if let Some(Value::String(text)) = answer["body"].get_mut("message") {
        cut(text);
    }
    if let Some(causes) = answer["body"]["details"]["causes"].as_array_mut() {
        for cause in causes {
            if let Some(Value::String(text)) = cause.get_mut("message") {
                cut(text);
            }
        }
    }
    answer
}

struct SameCause<'a, R, E> {
    pair: &'a mut Pair<R, E>,
    cause: String,
}

impl<R: ApiService, E: ApiService> Judge for SameCause<'_, R, E> {
    async fn still_differs(&mut self, sequence: &Sequence) -> bool {
        let outcome = self.pair.run(sequence).await;
        outcome.is_ok_and(|outcome| outcome.cause.as_ref() == Some(&self.cause))
    }
}
