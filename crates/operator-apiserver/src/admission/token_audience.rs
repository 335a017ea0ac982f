//! NodeRestriction for tokens: a kubelet may request only the audiences that the volumes of its pods need.

use apimachinery::go::quote;
use apimachinery::object;
use serde_json::Value;

use crate::admission::Admission;
use crate::identity::authz::Attributes;
use crate::write::Write;
use builtin_kinds::tree::{at, list, text};

/// The verb of the permission for other audiences; the audience is the resource.
const VERB: &str = "request-serviceaccounts-token-audience";

/// Returns the reason why a kubelet may not get a token for the audience of a TokenRequest.
pub(super) async fn fault(
    admission: &Admission,
    write: &Write,
    pod: &Value,
    request: &Value,
) -> Option<String> {
    let audience = match list(request, &["spec", "audiences"]) {
        [] => "",
        [only] => only.as_str().unwrap_or_default(),
        _ => return Some("node may only request 0 or 1 audiences".to_owned()),
    };
    let volumes = Volumes { admission, pod };
    match volumes.need(audience) {
        Ok(true) => return None,
        Ok(false) => {}
        Err(why) => return Some(format!("error validating audience {}: {why}", quote(audience))),
    }
    let asked = Attributes {
        namespace: &write.namespace,
        name: &write.name,
        ..Attributes::resource(&write.user, VERB, "", audience)
    };
    if admission.authorizer.authorize(&asked).await.allowed {
        return None;
    }
    Some(format!(
        "audience {} not found in pod spec volume, {} is not authorized to request tokens for this audience",
        quote(audience),
        write.user.name
    ))
}

/// The volumes of a pod.
struct Volumes<'a> {
    admission: &'a Admission,
    pod: &'a Value,
}

impl Volumes<'_> {
    /// Returns true if a volume needs tokens for an audience.
    fn need(&self, audience: &str) -> Result<bool, String> {
        for volume in list(self.pod, &["spec", "volumes"]) {
            let is_needed = self.is_projected(volume, audience)
                || match self.driver(volume)? {
                    Some(driver) => self.has_audience(&driver, audience)?,
                    None => false,
                };
            if is_needed {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_projected(&self, volume: &Value, audience: &str) -> bool {
        let mut sources = list(volume, &["projected", "sources"]).iter();
        sources.any(|source| {
            let token = at(source, &["serviceAccountToken"]);
            token.is_object() && text(token, &["audience"]) == audience
        })
    }

    /// Returns the CSI driver of a volume, if it has one.
    fn driver(&self, volume: &Value) -> Result<Option<String>, String> {
        let inline = text(volume, &["csi", "driver"]);
        if !inline.is_empty() {
            return Ok(Some(inline.to_owned()));
        }
        let claim = if at(volume, &["ephemeral"]).is_object() {
            format!("{}-{}", object::name(self.pod), text(volume, &["name"]))
        } else {
            text(volume, &["persistentVolumeClaim", "claimName"]).to_owned()
        };
        if claim.is_empty() {
            return Ok(None);
        }
        let key = format!("{}/{claim}", object::namespace(self.pod));
        let found = self.find("persistentvolumeclaims", "persistentvolumeclaim", &key, &claim)?;
        let volume = text(&found, &["spec", "volumeName"]);
        if volume.is_empty() {
            return Ok(None);
        }
        let found = self.find("persistentvolumes", "persistentvolume", volume, volume)?;
        let driver = text(&found, &["spec", "csi", "driver"]);
        Ok((!driver.is_empty()).then(|| driver.to_owned()))
    }

    fn has_audience(&self, driver: &str, audience: &str) -> Result<bool, String> {
        let found = self.find(
            "csidrivers.storage.k8s.io",
            "csidriver.storage.k8s.io",
            driver,
            driver,
        )?;
        let mut requests = list(&found, &["spec", "tokenRequests"]).iter();
        Ok(requests.any(|request| text(request, &["audience"]) == audience))
    }

    fn find(&self, table: &str, kind: &str, key: &str, name: &str) -> Result<Value, String> {
        let found = self.admission.store.get(table, key);
        let found = found.ok_or_else(|| format!("{kind} {} not found", quote(name)))?;
        Ok(Value::clone(&found.value))
    }
}
