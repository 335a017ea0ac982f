//! `create api`: a kind's type, controller, test, sample and roles, and their places in the project.

mod definition;

use operator_manifests::rbac::Rule;
use operator_manifests::render;
use serde_json::{Map, json};

use super::manifests;
use super::{Plan, PlanError};
use crate::args::{CreateApiArgs, ImageArgs};
use crate::edit::rust::{self, RustEditError};
use crate::names;
use crate::project::{Api, Project, Resource, Tree, layout};
use crate::template::{self, ApiValues, ImageValues};

/// The most instances that a complete controller's type allows; the author changes it in the type.
const SIZE_MAX: i32 = 5;

/// Who may do what with the objects of a kind: the role's word, its sentence, its verbs.
const ACCESS: [(&str, &str, &[&str]); 3] = [
    (
        "admin",
        "Lets people do everything with {plural}, and pass that on.",
        &["*"],
    ),
    (
        "editor",
        "Lets people create, change and delete {plural}.",
        &["create", "delete", "get", "list", "patch", "update", "watch"],
    ),
    (
        "viewer",
        "Lets people look at {plural}.",
        &["get", "list", "watch"],
    ),
];

pub(crate) fn plan(args: &CreateApiArgs, project: &Project) -> Result<Plan, PlanError> {
    let api = checked(args, project)?;
    let mut plan = Plan::default();
    let draft = Draft {
        plan: &mut plan,
        tree: &project.tree,
        api: &api,
        force: args.force,
    };
    draft.write(args.resource, args.controller)?;
    let mut config = project.config.clone();
    config.put(resource(args, project, &api));
    plan.put(
        layout::PROJECT,
        project.tree.get(layout::PROJECT),
        config.render(),
    );
    Ok(plan)
}

// === checks ===

fn checked(args: &CreateApiArgs, project: &Project) -> Result<ApiValues, PlanError> {
    let config = &project.config;
    names::check_group(&args.group, &config.domain)?;
    names::check_version(&args.version)?;
    names::check_kind(&args.kind)?;
    if !args.resource && !args.controller {
        return Err(PlanError::Usage(
            "with `--resource=false --controller=false` there is nothing to write".to_owned(),
            "leave one of them away",
        ));
    }
    let there = config.find(&args.group, &args.version, &args.kind);
    check_presence(args, there)?;
    check_same_name(args, project)?;
    let plural = args
        .plural
        .clone()
        .or_else(|| there.and_then(|resource| resource.plural.clone()))
        .unwrap_or_else(|| names::plural_of(&args.kind));
    names::check_plural(&plural)?;
    let namespaced = if args.resource {
        args.namespaced
    } else {
        there.is_some_and(Resource::namespaced)
    };
    let image = image_values(&args.image)?;
    if image.is_some() && !namespaced {
        return Err(PlanError::Usage(
            "`--image` needs a kind that lives in namespaces, as its Deployment does".to_owned(),
            "leave `--namespaced=false` away, or write the controller yourself without `--image`",
        ));
    }
    Ok(ApiValues {
        project_name: config.project_name.clone(),
        crate_name: config.project_name.replace('-', "_"),
        header: template::header(project.tree.get(layout::BOILERPLATE).unwrap_or_default()),
        api_group: format!("{}.{}", args.group, config.domain),
        group: args.group.clone(),
        version: args.version.clone(),
        kind: args.kind.clone(),
        kind_lower: args.kind.to_lowercase(),
        port_name: port_name(&args.kind),
        snake: names::snake_case(&args.kind),
        plural,
        namespaced,
        image,
    })
}

/// A kind is written once, unless `--force`; its controller may follow later.
fn check_presence(args: &CreateApiArgs, there: Option<&Resource>) -> Result<(), PlanError> {
    let name = format!("{}/{} {}", args.group, args.version, args.kind);
    let (has_type, has_controller) = there.map_or((false, false), |resource| {
        (resource.api.is_some(), resource.controller)
    });
    if !args.resource && !has_type {
        return Err(PlanError::NoSuchKind(name));
    }
    let again = (args.resource && has_type) || (args.controller && has_controller);
    if again && !args.force {
        Err(PlanError::AlreadyThere(name))
    } else {
        Ok(())
    }
}

/// Modules are named after kinds: two groups cannot have the same.
fn check_same_name(args: &CreateApiArgs, project: &Project) -> Result<(), PlanError> {
    let module = names::snake_case(&args.kind);
    let clash = project.config.resources.iter().find(|resource| {
        let same_kind = resource.group == args.group && resource.kind == args.kind;
        names::snake_case(&resource.kind) == module && (!same_kind || resource.version != args.version)
    });
    match clash {
        Some(other) => Err(PlanError::Usage(
            format!(
                "the project has a kind {} already, in {}/{}",
                other.kind, other.group, other.version
            ),
            "choose another kind; several versions or groups of one kind are not scaffolded yet",
        )),
        None => Ok(()),
    }
}

/// A port's name has at most 15 characters.
fn port_name(kind: &str) -> String {
    kind.to_lowercase().chars().take(15).collect()
}

fn image_values(args: &ImageArgs) -> Result<Option<ImageValues>, PlanError> {
    let Some(image) = &args.image else { return Ok(None) };
    let invalid = |text: &str| text.trim().is_empty() || text.chars().any(|c| c.is_control());
    if invalid(image) || image.contains(char::is_whitespace) {
        return Err(PlanError::Usage(
            format!("the image {image:?} is no reference to an image"),
            "use one such as `--image memcached:1.6.26-alpine3.19`",
        ));
    }
    let command = args.image_container_command.clone();
    if command.iter().flat_map(|command| command.split(',')).any(invalid) {
        return Err(PlanError::Usage(
            "the container's command has an empty word".to_owned(),
            "write its words with single commas between: `--image-container-command \"memcached,-o,modern\"`",
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

fn resource(args: &CreateApiArgs, project: &Project, api: &ApiValues) -> Resource {
    let there = project
        .config
        .find(&args.group, &args.version, &args.kind)
        .cloned();
    let mut resource = there.unwrap_or_else(|| Resource {
        domain: project.config.domain.clone(),
        group: args.group.clone(),
        kind: args.kind.clone(),
        version: args.version.clone(),
        ..Resource::default()
    });
    if args.resource {
        resource.api = Some(Api {
            crd_version: "v1".to_owned(),
            namespaced: api.namespaced,
            rest: Map::new(),
        });
        resource.plural = Some(api.plural.clone()).filter(|plural| *plural != names::plural_of(&args.kind));
    }
    resource.controller |= args.controller;
    resource
}

// === the files ===

struct Draft<'a> {
    plan: &'a mut Plan,
    tree: &'a Tree,
    api: &'a ApiValues,
    force: bool,
}

impl Draft<'_> {
    fn write(mut self, resource: bool, controller: bool) -> Result<(), PlanError> {
        if resource {
            self.types()?;
            self.definition()?;
            self.sample()?;
        }
        if controller {
            self.controller()?;
            self.role()?;
        }
        if resource {
            self.access_roles()?;
        }
        self.registration(resource, controller)
    }

    fn types(&mut self) -> Result<(), PlanError> {
        let api = self.api;
        let template = if api.image.is_some() {
            "image/types.rs"
        } else {
            "api/types.rs"
        };
        self.own(
            &layout::types(&api.version, &api.kind),
            template::render(template, api)?,
        )?;
        let module = layout::types_module(&api.kind);
        let names = ["", "Spec", "Status"].map(|suffix| format!("{}{suffix}", api.kind));
        self.edit_rust(
            &layout::api_version(&api.version),
            Some("api/version.rs"),
            |source| rust::add_reexport(&rust::add_module(source, &module)?, &module, &names),
        )?;
        self.edit_rust(layout::API, None, |source| rust::add_module(source, &api.version))
    }

    fn controller(&mut self) -> Result<(), PlanError> {
        let api = self.api;
        let (code, test) = match api.image {
            Some(_) => ("image/controller.rs", "image/test.rs"),
            None => ("api/controller.rs", "api/test.rs"),
        };
        self.own(&layout::controller(&api.kind), template::render(code, api)?)?;
        self.own(&layout::controller_test(&api.kind), template::render(test, api)?)?;
        let module = layout::controller_module(&api.kind);
        let names = [format!("{}Reconciler", api.kind)];
        self.edit_rust(layout::CONTROLLER, None, |source| {
            rust::add_reexport(&rust::add_module(source, &module)?, &module, &names)
        })
    }

    /// The kind and its controller in `setup` and `manifests` of src/lib.rs.
    fn registration(&mut self, resource: bool, controller: bool) -> Result<(), PlanError> {
        let api = self.api;
        let reconciler = format!("controller::{}Reconciler", api.kind);
        let mut calls = Vec::new();
        if resource {
            calls.push(format!("crd::<api::{}::{}>()", api.version, api.kind));
        }
        if controller {
            calls.push(format!("rules({reconciler}::rules())"));
        }
        self.edit_rust(layout::LIB, None, |source| {
            let source = rust::add_calls(source, "manifests", &calls)?;
            if !controller {
                return Ok(source);
            }
            rust::add_statement(
                &source,
                "setup",
                &format!("{reconciler}.setup_with_manager(manager)?;"),
            )
        })
    }

    /// The definition as `generate manifests` will write it: the scaffolded schema is known.
    fn definition(&mut self) -> Result<(), PlanError> {
        let crd = manifests::complete(definition::derived(self.api))?;
        let path = layout::crd_base(&crd.file_name());
        self.plan
            .put(&path, self.tree.get(&path), render::documents([crd.value()]));
        let entry = format!("bases/{}", crd.file_name());
        self.entry(
            layout::CRD_KUSTOMIZATION,
            &entry,
            Some("config/crd_kustomization.yaml"),
        )?;
        self.entry(layout::DEFAULT_KUSTOMIZATION, "../crd", None)
    }

    fn sample(&mut self) -> Result<(), PlanError> {
        let api = self.api;
        let path = layout::sample(&api.group, &api.version, &api.kind);
        self.own(&path, template::render("config/sample.yaml", api)?)?;
        let entry = layout::sample_file(&api.group, &api.version, &api.kind);
        self.entry(
            layout::SAMPLES_KUSTOMIZATION,
            &entry,
            Some("config/samples_kustomization.yaml"),
        )
    }

    /// The role with the rules of the new controller, as `generate manifests` will write it.
    fn role(&mut self) -> Result<(), PlanError> {
        let there = self.tree.get(layout::ROLE);
        let mut rules = there.map_or_else(|| Ok(Vec::new()), manifests::rules_of)?;
        rules.extend(scaffolded_rules(self.api));
        self.plan.put(layout::ROLE, there, manifests::role(&rules));
        Ok(())
    }

    fn access_roles(&mut self) -> Result<(), PlanError> {
        let api = self.api;
        let mut kustomization = self.tree.get(layout::RBAC_KUSTOMIZATION).map(str::to_owned);
        for (access, sentence, verbs) in ACCESS {
            let values = json!({
                "access": access,
                "sentence": sentence.replace("{plural}", &api.plural),
                "verbs": verbs.iter().map(|verb| if *verb == "*" { "'*'" } else { verb }).collect::<Vec<_>>(),
                "project_name": api.project_name,
                "kind_lower": api.kind_lower,
                "api_group": api.api_group,
                "plural": api.plural,
            });
            self.own(
                &layout::access_role(&api.kind, access),
                template::render("config/access_role.yaml", &values)?,
            )?;
            if let Some(text) = &kustomization {
                let entry = layout::access_role_file(&api.kind, access);
                kustomization = Some(manifests::with_entry(layout::RBAC_KUSTOMIZATION, text, &entry)?);
            }
        }
        if let Some(text) = kustomization {
            let path = layout::RBAC_KUSTOMIZATION;
            self.plan.put(path, self.tree.get(path), text);
        }
        Ok(())
    }

    /// A file that the user will own: written once.
    fn own(&mut self, path: &str, text: String) -> Result<(), PlanError> {
        let before = self.tree.get(path);
        if before.is_some() && !self.force {
            return Err(PlanError::AlreadyThere(path.to_owned()));
        }
        self.plan.put(path, before, text);
        Ok(())
    }

    fn entry(&mut self, path: &str, entry: &str, template: Option<&'static str>) -> Result<(), PlanError> {
        match (self.tree.get(path), template) {
            (Some(text), _) => {
                let after = manifests::with_entry(path, text, entry)?;
                self.plan.put(path, Some(text), after);
            }
            (None, Some(template)) => {
                let text = template::render(template, &json!({ "entry": entry }))?;
                self.plan.put(path, None, text);
            }
            // The user does without this file.
            (None, None) => {}
        }
        Ok(())
    }

    fn edit_rust(
        &mut self,
        path: &str,
        template: Option<&'static str>,
        edit: impl FnOnce(&str) -> Result<String, RustEditError>,
    ) -> Result<(), PlanError> {
        let failed = |reason: String| PlanError::Edit {
            path: path.to_owned(),
            reason,
            remedy: "correct the file or give it back the form that `init` wrote, then run the command again"
                .to_owned(),
        };
        let before = self.tree.get(path);
        let source = match (before, template) {
            (Some(text), _) => text.to_owned(),
            (None, Some(template)) => template::render(template, self.api)?,
            (None, None) => return Err(failed("it is not there".to_owned())),
        };
        let after = edit(&source).map_err(|error| failed(error.to_string()))?;
        self.plan.put(path, before, after);
        Ok(())
    }
}

/// The permissions that the scaffolded controller asks for in its `rbac` attributes.
fn scaffolded_rules(api: &ApiValues) -> Vec<Rule> {
    let all = "get;list;watch;create;update;patch;delete";
    let rule = |group: &str, resource: &str, verbs: &str| Rule {
        api_groups: vec![group.to_owned()],
        resources: vec![resource.to_owned()],
        verbs: verbs.split(';').map(str::to_owned).collect(),
        ..Rule::default()
    };
    let plural = &api.plural;
    let mut rules = vec![
        rule(&api.api_group, plural, all),
        rule(&api.api_group, &format!("{plural}/status"), "get;update;patch"),
        rule(&api.api_group, &format!("{plural}/finalizers"), "update"),
        rule("events.k8s.io", "events", "create;patch"),
    ];
    if api.image.is_some() {
        rules.push(rule("apps", "deployments", all));
        rules.push(rule("", "pods", "get;list;watch"));
    }
    rules
}
