//! ClusterExtension: resolves its bundle, writes the objects, waits until they are ready, and deletes surplus ones.

use std::collections::BTreeMap;
use std::time::Duration;

use apimachinery::go::quote;
use jiff::SignedDuration;
use operator_apiserver::client::Event;
use operator_olm::bundle;
use operator_olm::catalog::{self, Bundle, Deprecation};
use operator_olm::files::Files;
use operator_olm::finding::Level;
use operator_olm::validator::{Options, Validator};
use serde_json::{Value, json};

use super::apply;
use super::catalog::is_available;
use super::condition::{Obstacle, put, put_deprecations};
use super::config::{self, Config};
use super::render::{Input, Rendered, render};
use super::resolve::{Installed, Offer, Wanted, resolve, version_of};
use super::revision::{self, Revision};
use super::{NAMESPACE, OWNER_KIND, OWNER_NAME, is_owned, owner_labels, owner_reference};
use crate::engine::Controller;
use crate::kind::CONFIG_MAP;
use crate::object::{Object, time};
use crate::objects::{Key, Objects};
use crate::olm::catalog::Catalogs;
use crate::olm::csv::{Certificates, certificate, webhook};
use crate::olm::kinds::{CLUSTER_CATALOG, CLUSTER_EXTENSION, SECRET};
use crate::olm::names::hash;
use crate::plan::{Action, Plan, World, create, delete, until, update, update_status};
use crate::selector::selects;

/// The delay before an obstacle is checked again.
const RETRY: Duration = Duration::from_secs(2);

/// Returns the controller.
pub(super) fn controller(catalogs: Catalogs) -> Controller {
    let mut certificates = certificate::generate;
    Controller {
        name: "olmv1-cluster-extension",
        keys,
        plan: Box::new(move |world, key| plan(world, key, &catalogs, &mut certificates)),
        initial: Vec::new(),
    }
}

fn keys(objects: &Objects, event: &Event, keys: &mut Vec<Key>) {
    let object = &event.object;
    if CLUSTER_EXTENSION.is(&event.gvr) {
        keys.push(Key::of(object));
    } else if object.label(OWNER_KIND) == Some(CLUSTER_EXTENSION.name) {
        keys.push(Key::new("", object.label(OWNER_NAME).unwrap_or_default()));
    } else if CLUSTER_CATALOG.is(&event.gvr) || CONFIG_MAP.is(&event.gvr) && object.namespace() == NAMESPACE {
        keys.extend(
            objects
                .list(&CLUSTER_EXTENSION, "")
                .map(|extension| Key::of(extension)),
        );
    }
}

pub(super) fn plan(
    world: &World<'_>,
    key: &Key,
    catalogs: &Catalogs,
    certificates: &mut Certificates<'_>,
) -> Plan {
    let found = world.objects.get(&CLUSTER_EXTENSION, "", &key.name);
    // The garbage collector deletes the objects of a deleted extension.
    let Some(extension) = found.filter(|extension| !extension.is_terminating()) else {
        return Plan::done();
    };
    let revisions = revision::list(world.objects, extension);
    let mut work = Work {
        world,
        extension,
        installed: revisions
            .iter()
            .rev()
            .find(|revision| revision.is_succeeded())
            .cloned(),
        revisions,
        status: extension.get("status").cloned().unwrap_or(json!({})),
        now: time(world.now),
        after: None,
    };
    let actions = work.progress(catalogs, certificates);
    let status = update_status(&CLUSTER_EXTENSION, extension, work.status);
    Plan {
        actions,
        status,
        after: work.after,
    }
}

/// The work on one extension.
struct Work<'a> {
    world: &'a World<'a>,
    extension: &'a Value,
    revisions: Vec<Revision<'a>>,
    /// The last revision that was rolled out successfully.
    installed: Option<Revision<'a>>,
    status: Value,
    now: Value,
    after: Option<Duration>,
}

impl<'a> Work<'a> {
    fn progress(&mut self, catalogs: &Catalogs, certificates: &mut Certificates<'_>) -> Vec<Action> {
        let installed = self.installed.as_ref().map(Revision::bundle);
        let offers = self.offers(catalogs);
        let wanted = self.wanted(installed.clone());
        let resolution = resolve(&wanted, &offers);
        self.deprecations(installed.as_ref(), resolution.deprecations.as_deref());
        let bundle = match resolution.bundle {
            Ok(bundle) => bundle,
            Err(error) => {
                self.unresolved(installed.as_ref(), &wanted, !offers.is_empty(), error);
                return Vec::new();
            }
        };
        match self.roll_out(&bundle, certificates) {
            Ok(actions) => actions,
            Err(obstacle) => {
                // No event reports that an object of another owner was deleted.
                self.after = matches!(obstacle, Obstacle::Retrying(_)).then_some(RETRY);
                self.blocked_by(&bundle, obstacle);
                Vec::new()
            }
        }
    }

    fn wanted(&self, installed: Option<Installed>) -> Wanted {
        let source = "/spec/source/catalog";
        let text = |field: &str| self.extension.text(&format!("{source}/{field}")).to_owned();
        Wanted {
            package: text("packageName"),
            version: text("version"),
            channels: crate::olm::strings(self.extension.items(&format!("{source}/channels"))),
            installed,
            self_certified: text("upgradeConstraintPolicy") == "SelfCertified",
        }
    }

    /// Returns the readable catalogs that the extension selects.
    fn offers(&self, catalogs: &Catalogs) -> Vec<Offer> {
        let selector = self.extension.pointer("/spec/source/catalog/selector");
        let all = self.world.objects.list(&CLUSTER_CATALOG, "");
        all.filter(|catalog| is_available(catalog))
            .filter(|catalog| selector.is_none() || selects(selector, &catalog.texts("/metadata/labels")))
            .filter_map(|catalog| {
                Some(Offer {
                    catalog: catalog.name().to_owned(),
                    priority: catalog.int("/spec/priority").unwrap_or(0),
                    loaded: catalogs.of_cluster(self.world.objects, catalog).ok()?,
                })
            })
            .collect()
    }

    fn deprecations(&mut self, installed: Option<&Installed>, known: Option<&[Deprecation]>) {
        let installed = installed.map_or("", |installed| installed.name.as_str());
        put_deprecations(&mut self.status, self.extension, installed, known, &self.now);
    }

    fn put(&mut self, kind: &str, state: &str, reason: &str, message: &str) {
        put(
            &mut self.status,
            self.extension,
            kind,
            state,
            reason,
            message,
            &self.now,
        );
    }

    /// Handles a failed resolution: an installed bundle is kept if its catalogs were deleted.
    fn unresolved(
        &mut self,
        installed: Option<&Installed>,
        wanted: &Wanted,
        has_offers: bool,
        error: String,
    ) {
        let stays = installed.is_some_and(|installed| {
            !has_offers && (wanted.version.is_empty() || wanted.version == installed.version)
        });
        if stays {
            self.succeeded();
        } else {
            self.blocked(&Obstacle::Retrying(error));
        }
    }

    fn blocked(&mut self, obstacle: &Obstacle) {
        match obstacle {
            Obstacle::Retrying(text) => self.put("Progressing", "True", "Retrying", text),
            Obstacle::Invalid(text) => self.put("Progressing", "False", "InvalidConfiguration", text),
        }
        self.installed_condition("Failed");
    }

    /// Reports that an obstacle prevents the installation of a bundle.
    fn blocked_by(&mut self, bundle: &Bundle, obstacle: Obstacle) {
        let (version, _) = version_of(bundle);
        let (name, version) = (quote(&bundle.name), quote(&version));
        let context =
            |text: String| format!("error for resolved bundle {name} with version {version}: {text}");
        self.blocked(&match obstacle {
            Obstacle::Retrying(text) => Obstacle::Retrying(context(text)),
            Obstacle::Invalid(text) => Obstacle::Invalid(context(text)),
        });
    }

    /// Reports the installed bundle, or the reason why nothing is installed.
    fn installed_condition(&mut self, reason: &str) {
        let Some(installed) = self.installed.clone() else {
            if let Value::Object(fields) = &mut self.status {
                fields.remove("install");
            }
            self.put("Installed", "False", reason, "No bundle installed");
            return;
        };
        let Installed {
            name,
            version,
            release,
        } = installed.bundle();
        let mut bundle = json!({"name": name, "version": version});
        if !release.is_empty() {
            bundle["release"] = release.into();
        }
        self.status["install"] = json!({"bundle": bundle});
        let message = format!("Installed bundle {} successfully", installed.image());
        self.put("Installed", "True", "Succeeded", &message);
    }

    fn succeeded(&mut self) {
        self.put("Progressing", "True", "Succeeded", "Desired state reached");
        self.installed_condition("Absent");
        self.status["activeRevisions"] = match &self.installed {
            Some(installed) => json!([{"name": installed.name()}]),
            None => json!([]),
        };
    }

    /// Returns the writes that bring the cluster closer to a bundle.
    fn roll_out(
        &mut self,
        bundle: &Bundle,
        certificates: &mut Certificates<'_>,
    ) -> Result<Vec<Action>, Obstacle> {
        let retrying = Obstacle::Retrying;
        let mut objects = catalog::objects(bundle).map_err(retrying)?;
        let Some(at) = objects
            .iter()
            .position(|object| object.text("/kind") == "ClusterServiceVersion")
        else {
            return Err(retrying(format!(
                "bundle {} has no objects in the catalog, and the embedded control plane pulls no bundle images",
                bundle.name
            )));
        };
        let digest = hash(&json!([
            bundle.name,
            bundle.image,
            objects,
            self.extension.pointer("/spec/config/inline")
        ]));
        accepted(bundle, &objects).map_err(retrying)?;
        let csv = objects.remove(at);
        let modes: Vec<&str> = csv
            .items("/spec/installModes")
            .iter()
            .filter(|mode| mode.flag("/supported"))
            .map(|mode| mode.text("/type"))
            .collect();
        let config = config::read(self.extension, &modes).map_err(Obstacle::Invalid)?;
        let mut authorities = BTreeMap::new();
        let issued = self
            .certificates(&csv, &mut authorities, certificates)
            .map_err(retrying)?;
        if !issued.is_empty() {
            return Ok(self.attempt(bundle, issued));
        }
        let rendered = self
            .render(&csv, &objects, &config, &authorities)
            .map_err(retrying)?;
        let enforcement = self
            .extension
            .text("/spec/install/preflight/crdUpgradeSafety/enforcement");
        let is_new = !self
            .revisions
            .last()
            .is_some_and(|revision| revision.has(&digest));
        let is_strict = enforcement != "None"
            && self
                .revisions
                .last()
                .is_none_or(|last| !last.is_succeeded() || is_new);
        if let Some(reason) = apply::refusal(self.world.objects, self.extension, &rendered, is_strict) {
            return Err(retrying(reason));
        }
        let Some(revision) = self.revisions.last().filter(|_| !is_new).cloned() else {
            let number = self
                .revisions
                .last()
                .map_or(0, |last| last.number)
                .saturating_add(1);
            let next = revision::next(self.extension, number, bundle, &digest);
            return Ok(self.attempt(bundle, vec![next]));
        };
        let writes = apply::actions(self.world.objects, self.extension, &revision, &rendered);
        if !writes.is_empty() {
            return Ok(self.attempt(bundle, writes));
        }
        if let Some(reason) = apply::unready(self.world.objects, &rendered) {
            self.rolling_out(&revision, bundle, &reason);
            return Ok(Vec::new());
        }
        if !revision.is_succeeded() {
            return Ok(vec![revision.succeed()]);
        }
        let secrets: Vec<String> = webhook::served(&csv)
            .into_iter()
            .map(webhook::secret_name)
            .collect();
        let surplus = apply::surplus(self.world.objects, self.extension, &revision, &rendered, &secrets);
        if !surplus.is_empty() {
            return Ok(self.attempt(bundle, surplus));
        }
        self.succeeded();
        Ok(Vec::new())
    }

    /// Returns writes. If the server rejected one of them before, the status reports that; the engine retries them
    /// later.
    fn attempt(&mut self, bundle: &Bundle, actions: Vec<Action>) -> Vec<Action> {
        if let Some(failure) = self.world.failure {
            self.blocked_by(bundle, Obstacle::Retrying(failure.message.clone()));
        }
        actions
    }

    fn rolling_out(&mut self, revision: &Revision<'_>, bundle: &Bundle, reason: &str) {
        let (version, _) = version_of(bundle);
        let minutes = self.extension.int("/spec/progressDeadlineMinutes");
        let start = revision
            .secret
            .time("/metadata/creationTimestamp")
            .unwrap_or(self.world.now);
        let deadline = minutes.and_then(|minutes| start.checked_add(SignedDuration::from_mins(minutes)).ok());
        let is_over = deadline.is_some_and(|deadline| self.world.now >= deadline) && !revision.is_succeeded();
        let (state, why, message) = if is_over {
            let message = format!(
                "Revision has not rolled out for {} minute(s).",
                minutes.unwrap_or_default()
            );
            ("False", "ProgressDeadlineExceeded", message)
        } else {
            self.after = deadline
                .filter(|_| !revision.is_succeeded())
                .map(|deadline| until(self.world.now, deadline));
            (
                "True",
                "RollingOut",
                format!("Revision {version} is rolling out: {reason}"),
            )
        };
        self.put("Progressing", state, why, &message);
        self.installed_condition("Absent");
        let mut rolling = json!({});
        put(
            &mut rolling,
            self.extension,
            "Progressing",
            state,
            why,
            &message,
            &self.now,
        );
        put(
            &mut rolling,
            self.extension,
            "Available",
            "False",
            "ProbeFailure",
            reason,
            &self.now,
        );
        let mut active: Vec<Value> = Vec::new();
        if let Some(installed) = self
            .installed
            .as_ref()
            .filter(|installed| installed.number != revision.number)
        {
            active.push(json!({"name": installed.name()}));
        }
        // Unchanged conditions keep their times.
        let known = self.status.items("/activeRevisions").iter();
        let known = known
            .into_iter()
            .find(|known| known.text("/name") == revision.name())
            .cloned();
        let conditions = match known {
            Some(known) if same(known.items("/conditions"), rolling.items("/conditions")) => {
                known.items("/conditions").to_vec()
            }
            _ => rolling.items("/conditions").to_vec(),
        };
        active.push(json!({"name": revision.name(), "conditions": conditions}));
        self.status["activeRevisions"] = json!(active);
    }

    fn render(
        &self,
        csv: &Value,
        others: &[Value],
        config: &Config,
        authorities: &BTreeMap<String, String>,
    ) -> Result<Vec<Rendered>, String> {
        render(&Input {
            csv,
            others,
            namespace: self.extension.text("/spec/namespace"),
            config,
            authorities,
            resources: &(self.world.resources)(),
        })
    }

    /// Collects the certificate authorities of webhooks; creates missing and outdated certificates.
    fn certificates(
        &self,
        csv: &Value,
        authorities: &mut BTreeMap<String, String>,
        certificates: &mut Certificates<'_>,
    ) -> Result<Vec<Action>, String> {
        let namespace = self.extension.text("/spec/namespace");
        let now = self.world.now;
        let mut actions = Vec::new();
        for deployment in webhook::served(csv) {
            let name = webhook::secret_name(deployment);
            let known = self.world.objects.get(&SECRET, namespace, &name);
            let is_valid = known
                .and_then(|known| webhook::rotation(known))
                .is_some_and(|rotate| now < rotate);
            if let Some(known) = known.filter(|_| is_valid) {
                authorities.insert(deployment.to_owned(), known.text("/data/olmCAKey").to_owned());
                continue;
            }
            let service = webhook::service_name(deployment);
            let mut secret = webhook::certificate(&service, namespace, now, certificates)?;
            secret["metadata"]["name"] = name.as_str().into();
            secret["metadata"]["namespace"] = namespace.into();
            secret["metadata"]["labels"] = owner_labels(self.extension);
            secret["metadata"]["ownerReferences"] = json!([owner_reference(self.extension)]);
            actions.push(match known {
                None => create(&SECRET, secret, None),
                Some(known) if !is_owned(known, self.extension) => {
                    return Err(format!(
                        "Secret {namespace}/{name} exists and does not belong to the ClusterExtension {}",
                        self.extension.name()
                    ));
                }
                Some(known) if known.text("/type") != secret.text("/type") => delete(&SECRET, known, None),
                Some(known) => {
                    secret["metadata"]["resourceVersion"] = known.version().into();
                    update(&SECRET, secret, None)
                }
            });
        }
        Ok(actions)
    }
}

/// Returns true if two lists of conditions are equal except for their times.
fn same(left: &[Value], right: &[Value]) -> bool {
    let fields = ["type", "status", "reason", "message", "observedGeneration"];
    left.len() == right.len()
        && left
            .iter()
            .zip(right)
            .all(|(left, right)| fields.iter().all(|field| left.get(field) == right.get(field)))
}

/// Checks that OLM v1 supports a bundle.
///
/// # Errors
/// Returns the reasons why it does not.
fn accepted(bundle: &Bundle, objects: &[Value]) -> Result<(), String> {
    let mut files = Files::new(bundle.name.as_str());
    for (index, object) in objects.iter().enumerate() {
        files.insert(
            &format!("manifests/{index}.yaml"),
            object.to_string().into_bytes(),
        );
    }
    let annotations = json!({"annotations": {
        "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1",
        "operators.operatorframework.io.bundle.manifests.v1": "manifests/",
        "operators.operatorframework.io.bundle.metadata.v1": "metadata/",
        "operators.operatorframework.io.bundle.package.v1": bundle.package,
    }});
    files.insert("metadata/annotations.yaml", annotations.to_string().into_bytes());
    let loaded = bundle::load(&files).map_err(|error| error.to_string())?;
    let errors: Vec<String> = Validator::OlmV1
        .run(&loaded, &Options::default())
        .into_iter()
        .filter(|finding| finding.level == Level::Error)
        .map(|finding| finding.detail)
        .collect();
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors.join("\n"))
    }
}
