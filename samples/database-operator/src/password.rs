// SPDX-License-Identifier: Apache-2.0

//! Secrets with generated passwords.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ObjectMeta;

/// Returns a Secret with a user name, a new password and a host.
pub fn secret(name: &str, username: &str, host: &str) -> io::Result<Secret> {
    let data = BTreeMap::from([
        ("username".to_owned(), ByteString(username.into())),
        ("password".to_owned(), ByteString(generate()?.into())),
        ("host".to_owned(), ByteString(host.into())),
    ]);
    Ok(Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..Default::default()
        },
        data: Some(data),
        ..Default::default()
    })
}

/// Returns 128 random bits in hexadecimal.
fn generate() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
