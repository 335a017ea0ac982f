//! Tests of the file of `--authentication-config`, and of the flags `--oidc-*`. The errors were recorded from
//! kube-apiserver.

use operator_apiserver::{AuthenticationConfiguration, OidcOptions};
use serde_json::Value;

const RECORDED: &str = include_str!("authentication-configurations.json");

#[test]
fn errors_are_those_of_the_real_server() {
    let recorded: Vec<Value> = serde_json::from_str(RECORDED).unwrap();
    assert!(recorded.len() > 50);
    let issuers = ["https://127.0.0.1:1/".to_owned()];
    let mut differ = Vec::new();
    for case in &recorded {
        let text = case["text"].as_str().unwrap();
        let error = AuthenticationConfiguration::parse(text, "FILE", &issuers).err();
        let expected = case["error"].as_str();
        if error.as_deref() != expected {
            differ.push(format!(
                "{}\n  found    {error:?}\n  expected {expected:?}",
                case["name"]
            ));
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
}

#[test]
fn errors_of_the_flags_are_those_of_the_real_server() {
    let options = |change: fn(&mut OidcOptions)| {
        let mut options = OidcOptions {
            issuer_url: "https://issuer.example".to_owned(),
            client_id: "a".to_owned(),
            ..OidcOptions::default()
        };
        change(&mut options);
        AuthenticationConfiguration::of_flags(&options, &[]).err()
    };
    let together =
        "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set";
    for (error, expected) in [
        (options(|_| {}), None),
        (options(|one| one.client_id.clear()), Some(together)),
        (options(|one| one.issuer_url.clear()), Some(together)),
        (
            options(|one| one.issuer_url = "http://x".to_owned()),
            Some(
                "invalid authentication configuration: jwt[0].issuer.url: Invalid value: \"http://x\": URL scheme must be https",
            ),
        ),
        (
            options(|one| one.signing_algorithms = vec!["HS256".to_owned(), "none".to_owned()]),
            Some("oidc: unsupported signing alg: \"HS256\""),
        ),
        (
            options(|one| one.certificate_authority = "host".to_owned()),
            Some(
                "invalid authentication configuration: jwt[0].issuer.certificateAuthority: Invalid value: \"<omitted>\": data does not contain any valid RSA or ECDSA certificates",
            ),
        ),
        (
            options(|one| one.username_claim = Some(String::new())),
            Some(
                "invalid authentication configuration: jwt[0].claimMappings.username: Required value: claim or expression is required",
            ),
        ),
    ] {
        assert_eq!(error.as_deref(), expected);
    }
}
