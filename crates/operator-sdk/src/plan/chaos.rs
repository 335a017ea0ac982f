//! The chaos test of a project: tests/chaos.rs, and the steps of its workload for each kind.

use super::PlanError;
use super::draft::Draft;
use crate::project::layout::{CHAOS_TEST, CHAOS_WORKLOAD};
use crate::template::{self, ApiValues};

/// Adds the steps of a kind to the workload. The test and the workload are created if they do not exist.
pub(super) fn add(draft: &mut Draft<'_>, api: &ApiValues) -> Result<(), PlanError> {
    if draft.get(CHAOS_TEST).is_none() {
        draft.put(CHAOS_TEST, template::render("api/chaos.rs", api)?);
    }
    let steps = template::render("api/chaos_steps.yaml", api)?;
    let workload = match draft.get(CHAOS_WORKLOAD) {
        Some(text) => text.to_owned(),
        None => template::render("api/chaos.yaml", api)?,
    };
    if let Some(text) = extended(&workload, &steps) {
        draft.put(CHAOS_WORKLOAD, text);
    }
    Ok(())
}

/// Removes the steps of a kind, unless the user changed them. If no steps remain, the test is removed too.
pub(super) fn remove(draft: &mut Draft<'_>, api: &ApiValues) -> Result<(), PlanError> {
    let Some(workload) = draft.get(CHAOS_WORKLOAD) else {
        return Ok(());
    };
    let mut rest = workload.to_owned();
    for image in [None, Some(template::ImageValues::default())] {
        let values = ApiValues { image, ..api.clone() };
        rest = rest.replacen(&template::render("api/chaos_steps.yaml", &values)?, "", 1);
    }
    if rest == workload {
        return Ok(());
    }
    if rest == template::render("api/chaos.yaml", api)? {
        draft.remove(CHAOS_WORKLOAD);
        draft.remove(CHAOS_TEST);
    } else {
        draft.put(CHAOS_WORKLOAD, rest);
    }
    Ok(())
}

/// Appends steps to a workload. Returns `None` if they exist, or if the workload does not end with its steps.
fn extended(workload: &str, steps: &str) -> Option<String> {
    if workload.contains(steps) {
        return None;
    }
    let mut text = workload.to_owned();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(steps);
    let count = |text: &str| {
        let value: serde_json::Value = serde_saphyr::from_str(text).ok()?;
        let steps = value.get("steps")?;
        Some(steps.as_array().map_or(0, Vec::len))
    };
    (count(&text)? > count(workload)?).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_appended_where_they_are_the_last_key() {
        let step = "- delete: {}\n";
        assert_eq!(
            extended("steps:\n", step).as_deref(),
            Some("steps:\n- delete: {}\n")
        );
        assert_eq!(
            extended("steps:\n- sleep: 1", step).as_deref(),
            Some("steps:\n- sleep: 1\n- delete: {}\n")
        );
        assert_eq!(extended("steps:\n- delete: {}\n", step), None);
        assert_eq!(extended("steps: [{sleep: 1}]\n", step), None);
        assert_eq!(extended("steps:\n- sleep: 1\nnodes: 2\n", step), None);
    }
}
