//! `as=Table`: objects as rows, as `kubectl get` prints them.

use serde_json::{Value, json};

use crate::clock;
use crate::codec::Form;
use crate::http::call::Call;
use crate::registry::Registry;
use crate::resource::Definition;
use crate::status::{self, Status};
use builtin_kinds::{Column, generic_cells, generic_columns};

/// The part of the object that each row contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    None,
    #[default]
    Metadata,
    Object,
}

impl IncludeObject {
    /// Parses `includeObject`.
    pub(crate) fn parse(call: &Call) -> Result<Self, Status> {
        match call.query.text("includeObject") {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::None),
            "Object" => Ok(Self::Object),
            other => Err(status::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be 'Metadata', 'Object', 'None', or empty",
                apimachinery::go::quote(other)
            ))),
        }
    }
}

/// The maximum number of values that the columns of one table visit.
const VISITS_MAX: usize = 100_000_000;

/// Renders the rows of one table.
pub(crate) struct Rows<'a> {
    definition: &'a Definition,
    form: Form,
    include: IncludeObject,
    now: i64,
    visits: usize,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(
        registry: &Registry,
        definition: &'a Definition,
        form: Form,
        include: IncludeObject,
    ) -> Self {
        Self {
            definition,
            form,
            include,
            now: clock::unix_seconds(registry.clock.now()),
            visits: VISITS_MAX,
        }
    }

    pub(crate) fn row(&mut self, object: &Value) -> Result<Value, Status> {
        let cells = self.definition.cells(object, self.now, &mut self.visits);
        let cells = cells.ok_or_else(|| status::too_large("the columns of the table are too large"))?;
        Ok(json!({"cells": cells, "object": row_object(object, self.form, self.include)}))
    }

    /// Returns the Table without its rows.
    pub(crate) fn head(&self, metadata: &Value) -> Value {
        document(self.form, metadata, self.definition.columns(), &[])
    }

    /// Returns a Table of one object.
    pub(crate) fn single(&mut self, object: &Value) -> Result<Value, Status> {
        let metadata = json!({"resourceVersion": apimachinery::object::resource_version(object)});
        let row = self.row(object)?;
        Ok(document(self.form, &metadata, self.definition.columns(), &[row]))
    }
}

/// Renders a Scale, whose columns are the same for all built-in kinds.
pub(crate) fn render_scale(
    registry: &Registry,
    definition: &Definition,
    scale: &Value,
    (form, include): (Form, IncludeObject),
) -> Value {
    let replicas = |part: &str| {
        let found = scale.get(part).and_then(|part| part.get("replicas"));
        found.cloned().unwrap_or_else(|| 0.into())
    };
    let now = clock::unix_seconds(registry.clock.now());
    let mut cells = generic_cells(scale, now);
    cells.splice(1..1, [replicas("spec"), replicas("status")]);
    let count = |name: &str, description: &str| Column {
        name: name.to_owned(),
        kind: "integer".to_owned(),
        format: String::new(),
        description: description.to_owned(),
        priority: 0,
    };
    let counts = if definition.is_custom() {
        ["Number of desired replicas", "Number of actual replicas"]
    } else {
        [
            "replicas is the desired number of instances for the scaled object.",
            "replicas is the actual number of observed instances of the scaled object.",
        ]
    };
    let mut columns = generic_columns();
    columns.splice(1..1, [count("Desired", counts[0]), count("Available", counts[1])]);
    for column in &mut columns {
        if definition.is_custom() && column.name == "Age" {
            "date".clone_into(&mut column.kind);
        } else if !definition.is_custom() {
            column.format = String::new();
        }
    }
    let metadata = json!({"resourceVersion": apimachinery::object::resource_version(scale)});
    let row = json!({"cells": cells, "object": row_object(scale, form, include)});
    document(form, &metadata, columns, &[row])
}

fn document(form: Form, metadata: &Value, columns: Vec<Column>, rows: &[Value]) -> Value {
    json!({
        "kind": "Table", "apiVersion": form.meta_version(), "metadata": metadata,
        "columnDefinitions": described(columns), "rows": rows,
    })
}

fn described(columns: Vec<Column>) -> Vec<Value> {
    columns
        .into_iter()
        .map(|column| {
            json!({
                "name": column.name, "type": column.kind, "format": column.format,
                "description": column.description, "priority": column.priority,
            })
        })
        .collect()
}

fn row_object(object: &Value, form: Form, include: IncludeObject) -> Value {
    match include {
        IncludeObject::None => Value::Null,
        IncludeObject::Metadata => crate::http::verb::partial(object, form),
        IncludeObject::Object => object.clone(),
    }
}
