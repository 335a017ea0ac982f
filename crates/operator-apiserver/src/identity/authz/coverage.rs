//! Finds the parts of rules that other rules do not cover.
//!
//! A rule represents all combinations of its verbs, groups, resources and names. The combinations are never enumerated:
//! values that occur in the same held rules are equivalent, and only classes of equivalent values are combined.

use std::collections::{HashMap, HashSet};

use super::rule::{ALL, Rule, url_covers};

/// The maximum number of combinations that are listed as missing.
const MISSING_MAX: usize = 10_000;
/// The maximum size of these combinations, in bytes; the last one can exceed it.
const MISSING_BYTES_MAX: usize = 4 << 20;
/// The maximum number of comparisons of one check; beyond it, everything counts as missing.
const STEPS_MAX: usize = 50_000_000;

/// Returns the combinations of `wanted`, each with one verb, one resource and one name, that no rule of `held` covers;
/// at most [`MISSING_MAX`] of them and [`MISSING_BYTES_MAX`]. Rules that are too large to compare are returned unchanged.
pub(crate) fn missing(held: &[Rule], wanted: &[Rule]) -> Vec<Rule> {
    let holder = Holder::new(held);
    let mut steps = STEPS_MAX;
    let mut missing = Vec::new();
    let mut room = Room {
        rules: MISSING_MAX,
        bytes: MISSING_BYTES_MAX,
    };
    for rule in wanted {
        match holder.missing(rule, &mut room, &mut steps) {
            Some(found) => missing.extend(found),
            None => missing.push(rule.clone()),
        }
    }
    missing
}

/// The number and the size of the combinations that may still be listed.
struct Room {
    rules: usize,
    bytes: usize,
}

impl Room {
    fn take(&mut self, items: &[&Item<'_>]) {
        let bytes: usize = items.iter().filter_map(|item| item.text).map(String::len).sum();
        self.rules = self.rules.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    fn is_used_up(&self) -> bool {
        self.rules == 0 || self.bytes == 0
    }
}

/// A set of held rules, by their indexes.
type Rules = Vec<u64>;

/// The held rules, indexed by their values.
struct Holder<'a> {
    held: &'a [Rule],
    verbs: Mentions<'a>,
    groups: Mentions<'a>,
    resources: Mentions<'a>,
    names: Mentions<'a>,
    /// The rules that are not limited to names.
    unnamed: Rules,
    words: usize,
}

/// The rules that contain a value.
struct Mentions<'a> {
    by_value: HashMap<&'a str, Vec<usize>>,
}

impl<'a> Mentions<'a> {
    fn new(held: &'a [Rule], list: fn(&Rule) -> &[String]) -> Self {
        let mut by_value: HashMap<&str, Vec<usize>> = HashMap::new();
        for (number, rule) in held.iter().enumerate() {
            for value in list(rule) {
                by_value.entry(value).or_default().push(number);
            }
        }
        Self { by_value }
    }

    fn add(&self, rules: &mut Rules, value: &str) {
        for number in self.by_value.get(value).into_iter().flatten() {
            set(rules, *number);
        }
    }
}

fn set(rules: &mut Rules, number: usize) {
    if let Some(word) = rules.get_mut(number / 64) {
        *word |= 1 << (number % 64);
    }
}

/// One value of a list of a rule, with the held rules that contain it.
struct Item<'r> {
    /// The value; `None` means that the list does not limit the rule.
    text: Option<&'r String>,
    rules: Rules,
}

impl<'a> Holder<'a> {
    fn new(held: &'a [Rule]) -> Self {
        let words = held.len().div_ceil(64);
        let mut unnamed = vec![0; words];
        for (number, _) in held
            .iter()
            .enumerate()
            .filter(|(_, rule)| rule.resource_names.is_empty())
        {
            set(&mut unnamed, number);
        }
        Self {
            held,
            verbs: Mentions::new(held, |rule| &rule.verbs),
            groups: Mentions::new(held, |rule| &rule.api_groups),
            resources: Mentions::new(held, |rule| &rule.resources),
            names: Mentions::new(held, |rule| &rule.resource_names),
            unnamed,
            words,
        }
    }

    fn none(&self) -> Rules {
        vec![0; self.words]
    }

    fn items<'r>(&self, texts: &'r [String], rules: impl Fn(&str) -> Rules) -> Vec<Item<'r>> {
        let item = |text: &'r String| Item {
            text: Some(text),
            rules: rules(text),
        };
        texts.iter().map(item).collect()
    }

    fn mentioned(&self, mentions: &Mentions<'_>, text: &str) -> Rules {
        let mut rules = self.none();
        mentions.add(&mut rules, ALL);
        mentions.add(&mut rules, text);
        rules
    }

    fn resource(&self, resource: &str) -> Rules {
        let mut rules = self.mentioned(&self.resources, resource);
        if let Some((_, subresource)) = resource.split_once('/') {
            self.resources.add(&mut rules, &format!("{ALL}/{subresource}"));
        }
        rules
    }

    fn name(&self, name: &str) -> Rules {
        let mut rules = self.unnamed.clone();
        self.names.add(&mut rules, name);
        rules
    }

    fn url(&self, url: &str) -> Rules {
        let mut rules = self.unnamed.clone();
        for (number, rule) in self.held.iter().enumerate() {
            if !rule.non_resource_urls.iter().any(|known| url_covers(known, url))
                && let Some(word) = rules.get_mut(number / 64)
            {
                *word &= !(1 << (number % 64));
            }
        }
        rules
    }

    /// Returns the uncovered combinations of a rule, or `None` if that would take too long.
    fn missing(&self, rule: &Rule, room: &mut Room, steps: &mut usize) -> Option<Vec<Rule>> {
        let held_urls: usize = self.held.iter().map(|rule| rule.non_resource_urls.len()).sum();
        let values =
            rule.verbs.len() + rule.api_groups.len() + rule.resources.len() + rule.resource_names.len();
        let cost = (values + rule.non_resource_urls.len()) * (self.words + 1)
            + rule.non_resource_urls.len() * held_urls;
        *steps = steps.checked_sub(cost)?;

        let verbs = self.items(&rule.verbs, |verb| self.mentioned(&self.verbs, verb));
        let groups = self.items(&rule.api_groups, |group| self.mentioned(&self.groups, group));
        let resources = self.items(&rule.resources, |resource| self.resource(resource));
        let mut names = self.items(&rule.resource_names, |name| self.name(name));
        if names.is_empty() {
            names.push(Item {
                text: None,
                rules: self.unnamed.clone(),
            });
        }
        let urls = self.items(&rule.non_resource_urls, |url| self.url(url));

        let mut missing = Vec::new();
        let one = |item: &Item<'_>| item.text.into_iter().cloned().collect();
        let resource_lists = [&groups[..], &resources, &verbs, &names];
        if !self.covers_all(&resource_lists, steps)? {
            self.combinations(&resource_lists, room, steps, |items| {
                let [group, resource, verb, name] = items else {
                    return;
                };
                missing.push(Rule {
                    verbs: one(verb),
                    api_groups: one(group),
                    resources: one(resource),
                    resource_names: one(name),
                    non_resource_urls: Vec::new(),
                });
            });
        }
        let url_lists = [&urls[..], &verbs];
        if !self.covers_all(&url_lists, steps)? {
            self.combinations(&url_lists, room, steps, |items| {
                let [url, verb] = items else { return };
                missing.push(Rule {
                    verbs: one(verb),
                    non_resource_urls: one(url),
                    ..Rule::default()
                });
            });
        }
        Some(missing)
    }

    /// Returns true if each combination of items is covered; `None` if that would take too many steps.
    fn covers_all(&self, lists: &[&[Item<'_>]], steps: &mut usize) -> Option<bool> {
        if lists.iter().any(|list| list.is_empty()) {
            return Some(true);
        }
        let mut combined: HashSet<Rules> = HashSet::from([vec![u64::MAX; self.words]]);
        for list in lists {
            let unlike: HashSet<&Rules> = list.iter().map(|item| &item.rules).collect();
            *steps = steps.checked_sub(combined.len() * unlike.len() * (self.words + 1))?;
            let mut next = HashSet::new();
            for left in &combined {
                for right in &unlike {
                    let both: Rules = left
                        .iter()
                        .zip(*right)
                        .map(|(left, right)| left & right)
                        .collect();
                    if both.iter().all(|word| *word == 0) {
                        return Some(false);
                    }
                    next.insert(both);
                }
            }
            combined = next;
        }
        Some(true)
    }

    /// Passes the combinations that are not covered to `take`, the last list varying fastest.
    fn combinations<'i, 'r>(
        &self,
        lists: &[&'i [Item<'r>]],
        room: &mut Room,
        steps: &mut usize,
        mut take: impl FnMut(&[&'i Item<'r>]),
    ) {
        let mut indexes = vec![0; lists.len()];
        while !room.is_used_up() {
            let items: Vec<&Item<'_>> = lists
                .iter()
                .zip(&indexes)
                .filter_map(|(list, index)| list.get(*index))
                .collect();
            let mut rules = vec![u64::MAX; self.words];
            for item in &items {
                rules
                    .iter_mut()
                    .zip(&item.rules)
                    .for_each(|(rules, item)| *rules &= item);
            }
            if rules.iter().all(|word| *word == 0) {
                take(&items);
                room.take(&items);
            }
            *steps = steps.saturating_sub(self.words + lists.len());
            if *steps == 0 {
                return;
            }
            // Move to the next combination.
            let mut position = lists.len();
            loop {
                let Some(before) = position.checked_sub(1) else {
                    return;
                };
                position = before;
                let (Some(index), Some(list)) = (indexes.get_mut(position), lists.get(position)) else {
                    return;
                };
                *index += 1;
                if *index < list.len() {
                    break;
                }
                *index = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn numbered(prefix: &str, count: usize) -> Vec<String> {
        (0..count).map(|number| format!("{prefix}{number}")).collect()
    }

    fn rule(groups: &[String], resources: &[String], verbs: &[String]) -> Rule {
        Rule::read(&json!({"apiGroups": groups, "resources": resources, "verbs": verbs}))
    }

    #[test]
    fn large_rules_are_compared_without_their_combinations() {
        let (groups, resources) = (numbered("g", 3_000), numbered("r", 3_000));
        let verbs = numbered("v", 1_000);
        let wanted = rule(&groups, &resources, &verbs);
        let held: Vec<Rule> = groups
            .chunks(30)
            .map(|groups| rule(groups, &[ALL.to_owned()], &verbs))
            .collect();
        assert_eq!(missing(&held, std::slice::from_ref(&wanted)), []);
        let found = missing(&held[1..], std::slice::from_ref(&wanted));
        assert_eq!(found.len(), MISSING_MAX);
        assert!(found.iter().all(|rule| rule.api_groups == ["g0"]));
        assert_eq!(missing(&[], &[wanted]).len(), MISSING_MAX);
    }

    #[test]
    fn rules_that_take_too_long_to_compare_are_missing() {
        let single = |prefix: &'static str| numbered(prefix, 2_000).into_iter().map(|text| vec![text]);
        let held: Vec<Rule> = single("g")
            .zip(single("r"))
            .zip(single("v"))
            .map(|((groups, resources), verbs)| rule(&groups, &resources, &verbs))
            .chain([rule(&[ALL.to_owned()], &[ALL.to_owned()], &[ALL.to_owned()])])
            .collect();
        let wanted = rule(
            &numbered("g", 2_000),
            &numbered("r", 2_000),
            &numbered("v", 2_000),
        );
        assert_eq!(missing(&held, std::slice::from_ref(&wanted)), [wanted]);
    }

    /// Returns true if a combination is covered. Checks the definition by enumeration, for small rules.
    fn covered(held: &[Rule], group: &str, resource: &str, verb: &str, name: Option<&String>) -> bool {
        let has = |list: &[String], text: &str| list.iter().any(|known| known == ALL || known == text);
        held.iter().any(|rule| {
            has(&rule.verbs, verb)
                && has(&rule.api_groups, group)
                && (has(&rule.resources, resource)
                    || resource
                        .split_once('/')
                        .is_some_and(|(_, sub)| rule.resources.contains(&format!("*/{sub}"))))
                && (rule.resource_names.is_empty()
                    || name.is_some_and(|name| rule.resource_names.contains(name)))
        })
    }

    fn rules() -> impl Strategy<Value = Rule> {
        let list = |values: &'static [&'static str], min| {
            prop::collection::vec(prop::sample::select(values).prop_map(str::to_owned), min..3)
        };
        (
            list(&["*", "get", "put"], 1),
            list(&["*", "", "apps"], 1),
            list(&["*", "a", "a/s", "*/s", "b"], 1),
            list(&["x", "y"], 0),
        )
            .prop_map(|(verbs, api_groups, resources, resource_names)| Rule {
                verbs,
                api_groups,
                resources,
                resource_names,
                non_resource_urls: Vec::new(),
            })
    }

    proptest! {
        #[test]
        fn the_comparison_is_that_of_all_combinations(held in prop::collection::vec(rules(), 0..4), wanted in rules()) {
            let mut expected = Vec::new();
            let names: Vec<Option<&String>> = match wanted.resource_names.as_slice() {
                [] => vec![None],
                names => names.iter().map(Some).collect(),
            };
            for group in &wanted.api_groups {
                for resource in &wanted.resources {
                    for verb in &wanted.verbs {
                        for name in names.iter().filter(|name| !covered(&held, group, resource, verb, **name)) {
                            expected.push(Rule {
                                verbs: vec![verb.clone()],
                                api_groups: vec![group.clone()],
                                resources: vec![resource.clone()],
                                resource_names: name.iter().map(|name| (*name).clone()).collect(),
                                non_resource_urls: Vec::new(),
                            });
                        }
                    }
                }
            }
            prop_assert_eq!(missing(&held, &[wanted]), expected);
        }
    }
}
