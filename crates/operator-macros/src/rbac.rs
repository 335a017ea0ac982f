//! `#[rbac(...)]`: parses the rules of a function that returns a controller, and adds them to the controller.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Attribute, Ident, ItemFn, LitStr, Meta, ReturnType, Token};

/// One `#[rbac(...)]` attribute, with its lists split at `;`.
#[derive(Debug, Default, PartialEq)]
struct Rule {
    groups: Vec<String>,
    resources: Vec<String>,
    verbs: Vec<String>,
    resource_names: Vec<String>,
    urls: Vec<String>,
    namespace: Option<String>,
}

pub(crate) fn expand(arguments: TokenStream, item: TokenStream) -> syn::Result<TokenStream> {
    let mut rules = vec![syn::parse2::<Rule>(arguments)?];
    let mut function: ItemFn = syn::parse2(item)?;
    for attribute in function.attrs.iter().filter(|attribute| is_rbac(attribute)) {
        rules.push(rule_of(attribute)?);
    }
    function.attrs.retain(|attribute| !is_rbac(attribute));
    let ReturnType::Type(_, controller) = &function.sig.output else {
        let message = "`rbac` belongs on a function that returns a `Controller`";
        return Err(syn::Error::new_spanned(&function.sig, message));
    };

    let rules = rules.iter().map(Rule::expand);
    let ItemFn {
        attrs,
        vis,
        sig,
        block,
        ..
    } = &function;
    Ok(quote! {
        #(#attrs)*
        #vis #sig {
            let controller: #controller = (move || #block)();
            controller.rules([#(#rules),*])
        }
    })
}

fn is_rbac(attribute: &Attribute) -> bool {
    attribute
        .path()
        .segments
        .last()
        .is_some_and(|segment| segment.ident == "rbac")
}

fn rule_of(attribute: &Attribute) -> syn::Result<Rule> {
    match &attribute.meta {
        Meta::List(list) => syn::parse2(list.tokens.clone()),
        other => Err(syn::Error::new_spanned(other, MISSING)),
    }
}

const MISSING: &str = "an RBAC rule needs `verbs` and either `groups` and `resources` or `urls`: \
    #[rbac(groups = \"apps\", resources = \"deployments\", verbs = \"get;list;watch\")]";

// === impl Rule ===

impl Parse for Rule {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let span = input.span();
        let mut rule = Self::default();
        for argument in Punctuated::<Argument, Token![,]>::parse_terminated(input)? {
            rule.set(&argument)?;
        }
        if rule.is_complete() {
            Ok(rule)
        } else {
            Err(syn::Error::new(span, MISSING))
        }
    }
}

impl Rule {
    fn set(&mut self, argument: &Argument) -> syn::Result<()> {
        let list = match argument.name.to_string().as_str() {
            "groups" => &mut self.groups,
            "resources" => &mut self.resources,
            "verbs" => &mut self.verbs,
            "resource_names" => &mut self.resource_names,
            "urls" => &mut self.urls,
            "namespace" => {
                self.namespace = Some(argument.value.value());
                return Ok(());
            }
            other => {
                let message = format!(
                    "unknown argument `{other}`; known are groups, resources, verbs, resource_names, urls and namespace"
                );
                return Err(syn::Error::new(argument.name.span(), message));
            }
        };
        let entries = argument.value.value();
        list.extend(entries.split(';').map(|entry| entry.trim().to_owned()));
        Ok(())
    }

    fn is_complete(&self) -> bool {
        let of_resources = !self.groups.is_empty() && !self.resources.is_empty();
        !self.verbs.is_empty() && of_resources == self.urls.is_empty()
    }

    fn expand(&self) -> TokenStream {
        let groups = self
            .groups
            .iter()
            .map(|group| if group == "core" { "" } else { group });
        let (resources, verbs, names, urls) =
            (&self.resources, &self.verbs, &self.resource_names, &self.urls);
        let namespace = match &self.namespace {
            Some(namespace) => quote!(::std::option::Option::Some(::std::string::String::from(#namespace))),
            None => quote!(::std::option::Option::None),
        };
        quote! {
            ::operator_runtime::manifests::PolicyRule {
                api_groups: ::std::vec![#(::std::string::String::from(#groups)),*],
                resources: ::std::vec![#(::std::string::String::from(#resources)),*],
                verbs: ::std::vec![#(::std::string::String::from(#verbs)),*],
                resource_names: ::std::vec![#(::std::string::String::from(#names)),*],
                non_resource_urls: ::std::vec![#(::std::string::String::from(#urls)),*],
                namespace: #namespace,
            }
        }
    }
}

/// A `name = "value"` argument.
struct Argument {
    name: Ident,
    value: LitStr,
}

impl Parse for Argument {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let name = input.parse()?;
        input.parse::<Token![=]>()?;
        Ok(Self {
            name,
            value: input.parse()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: TokenStream) -> Result<Rule, String> {
        syn::parse2(arguments).map_err(|error| error.to_string())
    }

    #[test]
    fn lists_are_split_at_semicolons() {
        let rule = parse(quote!(
            groups = "apps; core",
            resources = "deployments",
            verbs = "get;list"
        ))
        .unwrap();
        assert_eq!(rule.groups, ["apps", "core"]);
        assert_eq!(rule.verbs, ["get", "list"]);
    }

    #[test]
    fn rule_without_verbs_is_refused() {
        let error = parse(quote!(groups = "apps", resources = "deployments")).unwrap_err();
        assert!(error.contains("needs `verbs`"), "{error}");
    }

    #[test]
    fn rule_with_resources_and_urls_is_refused() {
        let rule = quote!(
            groups = "apps",
            resources = "deployments",
            urls = "/metrics",
            verbs = "get"
        );
        assert!(parse(rule).is_err());
    }

    #[test]
    fn misspelt_argument_is_named_in_the_error() {
        let error = parse(quote!(group = "apps", resources = "deployments", verbs = "get")).unwrap_err();
        assert!(error.contains("unknown argument `group`"), "{error}");
    }

    #[test]
    fn further_rules_of_the_function_are_collected_and_removed() {
        let block = quote! {
            #[rbac(groups = "core", resources = "pods", verbs = "get")]
            #[doc = "kept"]
            fn controller() -> Controller<Mine> {
                Controller::new(reconcile)
            }
        };
        let arguments = quote!(groups = "apps", resources = "deployments", verbs = "get");
        let expanded = expand(arguments, block).unwrap().to_string();
        assert_eq!(expanded.matches("PolicyRule {").count(), 2, "{expanded}");
        assert!(expanded.contains("kept"), "{expanded}");
        assert!(!expanded.contains("# [rbac"), "{expanded}");
    }

    #[test]
    fn function_without_a_controller_is_refused() {
        let arguments = quote!(urls = "/metrics", verbs = "get");
        let error = expand(
            arguments,
            quote!(
                fn controller() {}
            ),
        )
        .unwrap_err()
        .to_string();
        assert!(error.contains("returns a `Controller`"), "{error}");
    }
}
