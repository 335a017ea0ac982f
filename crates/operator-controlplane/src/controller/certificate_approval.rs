//! Approves the CertificateSigningRequests for client certificates of kubelets, as kube-controller-manager does.

use builtin_kinds::certificate_request;
use operator_apiserver::client::Event;
use serde_json::Value;

use crate::controller::certificate::{KUBELET_CLIENT, check_kubelet_client};
use crate::controller::key_of;
use crate::engine::Controller;
use crate::kind::CERTIFICATE_SIGNING_REQUEST;
use crate::object::Object;
use crate::objects::{Key, Objects};
use crate::plan::{Action, Approval, Plan, World};

const SELF_CLIENT: Approval = Approval {
    subresource: "selfnodeclient",
    message: "Auto approving self kubelet client certificate after SubjectAccessReview.",
};
const CLIENT: Approval = Approval {
    subresource: "nodeclient",
    message: "Auto approving kubelet client certificate after SubjectAccessReview.",
};

/// Returns the controller.
pub(crate) fn controller() -> Controller {
    Controller {
        name: "certificatesigningrequest-approving-controller",
        keys,
        plan: Box::new(plan),
        initial: Vec::new(),
    }
}

fn keys(_: &Objects, event: &Event, keys: &mut Vec<Key>) {
    key_of(&CERTIFICATE_SIGNING_REQUEST, event, keys);
}

fn plan(world: &World<'_>, key: &Key) -> Plan {
    let Some(request) = world.objects.get(&CERTIFICATE_SIGNING_REQUEST, "", &key.name) else {
        return Plan::done();
    };
    let is_decided = ["Approved", "Denied"]
        .iter()
        .any(|kind| request.condition(kind).is_some());
    if is_decided || !request.text("/status/certificate").is_empty() {
        return Plan::done();
    }
    let approvals = approvals(request);
    if approvals.is_empty() {
        return Plan::done();
    }
    Plan::act(Action::Approve {
        request: Box::new(Value::clone(request)),
        approvals,
    })
}

/// Returns the permissions that approve a request. The requester needs one of them.
fn approvals(request: &Value) -> Vec<Approval> {
    if request.text("/spec/signerName") != KUBELET_CLIENT {
        return Vec::new();
    }
    let Ok(parsed) = certificate_request::parse(request.text("/spec/request")) else {
        return Vec::new();
    };
    let usages = request.items("/spec/usages").iter();
    let usages: Vec<&str> = usages.filter_map(Value::as_str).collect();
    if check_kubelet_client(&parsed, &usages).is_err() {
        return Vec::new();
    }
    if request.text("/spec/username") == parsed.common_name {
        vec![SELF_CLIENT, CLIENT]
    } else {
        vec![CLIENT]
    }
}
