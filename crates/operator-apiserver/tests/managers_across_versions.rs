//! Tests of managed fields of custom resources that are written in several versions.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod asking;
mod hook;

use asking::{Answer, get, merge, post, send};
use hook::{Hook, Reply};
use http::Method;
use operator_apiserver::ApiServer;
use serde_json::{Value, json};

/// The versions of a Thing, and the name of the same field in each version.
const VERSIONS: [(&str, &str); 3] = [("v1", "size"), ("v2", "count"), ("v3", "number")];

fn field(api_version: &str) -> &'static str {
    let version = api_version.rsplit('/').next().unwrap();
    VERSIONS.iter().find(|(name, _)| *name == version).unwrap().1
}

fn things(version: &str) -> String {
    format!("/apis/example.com/{version}/namespaces/default/things")
}

fn definition(versions: &[&str], storage: &str, conversion: &Value) -> Value {
    let version = |name: &&str| {
        json!({
            "name": name, "served": true, "storage": *name == storage,
            "subresources": {"status": {}, "scale": {
                "specReplicasPath": format!(".spec.{}", field(name)), "statusReplicasPath": ".status.n",
            }},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {
                    (field(name)): {"type": "integer"}, "note": {"type": "string"},
                }},
                "status": {"type": "object", "properties": {
                    "ok": {"type": "string"}, "n": {"type": "integer"},
                }},
            }}},
        })
    };
    json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "conversion": conversion,
            "names": {"plural": "things", "kind": "Thing"},
            "versions": versions.iter().map(version).collect::<Vec<_>>(),
        },
    })
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Converts the objects of a review by renaming the field.
fn convert(review: &Value) -> Reply {
    let request = &review["request"];
    let wanted = request["desiredAPIVersion"].as_str().unwrap();
    let convert = |object: &Value| {
        let mut object = object.clone();
        let from = field(object["apiVersion"].as_str().unwrap());
        // For an apply that gives up fields, an object without them is converted.
        let spec = object.get_mut("spec").and_then(Value::as_object_mut);
        if let Some(spec) = spec
            && let Some(number) = spec.remove(from)
        {
            spec.insert(field(wanted).to_owned(), number);
        }
        object["apiVersion"] = wanted.into();
        object
    };
    let objects: Vec<Value> = request["objects"]
        .as_array()
        .unwrap()
        .iter()
        .map(convert)
        .collect();
    Reply::Json(json!({
        "kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",
        "response": {
            "uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects,
        },
    }))
}

async fn start() -> (ApiServer, Hook, Value) {
    let server = ApiServer::builder().build().unwrap();
    let hook = Hook::start(convert).await;
    let conversion = json!({
        "strategy": "Webhook",
        "webhook": {"clientConfig": hook.by_url(), "conversionReviewVersions": ["v1"]},
    });
    let all = definition(&["v1", "v2", "v3"], "v2", &conversion);
    post(&server, DEFINITIONS, all).await.is_done();
    (server, hook, conversion)
}

fn thing(version: &str, name: &str, spec: &Value) -> Value {
    let api_version = format!("example.com/{version}");
    json!({"apiVersion": api_version, "kind": "Thing", "metadata": {"name": name}, "spec": spec})
}

async fn apply(server: &ApiServer, version: &str, query: &str, spec: &Value) -> Answer {
    let path = format!("{}/a?{query}", things(version));
    let config = thing(version, "a", spec);
    send(
        server,
        Method::PATCH,
        &path,
        "application/apply-patch+yaml",
        &config,
    )
    .await
}

/// Returns the managers of the object, sorted: name, operation, version without its group, and fields.
async fn managers(server: &ApiServer) -> Vec<(String, Value)> {
    let object = get(server, &format!("{}/a", things("v2"))).await.body;
    let entries = object["metadata"]["managedFields"].as_array().cloned();
    let entry = |entry: &Value| {
        let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
        let version = text("apiVersion").replace("example.com/", "");
        let name = format!("{} {} {version}", text("manager"), text("operation"));
        (name, entry["fieldsV1"].clone())
    };
    let mut managers: Vec<_> = entries.unwrap_or_default().iter().map(entry).collect();
    // The server sorts by time first.
    managers.sort_by(|(one, _), (other, _)| one.cmp(other));
    managers
}

fn owners(expected: &[(&str, Value)]) -> Vec<(String, Value)> {
    let owned = |(name, fields): &(&str, Value)| ((*name).to_owned(), fields.clone());
    expected.iter().map(owned).collect()
}

#[tokio::test]
async fn a_patch_in_another_version_keeps_the_managers() {
    let (server, _hook, _) = start().await;
    let created = format!("{}?fieldManager=creator", things("v2"));
    post(
        &server,
        &created,
        thing("v2", "a", &json!({"count": 3, "note": "x"})),
    )
    .await
    .is_done();
    let labels = json!({"metadata": {"labels": {"x": "y"}}});
    merge(
        &server,
        &format!("{}/a?fieldManager=labeller", things("v1")),
        labels,
    )
    .await
    .is_done();
    let labeller = json!({"f:metadata": {"f:labels": {".": {}, "f:x": {}}}});
    assert_eq!(
        managers(&server).await,
        owners(&[
            (
                "creator Update v2",
                json!({"f:spec": {".": {}, "f:count": {}, "f:note": {}}})
            ),
            ("labeller Update v1", labeller.clone()),
        ])
    );
    // The field has another name in each version. Each writer takes the field over from the previous one.
    let size = json!({"spec": {"size": 4}});
    merge(&server, &format!("{}/a?fieldManager=one", things("v1")), size)
        .await
        .is_done();
    let number = json!({"spec": {"number": 5}});
    merge(&server, &format!("{}/a?fieldManager=three", things("v3")), number)
        .await
        .is_done();
    assert_eq!(
        managers(&server).await,
        owners(&[
            ("creator Update v2", json!({"f:spec": {".": {}, "f:note": {}}})),
            ("labeller Update v1", labeller),
            ("three Update v3", json!({"f:spec": {"f:number": {}}})),
        ])
    );
}

#[tokio::test]
async fn an_apply_in_another_version_conflicts_and_gives_up_fields() {
    let (server, _hook, _) = start().await;
    let first = json!({"number": 1, "note": "q"});
    apply(&server, "v3", "fieldManager=me", &first).await.is_done();
    let other = apply(&server, "v1", "fieldManager=you", &json!({"size": 2})).await;
    assert_eq!(
        (other.code, other.message()),
        (
            409,
            "Apply failed with 1 conflict: conflict with \"me\": .spec.number"
        )
    );
    apply(&server, "v2", "fieldManager=you", &json!({"count": 1}))
        .await
        .is_done();
    // An entry of the same manager in another version is replaced.
    apply(&server, "v1", "fieldManager=me", &json!({"size": 1}))
        .await
        .is_done();
    assert_eq!(
        managers(&server).await,
        owners(&[
            ("me Apply v1", json!({"f:spec": {"f:size": {}}})),
            ("you Apply v2", json!({"f:spec": {"f:count": {}}})),
        ])
    );
    apply(&server, "v3", "fieldManager=me", &json!({}))
        .await
        .is_done();
    assert_eq!(
        managers(&server).await,
        owners(&[
            ("me Apply v3", json!({"f:spec": {}})),
            ("you Apply v2", json!({"f:spec": {"f:count": {}}})),
        ])
    );
    let object = get(&server, &format!("{}/a", things("v1"))).await.body;
    assert_eq!(object["spec"], json!({"size": 1}));
}

#[tokio::test]
async fn managers_survive_another_storage_version_but_not_the_removal_of_theirs() {
    let (server, _hook, conversion) = start().await;
    apply(&server, "v1", "fieldManager=me", &json!({"size": 1}))
        .await
        .is_done();
    let path = format!("{DEFINITIONS}/things.example.com");
    let changed = definition(&["v1", "v2", "v3"], "v3", &conversion);
    merge(&server, &path, changed).await.is_done();
    let note = json!({"spec": {"note": "z"}});
    merge(&server, &format!("{}/a?fieldManager=two", things("v2")), note)
        .await
        .is_done();
    assert_eq!(
        managers(&server).await,
        owners(&[
            ("me Apply v1", json!({"f:spec": {"f:size": {}}})),
            ("two Update v2", json!({"f:spec": {"f:note": {}}})),
        ])
    );
    let removed = definition(&["v2", "v3"], "v3", &conversion);
    merge(&server, &path, removed).await.is_done();
    let late = apply(&server, "v2", "fieldManager=late", &json!({"count": 71})).await;
    assert_eq!(
        (late.code, late.message()),
        (
            500,
            "request to convert CR to an invalid group/version: example.com/v1"
        )
    );
    let count = json!({"spec": {"count": 72}});
    merge(&server, &format!("{}/a?fieldManager=two", things("v2")), count)
        .await
        .is_done();
    assert_eq!(managers(&server).await, owners(&[]));
}

#[tokio::test]
async fn without_conversion_a_change_that_another_version_does_not_know_loses_the_managers() {
    let server = ApiServer::builder().build().unwrap();
    let all = definition(&["v1", "v2", "v3"], "v2", &json!({"strategy": "None"}));
    post(&server, DEFINITIONS, all).await.is_done();
    post(
        &server,
        &things("v2"),
        thing("v2", "a", &json!({"count": 3, "note": "x"})),
    )
    .await
    .is_done();
    let labels = json!({"metadata": {"labels": {"x": "y"}}});
    merge(&server, &format!("{}/a", things("v1")), labels)
        .await
        .is_done();
    assert_eq!(managers(&server).await.len(), 2);
    let size = json!({"spec": {"size": 4}});
    merge(&server, &format!("{}/a", things("v1")), size)
        .await
        .is_done();
    // As in the real server, the object with the other apiVersion does not match the schema of that version.
    assert_eq!(managers(&server).await, owners(&[]));
}

async fn scale(server: &ApiServer, version: &str, query: &str, replicas: u8) -> Answer {
    let path = format!("{}/a/scale?{query}", things(version));
    merge(server, &path, json!({"spec": {"replicas": replicas}})).await
}

#[tokio::test]
async fn the_owner_of_replicas_is_one_in_all_versions() {
    let (server, _hook, _) = start().await;
    apply(
        &server,
        "v2",
        "fieldManager=me",
        &json!({"count": 2, "note": "x"}),
    )
    .await
    .is_done();
    // The path of the replicas differs between the versions.
    scale(&server, "v1", "fieldManager=scaler", 3).await.is_done();
    let scaler = |version: &str, name: &str| {
        (
            format!("scaler Update {version}"),
            json!({"f:spec": {(format!("f:{name}")): {}}}),
        )
    };
    let me = ("me Apply v2".to_owned(), json!({"f:spec": {"f:note": {}}}));
    assert_eq!(managers(&server).await, [me.clone(), scaler("v1", "size")]);
    scale(&server, "v3", "fieldManager=other", 4).await.is_done();
    let other = ("other Update v3".to_owned(), json!({"f:spec": {"f:number": {}}}));
    assert_eq!(managers(&server).await, [me, other]);
    let refused = apply(&server, "v1", "fieldManager=you", &json!({"size": 7})).await;
    assert_eq!(
        (refused.code, refused.message()),
        (
            409,
            "Apply failed with 1 conflict: conflict with \"other\" with subresource \"scale\" using example.com/v3: .spec.number"
        )
    );
}

/// Tests that the storage of custom resources cannot convert a Scale without managers.
#[tokio::test]
async fn a_scale_that_nobody_owns_cannot_be_applied() {
    let (server, _hook, _) = start().await;
    apply(&server, "v2", "fieldManager=me", &json!({"note": "x"}))
        .await
        .is_done();
    let path = format!("{}/a/scale?fieldManager=scaler", things("v2"));
    let config = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 2}});
    let send_it = || {
        send(
            &server,
            Method::PATCH,
            &path,
            "application/apply-patch+yaml",
            &config,
        )
    };
    let text = "failed to create manager for existing fields: failed to convert live object (/; autoscaling/v1, Kind=Scale) to proper version: request to convert CR to an invalid group/version: autoscaling/v1";
    let refused = send_it().await;
    assert_eq!((refused.code, refused.message()), (500, text));
    // Writes to such a Scale have no manager, either.
    scale(&server, "v2", "fieldManager=scaler", 2).await.is_done();
    let refused = send_it().await;
    assert_eq!((refused.code, refused.message()), (500, text));
    assert_eq!(
        managers(&server).await,
        owners(&[("me Apply v2", json!({"f:spec": {"f:note": {}}}))])
    );
}

#[tokio::test]
async fn labels_are_given_up_in_another_version() {
    let (server, _hook, _) = start().await;
    let server = &server;
    let with_label = |name: &str| {
        let mut config = thing("v2", name, &json!({"note": "x"}));
        config["metadata"]["labels"] = json!({"a": "b"});
        config
    };
    let send_it = |version: &'static str, name: &'static str, config: Value| {
        let path = format!("{}/{name}?fieldManager=me", things(version));
        async move {
            send(
                server,
                Method::PATCH,
                &path,
                "application/apply-patch+yaml",
                &config,
            )
            .await
        }
    };
    let without_label = |name: &str| thing("v1", name, &json!({"note": "x"}));
    send_it("v2", "b", with_label("b")).await.is_done();
    send_it("v1", "b", without_label("b")).await.is_done();
    let object = get(server, &format!("{}/b", things("v1"))).await.body;
    assert_eq!(object["metadata"].get("labels"), None, "{object}");
}
