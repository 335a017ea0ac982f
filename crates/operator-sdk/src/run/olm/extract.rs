//! `alpha bundle extract`: writes the manifests of a bundle image to a ConfigMap, in place of `opm` in the Job of an embedded
//! control plane.

use std::process::ExitCode;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use super::OlmError;
use crate::args::ExtractArgs;
use crate::failure::Failure;
use crate::oci::compress;
use crate::process::api::Api;
use crate::report::Report;
use crate::run::bundle::load;

/// `operator-sdk alpha bundle extract`.
pub(crate) fn extract(args: &ExtractArgs, report: &Report) -> Result<ExitCode, Failure> {
    let loaded = load(&args.image, false)?;
    let mut data = Map::new();
    for (path, content) in loaded.files.iter() {
        let Some(name) = path.strip_prefix("manifests/") else {
            continue;
        };
        let compressed = compress(content).map_err(|error| OlmError::Render {
            place: args.image.clone(),
            reason: error.to_string(),
        })?;
        data.insert(name.to_owned(), BASE64_STANDARD.encode(compressed).into());
    }
    let labels = &loaded.bundle.annotations.values;
    let mut annotations: Map<String, Value> = labels
        .iter()
        .map(|(name, value)| (name.clone(), value.as_str().into()))
        .collect();
    annotations.insert("olm.sourceImage".to_owned(), args.image.as_str().into());
    annotations.insert("olm.contentEncoding".to_owned(), "gzip+base64".into());
    crate::run::block_on(async {
        let api = Api::infer(None, None).await?;
        let path = format!(
            "/api/v1/namespaces/{}/configmaps/{}",
            args.namespace, args.configmapname
        );
        let mut config_map = api.get(&path).await?.ok_or_else(|| OlmError::NoConfigMap {
            name: args.configmapname.clone(),
            namespace: args.namespace.clone(),
        })?;
        config_map["binaryData"] = Value::Object(data);
        let known = config_map["metadata"]["annotations"].as_object().cloned();
        annotations.extend(known.unwrap_or_default());
        config_map["metadata"]["annotations"] = json!(annotations);
        api.replace(&path, &config_map).await?;
        report.line(&format!(
            "extracted {} to the ConfigMap {}",
            args.image, args.configmapname
        ));
        Ok(ExitCode::SUCCESS)
    })
}
