//! Sets of fields ([`FieldSet`]), and their `FieldsV1` format.

use std::fmt;
use std::iter::Peekable;
use std::slice;

use serde_json::{Map, Value};

use crate::path::{self, ParseError, PathElement};

/// A set of fields. A field may be a member itself, have members below it, or both.
///
/// ```
/// use serde_json::json;
/// use structured_merge::FieldSet;
///
/// let text = json!({"f:spec": {"f:ports": {"k:{\"port\":80}": {".": {}, "f:name": {}}}}});
/// let set = FieldSet::from_value(&text).unwrap();
/// assert_eq!(set.to_string(), ".spec.ports[port=80]\n.spec.ports[port=80].name");
/// assert_eq!(set.to_value(), text);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// The nodes, sorted by element. Each node is a member or has children.
    nodes: Vec<Node>,
}

/// A field of a set, with its children.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) element: PathElement,
    pub(crate) member: bool,
    pub(crate) children: FieldSet,
}

impl FieldSet {
    /// Returns the set of the fields at these paths.
    pub fn from_paths<'a>(paths: impl IntoIterator<Item = &'a [PathElement]>) -> Self {
        let mut set = Self::default();
        paths.into_iter().for_each(|path| set.insert(path));
        set
    }

    /// Returns true if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the number of fields in the set.
    pub fn len(&self) -> usize {
        self.nodes
            .iter()
            .map(|node| usize::from(node.member) + node.children.len())
            .sum()
    }

    /// Adds the field at `path`, but not its parents. The empty path, which is the whole object, is never a member.
    pub fn insert(&mut self, path: &[PathElement]) {
        let Some((first, rest)) = path.split_first() else {
            return;
        };
        let index = self
            .nodes
            .binary_search_by(|node| node.element.cmp(first))
            .unwrap_or_else(|index| {
                self.nodes.insert(
                    index,
                    Node {
                        element: first.clone(),
                        member: false,
                        children: Self::default(),
                    },
                );
                index
            });
        let Some(node) = self.nodes.get_mut(index) else {
            return;
        };
        if rest.is_empty() {
            node.member = true;
        } else {
            node.children.insert(rest);
        }
    }

    /// Returns true if the field at `path` is a member.
    pub fn contains(&self, path: &[PathElement]) -> bool {
        match path {
            [] => false,
            [last] => self.find(last).is_some_and(|node| node.member),
            [first, rest @ ..] => self.find(first).is_some_and(|node| node.children.contains(rest)),
        }
    }

    /// Calls `visit` with each path of the set until it returns an error. At each level, members precede the paths
    /// below them. All paths together can be much larger than the set, in which fields share their parents.
    ///
    /// # Errors
    /// Returns the error of `visit`.
    pub fn try_for_each_path<E>(
        &self,
        mut visit: impl FnMut(&[PathElement]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.visit_paths(&mut Vec::new(), &mut visit)
    }

    fn visit_paths<E>(
        &self,
        path: &mut Vec<PathElement>,
        visit: &mut impl FnMut(&[PathElement]) -> Result<(), E>,
    ) -> Result<(), E> {
        for node in self.nodes.iter().filter(|node| node.member) {
            path.push(node.element.clone());
            visit(path)?;
            path.pop();
        }
        for node in self.nodes.iter().filter(|node| !node.children.is_empty()) {
            path.push(node.element.clone());
            node.children.visit_paths(path, visit)?;
            path.pop();
        }
        Ok(())
    }

    /// Returns the union of two sets.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self.combine(other, |left, right| match (left, right) {
            (Some(left), Some(right)) => Some(Node {
                element: left.element.clone(),
                member: left.member || right.member,
                children: left.children.union(&right.children),
            }),
            (one, None) | (None, one) => one.cloned(),
        })
    }

    /// Returns the intersection of two sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.combine_own(other, |left, right| {
            let right = right?;
            left.with(
                left.member && right.member,
                left.children.intersection(&right.children),
            )
        })
    }

    /// Returns the fields of this set that are not in `other`. If a field is removed, its children are kept.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.combine_own(other, |left, right| {
            let Some(right) = right else {
                return Some(left.clone());
            };
            left.with(
                left.member && !right.member,
                left.children.difference(&right.children),
            )
        })
    }

    /// Returns the fields of this set that are neither in `other` nor below a member of `other`.
    #[must_use]
    pub fn recursive_difference(&self, other: &Self) -> Self {
        self.combine_own(other, |left, right| {
            let Some(right) = right else {
                return Some(left.clone());
            };
            if right.member {
                return None;
            }
            left.with(left.member, left.children.recursive_difference(&right.children))
        })
    }

    /// Returns the members that have no members below them.
    #[must_use]
    pub fn leaves(&self) -> Self {
        let leaf = |node: &Node| node.with(node.member && node.children.is_empty(), node.children.leaves());
        Self {
            nodes: self.nodes.iter().filter_map(leaf).collect(),
        }
    }

    /// Returns true if every member of this set is one of `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.nodes.iter().all(|node| {
            other.find(&node.element).is_some_and(|found| {
                (found.member || !node.member) && node.children.is_subset(&found.children)
            })
        })
    }

    /// Like [`combine`](Self::combine), for operations that ignore fields that only `other` has. There are many
    /// managers, and each owns few of the changed fields, so looking up a few nodes is faster than comparing all of
    /// them.
    fn combine_own(&self, other: &Self, choose: impl Fn(&Node, Option<&Node>) -> Option<Node>) -> Self {
        if other.nodes.len() / 8 <= self.nodes.len() {
            return self.combine(other, |left, right| choose(left?, right));
        }
        let find = |left: &Node| {
            let position = other
                .nodes
                .binary_search_by(|node| node.element.cmp(&left.element));
            other.nodes.get(position.ok()?)
        };
        let nodes = self.nodes.iter().filter_map(|left| choose(left, find(left)));
        Self {
            nodes: nodes.collect(),
        }
    }

    fn combine(&self, other: &Self, choose: impl Fn(Option<&Node>, Option<&Node>) -> Option<Node>) -> Self {
        let nodes = Pairs {
            left: self.nodes.iter().peekable(),
            right: other.nodes.iter().peekable(),
        };
        Self {
            nodes: nodes.filter_map(|(left, right)| choose(left, right)).collect(),
        }
    }

    // === impl FieldSet: for the walks ===

    pub(crate) fn find(&self, element: &PathElement) -> Option<&Node> {
        let index = self
            .nodes
            .binary_search_by(|node| node.element.cmp(element))
            .ok()?;
        self.nodes.get(index)
    }

    /// Returns the node of the field `name`.
    pub(crate) fn find_field(&self, name: &str) -> Option<&Node> {
        let index = self.nodes.binary_search_by(|node| match &node.element {
            PathElement::Field(field) => (**field).cmp(name),
            _ => std::cmp::Ordering::Greater,
        });
        index.ok().and_then(|index| self.nodes.get(index))
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Adds a node, unless it is not a member and has no children. Call [`Self::normalize`] at the end.
    pub(crate) fn push(&mut self, element: PathElement, member: bool, children: Self) {
        if member || !children.is_empty() {
            self.nodes.push(Node {
                element,
                member,
                children,
            });
        }
    }

    /// Sorts added nodes, and joins nodes with the same element.
    pub(crate) fn normalize(mut self) -> Self {
        if self
            .nodes
            .is_sorted_by(|left, right| left.element < right.element)
        {
            return self;
        }
        self.nodes.sort_by(|left, right| left.element.cmp(&right.element));
        let mut nodes: Vec<Node> = Vec::with_capacity(self.nodes.len());
        for node in self.nodes {
            match nodes.last_mut() {
                Some(last) if last.element == node.element => {
                    last.member |= node.member;
                    last.children = last.children.union(&node.children);
                }
                _ => nodes.push(node),
            }
        }
        Self { nodes }
    }

    // === impl FieldSet: FieldsV1 ===

    /// Parses the value of a `fieldsV1` field.
    ///
    /// # Errors
    /// Returns an error if the value or a part of it is not an object, or a key is not a path element.
    pub fn from_value(value: &Value) -> Result<Self, FieldsError> {
        match value {
            Value::Null => Ok(Self::default()),
            Value::Object(map) => Self::from_map(map).map(Option::unwrap_or_default),
            _ => Err(FieldsError::NotAnObject),
        }
    }

    /// Parses a map; returns `None` if it has no path elements.
    fn from_map(map: &Map<String, Value>) -> Result<Option<Self>, FieldsError> {
        let mut set = Self::default();
        for (key, value) in map.iter().filter(|(key, _)| *key != ".") {
            let Some(element) = PathElement::parse(key)? else {
                continue;
            };
            let (member, children) = match value {
                Value::Null => (true, None),
                Value::Object(map) => (map.contains_key("."), Self::from_map(map)?),
                _ => return Err(FieldsError::NotAnObject),
            };
            set.push(
                element,
                member || children.is_none(),
                children.unwrap_or_default(),
            );
        }
        Ok(if set.is_empty() {
            None
        } else {
            Some(set.normalize())
        })
    }

    /// Returns the value of a `fieldsV1` field.
    pub fn to_value(&self) -> Value {
        Value::Object(self.to_map(false))
    }

    /// Returns true if [`to_value`](Self::to_value) returns this value.
    pub(crate) fn is_value(&self, value: &Value) -> bool {
        value.as_object().is_some_and(|map| self.is_map(false, map))
    }

    fn is_map(&self, member: bool, map: &Map<String, Value>) -> bool {
        let mut entries = map.iter();
        if member
            && !self.is_empty()
            && !matches!(entries.next(), Some((key, Value::Object(own))) if key == "." && own.is_empty())
        {
            return false;
        }
        // The keys are in the order of the nodes, except for rare values: then the value counts as another one.
        let is_node = |node: &Node| {
            let Some((key, Value::Object(children))) = entries.next() else {
                return false;
            };
            let is_key = match &node.element {
                PathElement::Field(name) => key.strip_prefix("f:") == Some(name),
                other => *key == other.to_text(),
            };
            is_key && node.children.is_map(node.member, children)
        };
        self.nodes.iter().all(is_node) && entries.next().is_none()
    }

    fn to_map(&self, member: bool) -> Map<String, Value> {
        let own = (member && !self.is_empty()).then(|| (".".to_owned(), Value::Object(Map::new())));
        let nodes = self.nodes.iter().map(|node| {
            (
                node.element.to_text(),
                Value::Object(node.children.to_map(node.member)),
            )
        });
        own.into_iter().chain(nodes).collect()
    }

    /// Formats the value of a `fieldsV1` field as JSON, with its keys in the API server's order.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        self.write_text(false, &mut out);
        out
    }

    fn write_text(&self, member: bool, out: &mut String) {
        out.push('{');
        if member && !self.is_empty() {
            out.push_str("\".\":{}");
        }
        for node in &self.nodes {
            if !out.ends_with('{') {
                out.push(',');
            }
            path::write_quoted(out, &node.element.to_text());
            out.push(':');
            node.children.write_text(node.member, out);
        }
        out.push('}');
    }
}

impl Node {
    fn with(&self, member: bool, children: FieldSet) -> Option<Self> {
        (member || !children.is_empty()).then(|| Self {
            element: self.element.clone(),
            member,
            children,
        })
    }
}

/// Formats the set with one path on each line.
impl fmt::Display for FieldSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        self.try_for_each_path(|path| {
            write!(f, "{separator}{}", path::display(path))?;
            separator = "\n";
            Ok(())
        })
    }
}

/// An error of parsing a `fieldsV1` value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldsError {
    /// The value, or the value of one of its keys, is not an object.
    #[error("a field set is an object of objects")]
    NotAnObject,
    /// A key is not a path element.
    #[error(transparent)]
    Element(#[from] ParseError),
}

/// Iterates over two sorted lists of nodes in parallel.
struct Pairs<'a> {
    left: Peekable<slice::Iter<'a, Node>>,
    right: Peekable<slice::Iter<'a, Node>>,
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (Option<&'a Node>, Option<&'a Node>);

    fn next(&mut self) -> Option<Self::Item> {
        match (self.left.peek(), self.right.peek()) {
            (None, None) => None,
            (Some(_), None) => Some((self.left.next(), None)),
            (None, Some(_)) => Some((None, self.right.next())),
            (Some(left), Some(right)) => Some(match left.element.cmp(&right.element) {
                std::cmp::Ordering::Less => (self.left.next(), None),
                std::cmp::Ordering::Equal => (self.left.next(), self.right.next()),
                std::cmp::Ordering::Greater => (None, self.right.next()),
            }),
        }
    }
}
