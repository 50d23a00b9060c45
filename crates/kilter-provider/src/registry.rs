//! Registry of providers, by type.

use std::sync::{Arc, OnceLock};

use ecow::{EcoString, eco_format};
use kilter_model::{Feature, TypeSchema};
use rustc_hash::FxHashMap;

use crate::capabilities::contradiction;
use crate::context::DEFAULT_HOSTNAME;
use crate::contract::{Preference, Provider, Suitability};
use crate::transport::{Device, TransportType};

/// Types whose resources are on no machine. They work with every target.
const ON_NO_MACHINE: [&str; 3] = ["noop", "notify", "value"];

/// Providers of a program, by type. A type may have several providers.
///
/// A resource gets the provider named in its manifest, otherwise a suitable one. A default provider comes
/// first, then a built-in one, then [external](Provider::is_external) ones, then a [last](Preference::Last) one.
/// Several external providers have no order of preference. Providers that are [named only](Preference::NamedOnly)
/// come last, suitable or not.
#[derive(Clone, Default)]
pub struct Registry {
    providers: Vec<Arc<dyn Provider>>,
    types: Vec<Type>,
    by_name: FxHashMap<EcoString, u16>,
    /// Type number of each provider.
    slots: Vec<u16>,
    /// Host name of the machine, if set.
    hostname: Option<EcoString>,
    /// Known transports, in order of registration.
    transports: Vec<Arc<dyn TransportType>>,
    /// Device on which the providers work. None for this machine.
    device: Option<Arc<Device>>,
}

#[derive(Clone, Default)]
struct Type {
    /// Indexes of its providers, in registration order.
    providers: Vec<usize>,
    preferred: OnceLock<Preferred>,
    /// Result of the check of its providers, at the first choice.
    checked: OnceLock<Option<Contradiction>>,
}

/// Provider of resources that name none.
#[derive(Clone)]
enum Preferred {
    One(usize),
    /// Equally preferred providers.
    Several(Vec<usize>),
}

/// A provider of a type, and its eligibility.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Index of the provider.
    pub index: usize,
    /// Name of the provider.
    pub name: &'static str,
    /// Ability to work on this machine.
    pub suitability: Suitability,
    /// Rank among the providers of the type.
    pub preference: Preference,
    /// True if resources without a declared provider use it.
    pub is_chosen: bool,
}

impl Candidate {
    /// Returns the reason why resources without a declared provider do not use this provider. None if they do.
    pub fn why_not(&self, chosen: &str) -> Option<EcoString> {
        match &self.suitability {
            _ if self.is_chosen => None,
            Suitability::Unsuitable(why) => Some(eco_format!("it is not suitable: {why}")),
            Suitability::Suitable if self.preference == Preference::Default => {
                Some(eco_format!("`{chosen}` comes first"))
            }
            Suitability::Suitable => {
                Some(eco_format!("`{chosen}` is preferred; declare `provider: {}` for this one", self.name))
            }
        }
    }
}

/// Reason why a provider cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegistryError {
    /// Manifests could not distinguish two providers.
    #[error("two providers of {type_name} have the name `{name}`: give one of them another name")]
    Duplicate {
        /// The type.
        type_name: EcoString,
        /// The name.
        name: &'static str,
    },
}

/// Feature of a schema that its provider declares without the capability, or the reverse.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the provider `{provider}` of {type_name} {}: the schema must declare a feature if, and only if, the provider has \
     its capability",
    match is_declared {
        true => format!("declares the feature `{feature}` without the capability"),
        false => format!("has the capability of the feature `{feature}` and does not declare it"),
    }
)]
pub struct Contradiction {
    /// The type.
    pub type_name: EcoString,
    /// Name of the provider.
    pub provider: &'static str,
    /// The feature.
    pub feature: &'static str,
    /// True if the schema declares the feature.
    pub is_declared: bool,
}

impl Contradiction {
    /// Returns the contradiction of a provider, if there is one.
    pub fn of(provider: &dyn Provider) -> Option<Contradiction> {
        let schema = provider.schema();
        let feature = contradiction(schema, &provider.capabilities())?;
        Some(Contradiction {
            type_name: provider.type_name().into(),
            provider: provider.name(),
            feature: feature.word(),
            is_declared: schema.has(feature),
        })
    }
}

/// Reason why a resource has no provider.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// No provider supports the type.
    #[error("there is no provider for the type `{0}`")]
    Type(EcoString),
    /// The type has no provider with this name.
    #[error("the type `{type_name}` has no provider `{name}`: it has {}", known.join(", "))]
    Name {
        /// The type.
        type_name: EcoString,
        /// The declared provider.
        name: EcoString,
        /// The available providers.
        known: Vec<&'static str>,
    },
    /// Several providers are equally preferred.
    #[error("the type `{type_name}` has several providers that are suitable, and none is preferred: \
             {}", among.join(", "))]
    Ambiguous {
        /// The type.
        type_name: EcoString,
        /// The providers.
        among: Vec<&'static str>,
    },
    /// A provider of the type is defective.
    #[error(transparent)]
    Contradiction(#[from] Contradiction),
    /// The type manages devices, and the run manages this machine.
    #[error("the type `{0}` manages a device: name the device with --on")]
    NeedsDevice(EcoString),
    /// The type manages this machine, and the run manages a device.
    #[error("the type `{type_name}` manages this machine, and the target is the device `{device}`")]
    NeedsMachine {
        /// The type.
        type_name: EcoString,
        /// The device.
        device: EcoString,
    },
}

impl Registry {
    /// Creates a registry of `providers`. Types are listed in this order. Built-in providers of a type share a
    /// schema; an external provider may have another.
    ///
    /// A provider may build its schema when it is needed. [`Registry::choose`] therefore checks its features.
    ///
    /// # Errors
    /// If two providers of a type have the same name.
    pub fn new(providers: impl IntoIterator<Item = Arc<dyn Provider>>) -> Result<Registry, RegistryError> {
        let mut registry = Registry::default();
        for provider in providers {
            let name = EcoString::from(provider.type_name());
            let slot = *registry.by_name.entry(name).or_insert_with(|| {
                registry.types.push(Type::default());
                (registry.types.len() - 1) as u16
            });
            let others = &mut registry.types[usize::from(slot)].providers;
            if others.iter().any(|&at| registry.providers[at].name() == provider.name()) {
                let (type_name, name) = (provider.type_name().into(), provider.name());
                return Err(RegistryError::Duplicate { type_name, name });
            }
            others.push(registry.providers.len());
            registry.slots.push(slot);
            registry.providers.push(provider);
        }
        Ok(registry)
    }

    /// Returns the registry with the host name of the machine.
    #[must_use]
    pub fn on_machine(self, hostname: &str) -> Registry {
        Registry { hostname: Some(hostname.into()), ..self }
    }

    /// Returns the host name of the machine on which the providers work
    /// ([`Context::hostname`](crate::Context::hostname)).
    pub fn hostname(&self) -> &str {
        self.hostname.as_deref().unwrap_or(DEFAULT_HOSTNAME)
    }

    /// Returns the registry with transports. If two have the same name, the first one is used.
    #[must_use]
    pub fn with_transports(self, transports: Vec<Arc<dyn TransportType>>) -> Registry {
        Registry { transports, ..self }
    }

    /// Returns the transports.
    pub fn transports(&self) -> &[Arc<dyn TransportType>] {
        &self.transports
    }

    /// Returns a transport by name.
    pub fn transport(&self, name: &str) -> Option<&Arc<dyn TransportType>> {
        self.transports.iter().find(|known| known.schema().name == name)
    }

    /// Returns the registry for a device. Only types with the feature `remote_resource` work on it.
    #[must_use]
    pub fn on_device(self, device: Arc<Device>) -> Registry {
        Registry { device: Some(device), ..self }
    }

    /// Returns the device on which the providers work. None for this machine.
    pub fn device(&self) -> Option<&Device> {
        self.device.as_deref()
    }

    /// Checks that a type works on the target of the run.
    ///
    /// # Errors
    /// If it manages devices and the target is this machine, or the reverse.
    fn check_target(&self, type_name: &str, schema: &TypeSchema) -> Result<(), ChoiceError> {
        match (&self.device, schema.has(Feature::RemoteResource)) {
            (None, true) => Err(ChoiceError::NeedsDevice(type_name.into())),
            (Some(device), false) if !ON_NO_MACHINE.contains(&type_name) => {
                Err(ChoiceError::NeedsMachine { type_name: type_name.into(), device: device.name().into() })
            }
            _ => Ok(()),
        }
    }

    /// Returns true unless the target is a device on which the type does not work.
    pub fn is_for_target(&self, provider: &dyn Provider) -> bool {
        self.device.is_none() || self.check_target(provider.type_name(), provider.schema()).is_ok()
    }

    fn type_of(&self, type_name: &str) -> Option<&Type> {
        Some(&self.types[usize::from(*self.by_name.get(type_name)?)])
    }

    /// Returns the type number of a provider, below [`Registry::len`].
    pub fn slot(&self, provider: usize) -> u16 {
        self.slots[provider]
    }

    /// Returns the index of the provider for resources that name none. None if several providers are equally
    /// preferred. If no provider is suitable, returns the preferred one, because the run may install its
    /// requirements.
    pub fn index(&self, type_name: &str) -> Option<usize> {
        match self.preferred(self.type_of(type_name)?) {
            Preferred::One(at) => Some(*at),
            Preferred::Several(_) => None,
        }
    }

    fn preferred<'r>(&self, of: &'r Type) -> &'r Preferred {
        of.preferred.get_or_init(|| self.prefer(&of.providers))
    }

    fn prefer(&self, providers: &[usize]) -> Preferred {
        if let [only] = *providers {
            return Preferred::One(only);
        }
        let those = |among: &[usize], holds: &dyn Fn(&dyn Provider) -> bool| -> Vec<usize> {
            let found: Vec<usize> = among.iter().copied().filter(|&at| holds(&*self.providers[at])).collect();
            if found.is_empty() { among.to_vec() } else { found }
        };
        let unnamed = those(providers, &|provider| provider.preference() != Preference::NamedOnly);
        let suitable = those(&unnamed, &|provider| provider.suitable().is_suitable());
        let earlier = those(&suitable, &|provider| provider.preference() != Preference::Last);
        let default = those(&earlier, &|provider| provider.preference() == Preference::Default);
        let own = those(&default, &|provider| !provider.is_external());
        let is_one_of_many = own.len() > 1 && own.iter().all(|&at| self.providers[at].is_external());
        match is_one_of_many && self.providers[own[0]].suitable().is_suitable() {
            true => Preferred::Several(own),
            false => Preferred::One(own[0]),
        }
    }

    /// Returns the index of the provider of a resource: the declared one, otherwise the preferred one.
    ///
    /// # Errors
    /// If there is no such provider, or if a provider of the type is defective.
    pub fn choose(&self, type_name: &str, name: Option<&str>) -> Result<usize, ChoiceError> {
        let unknown = || ChoiceError::Type(type_name.into());
        let of = self.type_of(type_name).ok_or_else(unknown)?;
        let check = || of.providers.iter().find_map(|&at| Contradiction::of(&*self.providers[at]));
        if let Some(contradiction) = of.checked.get_or_init(check) {
            return Err(contradiction.clone().into());
        }
        let Some(name) = name else {
            return match self.preferred(of) {
                Preferred::One(at) => self.check_target(type_name, self.providers[*at].schema()).map(|()| *at),
                Preferred::Several(among) => Err(ChoiceError::Ambiguous {
                    type_name: type_name.into(),
                    among: among.iter().map(|&at| self.providers[at].name()).collect(),
                }),
            };
        };
        let providers = &of.providers;
        let found = providers.iter().copied().find(|&at| self.providers[at].name() == name);
        let at = found.ok_or_else(|| ChoiceError::Name {
            type_name: type_name.into(),
            name: name.into(),
            known: providers.iter().map(|&at| self.providers[at].name()).collect(),
        })?;
        self.check_target(type_name, self.providers[at].schema()).map(|()| at)
    }

    /// Returns the providers of a type, with the reasons for the choice.
    pub fn candidates(&self, type_name: &str) -> Vec<Candidate> {
        let Some(of) = self.type_of(type_name) else { return Vec::new() };
        let chosen = self.index(type_name);
        let candidate = |&index: &usize| {
            let provider = &self.providers[index];
            Candidate {
                index,
                name: provider.name(),
                suitability: provider.suitable(),
                preference: provider.preference(),
                is_chosen: Some(index) == chosen,
            }
        };
        of.providers.iter().map(candidate).collect()
    }

    /// Returns the index of the first provider of a type, suitable or not.
    pub fn first(&self, type_name: &str) -> Option<usize> {
        self.type_of(type_name).map(|of| of.providers[0])
    }

    /// Returns the preferred provider of a type.
    pub fn find(&self, type_name: &str) -> Option<&Arc<dyn Provider>> {
        self.index(type_name).map(|at| &self.providers[at])
    }

    /// Returns the provider at an index from [`Registry::index`] or [`Registry::choose`].
    pub fn at(&self, index: usize) -> &Arc<dyn Provider> {
        &self.providers[index]
    }

    /// Returns the schema of a type, from its preferred provider or otherwise from the first.
    pub fn schema(&self, type_name: &str) -> Option<&TypeSchema> {
        let of = self.type_of(type_name)?;
        Some(self.providers[self.index(type_name).unwrap_or(of.providers[0])].schema())
    }

    /// Returns all providers.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Provider>> {
        self.providers.iter()
    }

    /// Returns the first provider of each type.
    pub fn types(&self) -> impl Iterator<Item = &Arc<dyn Provider>> {
        self.types.iter().map(|of| &self.providers[of.providers[0]])
    }

    /// Number of providers.
    pub fn len(&self) -> usize {
        self.providers.len()
    }

    /// Returns true if the registry is empty.
    pub fn is_empty(&self) -> bool {
        self.providers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use kilter_model::{Attributes, Change, Outcome, State};

    use super::*;
    use crate::context::Context;
    use crate::contract::{Mode, ProviderError, Query};
    use crate::transport::{Transport, TransportError, TransportSchema};

    #[derive(Clone)]
    struct Made {
        schema: TypeSchema,
        name: &'static str,
        is_external: bool,
        preference: Preference,
        suitability: Suitability,
    }

    impl Provider for Made {
        fn schema(&self) -> &TypeSchema {
            &self.schema
        }

        fn name(&self) -> &'static str {
            self.name
        }

        fn suitable(&self) -> Suitability {
            self.suitability.clone()
        }

        fn preference(&self) -> Preference {
            self.preference
        }

        fn is_external(&self) -> bool {
            self.is_external
        }

        fn get(&self, _: &Context<'_>, _: Query<'_>) -> Result<Vec<State>, ProviderError> {
            Ok(Vec::new())
        }

        fn set(&self, _: &Context<'_>, _: &[Change<'_>], _: Mode) -> Vec<Outcome> {
            Vec::new()
        }
    }

    fn own(name: &'static str) -> Made {
        let schema = TypeSchema::new("t", name);
        let suitability = Suitability::Suitable;
        Made { schema, name, is_external: false, preference: Preference::Normal, suitability }
    }

    fn script(name: &'static str) -> Made {
        Made { is_external: true, ..own(name) }
    }

    /// Returns the chosen provider, or the equally preferred ones.
    fn chosen(providers: &[Made]) -> Vec<&'static str> {
        let registry = Registry::new(providers.iter().cloned().map(|one| Arc::new(one) as Arc<dyn Provider>)).unwrap();
        match registry.choose("t", None) {
            Ok(at) => {
                assert_eq!(
                    registry.schema("t").unwrap().desc,
                    registry.at(at).name(),
                    "the schema is that of the chosen one"
                );
                vec![registry.at(at).name()]
            }
            Err(ChoiceError::Ambiguous { among, .. }) => {
                assert!(registry.index("t").is_none() && registry.schema("t").is_some());
                assert!(registry.candidates("t").iter().all(|candidate| !candidate.is_chosen));
                among
            }
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn builtin_provider_precedes_scripts_and_default_precedes_both() {
        let unsuitable = |one: Made| Made { suitability: Suitability::Unsuitable("no".into()), ..one };
        let default = |one: Made| Made { preference: Preference::Default, ..one };
        assert_eq!(chosen(&[own("a"), own("b")]), ["a"]);
        assert_eq!(chosen(&[script("s"), own("a")]), ["a"]);
        assert_eq!(chosen(&[own("a"), default(script("s"))]), ["s"]);
        assert_eq!(chosen(&[unsuitable(own("a")), script("s")]), ["s"]);
        assert_eq!(chosen(&[own("a"), unsuitable(default(script("s")))]), ["a"]);
        assert_eq!(chosen(&[script("s"), unsuitable(script("r"))]), ["s"]);
    }

    #[test]
    fn named_only_provider_is_not_chosen_beside_others() {
        let unsuitable = |one: Made| Made { suitability: Suitability::Unsuitable("no".into()), ..one };
        let named_only = |one: Made| Made { preference: Preference::NamedOnly, ..one };
        assert_eq!(chosen(&[unsuitable(own("a")), named_only(script("s"))]), ["a"]);
        assert_eq!(chosen(&[unsuitable(own("a")), named_only(script("s")), script("r")]), ["r"]);
        assert_eq!(chosen(&[named_only(script("s"))]), ["s"]);
    }

    #[test]
    fn last_provider_is_chosen_if_no_other_is_suitable() {
        let unsuitable = |one: Made| Made { suitability: Suitability::Unsuitable("no".into()), ..one };
        let last = |one: Made| Made { preference: Preference::Last, ..one };
        assert_eq!(chosen(&[unsuitable(own("a")), last(own("b"))]), ["b"]);
        assert_eq!(chosen(&[unsuitable(own("a")), last(own("b")), script("s")]), ["s"]);
        assert_eq!(chosen(&[unsuitable(own("a")), unsuitable(last(own("b")))]), ["a"]);
    }

    #[test]
    fn equal_scripts_are_ambiguous() {
        let default = |one: Made| Made { preference: Preference::Default, ..one };
        let unsuitable = |one: Made| Made { suitability: Suitability::Unsuitable("no".into()), ..one };
        assert_eq!(chosen(&[script("r"), script("s")]), ["r", "s"]);
        assert_eq!(chosen(&[default(script("q")), default(script("r")), script("s")]), ["q", "r"]);
        assert_eq!(chosen(&[script("r"), default(script("s"))]), ["s"]);
        // The run may install their requirements.
        assert_eq!(chosen(&[unsuitable(script("r")), unsuitable(script("s"))]), ["r"]);
    }

    /// A transport without devices.
    struct UnusedTransport(TransportSchema);

    impl TransportType for UnusedTransport {
        fn schema(&self) -> &TransportSchema {
            &self.0
        }

        fn connect(&self, _: &Context<'_>, _: &str, _: &Attributes) -> Result<Box<dyn Transport>, TransportError> {
            Err(TransportError::permanent("no device"))
        }
    }

    fn transport(name: &str, desc: &str) -> Arc<dyn TransportType> {
        Arc::new(UnusedTransport(TransportSchema { name: name.into(), desc: desc.into(), connection_info: Vec::new() }))
    }

    #[test]
    fn transports_are_listed_and_found_by_name() {
        let transports = vec![transport("a", "1"), transport("b", "2"), transport("a", "3")];
        let registry = Registry::new([]).unwrap().with_transports(transports);
        let listed: Vec<&str> = registry.transports().iter().map(|one| one.schema().desc.as_str()).collect();
        assert_eq!(listed, ["1", "2", "3"]);
        assert_eq!(registry.transport("a").unwrap().schema().desc, "1");
        assert!(registry.transport("c").is_none());
    }

    #[test]
    fn type_needs_the_target_that_it_manages() {
        let of = |type_name: &str, is_remote: bool| {
            let schema = TypeSchema::new(type_name, "");
            let features = if is_remote { vec![Feature::RemoteResource] } else { Vec::new() };
            Arc::new(Made { schema: TypeSchema { features, ..schema }, ..own("p") }) as Arc<dyn Provider>
        };
        let here = Registry::new([of("file", false), of("vlan", true), of("notify", false)]).unwrap();
        let device = Device::new("edge1", transport("a", ""), &Attributes::new()).unwrap();
        let there = here.clone().on_device(Arc::new(device));
        let refused = |registry: &Registry, name: &str| {
            let named = registry.choose(name, Some("p")).map_err(|error| error.to_string());
            let chosen = registry.choose(name, None).map_err(|error| error.to_string());
            assert_eq!(named, chosen);
            chosen.err()
        };
        assert_eq!(refused(&here, "file").or_else(|| refused(&there, "vlan")), None);
        assert_eq!(refused(&here, "notify").or_else(|| refused(&there, "notify")), None);
        assert_eq!(refused(&here, "vlan").unwrap(), "the type `vlan` manages a device: name the device with --on");
        assert_eq!(
            refused(&there, "file").unwrap(),
            "the type `file` manages this machine, and the target is the device `edge1`"
        );
    }
}
