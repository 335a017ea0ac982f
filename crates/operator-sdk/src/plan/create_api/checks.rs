//! Checks the arguments of `create api` against the project.

use operator_manifests::config::Kind;

use super::super::PlanError;
use crate::args::{CreateApiArgs, ImageArgs};
use crate::names;
use crate::project::layout::Place;
use crate::project::{Config, Project, Resource, builtin, layout};
use crate::template::{self, ApiValues, ImageValues};

/// The default maximum of `size` in the type of a complete controller.
const SIZE_MAX: i32 = 5;

/// The parts to write.
pub(crate) struct Wanted {
    pub(crate) api: ApiValues,
    pub(crate) place: Place,
    pub(crate) kind: Kind,
    pub(crate) domain: String,
    pub(crate) module: Option<String>,
    pub(crate) resource: bool,
    pub(crate) controller: bool,
}

/// The origin of a kind.
enum Origin<'a> {
    /// A kind of this project.
    Own,
    /// A kind of Kubernetes.
    Core(&'static builtin::Builtin),
    /// A kind of another project, with its type in this module.
    External(&'a str),
}

pub(crate) fn checked(args: &CreateApiArgs, project: &Project) -> Result<Wanted, PlanError> {
    let config = &project.config;
    names::check_version(&args.version)?;
    names::check_kind_syntax(&args.kind)?;
    if let Some(name) = &args.controller_name {
        names::check_controller(name)?;
    }
    let origin = origin_of(args, project)?;
    let there = config.find(&args.group, &args.version, &args.kind);
    let (resource, controller) = parts(args, project, &origin);
    if !resource && !controller {
        return Err(PlanError::Usage(
            "`--resource=false --controller=false` leaves nothing to write".to_owned(),
            "omit one of them",
        ));
    }
    check_origin(args, project, &origin, resource)?;
    check_presence(args, there, resource, controller)?;
    if resource {
        check_same_name(args, project)?;
    }
    let api = values(args, project, &origin, resource)?;
    let domain = match origin {
        Origin::Own => config.domain.clone(),
        Origin::Core(kind) => kind.domain.to_owned(),
        Origin::External(_) => args.external.external_api_domain.clone().unwrap_or_default(),
    };
    let kind = Kind {
        group: api.group.clone(),
        api_group: api.api_group.clone(),
        version: api.version.clone(),
        kind: api.kind.clone(),
        plural: api.plural.clone(),
        defined: resource,
        ..Kind::default()
    };
    Ok(Wanted {
        place: Place::of(config, &args.group, &args.version, &args.kind),
        kind,
        domain,
        module: args.external.external_api_module.clone(),
        resource,
        controller,
        api,
    })
}

fn origin_of<'a>(args: &'a CreateApiArgs, project: &Project) -> Result<Origin<'a>, PlanError> {
    if let Some(path) = &args.external.external_api_path {
        if syn::parse_str::<syn::Path>(path).is_err() {
            return Err(PlanError::Usage(
                format!("{path:?} is not the path of a Rust module"),
                "write it as `--external-api-path cert_manager::v1`",
            ));
        }
        return Ok(Origin::External(path));
    }
    let known = project.config.find(&args.group, &args.version, &args.kind);
    let own = known.is_some_and(|resource| resource.api.is_some());
    if own || args.resource == Some(true) || !builtin::has_group(&args.group) {
        return Ok(Origin::Own);
    }
    match builtin::find(&args.group, &args.version, &args.kind) {
        Some(kind) => Ok(Origin::Core(kind)),
        None if args.resource.is_none() => Ok(Origin::Own),
        None => Err(PlanError::Usage(
            format!(
                "Kubernetes has no watchable kind {} in {}/{}",
                args.kind, args.group, args.version
            ),
            "list its kinds with `kubectl api-resources`",
        )),
    }
}

/// Returns true for each of the type and the controller if it is written: as given, or by default.
fn parts(args: &CreateApiArgs, project: &Project, origin: &Origin<'_>) -> (bool, bool) {
    let own = matches!(origin, Origin::Own);
    let reconciled = project.config.resources.iter().any(|resource| {
        resource.is_kind(&args.group, &args.kind)
            && resource.version != args.version
            && resource.has_controller()
    });
    let further = args.controller_name.is_some() && own && args.resource.is_none();
    (
        args.resource.unwrap_or(own && !further),
        args.controller
            .unwrap_or(!reconciled || args.controller_name.is_some()),
    )
}

fn check_origin(
    args: &CreateApiArgs,
    project: &Project,
    origin: &Origin<'_>,
    resource: bool,
) -> Result<(), PlanError> {
    if matches!(origin, Origin::Own) {
        names::check_group(&args.group, &project.config.domain)?;
        names::check_kind(&args.kind)?;
        return Ok(());
    }
    if resource {
        return Err(PlanError::Usage(
            format!("the type of {} belongs to another project", args.kind),
            "omit `--resource`, or choose another group for your own kind",
        ));
    }
    if args.image.image.is_some() {
        return Err(PlanError::Usage(
            "`--image` needs a kind of this project".to_owned(),
            "omit `--image`",
        ));
    }
    Ok(())
}

/// Checks that the kind does not exist, unless `--force` is given. Its controller may be added later.
fn check_presence(
    args: &CreateApiArgs,
    there: Option<&Resource>,
    resource: bool,
    controller: bool,
) -> Result<(), PlanError> {
    let name = format!("{}/{} {}", args.group, args.version, args.kind);
    let has_type = there.is_some_and(|there| there.api.is_some() || there.core || there.external);
    let foreign = args.external.external_api_path.is_some()
        || builtin::find(&args.group, &args.version, &args.kind).is_some();
    if !resource && !has_type && !foreign {
        return Err(PlanError::NoSuchKind(name));
    }
    let has_controller = there.is_some_and(|there| match &args.controller_name {
        None => there.has_controller(),
        Some(name) => there.controllers.iter().any(|there| there.name == *name),
    });
    let again = (resource && has_type) || (controller && has_controller);
    if again && !args.force {
        Err(PlanError::AlreadyThere(name))
    } else {
        Ok(())
    }
}

/// Checks module names: in a project with a single group, two groups cannot have the same kind.
fn check_same_name(args: &CreateApiArgs, project: &Project) -> Result<(), PlanError> {
    let module = names::snake_case(&args.kind);
    let clash = project.config.resources.iter().find(|resource| {
        let same_kind = resource.is_kind(&args.group, &args.kind);
        let apart = project.config.multigroup && resource.group != args.group;
        names::snake_case(&resource.kind) == module && !same_kind && !apart
    });
    let Some(other) = clash else { return Ok(()) };
    let hint = if other.group == args.group {
        "choose another kind: the two names differ only in case"
    } else {
        "choose another kind, or put kinds into directories by group with `operator-sdk edit --multigroup`"
    };
    Err(PlanError::Usage(
        format!(
            "the project already has a kind {}, in {}/{}",
            other.kind, other.group, other.version
        ),
        hint,
    ))
}

/// Checks that no other kind of the group has the plural, which is part of API paths.
fn check_plural_is_free(args: &CreateApiArgs, config: &Config, plural: &str) -> Result<(), PlanError> {
    let mut others = config.resources.iter();
    let other =
        others.find(|there| there.group == args.group && there.kind != args.kind && there.plural() == plural);
    match other {
        None => Ok(()),
        Some(other) => Err(PlanError::Usage(
            format!(
                "the plural \"{plural}\" is already used by {} in {}/{}",
                other.kind, other.group, other.version
            ),
            "choose another one with `--plural`",
        )),
    }
}

fn values(
    args: &CreateApiArgs,
    project: &Project,
    origin: &Origin<'_>,
    resource: bool,
) -> Result<ApiValues, PlanError> {
    let config = &project.config;
    let versions: Vec<&Resource> = config
        .resources
        .iter()
        .filter(|there| there.is_kind(&args.group, &args.kind))
        .collect();
    let plural = plural(args, origin, &versions)?;
    if resource {
        check_plural_is_free(args, config, &plural)?;
    }
    let there = config.find(&args.group, &args.version, &args.kind);
    let namespaced = if resource {
        check_scope(args, &versions)?;
        args.namespaced
    } else {
        there.is_some_and(Resource::namespaced)
    };
    let image = image_values(&args.image)?;
    if image.is_some() && !namespaced {
        return Err(PlanError::Usage(
            "`--image` needs a namespace-scoped kind, because its Deployment is namespace-scoped".to_owned(),
            "omit `--namespaced=false`, or write the controller yourself without `--image`",
        ));
    }
    let mut api = base_values(&args.group, &args.version, &args.kind, project);
    let others = versions
        .iter()
        .any(|other| other.api.is_some() && other.version != args.version);
    api.storage = !others;
    api.plural = plural;
    api.namespaced = namespaced;
    api.image = image;
    match origin {
        Origin::Own => {}
        Origin::Core(kind) => {
            api.api_group = whole_group(kind.group, kind.domain);
            kind.module.clone_into(&mut api.api_path);
            api.foreign = true;
        }
        Origin::External(path) => {
            let domain = args.external.external_api_domain.as_deref().unwrap_or_default();
            api.api_group = whole_group(&args.group, domain);
            path.trim_end_matches(':').clone_into(&mut api.api_path);
            (api.foreign, api.external) = (true, true);
        }
    }
    if let Some(name) = &args.controller_name {
        api.controller = names::camel_case(name);
        api.controller_name = Some(name.clone());
    }
    Ok(api)
}

/// Returns the template values of a kind of this project.
pub(crate) fn base_values(group: &str, version: &str, kind: &str, project: &Project) -> ApiValues {
    let config = &project.config;
    let place = Place::of(config, group, version, kind);
    let there = config.find(group, version, kind);
    ApiValues {
        project_name: config.project_name.clone(),
        crate_name: config.project_name.replace('-', "_"),
        header: template::header(project.tree.get(layout::BOILERPLATE).unwrap_or_default()),
        group: group.to_owned(),
        api_group: there.map_or_else(|| format!("{group}.{}", config.domain), Resource::api_group),
        version: version.to_owned(),
        kind: kind.to_owned(),
        kind_lower: kind.to_lowercase(),
        port_name: port_name(kind),
        plural: there.map_or_else(|| names::plural_of(kind), Resource::plural),
        namespaced: there.is_some_and(Resource::namespaced),
        sample: sample_of(group, version, kind),
        api_path: place.api_path(),
        foreign: false,
        external: false,
        storage: true,
        controller: kind.to_owned(),
        controller_name: None,
        image: None,
    }
}

/// Returns the path of the sample of a kind.
fn sample_of(group: &str, version: &str, kind: &str) -> String {
    let kind = Kind {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        ..Kind::default()
    };
    layout::sample(&kind.sample_file())
}

fn whole_group(group: &str, domain: &str) -> String {
    let resource = Resource {
        group: group.to_owned(),
        domain: domain.to_owned(),
        ..Resource::default()
    };
    resource.api_group()
}

fn plural(args: &CreateApiArgs, origin: &Origin<'_>, versions: &[&Resource]) -> Result<String, PlanError> {
    let known = versions.first().map(|resource| resource.plural());
    let plural = match (origin, &args.plural) {
        (Origin::Core(kind), _) => kind.plural.to_owned(),
        (_, Some(plural)) => plural.clone(),
        (_, None) => known.clone().unwrap_or_else(|| names::plural_of(&args.kind)),
    };
    names::check_plural(&plural)?;
    match known.filter(|known| *known != plural) {
        Some(known) if versions.iter().any(|other| other.version != args.version) => Err(PlanError::Usage(
            format!("another version of {} has the plural {known:?}", args.kind),
            "omit `--plural`: all versions of a kind have the same plural",
        )),
        _ => Ok(plural),
    }
}

/// Checks that all versions of a kind have the same scope.
fn check_scope(args: &CreateApiArgs, versions: &[&Resource]) -> Result<(), PlanError> {
    let other = versions.iter().find(|other| {
        other.version != args.version && other.api.is_some() && other.namespaced() != args.namespaced
    });
    match other {
        None => Ok(()),
        Some(other) => Err(PlanError::Usage(
            format!(
                "{} is {} in version {}",
                args.kind,
                if other.namespaced() {
                    "namespace-scoped"
                } else {
                    "cluster-scoped"
                },
                other.version
            ),
            "give `--namespaced` the same value: all versions of a kind have the same scope",
        )),
    }
}

/// Returns a port name, which has at most 15 characters.
fn port_name(kind: &str) -> String {
    kind.to_lowercase().chars().take(15).collect()
}

fn image_values(args: &ImageArgs) -> Result<Option<ImageValues>, PlanError> {
    let Some(image) = &args.image else { return Ok(None) };
    let invalid = |text: &str| text.trim().is_empty() || text.chars().any(|c| c.is_control());
    if invalid(image) || image.contains(char::is_whitespace) {
        return Err(PlanError::Usage(
            format!("the image {image:?} is not a valid image reference"),
            "use one such as `--image memcached:1.6.26-alpine3.19`",
        ));
    }
    let command = args.image_container_command.clone();
    if command.iter().flat_map(|command| command.split(',')).any(invalid) {
        return Err(PlanError::Usage(
            "the container's command has an empty word".to_owned(),
            "separate its words by single commas: `--image-container-command \"memcached,-o,modern\"`",
        ));
    }
    Ok(Some(ImageValues {
        image: image.clone(),
        command,
        port: args.image_container_port,
        run_as_user: args.run_as_user,
        size_max: SIZE_MAX,
    }))
}
