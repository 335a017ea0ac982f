//! `build`: builds the image of the operator, with a container engine or without one.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::scaffold::current_directory;
use crate::args::{BuildArgs, BuilderArg};
use crate::failure::{Failure, Hinted};
use crate::oci::elf::{self, ElfError};
use crate::oci::reference::Reference;
use crate::oci::{AddedFile, Contents, ContentsError, Image};
use crate::plan::sdk;
use crate::process::cargo::{self, BuildOptions};
use crate::process::engine::Engine;
use crate::process::registry::Repository;
use crate::project::{Project, layout};
use crate::report::Report;

/// An error of building an image.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImageError {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("cannot put {} into an image: {source}", path.display())]
    Program { path: PathBuf, source: ElfError },
    #[error("`{0}` is for Go programs")]
    Go(&'static str),
    #[error("the label {0:?} is not of the form KEY=VALUE")]
    Label(String),
    #[error("the file {0:?} is not of the form FILE:PATH")]
    Add(String),
    #[error(transparent)]
    Contents(#[from] ContentsError),
    #[error("SOURCE_DATE_EPOCH is {0:?}, which is not a number of seconds")]
    Epoch(String),
    #[error("`{0}` is for `--builder oci`, and {1} builds the image here")]
    OtherBuilder(&'static str, &'static str),
    #[error("`--image-build-args` is for docker, podman and buildah, which `--builder oci` does not use")]
    NoEngine,
    #[error("{0:?} has an unclosed quote")]
    Quote(String),
}

impl Hinted for ImageError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::File { .. } => "check the path and your permissions".to_owned(),
            Self::Program { .. } => {
                "build it for a musl target, or with RUSTFLAGS=\"-C target-feature=+crt-static\" and an explicit `--target`"
                    .to_owned()
            }
            Self::Go(_) => "pass arguments to cargo with `--cargo-build-args`".to_owned(),
            Self::Add(_) => {
                "write it as in `--add /etc/ssl/certs/ca-certificates.crt:/etc/ssl/certs/ca-certificates.crt`".to_owned()
            }
            Self::Contents(_) => "give each file an absolute path of its own, such as /usr/bin/manager".to_owned(),
            Self::Label(_) => "write it as in `--label team=blue`".to_owned(),
            Self::Epoch(_) => "set it to seconds since 1970, such as the time of a commit, or unset it".to_owned(),
            Self::OtherBuilder(..) => "add `--builder oci`, or omit the flag".to_owned(),
            Self::NoEngine => "omit it, or choose an engine with `--builder`".to_owned(),
            Self::Quote(_) => "write the arguments as in a shell".to_owned(),
        })
    }
}

/// The builder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Builder {
    Engine(Engine),
    Oci,
}

/// The program of an image, and the default file for the image.
struct Source {
    program: PathBuf,
    output: PathBuf,
}

/// Runs `operator-sdk build` in the current directory.
pub(crate) fn build(args: &BuildArgs, report: &Report) -> Result<(), Failure> {
    let directory = current_directory()?;
    let reference = Reference::parse(&args.image)?;
    if args.go_build_args.is_some() {
        return Err(ImageError::Go("--go-build-args").into());
    }
    let takes_binary = matches!(args.builder, BuilderArg::Auto | BuilderArg::Oci);
    if let Some(binary) = args.binary.as_ref().filter(|_| takes_binary)
        && !directory.join(layout::PROJECT).exists()
    {
        let name = reference.name.rsplit('/').next().unwrap_or_default();
        let source = || {
            Ok(Source {
                program: binary.clone(),
                output: format!("{name}.tar").into(),
            })
        };
        return oci(args, &reference, source, report);
    }
    let project = Project::read(&directory)?;
    match builder_of(args, &project, report) {
        Builder::Engine(engine) => with_engine(args, &project, engine, report),
        Builder::Oci => oci(args, &reference, || program_of(args, &project), report),
    }
}

fn builder_of(args: &BuildArgs, project: &Project, report: &Report) -> Builder {
    match args.builder {
        BuilderArg::Docker => Builder::Engine(Engine::Docker),
        BuilderArg::Podman => Builder::Engine(Engine::Podman),
        BuilderArg::Buildah => Builder::Engine(Engine::Buildah),
        BuilderArg::Oci => Builder::Oci,
        BuilderArg::Auto if wants_oci(args) => Builder::Oci,
        BuilderArg::Auto if is_out_of_reach(project) => {
            report.progress(
                "The project uses crates outside its directory, which a container build cannot read: building the image without an engine (--builder oci).",
            );
            Builder::Oci
        }
        BuilderArg::Auto => match Engine::ALL.into_iter().find(|engine| engine.works()) {
            Some(engine) => Builder::Engine(engine),
            None => {
                report.progress(
                    "No working container engine was found: building the image without one (--builder oci).",
                );
                Builder::Oci
            }
        },
    }
}

fn wants_oci(args: &BuildArgs) -> bool {
    oci_flag(args).is_some()
}

/// Returns the first flag that is only valid without an engine.
fn oci_flag(args: &BuildArgs) -> Option<&'static str> {
    let flags = [
        ("--output", args.output.is_some()),
        ("--binary", args.binary.is_some()),
        ("--target", args.target.is_some()),
        ("--insecure", args.insecure),
        ("--entrypoint", args.entrypoint.is_some()),
        ("--add", !args.files.is_empty()),
        ("--label", !args.labels.is_empty()),
        ("--cargo-build-args", args.cargo_build_args.is_some()),
    ];
    flags.iter().find(|(_, given)| *given).map(|(flag, _)| *flag)
}

/// Returns true if the project uses crates outside its directory, which a container build cannot read.
fn is_out_of_reach(project: &Project) -> bool {
    let is_outside = |(_, path): &(String, String)| path.starts_with("..") || path.starts_with('/');
    let uses_checkout = project
        .tree
        .get(sdk::CONFIG)
        .and_then(sdk::patched_path)
        .is_some();
    uses_checkout || path_dependencies(project).iter().any(is_outside)
}

/// Returns the path dependencies of Cargo.toml: names and paths.
fn path_dependencies(project: &Project) -> Vec<(String, String)> {
    let manifest = project.tree.get("Cargo.toml").unwrap_or_default();
    let document: toml_edit::DocumentMut = manifest.parse().unwrap_or_default();
    let tables = ["dependencies", "dev-dependencies", "build-dependencies"];
    let items = tables
        .iter()
        .filter_map(|name| document.get(name)?.as_table_like());
    let path_of = |item: &toml_edit::Item| Some(item.as_table_like()?.get("path")?.as_str()?.to_owned());
    items
        .flat_map(|table| table.iter())
        .filter_map(|(name, item)| Some((name.to_owned(), path_of(item)?)))
        .collect()
}

fn with_engine(args: &BuildArgs, project: &Project, engine: Engine, report: &Report) -> Result<(), Failure> {
    if let Some(flag) = oci_flag(args) {
        return Err(ImageError::OtherBuilder(flag, engine.program()).into());
    }
    let arguments = words(args.image_build_args.as_deref().unwrap_or_default())?;
    engine.build(&project.root, &args.image, &arguments)?;
    if args.push {
        engine.push(&project.root, &args.image)?;
    }
    report.line(&format!("{} was built with {}", args.image, engine.program()));
    Ok(())
}

fn oci(
    args: &BuildArgs,
    reference: &Reference,
    source: impl FnOnce() -> Result<Source, Failure>,
    report: &Report,
) -> Result<(), Failure> {
    if args.image_build_args.is_some() {
        return Err(ImageError::NoEngine.into());
    }
    let labels = args
        .labels
        .iter()
        .map(|label| label_of(label))
        .collect::<Result<_, _>>()?;
    let files = args
        .files
        .iter()
        .map(|file| added(file))
        .collect::<Result<_, _>>()?;
    let created = created()?;
    let Source {
        program: path,
        output,
    } = source()?;
    let program = read(&path)?;
    let found = elf::check(&program).map_err(|source| ImageError::Program {
        path: path.clone(),
        source,
    })?;
    let image = Image::new(&Contents {
        program: &program,
        entrypoint: args.entrypoint.as_deref().unwrap_or("/manager"),
        files,
        architecture: found.architecture,
        created,
        labels,
    })
    .map_err(ImageError::from)?;
    if args.output.is_some() || !args.push {
        let file = args.output.as_ref().unwrap_or(&output);
        write(file, &image.layout(&reference.name, &reference.tag))?;
        report.line(&format!("wrote {} with {}", file.display(), args.image));
    }
    if args.push {
        super::block_on(async {
            let mut repository = Repository::open(reference, args.insecure)?;
            repository.push(&image).await?;
            Ok(())
        })?;
        report.line(&format!("{} was pushed", args.image));
    }
    report.line(&format!("{}@{}", reference.name, image.manifest.digest));
    Ok(())
}

/// Returns the given program, or builds the program of the project.
fn program_of(args: &BuildArgs, project: &Project) -> Result<Source, Failure> {
    let program = match &args.binary {
        Some(path) => path.clone(),
        None => {
            let arguments = words(args.cargo_build_args.as_deref().unwrap_or_default())?;
            let options = static_options(&project.root, args.target.as_deref(), arguments);
            cargo::build(&project.root, &options)?
        }
    };
    let name = format!("target/oci/{}.tar", project.config.project_name);
    Ok(Source {
        program,
        output: project.root.join(name),
    })
}

/// Returns the options for a static program for this machine: with musl if the toolchain supports it, otherwise with
/// statically linked glibc.
fn static_options(root: &Path, target: Option<&str>, arguments: Vec<String>) -> BuildOptions {
    let architecture = std::env::consts::ARCH;
    let musl = format!("{architecture}-unknown-linux-musl");
    let target = match target {
        Some(target) => target.to_owned(),
        None if cargo::builds_for_musl(&musl) => musl,
        None => format!("{architecture}-unknown-linux-gnu"),
    };
    let home =
        std::env::var("CARGO_HOME").or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")));
    // Removes paths of this machine, so that the program does not depend on the directory in which it is built.
    let mut flags = vec![
        "-Ctarget-feature=+crt-static".to_owned(),
        format!("--remap-path-prefix={}=.", root.display()),
    ];
    flags.extend(home.map(|home| format!("--remap-path-prefix={home}=cargo")));
    BuildOptions {
        release: true,
        target: Some(target),
        flags,
        arguments,
        ..BuildOptions::default()
    }
}

/// Returns `SOURCE_DATE_EPOCH` in the format of images.
pub(crate) fn created() -> Result<Option<String>, ImageError> {
    let Ok(text) = std::env::var("SOURCE_DATE_EPOCH") else {
        return Ok(None);
    };
    let wrong = || ImageError::Epoch(text.clone());
    let seconds: i64 = text.parse().map_err(|_| wrong())?;
    let time = jiff::Timestamp::from_second(seconds).map_err(|_| wrong())?;
    Ok(Some(time.to_string()))
}

fn label_of(text: &str) -> Result<(String, String), ImageError> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(ImageError::Label(text.to_owned())),
    }
}

/// Reads the file of `--add FILE:PATH`. A path in an image has no colon.
fn added(text: &str) -> Result<AddedFile, ImageError> {
    let (file, path) = text
        .rsplit_once(':')
        .filter(|(file, path)| !file.is_empty() && path.starts_with('/'))
        .ok_or_else(|| ImageError::Add(text.to_owned()))?;
    let bytes = read(Path::new(file))?;
    let executable = fs::metadata(file).is_ok_and(|metadata| metadata.permissions().mode() & 0o111 != 0);
    Ok(AddedFile {
        path: path.to_owned(),
        bytes,
        executable,
    })
}

/// Splits a text into words, with quotes as in a shell.
pub(crate) fn words(text: &str) -> Result<Vec<String>, ImageError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for character in text.chars() {
        match (quote, character) {
            (Some(mark), _) if mark == character => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(character),
            (None, '"' | '\'') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, _) if character.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(character),
        }
    }
    if quote.is_some() {
        return Err(ImageError::Quote(text.to_owned()));
    }
    words.extend(word);
    Ok(words)
}

fn read(path: &Path) -> Result<Vec<u8>, ImageError> {
    fs::read(path).map_err(|source| ImageError::File {
        path: path.to_owned(),
        source,
    })
}

pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), ImageError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let made = folder.map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| fs::write(path, bytes))
        .map_err(|source| ImageError::File {
            path: path.to_owned(),
            source,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_a_shell() {
        let of = |text: &str| words(text).unwrap();
        assert_eq!(of(""), Vec::<String>::new());
        assert_eq!(
            of("--build-arg A=b  --no-cache"),
            ["--build-arg", "A=b", "--no-cache"]
        );
        assert_eq!(of("--label 'a b' \"\" x\"y z\""), ["--label", "a b", "", "xy z"]);
        assert!(matches!(words("'a"), Err(ImageError::Quote(_))));
    }
}
