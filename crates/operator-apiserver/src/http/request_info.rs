//! [`RequestInfo`]: the verb, resource, namespace and name of a request, from its method and path.

use apimachinery::names;
use apimachinery::selector::FieldSelector;
use http::{Method, Uri};

use crate::identity::authn::User;
use crate::identity::authz::{Attributes, Selectors};
use crate::query::Query;

/// The resource, the object and the verb of a request, as authorization and audit see them.
///
/// ```
/// use operator_apiserver::RequestInfo;
///
/// let uri = "/apis/apps/v1/namespaces/default/deployments/web/scale".parse().unwrap();
/// let info = RequestInfo::of(&http::Method::PATCH, &uri);
/// assert_eq!((info.verb, &*info.resource, &*info.subresource), ("patch", "deployments", "scale"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// True if the path names a resource. Otherwise all fields except `path` and `verb` are empty.
    pub is_resource: bool,
    /// The path of the URL, without the query.
    pub path: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, and `proxy` for the
    /// removed paths below `proxy`; for other paths the method in
    /// lower case. Empty for other methods.
    pub verb: &'static str,
    /// The API group; empty for the core group.
    pub group: String,
    /// The API version.
    pub version: String,
    /// The plural name of the resource, such as `pods`.
    pub resource: String,
    /// The namespace; empty for cluster-scoped resources and for requests to all namespaces.
    pub namespace: String,
    /// The name in the path; empty for collections.
    pub name: String,
    /// The subresource, such as `status`.
    pub subresource: String,
    /// The number of path segments from the resource on: 1 for a collection, 2 for an object, 3 for a subresource.
    pub(crate) segments: usize,
    /// True if the path has `namespaces/NAMESPACE` before the resource.
    pub(crate) in_namespace: bool,
    /// The deprecated `watch` or `proxy` before the resource; otherwise empty.
    pub(crate) prefix: &'static str,
    /// The name in the field selector of a list or a watch.
    selected_name: String,
    /// The value of `spec.nodeName` in the field selector.
    selected_node: String,
    /// The requirements of the selectors of a list, a watch or a deletion of a collection.
    selectors: Selectors,
}

/// Subresources of a namespace; any other third segment is a resource in it.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

impl RequestInfo {
    /// Parses a method and a URL.
    pub fn of(method: &Method, uri: &Uri) -> Self {
        Self::parse(method, uri.path(), &Query::parse(uri.query().unwrap_or_default()))
    }

    pub(crate) fn parse(method: &Method, path: &str, query: &Query) -> Self {
        // Empty segments inside of the path count.
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        let other = Self {
            path: path.to_owned(),
            verb: plain_verb(method),
            ..Self::default()
        };
        let (group, version, rest) = match segments.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => ("", *version, rest),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => (*group, *version, rest),
            _ => return other,
        };
        let mut info = Self {
            is_resource: true,
            group: group.to_owned(),
            version: version.to_owned(),
            ..other
        };
        let (prefix, rest) = match rest {
            ["watch", rest @ ..] => ("watch", rest),
            ["proxy", rest @ ..] => ("proxy", rest),
            rest => ("", rest),
        };
        info.prefix = prefix;
        info.read_resource(rest);
        info.verb = match prefix {
            "" => info.resource_verb(method, query),
            // The prefixes are verbs, whatever the method is.
            prefix => prefix,
        };
        if prefix == "proxy" {
            info.subresource.clear();
        }
        if info.name.is_empty() && prefix.is_empty() && matches!(info.verb, "list" | "watch") {
            info.selected_name = selected(query, "metadata.name");
        }
        if matches!(info.verb, "list" | "watch" | "deletecollection") {
            info.selected_node = selected(query, "spec.nodeName");
            info.selectors = Selectors::parse(query.text("fieldSelector"), query.text("labelSelector"));
        }
        info
    }

    /// Returns the object name for authorization: the name in the path, or the name in the field selector of a list or
    /// a watch.
    pub fn authorized_name(&self) -> &str {
        if self.name.is_empty() {
            &self.selected_name
        } else {
            &self.name
        }
    }

    /// Returns the node in the field selector of a list or a watch; empty for all nodes.
    pub(crate) fn selected_node(&self) -> &str {
        &self.selected_node
    }

    /// Returns true if the path ends after `watch` or `proxy`, so that it has no resource.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.is_resource && self.segments == 0
    }

    fn read_resource(&mut self, segments: &[&str]) {
        let segments = match segments {
            ["namespaces", namespace, third, ..] if !NAMESPACE_SUBRESOURCES.contains(third) => {
                self.namespace = (*namespace).to_owned();
                self.in_namespace = true;
                segments.get(2..).unwrap_or_default()
            }
            ["namespaces", namespace, ..] => {
                self.namespace = (*namespace).to_owned();
                segments
            }
            other => other,
        };
        self.segments = segments.len();
        let mut segments = segments.iter();
        let mut next = || segments.next().copied().unwrap_or_default().to_owned();
        self.resource = next();
        self.name = next();
        self.subresource = next();
    }

    fn resource_verb(&self, method: &Method, query: &Query) -> &'static str {
        let collection = self.name.is_empty();
        match *method {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if collection => "deletecollection",
            Method::DELETE => "delete",
            Method::GET | Method::HEAD if !collection => "get",
            Method::GET | Method::HEAD if query.flag("watch") => "watch",
            Method::GET | Method::HEAD => "list",
            _ => "",
        }
    }
}

/// Returns the value that a field selector requires for a field.
fn selected(query: &Query, field: &str) -> String {
    let selector: Result<FieldSelector, _> = query.text("fieldSelector").parse();
    let terms = selector.map(|selector| selector.terms).unwrap_or_default();
    let name = terms
        .into_iter()
        .find(|term| term.field == field && term.equal)
        .map(|term| term.value);
    name.filter(|name| names::path_segment(name).is_empty())
        .unwrap_or_default()
}

fn plain_verb(method: &Method) -> &'static str {
    match *method {
        Method::GET => "get",
        Method::HEAD => "head",
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        Method::OPTIONS => "options",
        _ => "",
    }
}

impl<'a> Attributes<'a> {
    /// Returns the attributes of a request, for the authorizers.
    pub(crate) fn of(user: &'a User, info: &'a RequestInfo) -> Self {
        Self {
            user,
            verb: info.verb,
            is_resource: info.is_resource,
            group: &info.group,
            resource: &info.resource,
            subresource: &info.subresource,
            namespace: &info.namespace,
            name: info.authorized_name(),
            path: &info.path,
            selected_node: info.selected_node(),
            version: &info.version,
            selectors: Some(&info.selectors),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(method: &Method, path: &str, query: &str) -> (String, String) {
        let info = RequestInfo::parse(method, path, &Query::parse(query));
        let parts = [
            info.group.as_str(),
            &info.version,
            &info.namespace,
            &info.resource,
            &info.name,
            &info.subresource,
        ];
        (info.verb.to_owned(), parts.join(" "))
    }

    #[test]
    fn paths_are_read_as_the_real_server_reads_them() {
        let cases = [
            (Method::GET, "/api/v1/pods", "", "list", " v1  pods  "),
            (Method::GET, "/api/v1/pods", "watch=1", "watch", " v1  pods  "),
            (
                Method::GET,
                "/api/v1/namespaces/a",
                "",
                "get",
                " v1 a namespaces a ",
            ),
            (
                Method::PUT,
                "/api/v1/namespaces/a/finalize",
                "",
                "update",
                " v1 a namespaces a finalize",
            ),
            (
                Method::POST,
                "/api/v1/namespaces/a/pods",
                "",
                "create",
                " v1 a pods  ",
            ),
            (
                Method::PATCH,
                "/apis/apps/v1/namespaces/a/deployments/b/status",
                "",
                "patch",
                "apps v1 a deployments b status",
            ),
            (
                Method::DELETE,
                "/apis/apps/v1/namespaces/a/deployments",
                "",
                "deletecollection",
                "apps v1 a deployments  ",
            ),
            (
                Method::GET,
                "/api/v1/watch/namespaces/a/pods",
                "",
                "watch",
                " v1 a pods  ",
            ),
        ];
        for (method, path, query, verb, parts) in cases {
            assert_eq!(
                parse(&method, path, query),
                (verb.to_owned(), parts.to_owned()),
                "{path}"
            );
        }
    }

    #[test]
    fn a_selected_name_is_the_name_that_authorization_sees() {
        let name = |method: &Method, path: &str, query: &str| {
            let info = RequestInfo::parse(method, path, &Query::parse(query));
            info.authorized_name().to_owned()
        };
        let by_name = "fieldSelector=metadata.name%3Da";
        assert_eq!(name(&Method::GET, "/api/v1/pods", by_name), "a");
        assert_eq!(name(&Method::GET, "/api/v1/pods/b", by_name), "b");
        assert_eq!(
            name(&Method::GET, "/api/v1/pods", "fieldSelector=metadata.name!%3Da"),
            ""
        );
        assert_eq!(
            name(&Method::GET, "/api/v1/pods", "fieldSelector=metadata.name%3Da/b"),
            ""
        );
        assert_eq!(name(&Method::DELETE, "/api/v1/pods", by_name), "");
    }

    #[test]
    fn other_paths_are_non_resource_requests() {
        let info = RequestInfo::parse(&Method::GET, "/version", &Query::default());
        assert!(!info.is_resource);
        assert_eq!(info.verb, "get");
    }
}
