//! Tests of Service addresses in clusters with one and with two families, with the responses of a real API server
//! (1.36).
#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod asking;

use asking::{delete, get, merge, post};
use operator_apiserver::ApiServer;
use serde_json::{Value, json};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
const RANGES: &str = "/apis/networking.k8s.io/v1/servicecidrs";
const PREFER: &str = "PreferDualStack";
const REQUIRE: &str = "RequireDualStack";
const SINGLE: &str = "SingleStack";

fn cluster(ranges: &str) -> ApiServer {
    let network = ranges.parse().unwrap();
    ApiServer::builder().service_network(network).build().unwrap()
}

fn dual() -> ApiServer {
    cluster("10.0.0.0/24,fd00:10::/112")
}

fn spec(more: &Value) -> Value {
    let mut spec = json!({"ports": [{"port": 80}], "selector": {"a": "b"}});
    let fields = spec.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    fields.retain(|_, value| !value.is_null());
    spec
}

/// Returns the policy, the families of `ipFamilies`, and those of `clusterIPs` (`n` means `None`); or the error.
fn summary(body: &Value) -> String {
    if body["kind"] == "Status" {
        let message = body["message"].as_str().unwrap();
        return message.split_once("is invalid: ").unwrap().1.to_owned();
    }
    let spec = &body["spec"];
    let names = |field: &str, name: fn(&str) -> &str| -> String {
        let list = spec[field].as_array().into_iter().flatten();
        list.map(|value| name(value.as_str().unwrap())).collect()
    };
    let families = names("ipFamilies", |family| family.trim_start_matches("IPv"));
    let addresses = names("clusterIPs", |address| match address {
        "None" => "n",
        address if address.contains(':') => "6",
        _ => "4",
    });
    assert_eq!(spec["clusterIP"], spec["clusterIPs"][0]);
    format!(
        "{} {families} {addresses}",
        spec["ipFamilyPolicy"].as_str().unwrap_or_default()
    )
}

async fn create(server: &ApiServer, name: &str, more: &Value) -> Value {
    let service = json!({"metadata": {"name": name}, "spec": spec(more)});
    post(server, SERVICES, service).await.body
}

async fn addresses_of(server: &ApiServer, service: &str) -> Vec<String> {
    let list = get(server, ADDRESSES).await.body;
    let items = list["items"].as_array().unwrap().iter();
    let own = items.filter(|item| item["spec"]["parentRef"]["name"] == service);
    own.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn services_get_the_families_of_their_policy() {
    let (single, dual) = (cluster("10.0.0.0/24"), dual());
    let none = |policy: &str| json!({"ipFamilyPolicy": policy, "clusterIP": "None"});
    let open = |more: Value| {
        let mut open = json!({"clusterIP": "None", "selector": null});
        open.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        open
    };
    let no_dual = "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services";
    let no_v6 = "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster";
    let both = format!("[{no_dual}, {no_v6}]");
    let many = "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified";
    let no_v6_address =
        "spec.clusterIPs[0]: Invalid value: [\"fd00:10::99\"]: IPv6 is not configured on this cluster";
    let cases = [
        (json!({}), "SingleStack 4 4", "SingleStack 4 4"),
        (
            json!({"ipFamilyPolicy": PREFER}),
            "PreferDualStack 4 4",
            "PreferDualStack 46 46",
        ),
        (
            json!({"ipFamilyPolicy": PREFER, "ipFamilies": ["IPv6"]}),
            no_v6,
            "PreferDualStack 64 64",
        ),
        (
            json!({"ipFamilyPolicy": PREFER, "ipFamilies": ["IPv6", "IPv4"]}),
            no_v6,
            "PreferDualStack 64 64",
        ),
        (
            json!({"ipFamilyPolicy": PREFER, "clusterIP": "10.0.0.99"}),
            "PreferDualStack 4 4",
            "PreferDualStack 46 46",
        ),
        (
            json!({"ipFamilyPolicy": PREFER, "clusterIP": "fd00:10::99"}),
            no_v6_address,
            "PreferDualStack 64 64",
        ),
        (none(PREFER), "PreferDualStack 4 n", "PreferDualStack 46 n"),
        (
            json!({"ipFamilyPolicy": REQUIRE}),
            no_dual,
            "RequireDualStack 46 46",
        ),
        (
            json!({"ipFamilyPolicy": REQUIRE, "ipFamilies": ["IPv6"]}),
            &both,
            "RequireDualStack 64 64",
        ),
        (none(REQUIRE), no_dual, "RequireDualStack 46 n"),
        (
            json!({"ipFamilyPolicy": SINGLE, "ipFamilies": ["IPv6"]}),
            no_v6,
            "SingleStack 6 6",
        ),
        (
            json!({"ipFamilyPolicy": SINGLE, "ipFamilies": ["IPv6", "IPv4"]}),
            many,
            many,
        ),
        (json!({"ipFamilies": ["IPv6", "IPv4"]}), many, many),
        (
            json!({"clusterIP": "fd00:10::99"}),
            no_v6_address,
            "SingleStack 6 6",
        ),
        (none(SINGLE), "SingleStack 4 n", "SingleStack 4 n"),
        (open(json!({})), "RequireDualStack 46 n", "RequireDualStack 46 n"),
        (
            open(json!({"ipFamilies": ["IPv6"]})),
            "RequireDualStack 64 n",
            "RequireDualStack 64 n",
        ),
        (
            open(json!({"ipFamilyPolicy": PREFER})),
            "PreferDualStack 46 n",
            "PreferDualStack 46 n",
        ),
        (
            open(json!({"ipFamilyPolicy": SINGLE, "ipFamilies": ["IPv6"]})),
            "SingleStack 6 n",
            "SingleStack 6 n",
        ),
    ];
    for (more, in_single, in_dual) in cases {
        for (server, expected) in [(&single, in_single), (&dual, in_dual)] {
            let made = create(server, "s", &more).await;
            assert_eq!(summary(&made), expected, "{more}");
            if made["kind"] != "Status" {
                delete(server, &format!("{SERVICES}/s")).await.is_done();
            }
        }
    }
}

#[tokio::test]
async fn an_update_of_the_policy_adds_and_releases_the_second_address() {
    let server = dual();
    let cases = [
        (
            json!({}),
            json!({"ipFamilyPolicy": PREFER}),
            "PreferDualStack 46 46",
        ),
        (
            json!({}),
            json!({"ipFamilyPolicy": REQUIRE}),
            "RequireDualStack 46 46",
        ),
        (
            json!({"ipFamilyPolicy": REQUIRE}),
            json!({"ipFamilyPolicy": SINGLE}),
            "SingleStack 4 4",
        ),
        (
            json!({"ipFamilyPolicy": PREFER}),
            json!({"ipFamilyPolicy": SINGLE}),
            "SingleStack 4 4",
        ),
        (
            json!({"ipFamilyPolicy": REQUIRE}),
            json!({"ipFamilyPolicy": null}),
            "RequireDualStack 46 46",
        ),
        (
            json!({"ipFamilyPolicy": REQUIRE}),
            json!({"clusterIP": ""}),
            "RequireDualStack 46 46",
        ),
        (
            json!({"clusterIP": "10.0.0.50"}),
            json!({"ipFamilyPolicy": PREFER, "clusterIPs": ["10.0.0.50", "fd00:10::51"]}),
            "PreferDualStack 46 46",
        ),
        (
            json!({}),
            json!({"ipFamilies": ["IPv4", "IPv6"]}),
            "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified",
        ),
        (
            json!({"clusterIP": "None"}),
            json!({"ipFamilyPolicy": PREFER}),
            "PreferDualStack 46 n",
        ),
        (
            json!({"clusterIP": "None", "ipFamilyPolicy": REQUIRE}),
            json!({"ipFamilyPolicy": SINGLE}),
            "SingleStack 4 n",
        ),
        (
            json!({"clusterIP": "None"}),
            json!({"ipFamilies": ["IPv6"]}),
            "SingleStack 6 n",
        ),
    ];
    for (first, change, expected) in cases {
        let made = create(&server, "s", &first).await;
        assert_eq!(made["kind"], "Service", "{made}");
        let path = format!("{SERVICES}/s");
        let changed = merge(&server, &path, json!({"spec": change})).await.body;
        assert_eq!(summary(&changed), expected, "{first} {change}");
        let live = get(&server, &path).await.body;
        let own = live["spec"]["clusterIPs"].as_array().unwrap().iter();
        let mut own: Vec<&str> = own
            .map(|ip| ip.as_str().unwrap())
            .filter(|ip| *ip != "None")
            .collect();
        own.sort_unstable();
        assert_eq!(addresses_of(&server, "s").await, own, "{first} {change}");
        delete(&server, &path).await.is_done();
        assert!(addresses_of(&server, "s").await.is_empty());
    }
}

#[tokio::test]
async fn each_address_of_a_service_has_an_object() {
    let server = cluster("10.0.0.0/24");
    let made = create(&server, "s", &json!({})).await;
    let address = made["spec"]["clusterIP"].as_str().unwrap();
    let mut object = get(&server, &format!("{ADDRESSES}/{address}")).await.body;
    object["metadata"] = object["metadata"]["labels"].take();
    assert_eq!(
        object,
        json!({
            "kind": "IPAddress", "apiVersion": "networking.k8s.io/v1",
            "metadata": {
                "ipaddress.kubernetes.io/ip-family": "IPv4",
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            },
            "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "s"}},
        })
    );
    let external = json!({"spec": {"type": "ExternalName", "externalName": "a.b"}});
    merge(&server, &format!("{SERVICES}/s"), external).await.is_done();
    assert!(addresses_of(&server, "s").await.is_empty());
    // An address with another owner is taken.
    let mine = json!({
        "metadata": {"name": "10.0.0.77"},
        "spec": {"parentRef": {"resource": "things", "group": "example.com", "name": "t"}},
    });
    post(&server, ADDRESSES, mine).await.is_done();
    let taken = create(&server, "t", &json!({"clusterIP": "10.0.0.77"})).await;
    assert_eq!(
        summary(&taken),
        "spec.clusterIPs: Invalid value: [\"10.0.0.77\"]: failed to allocate IP 10.0.0.77: provided IP is already allocated"
    );
}

#[tokio::test]
async fn further_ranges_extend_the_cluster() {
    let server = cluster("10.0.0.0/29");
    let outside = |name: &'static str, ip: &'static str| create_with(&server, name, ip);
    for ip in ["10.0.0.0", "10.0.0.7", "10.9.0.1"] {
        let why = format!(
            "spec.clusterIPs: Invalid value: [\"{ip}\"]: failed to allocate IP {ip}: the provided network does not match the current range"
        );
        assert_eq!(outside("s", ip).await, why);
    }
    // One of the six addresses belongs to `kubernetes`.
    for index in 0..5 {
        let made = create(&server, &format!("s{index}"), &json!({})).await;
        assert_eq!(made["kind"], "Service", "{made}");
    }
    let full = create(&server, "full", &json!({})).await;
    assert!(
        full["message"].as_str().unwrap().ends_with("range is full"),
        "{full}"
    );
    let more = json!({"metadata": {"name": "more"}, "spec": {"cidrs": ["10.9.0.0/28"]}});
    post(&server, RANGES, more).await.is_done();
    assert_eq!(outside("given", "10.9.0.1").await, "SingleStack 4 4");
    let drawn = create(&server, "drawn", &json!({})).await;
    assert!(
        drawn["spec"]["clusterIP"]
            .as_str()
            .unwrap()
            .starts_with("10.9.0."),
        "{drawn}"
    );
    delete(&server, &format!("{RANGES}/more")).await.is_done();
    let full = create(&server, "full", &json!({})).await;
    assert!(
        full["message"].as_str().unwrap().ends_with("range is full"),
        "{full}"
    );
}

async fn create_with(server: &ApiServer, name: &str, address: &str) -> String {
    summary(&create(server, name, &json!({"clusterIP": address})).await)
}

#[tokio::test]
async fn the_service_of_the_server_has_the_first_family() {
    let server = cluster("fd00:10::/112,10.0.0.0/24");
    let kubernetes = get(&server, &format!("{SERVICES}/kubernetes")).await.body;
    assert_eq!(summary(&kubernetes), "SingleStack 6 6");
    assert_eq!(addresses_of(&server, "kubernetes").await, ["fd00:10::1"]);
    let range = get(&server, &format!("{RANGES}/kubernetes")).await.body;
    assert_eq!(range["spec"]["cidrs"], json!(["fd00:10::/112", "10.0.0.0/24"]));
    assert_eq!(
        summary(&create(&server, "s", &json!({"ipFamilyPolicy": PREFER})).await),
        "PreferDualStack 64 64"
    );
}
