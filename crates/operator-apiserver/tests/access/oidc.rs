//! Tests of tokens of OpenID Connect issuers. kube-apiserver returned the same errors for the same claims.

use std::time::{Duration, SystemTime};

use operator_apiserver::{ApiServer, AuthenticationConfiguration, OidcOptions};
use serde_json::{Value, json};

use crate::asking::get;
use crate::issuer::{Document, Issuer, Key};
use crate::token;

fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    since.as_secs().try_into().unwrap()
}

fn merged(mut base: Value, more: Value) -> Value {
    for (field, value) in more.as_object().unwrap() {
        if value == "ABSENT" {
            base.as_object_mut().unwrap().remove(field);
        } else {
            base[field] = value.clone();
        }
    }
    base
}

fn server(jwt: Value) -> ApiServer {
    let file = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration", "jwt": [jwt],
    });
    let configuration = AuthenticationConfiguration::parse(&file.to_string(), "FILE", &[]).unwrap();
    let builder = ApiServer::builder().api_audiences(["api"]);
    builder.authentication(configuration).build().unwrap()
}

fn jwt(issuer: &Issuer, more: Value) -> Value {
    let base = json!({
        "issuer": {"url": issuer.url(), "audiences": ["a"], "certificateAuthority": issuer.authority},
        "claimMappings": {"username": {"claim": "sub", "prefix": ""}},
    });
    merged(base, more)
}

fn claims(issuer: &Issuer, more: Value) -> Value {
    merged(
        json!({"iss": issuer.url(), "aud": "a", "sub": "jane", "exp": now() + 1000}),
        more,
    )
}

fn refused(why: &str) -> Value {
    json!({"user": {}, "error": format!("[invalid bearer token, oidc: {why}]")})
}

const UNVERIFIED: &str = "verify token: failed to verify signature: failed to verify id token signature";

#[tokio::test]
async fn expressions_map_claims_to_a_user() {
    let key = Key::rsa("r");
    let issuer = Issuer::start(&[&key]).await;
    let server = server(jwt(
        &issuer,
        json!({
            "claimValidationRules": [
                {"claim": "hd", "requiredValue": "ok"},
                {"expression": "claims.exp - claims.nbf <= 86400", "message": "too long"},
            ],
            "claimMappings": {
                "username": {"expression": "claims.sub"}, "groups": {"expression": "claims.roles"},
                "uid": {"expression": "claims.?uid.orValue('')"},
                "extra": [{"key": "example.com/tenant", "valueExpression": "claims.?tenant.orValue('')"}],
            },
            "userValidationRules": [
                {"expression": "!user.username.startsWith('system:')", "message": "username cannot use reserved system: prefix"},
                {"expression": "user.groups.all(g, g != 'bad')"},
            ],
        }),
    ));
    let base = |more: Value| {
        let own = json!({"hd": "ok", "roles": ["dev"], "nbf": now() - 10});
        key.sign("RS256", &merged(claims(&issuer, own), more))
    };
    let known = |user: Value| {
        let user = merged(
            json!({"username": "jane", "groups": ["dev", "system:authenticated"]}),
            user,
        );
        json!({"authenticated": true, "user": user, "audiences": ["api"]})
    };
    for (more, expected) in [
        (
            json!({"tenant": "t", "uid": "7"}),
            known(json!({"uid": "7", "extra": {"example.com/tenant": ["t"]}})),
        ),
        (
            json!({"tenant": ["a", "b", ""]}),
            known(json!({"extra": {"example.com/tenant": ["a", "b"]}})),
        ),
        (
            json!({"roles": "one"}),
            known(json!({"groups": ["one", "system:authenticated"]})),
        ),
        (
            json!({"roles": null}),
            known(json!({"groups": ["system:authenticated"]})),
        ),
        (
            json!({"exp": now() + 1000, "iat": now() + 5000}),
            known(json!({})),
        ),
        (
            json!({"hd": "ABSENT"}),
            refused("required claim hd not present in ID token"),
        ),
        (
            json!({"hd": "no"}),
            refused("required claim hd value does not match. Got = no, want = ok"),
        ),
        (
            json!({"hd": 3}),
            refused("parse claim hd: json: cannot unmarshal number into Go value of type string"),
        ),
        (
            json!({"exp": now() + 90_000}),
            refused(
                "error evaluating claim validation expression: validation expression 'claims.exp - claims.nbf <= 86400' failed: too long",
            ),
        ),
        (
            json!({"nbf": "ABSENT"}),
            refused(
                "error evaluating claim validation expression: expression 'claims.exp - claims.nbf <= 86400' resulted in error: no such key: nbf",
            ),
        ),
        (
            json!({"sub": "ABSENT"}),
            refused(
                "error evaluating username claim expression: expression 'claims.sub' resulted in error: no such key: sub",
            ),
        ),
        (
            json!({"sub": ""}),
            refused("empty username via CEL expression is not allowed"),
        ),
        (
            json!({"sub": 3}),
            refused(
                "verify token: oidc: failed to unmarshal claims: json: cannot unmarshal number into Go struct field idToken.sub of type string",
            ),
        ),
        (
            json!({"roles": [1]}),
            refused(
                "error evaluating group claim expression: expression must return a string or a list of strings",
            ),
        ),
        (
            json!({"uid": 3}),
            refused("error evaluating uid claim expression: uid claim expression must return a string"),
        ),
        (
            json!({"tenant": 1}),
            refused(
                "error evaluating extra claim expression: claims.?tenant.orValue(''): expression must return a string or a list of strings",
            ),
        ),
        (
            json!({"sub": "system:x"}),
            refused(
                "error evaluating user info validation rule: validation expression '!user.username.startsWith('system:')' failed: username cannot use reserved system: prefix",
            ),
        ),
        (
            json!({"roles": ["bad"]}),
            refused(
                "error evaluating user info validation rule: validation expression 'user.groups.all(g, g != 'bad')' failed: ",
            ),
        ),
        (
            json!({"aud": "x"}),
            refused("verify token: oidc: expected audience \"a\" got [\"x\"]"),
        ),
        (
            json!({"aud": "ABSENT"}),
            refused("verify token: oidc: expected audience \"a\" got []"),
        ),
        (
            json!({"aud": 3}),
            refused(
                "verify token: oidc: failed to unmarshal claims: json: cannot unmarshal number into Go struct field idToken.aud of type []string",
            ),
        ),
        (
            json!({"exp": -1}),
            refused("verify token: oidc: token is expired (Token Expiry: 1969-12-31 23:59:59 +0000 UTC)"),
        ),
        (
            json!({"exp": "ABSENT"}),
            refused("verify token: oidc: token is expired (Token Expiry: 0001-01-01 00:00:00 +0000 UTC)"),
        ),
        (
            json!({"exp": "abc"}),
            refused(
                "verify token: oidc: failed to unmarshal claims: json: invalid number literal, trying to unmarshal \"\\\"abc\\\"\" into Number",
            ),
        ),
        (
            json!({"iss": "https://other"}),
            json!({"user": {}, "error": "invalid bearer token"}),
        ),
        (
            json!({"iss": 3}),
            json!({"user": {}, "error": "invalid bearer token"}),
        ),
    ] {
        assert_eq!(token(&server, &base(more.clone()), &[]).await, expected, "{more}");
    }
    let early = token(&server, &base(json!({"nbf": now() + 1000})), &[]).await;
    let why = early["error"].as_str().unwrap();
    assert!(why.contains("before the nbf (not before) time: "), "{why}");
    // The server's audiences differ from the audience of the token.
    let good = base(json!({}));
    assert_eq!(token(&server, &good, &["api"]).await["audiences"], json!(["api"]));
    assert_eq!(
        token(&server, &good, &["a"]).await["error"],
        "invalid bearer token"
    );
}

#[tokio::test]
async fn claims_of_flags_have_prefixes() {
    let key = Key::rsa("r");
    let issuer = Issuer::start(&[&key]).await;
    let options = OidcOptions {
        issuer_url: issuer.url(),
        client_id: "a".to_owned(),
        certificate_authority: issuer.authority.clone(),
        username_claim: Some("email".to_owned()),
        groups_claim: "groups".to_owned(),
        groups_prefix: "g:".to_owned(),
        required_claims: vec![("r".to_owned(), String::new())],
        ..OidcOptions::default()
    };
    let configuration = AuthenticationConfiguration::of_flags(&options, &[]).unwrap();
    let builder = ApiServer::builder().api_audiences(["api"]);
    let server = builder.authentication(configuration).build().unwrap();
    let known = |name: &str, groups: Value| json!({"authenticated": true, "user": {"username": name, "groups": groups}, "audiences": ["api"]});
    for (more, expected) in [
        (
            json!({"email": "a@b", "email_verified": true, "groups": ["x"]}),
            known("a@b", json!(["g:x", "system:authenticated"])),
        ),
        (
            json!({"email": "a@b", "groups": "x"}),
            known("a@b", json!(["g:x", "system:authenticated"])),
        ),
        (
            json!({"email": "a@b"}),
            known("a@b", json!(["system:authenticated"])),
        ),
        (
            json!({}),
            refused("parse username claims \"email\": claim not present"),
        ),
        (
            json!({"email": "a@b", "email_verified": false}),
            refused("email not verified"),
        ),
        (
            json!({"email": "a@b", "email_verified": "true"}),
            refused("parse 'email_verified' claim: json: cannot unmarshal string into Go value of type bool"),
        ),
        (
            json!({"email": 3}),
            refused(
                "parse username claims \"email\": json: cannot unmarshal number into Go value of type string",
            ),
        ),
        (
            json!({"email": "a@b", "groups": 3}),
            refused(
                "parse groups claim \"groups\": json: cannot unmarshal number into Go value of type string",
            ),
        ),
        (
            json!({"email": "a@b", "groups": [3]}),
            refused(
                "parse groups claim \"groups\": json: cannot unmarshal array into Go value of type string",
            ),
        ),
        (
            json!({"email": "a@b", "r": "x"}),
            refused("required claim r value does not match. Got = x, want = "),
        ),
    ] {
        let more = merged(json!({"r": ""}), more);
        let signed = key.sign("RS256", &claims(&issuer, more.clone()));
        assert_eq!(token(&server, &signed, &[]).await, expected, "{more}");
    }
    let other = key.sign("RS384", &claims(&issuer, json!({"email": "a@b"})));
    assert_eq!(
        token(&server, &other, &[]).await,
        refused(
            "verify token: oidc: id token signed with unsupported algorithm, expected [\"RS256\"] got \"RS384\""
        )
    );
}

#[tokio::test]
async fn every_algorithm_is_verified() {
    let (rsa, p256, p384) = (
        Key::rsa("r"),
        Key::elliptic("e", "P-256"),
        Key::elliptic("f", "P-384"),
    );
    let issuer = Issuer::start(&[&rsa, &p256, &p384]).await;
    let server = server(jwt(&issuer, json!({})));
    let signed = claims(&issuer, json!({}));
    for (key, algorithms) in [
        (&rsa, &["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"][..]),
        (&p256, &["ES256"]),
        (&p384, &["ES384"]),
    ] {
        for algorithm in algorithms {
            let text = key.sign(algorithm, &signed);
            assert_eq!(
                token(&server, &text, &[]).await["authenticated"],
                true,
                "{algorithm}"
            );
            // The same signature with another message.
            let (message, signature) = text.rsplit_once('.').unwrap();
            let other = key.sign(algorithm, &claims(&issuer, json!({"sub": "root"})));
            let (other, _) = other.rsplit_once('.').unwrap();
            assert_ne!(message, other);
            let forged = format!("{other}.{signature}");
            assert_eq!(
                token(&server, &forged, &[]).await,
                refused(UNVERIFIED),
                "{algorithm}"
            );
        }
    }
    let anonymous_key = rsa.sign_with(&json!({"alg": "RS256"}), &signed);
    assert_eq!(token(&server, &anonymous_key, &[]).await["authenticated"], true);
}

#[tokio::test]
async fn odd_headers_are_refused() {
    let (rsa, p256) = (Key::rsa("r"), Key::elliptic("e", "P-256"));
    let issuer = Issuer::start(&[&rsa, &p256]).await;
    let server = server(jwt(&issuer, json!({})));
    let signed = claims(&issuer, json!({}));
    let unsupported = |algorithm: &str| {
        refused(&format!(
            "verify token: oidc: id token signed with unsupported algorithm, expected [\"ES256\" \"ES384\" \"ES512\" \"PS256\" \"PS384\" \"PS512\" \"RS256\" \"RS384\" \"RS512\"] got \"{algorithm}\""
        ))
    };
    for (header, expected) in [
        (json!({"alg": "none", "kid": "r"}), unsupported("none")),
        (json!({"alg": "HS256", "kid": "r"}), unsupported("HS256")),
        (json!({"alg": "RS384", "kid": "e"}), refused(UNVERIFIED)),
        (json!({"alg": "ES256", "kid": "r"}), refused(UNVERIFIED)),
        (json!({"alg": "ES512", "kid": "e"}), refused(UNVERIFIED)),
        (json!({"alg": "RS256", "kid": "unknown"}), refused(UNVERIFIED)),
        (
            json!({"alg": "RS256", "kid": "r", "crit": ["x"], "x": 1}),
            refused(UNVERIFIED),
        ),
    ] {
        let text = rsa.sign_with(&header, &signed);
        assert_eq!(token(&server, &text, &[]).await, expected, "{header}");
    }
    let text = rsa.sign("RS256", &signed);
    let padded = token(&server, &format!("{text}="), &[]).await;
    assert_eq!(
        padded,
        refused("verify token: oidc: malformed jwt: illegal base64 data at input byte 342")
    );
}

#[tokio::test]
async fn hostile_tokens_are_refused_quickly() {
    let key = Key::rsa("r");
    let issuer = Issuer::start(&[&key]).await;
    let server = server(jwt(&issuer, json!({})));
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let mut nested = json!(1);
    for _ in 0..100 {
        nested = json!([nested]);
    }
    let part = |text: &str| base64::Engine::encode(&base64::prelude::BASE64_URL_SAFE_NO_PAD, text);
    let unknown = json!({"user": {}, "error": "invalid bearer token"});
    for text in [
        "..".to_owned(),
        ".".repeat(1_000_000),
        "a".repeat(2_000_000),
        format!("e30.{}.e30", part(&deep)),
        format!("e30.{}.e30", part("{")),
        format!("e30.{}.e30", part("[]")),
        key.sign("RS256", &claims(&issuer, json!({"sub": "x"}))) + ".x",
    ] {
        assert_eq!(token(&server, &text, &[]).await, unknown, "{}", text.len());
    }
    let big = key.sign(
        "RS256",
        &claims(&issuer, json!({"more": "x".repeat(1_000_000), "deep": nested})),
    );
    assert_eq!(token(&server, &big, &[]).await["authenticated"], true);
}

#[tokio::test]
async fn new_keys_are_fetched_and_old_ones_are_forgotten() {
    let (old, new) = (Key::elliptic("old", "P-256"), Key::elliptic("new", "P-256"));
    let issuer = Issuer::start(&[&old]).await;
    let server = server(jwt(&issuer, json!({})));
    let signed = claims(&issuer, json!({}));
    for _ in 0..3 {
        let known = token(&server, &old.sign("ES256", &signed), &[]).await;
        assert_eq!(known["authenticated"], true);
    }
    assert_eq!(
        (
            issuer.count("/.well-known/openid-configuration"),
            issuer.count("/keys")
        ),
        (1, 1)
    );
    issuer.set_keys(&[&new]);
    // Keys are not fetched again at once, so that invalid tokens cannot cause endless requests to the issuer.
    let accepted = async {
        while token(&server, &new.sign("ES256", &signed), &[]).await["authenticated"] != true {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), accepted)
        .await
        .unwrap();
    assert_eq!(issuer.count("/keys"), 2);
    assert_eq!(
        token(&server, &old.sign("ES256", &signed), &[]).await,
        refused(UNVERIFIED)
    );
}

#[tokio::test]
async fn a_broken_issuer_refuses_its_tokens_only() {
    const NOT_READY: &str = "authenticator not initialized";
    let key = Key::elliptic("e", "P-256");
    for document in [
        Document::Hang,
        Document::Endless,
        Document::Text(500, "broken"),
        Document::Text(200, "not JSON"),
        Document::Json(json!({"issuer": "https://another"})),
        Document::Redirect("/.well-known/openid-configuration".to_owned()),
        Document::Redirect("http://localhost/".to_owned()),
    ] {
        let issuer = Issuer::start(&[&key]).await;
        let is_slow = matches!(document, Document::Hang);
        issuer.set("/.well-known/openid-configuration", document);
        let server = server(jwt(&issuer, json!({})));
        let text = key.sign("ES256", &claims(&issuer, json!({})));
        let asked = {
            let (server, text) = (server.clone(), text.clone());
            tokio::spawn(async move { token(&server, &text, &[]).await })
        };
        if is_slow {
            while issuer.count("/.well-known/openid-configuration") == 0 {
                tokio::task::yield_now().await;
            }
            // Other requests are served meanwhile.
            assert_eq!(get(&server, "/api/v1/namespaces").await.code, 200);
            assert_eq!(
                token(&server, "other", &[]).await["error"],
                "invalid bearer token"
            );
            assert!(!asked.is_finished());
        }
        assert_eq!(asked.await.unwrap(), refused(NOT_READY));
        // The issuer is not called again at once.
        let calls = issuer.count("/.well-known/openid-configuration");
        assert_eq!(token(&server, &text, &[]).await, refused(NOT_READY));
        assert_eq!(issuer.count("/.well-known/openid-configuration"), calls);
    }
}

#[tokio::test]
async fn the_discovery_document_may_be_elsewhere() {
    let key = Key::elliptic("e", "P-256");
    let issuer = Issuer::start(&[&key]).await;
    let url = format!("{}/tenant", issuer.url());
    let document = json!({"issuer": url, "jwks_uri": format!("{}/keys", issuer.url())});
    issuer.set("/other", Document::Json(document));
    issuer.set("/moved", Document::Redirect(format!("{}/other", issuer.url())));
    let server = server(jwt(
        &issuer,
        json!({"issuer": {
            "url": url, "discoveryURL": format!("{}/moved", issuer.url()),
            "audiences": ["a", "b"], "audienceMatchPolicy": "MatchAny",
            "certificateAuthority": issuer.authority,
        }}),
    ));
    let good = key.sign("ES256", &claims(&issuer, json!({"iss": url, "aud": ["x", "b"]})));
    assert_eq!(token(&server, &good, &[]).await["authenticated"], true);
    let other = key.sign("ES256", &claims(&issuer, json!({"iss": url, "aud": ["x"]})));
    assert_eq!(
        token(&server, &other, &[]).await,
        refused("verify token: oidc: expected audience in [\"a\" \"b\"] got [\"x\"]")
    );
}
