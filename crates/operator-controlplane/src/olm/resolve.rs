//! Resolution: selects the bundles to install for the Subscriptions of a namespace, as a pure function.
//!
//! The search is depth-first with a limit: for each Subscription the best candidate first, and then the requirements of
//! the chosen bundles.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use operator_olm::catalog::version::{Range, Version};
use operator_olm::catalog::{Bundle, Channel, Entry, Property, package_version};
use serde_json::Value;

use super::catalog::Loaded;
use super::properties::{Gvk, described, gvk, is_requirement, package_of, properties_of, provides};
use crate::object::Object;

/// The maximum number of choices in a search.
const STEPS_MAX: usize = 10_000;
/// The maximum number of Subscriptions and dependencies.
const DEPTH_MAX: usize = 128;

/// A catalog by namespace and name.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) loaded: Arc<Loaded>,
}

/// A Subscription in the resolver.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) name: String,
    pub(crate) package: String,
    pub(crate) channel: String,
    /// The namespace and the name of the catalog.
    pub(crate) source: (String, String),
    pub(crate) starting: String,
    /// The installed ClusterServiceVersion of the Subscription.
    pub(crate) installed: Option<Arc<Value>>,
}

/// An entry of a channel that can be installed.
#[derive(Clone)]
pub(crate) struct Candidate {
    pub(crate) source: Source,
    pub(crate) channel: String,
    pub(crate) bundle: Bundle,
    /// The name of the ClusterServiceVersion that it replaces; empty for a first installation.
    pub(crate) replaces: String,
}

impl Candidate {
    /// Returns the name of the candidate in messages.
    pub(crate) fn id(&self) -> String {
        let Source { namespace, name, .. } = &self.source;
        format!("{name}/{namespace}/{}/{}", self.channel, self.bundle.name)
    }
}

/// A bundle to install, for a Subscription by its index, or for a new one.
#[derive(Clone)]
pub(crate) struct Pick {
    pub(crate) request: Option<usize>,
    pub(crate) candidate: Candidate,
}

/// Returns the version of a bundle, if it is valid.
pub(super) fn version_of(bundle: &Bundle) -> Option<Version> {
    package_version(bundle).ok().map(|(_, version)| version)
}

/// Returns the entries of a channel along the chain of `replaces` from a head, without skipped ones.
fn chain<'a>(channel: &'a Channel, head: &str) -> Vec<&'a Entry> {
    let by_name: BTreeMap<&str, &Entry> = channel
        .entries()
        .iter()
        .map(|entry| (entry.name.as_str(), entry))
        .collect();
    let skipped = skipped(channel);
    let mut found: Vec<&Entry> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut next = by_name.get(head);
    while let Some(entry) =
        next.filter(|entry| !skipped.contains(entry.name.as_str()) && seen.insert(entry.name.as_str()))
    {
        found.push(entry);
        next = by_name.get(entry.replaces.as_str());
    }
    found
}

fn skipped(channel: &Channel) -> BTreeSet<&str> {
    let entries = channel.entries().iter();
    entries
        .flat_map(|entry| &entry.skips)
        .map(String::as_str)
        .collect()
}

/// Returns all entries of a channel: the chain of `replaces` from the head, followed by the other entries.
pub(super) fn ordered<'a>(channel: &'a Channel, head: &str) -> Vec<&'a str> {
    let mut names: Vec<&str> = chain(channel, head)
        .iter()
        .map(|entry| entry.name.as_str())
        .collect();
    for entry in channel.entries() {
        if !names.contains(&entry.name.as_str()) {
            names.push(&entry.name);
        }
    }
    names
}

/// Chooses bundles for requests, given the ClusterServiceVersions of the namespace. `sources` are sorted by priority.
///
/// # Errors
/// Returns the text of the condition ResolutionFailed.
pub(crate) fn resolve(
    requests: &[Request],
    sources: &[Source],
    existing: &[Arc<Value>],
) -> Result<Vec<Pick>, String> {
    let options: Vec<Vec<Option<Candidate>>> =
        requests.iter().map(|request| options(request, sources)).collect();
    let unreferenced: Vec<&Arc<Value>> = existing
        .iter()
        .filter(|csv| {
            let is = |request: &Request| {
                request
                    .installed
                    .as_ref()
                    .is_some_and(|found| found.name() == csv.name())
            };
            !requests.iter().any(is)
                && !existing
                    .iter()
                    .any(|new| new.text("/spec/replaces") == csv.name())
        })
        .collect();
    let mut search = Search {
        requests,
        sources,
        options: &options,
        unreferenced,
        kept: vec![false; requests.len()],
        picks: Vec::new(),
        steps: 0,
        conflict: None,
    };
    for (index, options) in options.iter().enumerate() {
        if options.is_empty() {
            let request = &requests[index];
            let reason = not_found(request, sources);
            return Err(format!(
                "constraints not satisfiable: {reason}, subscription {} exists",
                request.name
            ));
        }
    }
    if search.choose(0) {
        return Ok(search.picks);
    }
    let mut parts: Vec<String> = search.conflict.take().into_iter().collect();
    for (request, options) in requests.iter().zip(&options) {
        let ids: Vec<String> = options
            .iter()
            .map(|option| match (option, &request.installed) {
                (Some(candidate), _) => candidate.id(),
                (None, Some(csv)) => existing_id(csv),
                (None, None) => String::new(),
            })
            .collect();
        parts.push(match ids.as_slice() {
            [id] => format!("subscription {} requires {id}", request.name),
            ids => format!(
                "subscription {} requires at least one of {}",
                request.name,
                either(ids)
            ),
        });
        parts.push(format!("subscription {} exists", request.name));
    }
    Err(format!("constraints not satisfiable: {}", parts.join(", ")))
}

fn either(ids: &[String]) -> String {
    match ids.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        Some((last, _)) => last.clone(),
        None => String::new(),
    }
}

fn existing_id(csv: &Value) -> String {
    format!("@existing/{}//{}", csv.namespace(), csv.name())
}

/// Returns the reason why a request has no candidate.
fn not_found(request: &Request, sources: &[Source]) -> String {
    let Request {
        name,
        package,
        channel,
        starting,
        source,
        ..
    } = request;
    let found = sources
        .iter()
        .find(|found| (&found.namespace, &found.name) == (&source.0, &source.1));
    let catalog = found.map(|source| &source.loaded.catalog);
    let Some(catalog) = catalog.filter(|catalog| !catalog.bundles.is_empty()) else {
        let (namespace, catalog) = source;
        return format!(
            "no operators found from catalog {catalog} in namespace {namespace} referenced by subscription {name}"
        );
    };
    if !catalog.bundles.iter().any(|bundle| bundle.package == *package) {
        return format!(
            "no operators found in package {package} in the catalog referenced by subscription {name}"
        );
    }
    let in_channel = |candidate: &&Channel| candidate.package == *package && candidate.name == *channel;
    if !channel.is_empty() && !catalog.channels.iter().any(|channel| in_channel(&channel)) {
        return format!(
            "no operators found in channel {channel} of package {package} in the catalog referenced by subscription {name}"
        );
    }
    if !starting.is_empty() {
        return format!(
            "no operators found with name {starting} in channel {channel} of package {package} in the catalog referenced by subscription {name}"
        );
    }
    format!("no operators found matching the criteria of subscription {name}")
}

/// Returns the candidates of a request, best first; `None` keeps the installed operator.
fn options(request: &Request, sources: &[Source]) -> Vec<Option<Candidate>> {
    let mut found = Vec::new();
    for source in sources {
        if (&source.namespace, &source.name) == (&request.source.0, &request.source.1) {
            for channel in channels(source, &request.package) {
                if request.channel.is_empty() || request.channel == channel.name {
                    found.extend(in_channel(request, source, channel).into_iter().map(Some));
                }
            }
        }
    }
    if request.installed.is_some() {
        found.push(None);
    }
    found
}

/// Returns the channels of a package, the default one first.
fn channels<'a>(source: &'a Source, package: &str) -> Vec<&'a Channel> {
    let catalog = &source.loaded.catalog;
    let index = source.loaded.index.packages.get(package);
    let default = index.map_or("", |package| package.default_channel.as_str());
    let mut channels: Vec<&Channel> = catalog
        .channels
        .iter()
        .filter(|channel| channel.package == package)
        .collect();
    channels.sort_by_key(|channel| (channel.name != default, channel.name.clone()));
    channels
}

fn head<'a>(source: &'a Source, channel: &Channel) -> &'a str {
    let package = source.loaded.index.packages.get(&channel.package);
    let head = package.and_then(|package| package.heads.get(&channel.name));
    head.map_or("", String::as_str)
}

fn in_channel(request: &Request, source: &Source, channel: &Channel) -> Vec<Candidate> {
    let head = head(source, channel);
    let candidate = |name: &str, replaces: &str| {
        let mut bundles = source.loaded.catalog.bundles.iter();
        let bundle = bundles.find(|bundle| bundle.name == name && bundle.package == channel.package)?;
        Some(Candidate {
            source: source.clone(),
            channel: channel.name.clone(),
            bundle: bundle.clone(),
            replaces: replaces.to_owned(),
        })
    };
    let Some(installed) = &request.installed else {
        if !request.starting.is_empty() {
            let known = channel
                .entries()
                .iter()
                .any(|entry| entry.name == request.starting);
            let starting = known.then(|| candidate(&request.starting, "")).flatten();
            return starting.into_iter().collect();
        }
        let chain = chain(channel, head);
        return chain
            .iter()
            .filter_map(|entry| candidate(&entry.name, ""))
            .collect();
    };
    let version = Version::parse_tolerant(installed.text("/spec/version")).ok();
    let skipped = skipped(channel);
    let reaches = |entry: &&Entry| {
        let in_range = || {
            let range = Range::parse(&entry.skip_range).ok();
            range
                .zip(version.as_ref())
                .is_some_and(|(range, version)| range.includes(version))
        };
        entry.name != installed.name()
            && !skipped.contains(entry.name.as_str())
            && (entry.replaces == installed.name()
                || entry.skips.iter().any(|skip| skip == installed.name())
                || !entry.skip_range.is_empty() && in_range())
    };
    let names = ordered(channel, head);
    let mut reached: Vec<&Entry> = channel.entries().iter().filter(reaches).collect();
    reached.sort_by_key(|entry| names.iter().position(|name| *name == entry.name));
    reached
        .into_iter()
        .filter_map(|entry| candidate(&entry.name, installed.name()))
        .collect()
}

struct Search<'a> {
    requests: &'a [Request],
    sources: &'a [Source],
    options: &'a [Vec<Option<Candidate>>],
    unreferenced: Vec<&'a Arc<Value>>,
    /// For each request, true if the installed operator is kept.
    kept: Vec<bool>,
    picks: Vec<Pick>,
    steps: usize,
    /// The first conflict that was found.
    conflict: Option<String>,
}

impl Search<'_> {
    fn choose(&mut self, at: usize) -> bool {
        self.steps += 1;
        if self.steps > STEPS_MAX || at > DEPTH_MAX {
            return false;
        }
        let options = self.options;
        let Some(options) = options.get(at) else {
            return self.complete(0);
        };
        for option in options {
            match option {
                None => {
                    self.kept[at] = true;
                    if self.is_consistent() && self.choose(at + 1) {
                        return true;
                    }
                    self.kept[at] = false;
                }
                Some(candidate) => {
                    let pick = Pick {
                        request: Some(at),
                        candidate: candidate.clone(),
                    };
                    self.picks.push(pick);
                    let before = self.picks.len();
                    if self.is_consistent() && self.choose(at + 1) {
                        return true;
                    }
                    self.picks.truncate(before - 1);
                }
            }
        }
        false
    }

    /// Adds the requirements of the picks.
    fn complete(&mut self, depth: usize) -> bool {
        self.steps += 1;
        if self.steps > STEPS_MAX || depth > DEPTH_MAX {
            return false;
        }
        let Some((from, requirement)) = self.unmet() else {
            return true;
        };
        for candidate in self.providers(&from, &requirement) {
            self.picks.push(Pick {
                request: None,
                candidate,
            });
            let before = self.picks.len();
            if self.is_consistent() && self.complete(depth + 1) {
                return true;
            }
            self.picks.truncate(before - 1);
        }
        let text = format!(
            "bundle {} requires an operator {}",
            from.id(),
            described(&requirement)
        );
        self.conflict.get_or_insert(text);
        false
    }

    /// Returns the first requirement of a pick that no pick and no installed operator meets.
    fn unmet(&self) -> Option<(Candidate, Property)> {
        let present: Vec<Vec<Property>> = self.present().map(|csv| properties_of(csv)).collect();
        for pick in &self.picks {
            for requirement in pick.candidate.bundle.properties.iter().filter(is_requirement) {
                let met = present
                    .iter()
                    .any(|properties| provides(properties, requirement, 0))
                    || self
                        .picks
                        .iter()
                        .any(|other| provides(&other.candidate.bundle.properties, requirement, 0));
                if !met {
                    return Some((pick.candidate.clone(), requirement.clone()));
                }
            }
        }
        None
    }

    /// Returns the bundles that meet a requirement: the requesting bundle's catalog first, default channels first,
    /// heads first.
    fn providers(&self, from: &Candidate, requirement: &Property) -> Vec<Candidate> {
        let mut sources: Vec<&Source> = self.sources.iter().collect();
        let own = |source: &Source| {
            (&source.namespace, &source.name) == (&from.source.namespace, &from.source.name)
        };
        sources.sort_by_key(|source| !own(source));
        let mut found = Vec::new();
        for source in sources {
            for package in source.loaded.index.packages.keys() {
                for channel in channels(source, package) {
                    let any = Request {
                        package: package.clone(),
                        ..Request::default()
                    };
                    let candidates = in_channel(&any, source, channel);
                    let meets =
                        |candidate: &Candidate| provides(&candidate.bundle.properties, requirement, 0);
                    found.extend(candidates.into_iter().filter(meets));
                }
            }
        }
        found
    }

    /// Returns the installed operators that remain: those of kept requests, and those without a Subscription.
    fn present(&self) -> impl Iterator<Item = &Arc<Value>> {
        let kept = self.requests.iter().zip(&self.kept);
        let kept = kept
            .filter(|(_, kept)| **kept)
            .filter_map(|(request, _)| request.installed.as_ref());
        kept.chain(self.unreferenced.iter().copied())
    }

    /// Returns true if no two operators provide the same API or come from the same package.
    fn is_consistent(&mut self) -> bool {
        let mut providers: BTreeMap<Gvk, String> = BTreeMap::new();
        let mut packages: BTreeMap<String, String> = BTreeMap::new();
        let mut operators: Vec<(String, Vec<Property>, Option<String>)> = self
            .present()
            .map(|csv| (existing_id(csv), properties_of(csv), package_of(csv)))
            .collect();
        operators.extend(self.picks.iter().map(|pick| {
            let bundle = &pick.candidate.bundle;
            (
                pick.candidate.id(),
                bundle.properties.clone(),
                Some(bundle.package.clone()),
            )
        }));
        for (id, properties, package) in operators {
            for gvk in properties
                .iter()
                .filter(|property| property.kind == "olm.gvk")
                .map(gvk)
            {
                if let Some(other) = providers
                    .insert(gvk.clone(), id.clone())
                    .filter(|other| *other != id)
                {
                    let (group, version, kind) = gvk;
                    let text = format!("{other} and {id} provide {kind} ({group}/{version})");
                    self.conflict.get_or_insert(text);
                    return false;
                }
            }
            if let Some(package) = package
                && let Some(other) = packages.insert(package.clone(), id.clone())
            {
                let text = format!("{other} and {id} originate from package {package}");
                self.conflict.get_or_insert(text);
                return false;
            }
        }
        true
    }
}
