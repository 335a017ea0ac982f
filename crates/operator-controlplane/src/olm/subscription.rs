//! Subscriptions: resolves a namespace, creates InstallPlans, and updates the status of each Subscription.

use std::sync::Arc;

use operator_apiserver::client::Event;
use serde_json::{Value, json};

use super::catalog::{Catalogs, is_part, sources};
use super::kinds::{CATALOG_SOURCE, CSV, INSTALL_PLAN, OPERATOR_GROUP, SUBSCRIPTION};
use super::packages::deprecation;
use super::resolve::{Pick, Request, Source, resolve};
use super::steps::{steps, subscription_step};
use super::unpack::{Unpacked, is_in_image, is_of_bundle, lookup, unpack};
use super::{MANAGED, originals, owner_reference, remove_condition, set_condition, strings};
use crate::engine::Controller;
use crate::kind::{CONFIG_MAP, JOB, NAMESPACE};
use crate::object::{Object, time, unset};
use crate::objects::{Key, Objects};
use crate::plan::{Action, Plan, World, create, delete, update_status, update_subresource};

/// The maximum number of InstallPlans in a namespace.
const PLANS_MAX: usize = 5;

/// Returns the controller; its keys are namespaces.
pub(crate) fn controller(catalogs: Catalogs) -> Controller {
    Controller {
        name: "olm-subscription",
        keys,
        plan: Box::new(move |world, key| plan(world, key, &catalogs)),
        initial: Vec::new(),
    }
}

fn keys(objects: &Objects, event: &Event, keys: &mut Vec<Key>) {
    let object = &event.object;
    let of_namespace = [&*SUBSCRIPTION, &*INSTALL_PLAN, &*CSV, &*OPERATOR_GROUP];
    if of_namespace.iter().any(|kind| kind.is(&event.gvr)) {
        keys.push(Key::new("", object.namespace()));
    } else if CATALOG_SOURCE.is(&event.gvr)
        || CONFIG_MAP.is(&event.gvr) && is_part(object, objects)
        || (CONFIG_MAP.is(&event.gvr) || JOB.is(&event.gvr)) && is_of_bundle(object)
    {
        let subscribed = objects.list(&SUBSCRIPTION, "");
        keys.extend(subscribed.map(|subscription| Key::new("", subscription.namespace())));
    }
}

pub(super) fn plan(world: &World<'_>, key: &Key, catalogs: &Catalogs) -> Plan {
    let namespace = world.objects.get(&NAMESPACE, "", &key.name);
    if namespace.is_none_or(|namespace| namespace.is_terminating()) {
        return Plan::done();
    }
    let subscriptions: Vec<&Arc<Value>> = world
        .objects
        .list(&SUBSCRIPTION, &key.name)
        .filter(|subscription| !subscription.is_terminating())
        .collect();
    if subscriptions.is_empty() {
        return Plan::done();
    }
    let mut scene = Scene {
        world,
        namespace: &key.name,
        now: time(world.now),
        statuses: subscriptions
            .iter()
            .map(|subscription| subscription.get("status").cloned().unwrap_or(json!({})))
            .collect(),
        subscriptions,
    };
    for index in 0..scene.subscriptions.len() {
        scene.observe(index, catalogs);
    }
    let mut actions = scene.surplus();
    if scene.statuses_changed().is_none() {
        actions.extend(scene.resolved(catalogs));
    }
    match scene.statuses_changed() {
        Some(status) if actions.is_empty() => Plan {
            status: Some(status),
            ..Plan::default()
        },
        Some(status) => {
            actions.push(status);
            Plan::actions(actions)
        }
        None => Plan::actions(actions),
    }
}

/// The Subscriptions of a namespace with their new statuses.
struct Scene<'a> {
    world: &'a World<'a>,
    namespace: &'a str,
    now: Value,
    subscriptions: Vec<&'a Arc<Value>>,
    statuses: Vec<Value>,
}

impl<'a> Scene<'a> {
    /// Returns the first changed status to write; times of observation do not count as changes.
    fn statuses_changed(&self) -> Option<Action> {
        let mut pairs = self.subscriptions.iter().zip(&self.statuses);
        pairs.find_map(|(subscription, status)| {
            let mut known = subscription.get("status").cloned().unwrap_or(json!({}));
            let mut wanted = status.clone();
            for status in [&mut known, &mut wanted] {
                unset(status, &["lastUpdated"]);
                for health in status
                    .get_mut("catalogHealth")
                    .and_then(Value::as_array_mut)
                    .into_iter()
                    .flatten()
                {
                    unset(health, &["lastUpdated"]);
                }
            }
            if known == wanted {
                return None;
            }
            let mut status = status.clone();
            status["lastUpdated"] = self.now.clone();
            update_status(&SUBSCRIPTION, subscription, status)
        })
    }

    /// Updates a Subscription from catalogs, plans and ClusterServiceVersions.
    fn observe(&mut self, index: usize, catalogs: &Catalogs) {
        let subscription = self.subscriptions[index];
        let mut status = self.statuses[index].clone();
        let mut conditions = status.items("/conditions").to_vec();
        self.health(subscription, &mut status, &mut conditions, catalogs);
        deprecations(
            self.world.objects,
            subscription,
            &status,
            &mut conditions,
            catalogs,
            &self.now,
        );
        let referenced = status.text("/installPlanRef/name").to_owned();
        let plan = self.world.objects.get(&INSTALL_PLAN, self.namespace, &referenced);
        let current = status.text("/currentCSV").to_owned();
        let starting = subscription.text("/spec/startingCSV");
        let adopted =
            current.is_empty() && subscription.label(MANAGED).is_some() && self.csv(starting).is_some();
        if adopted {
            status["currentCSV"] = starting.into();
        }
        let current = status.text("/currentCSV").to_owned();
        if !referenced.is_empty() {
            match plan {
                Some(plan) => plan_conditions(plan, &mut conditions, &mut status, self.group(), &self.now),
                None if status.text("/state") == "UpgradePending" => {
                    for field in [
                        "installPlanRef",
                        "installplan",
                        "installPlanGeneration",
                        "currentCSV",
                        "state",
                    ] {
                        unset(&mut status, &[field]);
                    }
                    remove_condition(&mut conditions, "InstallPlanPending");
                }
                None => {
                    let missing = json!({
                        "type": "InstallPlanMissing", "status": "True", "reason": "ReferencedInstallPlanNotFound",
                    });
                    set_condition(&mut conditions, missing, &self.now);
                }
            }
        }
        if !current.is_empty() && self.csv(&current).is_some() {
            status["state"] = "AtLatestKnown".into();
            status["installedCSV"] = current.into();
        }
        status["conditions"] = json!(conditions);
        self.statuses[index] = status;
    }

    fn health(
        &self,
        subscription: &Value,
        status: &mut Value,
        conditions: &mut Vec<Value>,
        catalogs: &Catalogs,
    ) {
        let before = status.items("/catalogHealth").to_vec();
        let mut all = Vec::new();
        for source in sources(self.world.objects, self.namespace) {
            let healthy = catalogs.content(self.world.objects, source).is_ok();
            let known = before.iter().find(|health| {
                health.text("/catalogSourceRef/uid") == source.uid() && health.flag("/healthy") == healthy
            });
            let updated = known.and_then(|health| health.get("lastUpdated")).cloned();
            let reference = json!({
                "apiVersion": CATALOG_SOURCE.api_version(), "kind": CATALOG_SOURCE.name, "name": source.name(),
                "namespace": source.namespace(), "uid": source.uid(),
            });
            all.push(json!({
                "catalogSourceRef": reference, "healthy": healthy,
                "lastUpdated": updated.unwrap_or(self.now.clone()),
            }));
        }
        let (name, namespace) = (
            subscription.text("/spec/source"),
            subscription.text("/spec/sourceNamespace"),
        );
        let target = all.iter().find(|health| {
            health.text("/catalogSourceRef/name") == name
                && health.text("/catalogSourceRef/namespace") == namespace
        });
        let unhealthy = match target {
            _ if all.is_empty() => {
                Some("dependency resolution requires at least one catalogsource".to_owned())
            }
            None => Some(format!("targeted catalogsource {namespace}/{name} missing")),
            Some(health) if !health.flag("/healthy") => {
                Some(format!("targeted catalogsource {namespace}/{name} unhealthy"))
            }
            Some(_) => None,
        };
        let condition = match unhealthy {
            Some(message) => json!({
                "type": "CatalogSourcesUnhealthy", "status": "True", "reason": "UnhealthyCatalogSourceFound",
                "message": message,
            }),
            None => json!({
                "type": "CatalogSourcesUnhealthy", "status": "False", "reason": "AllCatalogSourcesHealthy",
                "message": "all available catalogsources are healthy",
            }),
        };
        set_condition(conditions, condition, &self.now);
        status["catalogHealth"] = json!(all);
    }

    fn csv(&self, name: &str) -> Option<&'a Arc<Value>> {
        let csv = self.world.objects.get(&CSV, self.namespace, name);
        csv.filter(|csv| !csv.is_terminating())
    }

    fn group(&self) -> Option<&'a Arc<Value>> {
        self.world.objects.list(&OPERATOR_GROUP, self.namespace).next()
    }

    /// Deletes the oldest InstallPlans that no Subscription refers to.
    fn surplus(&self) -> Vec<Action> {
        let mut plans: Vec<&Arc<Value>> = self.world.objects.list(&INSTALL_PLAN, self.namespace).collect();
        plans.sort_by_key(|plan| std::cmp::Reverse(plan.int("/spec/generation").unwrap_or(0)));
        let referenced = |plan: &Value| {
            let mut all = self.statuses.iter();
            all.any(|status| status.text("/installPlanRef/name") == plan.name())
        };
        let surplus = plans
            .iter()
            .skip(PLANS_MAX)
            .filter(|plan| !plan.is_terminating() && !referenced(plan));
        surplus.map(|plan| delete(&INSTALL_PLAN, plan, None)).collect()
    }

    /// Returns the state of the InstallPlan that a Subscription waits for.
    fn waits(&self, status: &Value) -> Wait {
        let current = status.text("/currentCSV");
        if current.is_empty() {
            return Wait::No;
        }
        if self.csv(current).is_some() {
            return Wait::No;
        }
        let plan = self
            .world
            .objects
            .get(&INSTALL_PLAN, self.namespace, status.text("/installPlanRef/name"));
        match plan.map(|plan| plan.text("/status/phase")) {
            // The steps have not been written yet.
            Some("") => Wait::No,
            Some("RequiresApproval") => Wait::Approval,
            _ => Wait::Yes,
        }
    }

    /// Resolves the namespace. The statuses change if an InstallPlan exists for the result.
    fn resolved(&mut self, catalogs: &Catalogs) -> Vec<Action> {
        let waits: Vec<Wait> = self.statuses.iter().map(|status| self.waits(status)).collect();
        if waits.contains(&Wait::Yes) {
            return Vec::new();
        }
        let groups = self.world.objects.list(&OPERATOR_GROUP, self.namespace).count();
        if groups != 1 {
            let message = format!("expected 1 OperatorGroup in the namespace, found {groups}");
            self.failed("ErrorPreventedResolution", &message);
            return Vec::new();
        }
        let sources: Vec<Source> = catalogs
            .visible(self.world.objects, self.namespace)
            .into_iter()
            .map(|(source, loaded)| Source {
                namespace: source.namespace().to_owned(),
                name: source.name().to_owned(),
                loaded,
            })
            .collect();
        let existing: Vec<Arc<Value>> = originals(self.world.objects, self.namespace).cloned().collect();
        let requests: Vec<Request> = self
            .subscriptions
            .iter()
            .zip(&self.statuses)
            .map(|(subscription, status)| self.request(subscription, status))
            .collect();
        // If the catalog of an installed operator is unhealthy, the operator is kept.
        match resolve(&requests, &sources, &existing) {
            Err(message) => {
                self.failed("ConstraintsNotSatisfiable", &message);
                Vec::new()
            }
            Ok(mut picks) => {
                for status in &mut self.statuses {
                    if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
                        remove_condition(conditions, "ResolutionFailed");
                    }
                }
                if picks.is_empty() {
                    return Vec::new();
                }
                match self.unpacked(&mut picks) {
                    Ok(lookups) => self.planned(&picks, &lookups),
                    Err(actions) => actions,
                }
            }
        }
    }

    /// Adds their objects to the bundles in images, and returns the lookups of these.
    ///
    /// # Errors
    /// Returns the next actions of the Jobs that unpack the images.
    fn unpacked(&mut self, picks: &mut [Pick]) -> Result<Vec<Value>, Vec<Action>> {
        let (mut lookups, mut actions, mut is_running) = (Vec::new(), Vec::new(), false);
        let mut failure = None;
        for pick in picks.iter_mut().filter(|pick| is_in_image(&pick.candidate)) {
            let entry = lookup(&pick.candidate);
            match unpack(self.world.objects, &pick.candidate) {
                Unpacked::Objects(objects) => {
                    pick.candidate.bundle.properties.extend(objects);
                    lookups.push(entry);
                }
                Unpacked::Next(action) => actions.push(*action),
                Unpacked::Running => is_running = true,
                Unpacked::Failed { reason, message } => failure = Some(format!("{reason}: {message}")),
            }
        }
        if let Some(message) = failure {
            self.unpack_condition(picks, Some(&message));
            return Err(Vec::new());
        }
        if is_running || !actions.is_empty() {
            self.unpack_condition(picks, None);
            return Err(actions);
        }
        for status in &mut self.statuses {
            if let Some(conditions) = status.get_mut("conditions").and_then(Value::as_array_mut) {
                remove_condition(conditions, "BundleUnpacking");
                remove_condition(conditions, "BundleUnpackFailed");
            }
        }
        Ok(lookups)
    }

    fn request(&self, subscription: &Value, status: &Value) -> Request {
        let text = |pointer: &str| subscription.text(pointer).to_owned();
        let installed = [status.text("/currentCSV"), status.text("/installedCSV")];
        Request {
            name: subscription.name().to_owned(),
            package: text("/spec/name"),
            channel: text("/spec/channel"),
            source: (text("/spec/sourceNamespace"), text("/spec/source")),
            starting: text("/spec/startingCSV"),
            installed: installed
                .iter()
                .find_map(|name| self.csv(name).filter(|_| !name.is_empty()))
                .cloned(),
        }
    }

    fn failed(&mut self, reason: &str, message: &str) {
        let now = self.now.clone();
        let condition =
            json!({"type": "ResolutionFailed", "status": "True", "reason": reason, "message": message});
        for status in &mut self.statuses {
            let mut conditions = status.items("/conditions").to_vec();
            set_condition(&mut conditions, condition.clone(), &now);
            status["conditions"] = json!(conditions);
        }
    }

    /// Creates the InstallPlan of a result, refers to it, and writes its steps, in this order. A plan with steps is
    /// executed at once, so the Subscriptions must already name their ClusterServiceVersions.
    fn planned(&mut self, picks: &[Pick], lookups: &[Value]) -> Vec<Action> {
        let names: Vec<&str> = picks
            .iter()
            .map(|pick| pick.candidate.bundle.name.as_str())
            .collect();
        let manual = self
            .subscriptions
            .iter()
            .any(|subscription| subscription.text("/spec/installPlanApproval") == "Manual");
        let plans = self.world.objects.list(&INSTALL_PLAN, self.namespace);
        let known = plans
            .filter(|plan| !plan.is_terminating())
            .filter(|plan| {
                let own = strings(plan.items("/spec/clusterServiceVersionNames"));
                let phase = plan.text("/status/phase");
                own == names && !matches!(phase, "Complete" | "Failed")
            })
            .max_by_key(|plan| plan.int("/spec/generation"));
        let Some(known) = known else {
            return vec![self.new_plan(&names, manual)];
        };
        let steps = match known.text("/status/phase") {
            "" => match self.plan_status(picks, lookups, known, manual) {
                Ok(status) => Some(status),
                Err(message) => {
                    self.unpack_condition(picks, Some(&message));
                    return Vec::new();
                }
            },
            _ => None,
        };
        let reference = json!({
            "apiVersion": INSTALL_PLAN.api_version(), "kind": INSTALL_PLAN.name, "name": known.name(),
            "namespace": self.namespace, "uid": known.uid(), "resourceVersion": known.version(),
        });
        let mut is_referred_to = true;
        for pick in picks {
            let Some(status) = pick.request.and_then(|index| self.statuses.get_mut(index)) else {
                continue;
            };
            if status.text("/installPlanRef/uid") == known.uid() {
                continue;
            }
            is_referred_to = false;
            status["currentCSV"] = pick.candidate.bundle.name.as_str().into();
            status["state"] = "UpgradePending".into();
            status["installPlanRef"] = reference.clone();
            status["installplan"] = json!({
                "apiVersion": INSTALL_PLAN.api_version(), "kind": INSTALL_PLAN.name, "name": known.name(),
                "uuid": known.uid(),
            });
            status["installPlanGeneration"] = json!(known.int("/spec/generation"));
            let mut conditions = status.items("/conditions").to_vec();
            remove_condition(&mut conditions, "InstallPlanMissing");
            pending(known, &mut conditions, &self.now);
            status["conditions"] = json!(conditions);
        }
        match steps {
            Some(status) if is_referred_to => vec![update_subresource(
                &INSTALL_PLAN,
                "status",
                crate::object::with_status(known, status),
            )],
            _ => Vec::new(),
        }
    }

    fn new_plan(&self, names: &[&str], manual: bool) -> Action {
        let plans = self.world.objects.list(&INSTALL_PLAN, self.namespace);
        let of_plans = plans.filter_map(|plan| plan.int("/spec/generation"));
        let of_statuses = self
            .statuses
            .iter()
            .filter_map(|status| status.int("/installPlanGeneration"));
        let generation = of_plans.chain(of_statuses).max().unwrap_or(0).saturating_add(1);
        let owners: Vec<Value> = self
            .subscriptions
            .iter()
            .map(|subscription| owner_reference(&SUBSCRIPTION, subscription))
            .collect();
        let object = json!({
            "metadata": {
                "generateName": "install-", "namespace": self.namespace, "ownerReferences": owners,
                "labels": {MANAGED: "true"},
            },
            "spec": {
                "approval": if manual { "Manual" } else { "Automatic" },
                "approved": !manual,
                "clusterServiceVersionNames": names,
                "generation": generation,
            },
        });
        create(&INSTALL_PLAN, object, None)
    }

    fn plan_status(
        &self,
        picks: &[Pick],
        lookups: &[Value],
        plan: &Value,
        manual: bool,
    ) -> Result<Value, String> {
        let mut all = Vec::new();
        let mut sources: Vec<&str> = Vec::new();
        for pick in picks {
            let candidate = &pick.candidate;
            let mut own = steps(candidate, self.namespace)?;
            if pick.request.is_none() {
                own.insert(
                    1,
                    subscription_step(&candidate.bundle.name, candidate, self.namespace),
                );
            }
            all.extend(own);
            sources.push(&candidate.source.name);
        }
        sources.dedup();
        let approved = plan.flag("/spec/approved") || !manual;
        let mut status = json!({
            "phase": if approved { "Installing" } else { "RequiresApproval" },
            "catalogSources": sources,
            "plan": all,
        });
        if !lookups.is_empty() {
            status["bundleLookups"] = json!(lookups);
        }
        Ok(status)
    }

    /// Reports that the images of bundles are being unpacked, or why that failed.
    fn unpack_condition(&mut self, picks: &[Pick], failure: Option<&str>) {
        for pick in picks {
            let Some(status) = pick.request.and_then(|index| self.statuses.get_mut(index)) else {
                continue;
            };
            let mut conditions = status.items("/conditions").to_vec();
            let condition = match failure {
                None => {
                    remove_condition(&mut conditions, "BundleUnpackFailed");
                    json!({
                        "type": "BundleUnpacking", "status": "True", "reason": "UnpackingInProgress",
                        "message": "unpack job not completed",
                    })
                }
                Some(message) => {
                    remove_condition(&mut conditions, "BundleUnpacking");
                    json!({
                        "type": "BundleUnpackFailed", "status": "True", "reason": "BundleUnpackFailed",
                        "message": format!("Bundle unpacking failed - {message}"),
                    })
                }
            };
            set_condition(&mut conditions, condition, &self.now);
            status["conditions"] = json!(conditions);
        }
    }
}

/// The reason why a Subscription is not resolved again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    No,
    /// Its InstallPlan waits for approval, and is replaced if there is a newer entry.
    Approval,
    Yes,
}

fn pending(plan: &Value, conditions: &mut Vec<Value>, now: &Value) {
    let reason = match plan.text("/status/phase") {
        "" => "InstallPlanNotYetReconciled",
        phase => phase,
    };
    let condition = json!({"type": "InstallPlanPending", "status": "True", "reason": reason});
    set_condition(conditions, condition, now);
}

fn plan_conditions(
    plan: &Value,
    conditions: &mut Vec<Value>,
    status: &mut Value,
    group: Option<&Arc<Value>>,
    now: &Value,
) {
    match plan.text("/status/phase") {
        "Complete" => {
            remove_condition(conditions, "InstallPlanPending");
            remove_condition(conditions, "InstallPlanFailed");
        }
        "Failed" => {
            remove_condition(conditions, "InstallPlanPending");
            let installed = plan.condition("Installed");
            let text =
                |pointer: &str| installed.map_or(String::new(), |found| found.text(pointer).to_owned());
            let failed = json!({
                "type": "InstallPlanFailed", "status": "True", "reason": text("/reason"), "message": text("/message"),
            });
            set_condition(conditions, failed, now);
            let forward = group
                .is_some_and(|group| group.text("/spec/upgradeStrategy") == "TechPreviewUnsafeFailForward");
            if forward {
                status["state"] = "UpgradeFailed".into();
            }
        }
        _ => pending(plan, conditions, now),
    }
}

/// Returns the conditions for `olm.deprecations` documents.
fn deprecations(
    objects: &Objects,
    subscription: &Value,
    status: &Value,
    conditions: &mut Vec<Value>,
    catalogs: &Catalogs,
    now: &Value,
) {
    let (namespace, name) = (
        subscription.text("/spec/sourceNamespace"),
        subscription.text("/spec/source"),
    );
    let source = objects.get(&CATALOG_SOURCE, namespace, name);
    let Some(loaded) = source.and_then(|source| catalogs.content(objects, source).ok()) else {
        return;
    };
    let package = subscription.text("/spec/name");
    let found = |schema: &str, name: &str| deprecation(&loaded.catalog, package, schema, name);
    let parts = [
        ("PackageDeprecated", found("olm.package", "")),
        (
            "ChannelDeprecated",
            found("olm.channel", subscription.text("/spec/channel")),
        ),
        (
            "BundleDeprecated",
            found("olm.bundle", status.text("/installedCSV")),
        ),
    ];
    let messages: Vec<&str> = parts.iter().filter_map(|(_, message)| *message).collect();
    let all = messages.join("; ");
    let any = (!messages.is_empty()).then_some(all.as_str());
    for (kind, message) in parts.into_iter().chain([("Deprecated", any)]) {
        match message {
            Some(message) => {
                let condition =
                    json!({"type": kind, "status": "True", "reason": "Deprecated", "message": message});
                set_condition(conditions, condition, now);
            }
            None => remove_condition(conditions, kind),
        }
    }
}
