//! [`Authority`], a certificate authority. It belongs to one process, or is stored in a Secret that the instances of an
//! operator share, so that they have the same `caBundle`.

use std::fmt;

use jiff::ToSpan as _;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ObjectMeta, PostParams};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::CertificateError;

/// Validity of certificates in days.
const AUTHORITY_DAYS: i32 = 3650;
const LEAF_DAYS: i32 = 365;
/// The keys of the Secret.
const CERTIFICATE: &str = "ca.crt";
const KEY: &str = "ca.key";
/// The last line of a certificate.
const END: &str = "-----END CERTIFICATE-----\n";
/// The annotation with the time of renewal, which is long before the expiry.
const RENEW_AFTER: &str = "operator-sdk/renew-after";
const RENEW_AFTER_DAYS: i32 = AUTHORITY_DAYS / 2;

/// Issues certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
    /// The certificate of the previous authority, which may still be in use.
    previous: String,
}

// === impl Authority ===

impl Authority {
    /// Creates an authority that is valid for ten years. It is not stored; see [`Authority::from_secret`] for one that
    /// is.
    ///
    /// # Errors
    /// Returns an error if the system has no source of randomness.
    pub fn generate() -> Result<Self, CertificateError> {
        let key = KeyPair::generate().map_err(CertificateError::Make)?;
        let params = params().map_err(CertificateError::Make)?;
        let certificate = params.self_signed(&key).map_err(CertificateError::Make)?.pem();
        let issuer = Issuer::new(params, key);
        Ok(Self {
            issuer,
            certificate,
            previous: String::new(),
        })
    }

    /// Returns the authority in a Secret, with the keys `ca.crt` and `ca.key`. It is created if missing, and replaced
    /// after half of its ten years. Concurrent instances get the same authority. The previous certificate stays in the
    /// [bundle](Authority::bundle).
    ///
    /// The operator needs permission to get, create and update Secrets in the namespace.
    ///
    /// # Errors
    /// Returns an error if the API server rejects a request, or the Secret does not contain an authority.
    pub async fn from_secret(
        client: kube::Client,
        namespace: &str,
        name: &str,
    ) -> Result<Self, CertificateError> {
        let secrets: Api<Secret> = Api::namespaced(client, namespace);
        let failed = |source| CertificateError::Secret {
            name: name.to_owned(),
            source: Box::new(source),
        };
        if let Some(secret) = secrets.get_opt(name).await.map_err(failed)? {
            let stored = Self::stored(&secret, name)?;
            if !is_due(&secret) {
                return Ok(stored);
            }
            return stored.replaced(&secrets, secret).await.map_err(failed);
        }
        let authority = Self::generate()?;
        match secrets
            .create(&PostParams::default(), &authority.secret(name))
            .await
        {
            Ok(_) => Ok(authority),
            // Another instance was first.
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                Self::stored(&secrets.get(name).await.map_err(failed)?, name)
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Returns the certificate of the authority as PEM, for clients that should trust it.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Returns the certificates of the authority and of its predecessor as PEM, for a `caBundle`. Without a predecessor
    /// it is the same as [`Authority::certificate`].
    pub fn bundle(&self) -> String {
        format!("{}{}", self.certificate, self.previous)
    }

    /// Replaces the authority in the Secret. If another instance was first, returns that authority.
    async fn replaced(self, secrets: &Api<Secret>, mut secret: Secret) -> Result<Self, kube::Error> {
        let mut next = match Self::generate() {
            Ok(next) => next,
            Err(error) => {
                tracing::error!(%error, "Failed to renew the certificate authority");
                return Ok(self);
            }
        };
        next.previous = self.certificate;
        let name = secret.metadata.name.clone().unwrap_or_default();
        let fresh = next.secret(&name);
        secret.data = fresh.data;
        secret
            .metadata
            .annotations
            .get_or_insert_default()
            .extend(fresh.metadata.annotations.unwrap_or_default());
        match secrets.replace(&name, &PostParams::default(), &secret).await {
            Ok(_) => Ok(next),
            Err(kube::Error::Api(status)) if status.is_conflict() => {
                let winner = Self::stored(&secrets.get(&name).await?, &name);
                Ok(winner.unwrap_or(next))
            }
            Err(error) => Err(error),
        }
    }

    /// Issues a certificate and a key for a server with these names.
    pub(super) fn issue(
        &self,
        names: &[String],
    ) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut params = dated(CertificateParams::new(names)?, LEAF_DAYS);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        if let Some(name) = names.first() {
            params.distinguished_name.push(DnType::CommonName, name.as_str());
        }
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok((certificate.der().clone(), key.into()))
    }

    fn stored(secret: &Secret, name: &str) -> Result<Self, CertificateError> {
        let text = |key| {
            let value = secret.data.as_ref()?.get(key)?;
            String::from_utf8(value.0.clone()).ok()
        };
        let broken = || CertificateError::Contents(name.to_owned());
        let (certificate, key) = (
            text(CERTIFICATE).ok_or_else(broken)?,
            text(KEY).ok_or_else(broken)?,
        );
        let key = KeyPair::from_pem(&key).map_err(|_| broken())?;
        // A signature needs only the name and the key of the issuer.
        let issuer = Issuer::new(params().map_err(CertificateError::Make)?, key);
        let end = certificate
            .find(END)
            .map_or(certificate.len(), |end| end + END.len());
        let (certificate, previous) = certificate.split_at(end);
        Ok(Self {
            issuer,
            certificate: certificate.to_owned(),
            previous: previous.to_owned(),
        })
    }

    fn secret(&self, name: &str) -> Secret {
        let data = [
            (CERTIFICATE.to_owned(), ByteString(self.bundle().into_bytes())),
            (
                KEY.to_owned(),
                ByteString(self.issuer.key().serialize_pem().into_bytes()),
            ),
        ];
        let renew_after = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC);
        let renew_after = renew_after.saturating_add(RENEW_AFTER_DAYS.days()).timestamp();
        Secret {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                annotations: Some([(RENEW_AFTER.to_owned(), renew_after.to_string())].into()),
                ..ObjectMeta::default()
            },
            data: Some(data.into()),
            ..Secret::default()
        }
    }
}

impl fmt::Debug for Authority {
    /// Omits the key.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Authority")
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

/// Returns true if the renewal of the authority in a Secret is due. An authority without a time is never renewed.
fn is_due(secret: &Secret) -> bool {
    let annotations = secret.metadata.annotations.as_ref();
    let time = annotations.and_then(|annotations| annotations.get(RENEW_AFTER)?.parse().ok());
    time.is_some_and(|time: jiff::Timestamp| time < jiff::Timestamp::now())
}

fn params() -> Result<CertificateParams, rcgen::Error> {
    let mut params = dated(CertificateParams::new(Vec::new())?, AUTHORITY_DAYS);
    params.distinguished_name.push(DnType::CommonName, "operator-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    Ok(params)
}

/// Sets the validity, starting yesterday because clocks differ.
fn dated(mut params: CertificateParams, days: i32) -> CertificateParams {
    let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
    let date = |date: jiff::civil::Date| {
        let part = |part: i8| u8::try_from(part).unwrap_or(1);
        rcgen::date_time_ymd(date.year().into(), part(date.month()), part(date.day()))
    };
    params.not_before = date(today.saturating_sub(1.day()));
    params.not_after = date(today.saturating_add(days.days()));
    params
}

#[cfg(test)]
mod tests {
    use kube::api::{Api, PostParams};
    use operator_envtest::{Backend, TestEnv};
    use serde_json::json;

    use super::*;
    use crate::Certificates;

    #[tokio::test]
    async fn instances_share_one_authority() {
        let env = TestEnv::builder()
            .backend(Backend::Embedded)
            .start()
            .await
            .unwrap();
        let from_secret = || Authority::from_secret(env.client(), "default", "webhook-ca");
        let (first, second) = tokio::join!(from_secret(), from_secret());
        let (first, second) = (first.unwrap(), second.unwrap());
        assert_eq!(first.certificate(), second.certificate());
        let certificates = Certificates::issued_by(second, ["webhooks.system.svc"]).unwrap();
        assert_eq!(certificates.authority().as_deref(), Some(first.certificate()));
    }

    #[tokio::test]
    async fn secret_with_other_content_is_not_changed() {
        let env = TestEnv::builder()
            .backend(Backend::Embedded)
            .start()
            .await
            .unwrap();
        let secrets: Api<Secret> = Api::default_namespaced(env.client());
        let other =
            serde_json::from_value(json!({"metadata": {"name": "webhook-ca"}, "stringData": {"a": "b"}}))
                .unwrap();
        secrets.create(&PostParams::default(), &other).await.unwrap();
        let error = Authority::from_secret(env.client(), "default", "webhook-ca")
            .await
            .unwrap_err();
        assert!(matches!(error, CertificateError::Contents(name) if name == "webhook-ca"));
    }
}
