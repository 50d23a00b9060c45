//! Types that a manifest names, each looked up once.

use std::cell::RefCell;
use std::rc::Rc;

use ecow::EcoString;
use kilter_model::{AttributeSchema, Behaviour, TypeName, TypeSchema};
use rustc_hash::FxHashMap;

use crate::composite::{Composite, Composites};
use crate::schemas::Schemas;

/// A type that the manifest names, with precomputed parts of its schema.
pub(crate) struct Type<'t> {
    pub(crate) name: TypeName,
    /// None for an unknown type.
    pub(crate) schema: Option<&'t TypeSchema>,
    /// Definition of a composite type.
    pub(crate) composite: Option<&'t Composite<'t>>,
    /// Index of the attribute that names a resource.
    pub(crate) namevar: Option<usize>,
    /// Indexes of the attributes with a default.
    pub(crate) defaults: Vec<usize>,
    /// Indexes of the required attributes.
    pub(crate) required: Vec<usize>,
}

/// Types by name and provider; none for an unknown provider.
type TypesByName<'t> = FxHashMap<(EcoString, EcoString), Option<Rc<Type<'t>>>>;

pub(crate) struct Types<'t> {
    schemas: &'t dyn Schemas,
    composites: &'t Composites<'t>,
    types: Vec<Type<'t>>,
    ids: FxHashMap<EcoString, u32>,
    last: u32,
    /// Types as defined by the providers that resources name.
    named: RefCell<TypesByName<'t>>,
}

impl<'t> Types<'t> {
    pub(crate) fn new(schemas: &'t dyn Schemas, composites: &'t Composites<'t>) -> Types<'t> {
        Types { schemas, composites, types: Vec::new(), ids: FxHashMap::default(), last: 0, named: RefCell::default() }
    }

    pub(crate) fn get(&self, id: u32) -> &Type<'t> {
        &self.types[id as usize]
    }

    /// Returns the id of a type, known or unknown.
    pub(crate) fn id(&mut self, name: &str) -> u32 {
        // Resources of the same type are mostly adjacent.
        if self.types.get(self.last as usize).is_some_and(|last| last.name == *name) {
            return self.last;
        }
        if let Some(&id) = self.ids.get(name) {
            self.last = id;
            return id;
        }
        let id = u32::try_from(self.types.len()).unwrap_or(u32::MAX);
        let type_ = match self.composites.get(name) {
            Some(composite) => Type { composite: Some(composite), ..Type::new(name, Some(&composite.schema)) },
            None => Type::new(name, self.schemas.schema(name)),
        };
        self.types.push(type_);
        self.ids.insert(name.into(), id);
        self.last = id;
        id
    }

    /// Returns the id of a type that has already been named.
    pub(crate) fn known(&self, name: &str) -> Option<u32> {
        if self.types.get(self.last as usize).is_some_and(|last| last.name == *name) {
            return Some(self.last);
        }
        self.ids.get(name).copied()
    }

    /// Returns a type as defined by the provider that a resource names, if there is one.
    pub(crate) fn of_provider(&self, type_: &Type<'t>, provider: &str) -> Option<Rc<Type<'t>>> {
        if type_.composite.is_some() {
            return None;
        }
        let key = (type_.name.text().clone(), EcoString::from(provider));
        let look_up = || {
            let schema = self.schemas.schema_of(type_.name.as_str(), provider)?;
            Some(Rc::new(Type::new(type_.name.as_str(), Some(schema))))
        };
        self.named.borrow_mut().entry(key).or_insert_with(look_up).clone()
    }

    pub(crate) fn names(&self) -> Vec<&'t str> {
        let mut names = self.schemas.names();
        names.extend(self.composites.names());
        names
    }

    /// Returns true if a type has this name.
    pub(crate) fn exists(&self, name: &str) -> bool {
        self.composites.get(name).is_some() || self.schemas.schema(name).is_some()
    }
}

impl<'t> Type<'t> {
    fn new(name: &str, schema: Option<&'t TypeSchema>) -> Type<'t> {
        let attributes: &[AttributeSchema] = schema.map_or(&[], |schema| &schema.attributes);
        let which = |wanted: &dyn Fn(&AttributeSchema) -> bool| {
            attributes.iter().enumerate().filter(|(_, a)| wanted(a)).map(|(index, _)| index).collect::<Vec<_>>()
        };
        let namevar = attributes.iter().position(|a| a.behaviour == Behaviour::Namevar);
        Type {
            name: name.into(),
            schema,
            composite: None,
            namevar,
            defaults: which(&|a| {
                a.default.is_some() && !matches!(a.behaviour, Behaviour::Namevar | Behaviour::ReadOnly)
            }),
            // The title stands for the first namevar.
            required: which(&|a| a.required && namevar.is_none_or(|n| attributes[n].name != a.name)),
        }
    }

    pub(crate) fn attributes(&self) -> &'t [AttributeSchema] {
        self.schema.map_or(&[], |schema| &schema.attributes)
    }
}
