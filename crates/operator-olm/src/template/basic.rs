//! Renders templates with schema `olm.template.basic`.

use apimachinery::go::{self, quote};
use serde_json::Value;

use super::RenderBundle;
use crate::catalog::{Catalog, stream};

pub(super) const SCHEMA: &str = "olm.template.basic";

pub(super) fn render(text: &str, bundle: &RenderBundle<'_>) -> Result<Catalog, String> {
    let mut catalog = Catalog::from_documents(&entries(text)?)?;
    let references = std::mem::take(&mut catalog.bundles);
    for reference in references {
        let is_reference = !reference.image.is_empty()
            && reference.package.is_empty()
            && reference.properties.is_empty()
            && reference.related_images.is_empty();
        if !is_reference {
            return Err("unexpected fields present in basic template bundle".to_owned());
        }
        catalog.bundles.push(bundle(&reference.image)?);
    }
    Ok(catalog)
}

fn entries(text: &str) -> Result<Vec<Value>, String> {
    let documents = stream(text).map_err(|error| format!("decoding template schema: {error}"))?;
    let Some(template) = documents.into_iter().next() else {
        return Err("decoding template schema: EOF".to_owned());
    };
    let Value::Object(mut fields) = template else {
        let kind = go::json_kind(&template);
        return Err(format!(
            "unmarshalling template: json: cannot unmarshal {kind} into Go value of type basic.BasicTemplateData"
        ));
    };
    let field = |name: &str, value: &Value, go_type: &str| {
        let kind = go::json_kind(value);
        format!(
            "unmarshalling template: json: cannot unmarshal {kind} into Go struct field \
             BasicTemplateData.{name} of type {go_type}"
        )
    };
    let entries = match fields.remove("entries") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(entries)) => entries,
        Some(other) => return Err(field("entries", &other, "[]*declcfg.Meta")),
    };
    let schema = match fields.remove("schema") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(schema)) => schema,
        Some(other) => return Err(field("schema", &other, "string")),
    };
    if schema != SCHEMA {
        let schema = quote(&schema);
        return Err(format!(
            "template has unknown schema ({schema}), should be {}",
            quote(SCHEMA)
        ));
    }
    Ok(entries)
}
