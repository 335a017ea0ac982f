//! Sets the requester of a certificate to the authenticated user, and overwrites the value in the request.

use apimachinery::object;
use serde_json::Value;

use crate::identity::authn::User;

pub(super) fn admit(user: &User, request: &mut Value) {
    let spec = object::child_mut(request, "spec");
    for field in ["username", "uid", "groups", "extra"] {
        spec.remove(field);
    }
    if let Value::Object(info) = user.info() {
        spec.extend(info);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::identity::authn::User;

    #[test]
    fn the_requester_is_not_the_one_that_a_request_names() {
        let mut request =
            json!({"spec": {"username": "a", "uid": "b", "groups": ["c"], "extra": {"d": ["e"]}}});
        let user = User::anonymous();
        super::admit(&user, &mut request);
        assert_eq!(
            request["spec"],
            json!({"username": user.name, "groups": user.groups})
        );
    }
}
