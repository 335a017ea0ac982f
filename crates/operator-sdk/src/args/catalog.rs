//! `operator-sdk catalog`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Create and check file-based catalogs for Operator Lifecycle Manager.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum CatalogCommand {
    Init(CatalogInitArgs),
    Add(CatalogAddArgs),
    Render(CatalogRenderArgs),
    Validate(CatalogValidateArgs),
    Diff(CatalogDiffArgs),
    Serve(CatalogServeArgs),
}

/// Create a catalog: write the package document to DIR/catalog.yaml.
#[derive(Clone, Debug, Args)]
pub(crate) struct CatalogInitArgs {
    /// Directory of the catalog.
    pub(crate) dir: PathBuf,
    /// Name of the package.
    #[arg(long, value_name = "NAME")]
    pub(crate) package: String,
    /// Channel of users who choose none.
    #[arg(long, default_value = "alpha", value_name = "CHANNEL")]
    pub(crate) default_channel: String,
    /// File with the description of the package, in Markdown.
    #[arg(long, value_name = "FILE")]
    pub(crate) description: Option<PathBuf>,
}

/// Add a bundle to a catalog and an entry to each of its channels, and validate the result.
///
/// Without --image, the catalog contains the objects of the bundle, and OLM installs it without an image.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Example:\n  operator-sdk catalog add catalog bundle --image registry.example.com/cache-bundle:v0.1.0"
)]
pub(crate) struct CatalogAddArgs {
    /// Directory of the catalog.
    pub(crate) dir: PathBuf,
    /// Directory of the bundle.
    pub(crate) bundle: PathBuf,
    /// Image of the bundle.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "REF")]
    pub(crate) image: String,
    /// Channels to add the bundle to, separated by commas [default: those of the bundle].
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) channels: Vec<String>,
    /// Show what would change, as a diff, and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Output format of a catalog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum CatalogForm {
    /// A stream of JSON documents.
    Json,
    /// A stream of YAML documents.
    #[default]
    Yaml,
    /// The upgrade graphs as a Mermaid diagram.
    Mermaid,
    /// The upgrade graphs as an SVG image.
    Svg,
}

/// Print a catalog, a rendered template or a rendered bundle.
#[derive(Clone, Debug, Args)]
pub(crate) struct CatalogRenderArgs {
    /// Directories of catalogs or bundles, files of catalogs, or templates (olm.semver, olm.template.basic).
    ///
    /// The images of templates are bundle directories: paths relative to the template, or images of the catalog in
    /// --bundles.
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Catalog with the images of templates.
    #[arg(long, value_name = "PATH")]
    pub(crate) bundles: Option<PathBuf>,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t, value_name = "FORM")]
    pub(crate) output: CatalogForm,
}

/// Check a catalog: references between its documents, versions, and the upgrade graph of each channel.
#[derive(Clone, Debug, Args)]
pub(crate) struct CatalogValidateArgs {
    /// Directory or file of the catalog.
    pub(crate) path: PathBuf,
}

/// List the packages, channels, entries and bundles that differ. Exits with 1 if there are differences.
#[derive(Clone, Debug, Args)]
pub(crate) struct CatalogDiffArgs {
    /// Directory or file of the old catalog.
    pub(crate) old: PathBuf,
    /// Directory or file of the new catalog.
    pub(crate) new: PathBuf,
}

/// Serve a catalog with the gRPC API of a registry, until Ctrl-C.
///
/// A CatalogSource with `spec.sourceType: grpc` and `spec.address` calls it. The cluster must be able to reach the
/// address. The API has no TLS and no authentication, as that of `opm serve`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example:\n  operator-sdk catalog serve catalog --address 0.0.0.0:50051")]
pub(crate) struct CatalogServeArgs {
    /// Directory or file of the catalog.
    pub(crate) path: PathBuf,
    /// Address to listen at.
    #[arg(long, default_value = "127.0.0.1:50051", value_name = "HOST:PORT")]
    pub(crate) address: String,
}
