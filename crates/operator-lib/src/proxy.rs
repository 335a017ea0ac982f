//! The proxy of a cluster: copies the variables that OLM sets for an operator to the containers that it creates.
//!
//! ```
//! use k8s_openapi::api::core::v1::PodSpec;
//! use operator_lib::proxy;
//!
//! let mut pod = PodSpec::default();
//! proxy::inject(&mut pod, &proxy::from_env());
//! ```

use k8s_openapi::api::core::v1::{Container, EnvVar, PodSpec};

const NAMES: [&str; 3] = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"];

/// Returns `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` of this process in upper and in lower case, because some programs
/// read only one of them. The upper case takes precedence. Unset and empty variables are omitted.
///
/// ```
/// use operator_lib::proxy;
///
/// // An operator without a proxy copies nothing.
/// # if ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"].iter().all(|name| {
/// #     std::env::var(name).is_err() && std::env::var(name.to_lowercase()).is_err()
/// # }) {
/// assert!(proxy::from_env().is_empty());
/// # }
/// ```
pub fn from_env() -> Vec<EnvVar> {
    variables(|name| std::env::var(name).ok())
}

fn variables(lookup: impl Fn(&str) -> Option<String>) -> Vec<EnvVar> {
    let set = |name: &str| lookup(name).filter(|value| !value.is_empty());
    let of = |name: &'static str| {
        let value = set(name).or_else(|| set(&name.to_lowercase()))?;
        Some([name.to_owned(), name.to_lowercase()].map(|name| EnvVar {
            name,
            value: Some(value.clone()),
            value_from: None,
        }))
    };
    NAMES.into_iter().filter_map(of).flatten().collect()
}

/// Adds the variables to all containers of a pod, including init containers. Variables of a container take precedence.
/// ```
/// use k8s_openapi::api::core::v1::{Container, EnvVar, PodSpec};
/// use operator_lib::proxy;
///
/// let variable = |value: &str| EnvVar {
///     name: "NO_PROXY".to_owned(),
///     value: Some(value.to_owned()),
///     ..EnvVar::default()
/// };
/// let own = Container { env: Some(vec![variable("localhost")]), ..Container::default() };
/// let mut pod = PodSpec { containers: vec![own, Container::default()], ..PodSpec::default() };
/// proxy::inject(&mut pod, &[variable(".svc")]);
/// assert_eq!(pod.containers[0].env, Some(vec![variable("localhost")]));
/// assert_eq!(pod.containers[1].env, Some(vec![variable(".svc")]));
/// ```
pub fn inject(pod: &mut PodSpec, variables: &[EnvVar]) {
    let init = pod.init_containers.iter_mut().flatten();
    pod.containers
        .iter_mut()
        .chain(init)
        .for_each(|container| add(container, variables));
}

fn add(container: &mut Container, variables: &[EnvVar]) {
    for variable in variables {
        let env = container.env.get_or_insert_default();
        if env.iter().all(|own| own.name != variable.name) {
            env.push(variable.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn some() -> Vec<EnvVar> {
        variables(|name| match name {
            "HTTP_PROXY" => Some("http://proxy:3128".to_owned()),
            "no_proxy" => Some(".svc".to_owned()),
            "HTTPS_PROXY" => Some(String::new()),
            _ => None,
        })
    }

    #[test]
    fn variables_have_both_cases() {
        let wanted = json!([
            {"name": "HTTP_PROXY", "value": "http://proxy:3128"},
            {"name": "http_proxy", "value": "http://proxy:3128"},
            {"name": "NO_PROXY", "value": ".svc"},
            {"name": "no_proxy", "value": ".svc"},
        ]);
        assert_eq!(json!(some()), wanted);
    }

    #[test]
    fn all_containers_have_them_and_keep_their_own() {
        let containers = json!([{"name": "c", "env": [{"name": "NO_PROXY", "value": "own"}]}]);
        let mut pod: PodSpec =
            serde_json::from_value(json!({"containers": containers, "initContainers": [{"name": "i"}]}))
                .unwrap();
        inject(&mut pod, &some());
        inject(&mut pod, &some());
        assert_eq!(pod.init_containers.unwrap()[0].env, Some(some()));
        let env = pod.containers.remove(0).env.unwrap();
        assert_eq!((env.len(), env[0].value.as_deref()), (4, Some("own")));
    }

    #[test]
    fn without_a_proxy_nothing_is_added() {
        let mut pod: PodSpec = serde_json::from_value(json!({"containers": [{"name": "c"}]})).unwrap();
        inject(&mut pod, &[]);
        assert_eq!(pod.containers[0].env, None);
    }
}
