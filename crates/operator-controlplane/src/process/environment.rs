//! The arguments and the environment of a process, from the specification of its container. Pure functions.

use std::collections::BTreeMap;

use apimachinery::quantity::Quantity;
use serde_json::Value;

use crate::object::Object;

/// The objects and addresses that variables refer to.
pub(super) struct Sources<'a> {
    pub(super) pod: &'a Value,
    /// The address on which the process listens.
    pub(super) address: &'a str,
    /// The data of ConfigMaps and Secrets, by kind and name.
    pub(super) data: &'a BTreeMap<(&'static str, String), BTreeMap<String, String>>,
}

pub(super) const CONFIG_MAP: &str = "configmap";
pub(super) const SECRET: &str = "secret";

/// Returns the ConfigMaps and Secrets that the environment of a container refers to.
pub(super) fn references(container: &Value) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    let mut add = |kind, name: &str| {
        if !name.is_empty() {
            found.push((kind, name.to_owned()));
        }
    };
    for source in container.items("/envFrom") {
        add(CONFIG_MAP, source.text("/configMapRef/name"));
        add(SECRET, source.text("/secretRef/name"));
    }
    for variable in container.items("/env") {
        add(CONFIG_MAP, variable.text("/valueFrom/configMapKeyRef/name"));
        add(SECRET, variable.text("/valueFrom/secretKeyRef/name"));
    }
    found
}

impl Sources<'_> {
    /// Returns the environment of a container.
    ///
    /// # Errors
    /// Returns an error if a ConfigMap, a Secret or a key does not exist and is not optional.
    pub(super) fn environment(&self, container: &Value) -> Result<BTreeMap<String, String>, String> {
        let mut environment = BTreeMap::new();
        for source in container.items("/envFrom") {
            let prefix = source.text("/prefix");
            for (kind, field) in [(CONFIG_MAP, "configMapRef"), (SECRET, "secretRef")] {
                let name = source.text(&format!("/{field}/name"));
                if name.is_empty() {
                    continue;
                }
                match self.data.get(&(kind, name.to_owned())) {
                    Some(data) => environment.extend(
                        data.iter()
                            .map(|(key, value)| (format!("{prefix}{key}"), value.clone())),
                    ),
                    None if source.flag(&format!("/{field}/optional")) => {}
                    None => return Err(format!("{kind} {name:?} not found")),
                }
            }
        }
        for variable in container.items("/env") {
            let name = variable.text("/name");
            let value = match variable.get("valueFrom") {
                None => Some(expand(variable.text("/value"), &environment)),
                Some(from) => self.value_from(container, from)?,
            };
            // The dynamic loader would run code from outside the program because of these variables.
            let is_unsafe = name.starts_with("LD_") || name.starts_with("DYLD_");
            if let Some(value) = value.filter(|_| !is_unsafe) {
                environment.insert(name.to_owned(), value);
            }
        }
        Ok(environment)
    }

    fn value_from(&self, container: &Value, from: &Value) -> Result<Option<String>, String> {
        for (kind, field) in [(CONFIG_MAP, "configMapKeyRef"), (SECRET, "secretKeyRef")] {
            let Some(reference) = from.get(field) else {
                continue;
            };
            let (name, key) = (reference.text("/name"), reference.text("/key"));
            let data = self.data.get(&(kind, name.to_owned()));
            return match data.map(|data| data.get(key)) {
                Some(Some(value)) => Ok(Some(value.clone())),
                _ if reference.flag("/optional") => Ok(None),
                Some(None) => Err(format!(
                    "couldn't find key {key} in {kind} {}/{name}",
                    self.pod.namespace()
                )),
                None => Err(format!("{kind} {name:?} not found")),
            };
        }
        if let Some(reference) = from.get("resourceFieldRef") {
            return Ok(Some(resource(container, reference)));
        }
        Ok(Some(self.field(from.text("/fieldRef/fieldPath"))))
    }

    /// Returns a field of the pod, as in the downward API.
    pub(super) fn field(&self, path: &str) -> String {
        let pod = self.pod;
        let entry = |map: &str| {
            let key = path
                .split_once("['")
                .and_then(|(_, rest)| rest.strip_suffix("']"));
            let value = pod
                .get("metadata")
                .and_then(|metadata| metadata.get(map)?.get(key?));
            value.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        match path {
            "metadata.name" => pod.name().to_owned(),
            "metadata.namespace" => pod.namespace().to_owned(),
            "metadata.uid" => pod.uid().to_owned(),
            "spec.nodeName" => pod.text("/spec/nodeName").to_owned(),
            "spec.serviceAccountName" => pod.text("/spec/serviceAccountName").to_owned(),
            "status.hostIP" | "status.hostIPs" => pod.text("/status/hostIP").to_owned(),
            "status.podIP" | "status.podIPs" => self.address.to_owned(),
            path if path.starts_with("metadata.labels[") => entry("labels"),
            path if path.starts_with("metadata.annotations[") => entry("annotations"),
            _ => String::new(),
        }
    }

    /// Returns the arguments of the process. The first word of `command` is the program in the image, which the local
    /// program replaces.
    pub(super) fn arguments(
        &self,
        container: &Value,
        defaults: &[String],
        environment: &BTreeMap<String, String>,
    ) -> Vec<String> {
        let command = container.items("/command").iter().skip(1);
        let given = command.chain(container.items("/args")).filter_map(Value::as_str);
        let mut arguments: Vec<String> = given
            .map(|argument| self.listening(&expand(argument, environment)))
            .collect();
        let own = BTreeMap::from([
            ("POD_IP".to_owned(), self.address.to_owned()),
            ("POD_NAME".to_owned(), self.pod.name().to_owned()),
            ("POD_NAMESPACE".to_owned(), self.pod.namespace().to_owned()),
        ]);
        for default in defaults {
            let flag = default.split('=').next().unwrap_or(default);
            let is_set = |argument: &String| argument.split('=').next() == Some(flag);
            if !arguments.iter().any(is_set) {
                arguments.push(expand(default, &own));
            }
        }
        arguments
    }

    /// Returns an argument with its listen address replaced. An address without a host means all addresses of the pod,
    /// which is a single address here.
    fn listening(&self, argument: &str) -> String {
        let (flag, value) = match argument.split_once('=') {
            Some((flag, value)) if argument.starts_with('-') => (Some(flag), value),
            _ => (None, argument),
        };
        let port = ["0.0.0.0:", "[::]:", ":"]
            .iter()
            .find_map(|host| value.strip_prefix(host));
        match (port.and_then(|port| port.parse::<u16>().ok()), flag) {
            (None, _) => argument.to_owned(),
            (Some(port), Some(flag)) => format!("{flag}={}:{port}", self.address),
            (Some(port), None) => format!("{}:{port}", self.address),
        }
    }
}

/// Returns a limit or a request of a container in its unit; empty if it is not set.
fn resource(container: &Value, reference: &Value) -> String {
    let path = reference.text("/resource").replace('.', "/");
    let quantity = container.text(&format!("/resources/{path}"));
    let parsed = Quantity::parse(quantity);
    parsed.map_or_else(|_| "0".to_owned(), |quantity| quantity.rounded_up().whole_units())
}

/// Replaces `$(NAME)` by the value of the variable, as Kubernetes does in `value`, `command` and `args`. `$$` is `$`.
fn expand(text: &str, variables: &BTreeMap<String, String>) -> String {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let reference = rest.strip_prefix('(').and_then(|inner| inner.split_once(')'));
        match reference {
            _ if rest.starts_with('$') => {
                expanded.push('$');
                rest = &rest[1..];
            }
            Some((name, after)) => {
                match variables.get(name) {
                    Some(value) => expanded.push_str(value),
                    None => expanded.push_str(&format!("$({name})")),
                }
                rest = after;
            }
            None => expanded.push('$'),
        }
    }
    expanded.push_str(rest);
    expanded
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod() -> Value {
        json!({"metadata": {"name": "p", "namespace": "n", "labels": {"a/b": "c"}}, "spec": {"nodeName": "node-1"}})
    }

    fn sources<'a>(
        pod: &'a Value,
        data: &'a BTreeMap<(&'static str, String), BTreeMap<String, String>>,
    ) -> Sources<'a> {
        Sources {
            pod,
            address: "127.128.0.2",
            data,
        }
    }

    #[test]
    fn variables_come_from_values_fields_and_maps() {
        let (pod, data) = (pod(), [("k".to_owned(), "v".to_owned())]);
        let data = BTreeMap::from([((CONFIG_MAP, "m".to_owned()), BTreeMap::from(data))]);
        let container = json!({
            "envFrom": [{"prefix": "M_", "configMapRef": {"name": "m"}}],
            "env": [
                {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a/b']"}}},
                {"name": "URL", "value": "http://$(IP):80/$(LABEL)/$(NO)/$$(IP)"},
                {"name": "KEY", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}},
                {"name": "NONE", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": true}}},
                {"name": "LD_PRELOAD", "value": "/tmp/evil.so"},
            ],
        });
        assert_eq!(references(&container).len(), 3);
        let environment = sources(&pod, &data).environment(&container).unwrap();
        let expected = [
            ("IP", "127.128.0.2"),
            ("KEY", "v"),
            ("LABEL", "c"),
            ("M_k", "v"),
            ("URL", "http://127.128.0.2:80/c/$(NO)/$(IP)"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(environment, BTreeMap::from(expected));
        let missing =
            json!({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]});
        let error = sources(&pod, &data).environment(&missing).unwrap_err();
        assert_eq!(error, "secret \"s\" not found");
    }

    #[test]
    fn servers_listen_on_the_address_of_the_pod() {
        let (pod, data) = (pod(), BTreeMap::new());
        let container = json!({
            "command": ["/manager", "serve"],
            "args": ["--health=:8081", "--metrics=0.0.0.0:8443", ":9", "--time=10:30", "--webhook-host=x"],
        });
        let defaults = ["--webhook-host=$(POD_IP)", "--lease=$(POD_NAMESPACE)"].map(str::to_owned);
        let arguments = sources(&pod, &data).arguments(&container, &defaults, &BTreeMap::new());
        assert_eq!(
            arguments,
            [
                "serve",
                "--health=127.128.0.2:8081",
                "--metrics=127.128.0.2:8443",
                "127.128.0.2:9",
                "--time=10:30",
                "--webhook-host=x",
                "--lease=n",
            ]
        );
    }
}
