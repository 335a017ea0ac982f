//! Impersonation: clients and kubeconfigs of other users.

use http::{HeaderName, HeaderValue, Request};
use kube::Client;
use kube::client::Body;
use kube::config::Kubeconfig;

use crate::error::Error;

/// Returns a client that sends its requests through `client` and impersonates a user.
pub(crate) fn client_as(client: &Client, user: &str, groups: &[&str]) -> Result<Client, Error> {
    let value = |name: &str| {
        HeaderValue::from_str(name).map_err(|_| Error::UserName {
            name: name.to_owned(),
        })
    };
    let user = value(user)?;
    let groups = groups
        .iter()
        .map(|group| value(group))
        .collect::<Result<Vec<_>, _>>()?;
    let namespace = client.default_namespace().to_owned();
    let client = client.clone();
    let acting = tower::service_fn(move |mut request: Request<Body>| {
        let headers = request.headers_mut();
        headers.insert(HeaderName::from_static("impersonate-user"), user.clone());
        for group in &groups {
            headers.append(HeaderName::from_static("impersonate-group"), group.clone());
        }
        let client = client.clone();
        async move { client.send(request).await }
    });
    Ok(Client::new(acting, namespace))
}

/// Returns a kubeconfig whose users impersonate the given user.
pub(crate) fn kubeconfig_as(kubeconfig: &str, user: &str, groups: &[&str]) -> Result<String, Error> {
    let failed = |error: &dyn std::fmt::Display| Error::NoCluster(error.to_string().into());
    let mut kubeconfig = Kubeconfig::from_yaml(kubeconfig).map_err(|error| failed(&error))?;
    for named in &mut kubeconfig.auth_infos {
        let credentials = named.auth_info.get_or_insert_default();
        credentials.impersonate = Some(user.to_owned());
        let groups = groups.iter().map(|group| (*group).to_owned()).collect::<Vec<_>>();
        credentials.impersonate_groups = Some(groups).filter(|groups| !groups.is_empty());
    }
    serde_saphyr::to_string(&kubeconfig).map_err(|error| failed(&error))
}
