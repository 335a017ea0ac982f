//! The messages of the registry's gRPC API, package `api` of operator-registry. Requests with the same fields share a type.

use prost::Message;

/// Used as `ListPackageRequest` and `ListBundlesRequest`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Empty {}

/// Used as `PackageName`, `GetPackageRequest` and `GetAllReplacementsRequest`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Name {
    #[prost(string, tag = "1")]
    pub(super) name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Channel {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) csv_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Package {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(message, repeated, tag = "2")]
    pub(super) channels: Vec<Channel>,
    #[prost(string, tag = "3")]
    pub(super) default_channel_name: String,
}

/// `GroupVersionKind`, and the requests for the providers of a kind.
#[derive(Clone, PartialEq, Message)]
pub(super) struct GroupVersionKind {
    #[prost(string, tag = "1")]
    pub(super) group: String,
    #[prost(string, tag = "2")]
    pub(super) version: String,
    #[prost(string, tag = "3")]
    pub(super) kind: String,
    #[prost(string, tag = "4")]
    pub(super) plural: String,
}

/// Used as `Dependency` and `Property`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Property {
    #[prost(string, tag = "1")]
    pub(super) kind: String,
    #[prost(string, tag = "2")]
    pub(super) value: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Bundle {
    #[prost(string, tag = "1")]
    pub(super) csv_name: String,
    #[prost(string, tag = "2")]
    pub(super) package_name: String,
    #[prost(string, tag = "3")]
    pub(super) channel_name: String,
    #[prost(string, tag = "4")]
    pub(super) csv_json: String,
    #[prost(string, repeated, tag = "5")]
    pub(super) object: Vec<String>,
    #[prost(string, tag = "6")]
    pub(super) bundle_path: String,
    #[prost(message, repeated, tag = "7")]
    pub(super) provided_apis: Vec<GroupVersionKind>,
    #[prost(message, repeated, tag = "8")]
    pub(super) required_apis: Vec<GroupVersionKind>,
    #[prost(string, tag = "9")]
    pub(super) version: String,
    #[prost(string, tag = "10")]
    pub(super) skip_range: String,
    #[prost(message, repeated, tag = "11")]
    pub(super) dependencies: Vec<Property>,
    #[prost(message, repeated, tag = "12")]
    pub(super) properties: Vec<Property>,
    #[prost(string, tag = "13")]
    pub(super) replaces: String,
    #[prost(string, repeated, tag = "14")]
    pub(super) skips: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ChannelEntry {
    #[prost(string, tag = "1")]
    pub(super) package_name: String,
    #[prost(string, tag = "2")]
    pub(super) channel_name: String,
    #[prost(string, tag = "3")]
    pub(super) bundle_name: String,
    #[prost(string, tag = "4")]
    pub(super) replaces: String,
}

/// Used as `GetBundleRequest` and `GetBundleInChannelRequest`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct BundleRequest {
    #[prost(string, tag = "1")]
    pub(super) package: String,
    #[prost(string, tag = "2")]
    pub(super) channel: String,
    #[prost(string, tag = "3")]
    pub(super) csv_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct GetReplacementRequest {
    #[prost(string, tag = "1")]
    pub(super) csv_name: String,
    #[prost(string, tag = "2")]
    pub(super) package: String,
    #[prost(string, tag = "3")]
    pub(super) channel: String,
}

/// The message `grpc.health.v1.HealthCheckResponse`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct HealthCheckResponse {
    /// The status; 1 is SERVING.
    #[prost(int32, tag = "1")]
    pub(super) status: i32,
}
