//! Validates the names of objects, which depends on their kinds.

use apimachinery::names::{
    canonical_ip_address, dns1123_label, dns1123_subdomain, path_segment, path_segment_prefix,
};

use apimachinery::gvk::Gvk;

/// Validates the name of an object, or the prefix of a generated name.
pub fn validate_name(gvk: &Gvk, name: &str, is_prefix: bool) -> Vec<String> {
    let masked = match name.strip_suffix('-') {
        // A prefix may end in a dash; the generated suffix is valid.
        Some(stem) if is_prefix && !stem.is_empty() => format!("{stem}a"),
        _ => name.to_owned(),
    };
    match (gvk.group, gvk.kind) {
        ("", "Namespace" | "Service") | ("apps", "StatefulSet") => dns1123_label(&masked),
        ("rbac.authorization.k8s.io", _) | ("policy", "PodDisruptionBudget") if is_prefix => {
            path_segment_prefix(name)
        }
        ("rbac.authorization.k8s.io", _) | ("policy", "PodDisruptionBudget") => path_segment(name),
        ("certificates.k8s.io", _) => Vec::new(),
        ("resource.k8s.io", "DeviceClass") if is_prefix => Vec::new(),
        // The name of an APIService consists of its version and its group; its validation checks that.
        ("apiregistration.k8s.io", _) => path_segment(name),
        ("networking.k8s.io", "IPAddress") => canonical_ip_address(name),
        ("batch", "CronJob") if !is_prefix => {
            let mut faults = dns1123_subdomain(name);
            if name.len() > 52 {
                faults.push("must be no more than 52 characters".to_owned());
            }
            faults
        }
        _ => dns1123_subdomain(&masked),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_of_a_name_may_end_in_a_dash() {
        let pods = Gvk {
            group: "",
            version: "v1",
            kind: "Pod",
        };
        assert!(validate_name(&pods, "gen-", true).is_empty());
        assert!(!validate_name(&pods, "gen-", false).is_empty());
        assert!(!validate_name(&pods, "gen.", true).is_empty());
    }

    #[test]
    fn a_disruption_budget_can_have_any_name_that_fits_in_a_path() {
        let budgets = Gvk {
            group: "policy",
            version: "v1",
            kind: "PodDisruptionBudget",
        };
        assert!(validate_name(&budgets, "A_b", false).is_empty());
        assert!(validate_name(&budgets, "A_", true).is_empty());
        assert_eq!(validate_name(&budgets, "x/y", false), ["may not contain '/'"]);
    }
}
