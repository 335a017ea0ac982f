//! Acting as another user: a client whose requests say so.

use http::{HeaderName, HeaderValue, Request};
use kube::Client;
use kube::client::Body;

use crate::env::Error;

/// A client that sends what it is asked through another one, as a user.
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
