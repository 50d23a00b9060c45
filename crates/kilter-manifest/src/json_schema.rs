//! JSON Schema of manifests, for editors.

use kilter_model::{AttributeSchema, Behaviour, DataType, TypeSchema, to_json};
use serde_json::map::Entry;
use serde_json::{Map, Value as Json, json};

use crate::merge::MergeRule;
use crate::meta::EVERY;
use crate::metaparameters::META;
use crate::schemas::Schemas;

/// Returns the JSON Schema (draft 2020-12) of manifests with these types.
pub fn json_schema(schemas: &dyn Schemas) -> Json {
    let mut names = schemas.names();
    names.sort_unstable();
    let types: Vec<&TypeSchema> = names.into_iter().filter_map(|name| schemas.schema(name)).collect();
    let patterns: Map<String, Json> = types
        .iter()
        .map(|schema| {
            let pattern = format!("^{}\\[[\\s\\S]+\\]$", schema.name);
            (pattern, json!({ "$ref": format!("#/$defs/{}", definition(schema)) }))
        })
        .collect();
    let mut definitions = common();
    definitions
        .extend(types.iter().map(|schema| (definition(schema), resource(&schemas.variants(schema.name.as_str())))));
    let lists: Map<String, Json> = types.iter().map(|schema| (schema.name.to_string(), titles(schema))).collect();
    let others = with_others(&types, patterns.clone());
    definitions.insert("resources.composite".to_owned(), resources(others, lists.clone()));
    definitions.insert("resources".to_owned(), resources(patterns, lists));
    let composite = composite();
    definitions.insert(
        "defaults.composite".to_owned(),
        defaults(&types, json!({ TYPE_NAME: { "type": ["object", "null"] } })),
    );
    definitions.insert("defaults".to_owned(), defaults(&types, json!({})));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "kilter manifest",
        "description": "Resources and the state that they should be in.",
        "type": ["object", "null"],
        "properties": {
            "vars": {
                "description": "Values by name, for `${vars.NAME}`.",
                "type": ["object", "null"],
                "additionalProperties": true,
            },
            "data": data(),
            "types": {
                "description": "Types whose resources stand for others, by name.",
                "type": ["object", "null"],
                "patternProperties": { TYPE_NAME: composite },
                "additionalProperties": false,
            },
            "defaults": { "description": "Defaults of resources, by type; `*` stands for all types." },
            "include": {
                "description": "Paths of manifests that kilter reads before this one; they may contain \
                        `${facts.NAME}`.",
                "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }],
            },
            "collect": {
                "description": "Resources that other machines export for this one.",
                "type": ["array", "null"],
                "items": collect(&types),
            },
            "resources": { "description": "Resources by reference: `type[title]`." },
        },
        "additionalProperties": false,
        // The manifest, or an include, may define composite types.
        "if": { "anyOf": [{ "required": ["types"] }, { "required": ["include"] }] },
        "then": { "properties": {
            "defaults": { "$ref": "#/$defs/defaults.composite" },
            "resources": { "$ref": "#/$defs/resources.composite" },
        } },
        "else": { "properties": {
            "defaults": { "$ref": "#/$defs/defaults" },
            "resources": { "$ref": "#/$defs/resources" },
        } },
        "$defs": definitions,
    })
}

/// Returns the schema of `data`.
fn data() -> Json {
    json!({
        "description": "Variables from a hierarchy of files.",
        "type": ["object", "null"],
        "properties": {
            "hierarchy": {
                "description": "Paths of data files, the highest priority first; they may contain `${facts.NAME}`.",
                "type": "array",
                "items": { "anyOf": [
                    { "type": "string" },
                    {
                        "type": "object",
                        "properties": { "path": { "type": "string" }, "required": { "type": "boolean" } },
                        "required": ["path"],
                        "additionalProperties": false,
                    },
                ] },
            },
            "merge": {
                "description": "Rules that merge the values of several files, by variable.",
                "type": "object",
                "additionalProperties": { "enum": MergeRule::NAMES },
            },
        },
        "required": ["hierarchy"],
        "additionalProperties": false,
    })
}

/// Returns the schema of `defaults`, by type.
fn defaults(types: &[&TypeSchema], others: Json) -> Json {
    let known = types.iter().map(|schema| (schema.name.to_string(), begun(Some(schema))));
    let known: Map<String, Json> = known.chain([(EVERY.to_owned(), begun(None))]).collect();
    json!({
        "description": "Defaults of resources, by type; `*` stands for all types.",
        "type": ["object", "null"],
        "properties": known,
        "patternProperties": others,
        "additionalProperties": false,
    })
}

/// Returns the schema of the defaults of a type, or of all types.
fn begun(of: Option<&TypeSchema>) -> Json {
    let settable = |a: &&AttributeSchema| !matches!(a.behaviour, Behaviour::Namevar | Behaviour::ReadOnly);
    let mut properties: Map<String, Json> = of
        .into_iter()
        .flat_map(|schema| schema.attributes.iter().filter(settable).map(move |attribute| (schema, attribute)))
        .map(|(schema, attribute)| {
            let path = format!("#/$defs/{}/properties/{}", definition(schema), attribute.name);
            (attribute.name.to_string(), json!({ "$ref": path }))
        })
        .collect();
    properties.insert("meta".to_owned(), json!({ "$ref": "#/$defs/meta" }));
    json!({
        "type": ["object", "null"],
        "properties": properties,
        "additionalProperties": false,
    })
}

/// Returns the schema of an entry of `collect`.
fn collect(types: &[&TypeSchema]) -> Json {
    let names: Vec<&str> = types.iter().map(|schema| schema.name.as_str()).collect();
    let patterns = |desc: &str| {
        let text = json!({ "type": "string" });
        json!({ "description": desc, "anyOf": [text, { "type": "array", "items": text, "minItems": 1 }] })
    };
    json!({
        "type": "object",
        "properties": {
            "type": { "description": "The type of the resources.", "enum": names },
            "from": patterns("Patterns of the machines that export them; `*` matches any text."),
            "title": patterns("Patterns of their titles, or of their names if these differ."),
            "of": patterns("Patterns of the composite resources that contain them."),
            "set": {
                "description": "Attributes, relations and `meta` that override those of the exporting machine.",
                "type": "object",
            },
        },
        "required": ["type"],
        "additionalProperties": false,
    })
}

/// Returns the schema of the lists of titles below the name of a type.
fn titles(schema: &TypeSchema) -> Json {
    let group = json!({
        "type": "object",
        "$ref": format!("#/$defs/{}", definition(schema)),
        "required": ["titles"],
    });
    let title = json!({ "type": ["string", "number", "boolean"] });
    json!({
        "description": "Resources of the type by their titles, with the same body.",
        "anyOf": [group, { "type": "array", "items": { "anyOf": [title, group] } }],
    })
}

/// Returns the schema of resources: by reference, and lists of titles by type.
fn resources(patterns: Map<String, Json>, lists: Map<String, Json>) -> Json {
    json!({
        "description": "Resources by reference: `type[title]`.",
        "type": ["object", "null"],
        "properties": lists,
        "patternProperties": patterns,
        "additionalProperties": false,
    })
}

/// Adds resources of composite types. Their attributes are unrestricted, because a schema cannot refer to the
/// manifest's own definitions.
fn with_others(types: &[&TypeSchema], mut patterns: Map<String, Json>) -> Map<String, Json> {
    let known: Vec<&str> = types.iter().map(|schema| schema.name.as_str()).collect();
    let others = format!("^(?!({})\\[)[a-z][a-z0-9_:]*\\[[\\s\\S]+\\]$", known.join("|"));
    patterns
        .insert(others, json!({ "description": "A resource of a type below `types`.", "type": ["object", "null"] }));
    patterns.insert(
        TYPE_NAME.to_owned(),
        json!({ "description": "Resources by their titles, with the same body.", "type": ["object", "array"] }),
    );
    patterns
}

/// Pattern for type names.
const TYPE_NAME: &str = "^[a-z][a-z0-9_]*(::[a-z][a-z0-9_]*)*$";

/// Returns the schema of a composite type.
fn composite() -> Json {
    let attribute = json!({
        "type": "object",
        "properties": {
            "type": { "description": "The data type of its values.", "type": "string" },
            "desc": { "description": "Description of the attribute.", "type": "string" },
            "default": { "description": "Default value." },
        },
        "required": ["type"],
    });
    json!({
        "description": "A type whose resources stand for others. `${self.name}` is the title of a resource, \
                        `${self.NAME}` one of its attributes.",
        "type": "object",
        "properties": {
            "desc": { "description": "Description of the type.", "type": "string" },
            "attributes": {
                "description": "Attributes of its resources, by name.",
                "type": ["object", "null"],
                "additionalProperties": attribute,
            },
            "resources": { "$ref": "#/$defs/resources.composite" },
        },
        "additionalProperties": false,
    })
}

fn definition(schema: &TypeSchema) -> String {
    format!("type.{}", schema.name.as_str().replace("::", "."))
}

/// Definitions that all types share.
fn common() -> Map<String, Json> {
    let expression = json!({
        "description": "A text with `${…}` in it.",
        "type": "string",
        "pattern": "\\$\\{",
        "patternErrorMessage": "Write an expression: \"${vars.name}\", \"${facts.name}\".",
    });
    let text = json!({ "type": "string" });
    let bytes = json!({
        "description": "Bytes that are no text, in base 64.",
        "type": "object",
        "properties": { "base64": text },
        "required": ["base64"],
        "additionalProperties": false,
    });
    let sensitive = json!({
        "description": "A value that is never shown: a text, or where it comes from.",
        "type": "object",
        "properties": { "sensitive": { "anyOf": [
            scalar(),
            { "type": "object", "properties": { "file": text }, "required": ["file"], "additionalProperties": false },
            { "$ref": "#/$defs/bytes" },
            { "type": "object", "properties": { "env": text }, "required": ["env"], "additionalProperties": false },
            {
                "type": "object",
                "properties": { "command": { "type": "array", "items": text, "minItems": 1 } },
                "required": ["command"],
                "additionalProperties": false,
            },
            { "$ref": "#/$defs/template" },
            encrypted("age", "identity"),
            encrypted("systemd_creds", "name"),
        ] } },
        "required": ["sensitive"],
        "additionalProperties": false,
    });
    let template = json!({
        "description": "The text that a template makes: the path of a file, or the template itself.",
        "type": "object",
        "properties": { "template": { "anyOf": [
            text,
            {
                "type": "object",
                "properties": { "inline": text },
                "required": ["inline"],
                "additionalProperties": false
            },
        ] } },
        "required": ["template"],
        "additionalProperties": false,
    });
    let content = json!({
        "description": "The content of a file, relative to the manifest.",
        "type": "object",
        "properties": { "file": text },
        "required": ["file"],
        "additionalProperties": false,
    });
    let reference = json!({
        "description": "A resource of the manifest: `type[title]`.",
        "type": "string",
        "pattern": "^([a-z][a-z0-9_:]*\\[[\\s\\S]+\\]|[\\s\\S]*\\$\\{[\\s\\S]*)$",
        "patternErrorMessage": "Write a reference: type[title], such as \"file[/etc/motd]\".",
    });
    let references = json!({ "anyOf": [
        { "$ref": "#/$defs/reference" },
        { "type": "array", "items": { "$ref": "#/$defs/reference" } },
        { "type": "null" },
    ] });
    let properties: Map<String, Json> = META.iter().map(|(name, text, desc)| metaparameter(name, text, desc)).collect();
    let meta = json!({
        "description": "How the engine treats the resource.",
        "type": ["object", "null"],
        "properties": properties,
        "additionalProperties": false,
    });
    [
        ("expression", expression),
        ("bytes", bytes),
        ("sensitive", sensitive),
        ("template", template),
        ("content", content),
        ("reference", reference),
        ("references", references),
        ("meta", meta),
    ]
    .into_iter()
    .map(|(name, schema)| (name.to_owned(), schema))
    .collect()
}

/// Returns the schema of the source of an encrypted secret.
fn encrypted(key: &str, option: &str) -> Json {
    let text = json!({ "type": "string" });
    json!({
        "type": "object",
        "properties": { key: { "anyOf": [
            text,
            {
                "type": "object",
                "properties": { "file": text, option: text },
                "required": ["file"],
                "additionalProperties": false,
            },
        ] } },
        "required": [key],
        "additionalProperties": false,
    })
}

fn metaparameter(name: &str, data_type: &str, desc: &str) -> (String, Json) {
    let data_type: DataType = data_type.parse().expect("the data types of metaparameters are valid");
    (name.to_owned(), or_expression(of_type(&data_type, 0), desc))
}

fn or_expression(schema: Json, desc: &str) -> Json {
    json!({ "description": desc, "anyOf": [schema, { "$ref": "#/$defs/expression" }, { "type": "null" }] })
}

/// Returns the schema of a resource with the attributes of all its providers, because a variable may select the
/// provider.
fn resource(variants: &[&TypeSchema]) -> Json {
    let mut properties = Map::new();
    let attributes = variants.iter().flat_map(|schema| &schema.attributes);
    for attribute in attributes.filter(|a| a.behaviour != Behaviour::ReadOnly) {
        let said = attribute_schema(attribute);
        match properties.entry(attribute.name.to_string()) {
            Entry::Vacant(free) => drop(free.insert(said)),
            Entry::Occupied(mut known) => either(known.get_mut(), said),
        }
    }
    for (word, desc) in [
        ("require", "Resources that come before this one."),
        ("before", "Resources that come after this one."),
        ("notify", "Resources that come after this one and are refreshed when it changes."),
        ("subscribe", "Resources that come before this one and refresh it when they change."),
    ] {
        let relation = json!({ "description": desc, "$ref": "#/$defs/references" });
        properties.entry(word.to_owned()).or_insert(relation);
    }
    let when = json!({
        "description": "An expression over `vars` and `facts`; the resource counts only if it is true.",
        "type": ["string", "boolean"],
    });
    properties.entry("when".to_owned()).or_insert(when);
    let for_each = json!({
        "description": "A list or a mapping: declares a resource for each element, which is `${each.value}`; \
                        `${each.key}` is its key in a mapping.",
        "anyOf": [{ "type": ["array", "object"] }, { "$ref": "#/$defs/expression" }],
    });
    properties.entry("for_each".to_owned()).or_insert(for_each);
    let titles = json!({
        "description": "Below the name of a type: the titles of the resources that this body declares.",
        "anyOf": [
            { "type": "array", "items": { "type": ["string", "number", "boolean"] } },
            { "$ref": "#/$defs/expression" },
        ],
    });
    properties.entry("titles".to_owned()).or_insert(titles);
    let provider = json!({
        "description": "The provider for the resource, of those that its type has; without it a suitable one is \
                        chosen.",
        "type": "string",
    });
    properties.entry("provider".to_owned()).or_insert(provider);
    properties.entry("meta".to_owned()).or_insert(json!({ "$ref": "#/$defs/meta" }));
    let desc = variants.first().map_or("", |schema| schema.desc.as_str());
    let required: Vec<&str> = variants.first().map(|schema| required(schema).collect()).unwrap_or_default();
    let is_required_by_all = |name: &&str| variants.iter().all(|schema| self::required(schema).any(|one| one == *name));
    let required: Vec<&str> = required.into_iter().filter(is_required_by_all).collect();
    let mut object = json!({
        "description": desc,
        "markdownDescription": desc,
        "type": if required.is_empty() { json!(["object", "null"]) } else { json!("object") },
        "properties": properties,
        "additionalProperties": variants.iter().any(|schema| schema.others.is_some()),
    });
    if let (Some(object), false) = (object.as_object_mut(), required.is_empty()) {
        // Merge keys may contain required attributes. Editors resolve them before the validation.
        object.insert("required".to_owned(), json!(required));
    }
    object
}

/// Returns the required attributes.
fn required(schema: &TypeSchema) -> impl Iterator<Item = &str> {
    let namevar = schema.namevars().next().map(|a| &a.name);
    let required = schema.attributes.iter().filter(|a| a.required && a.default.is_none());
    required.filter(move |a| Some(&a.name) != namevar).map(|a| a.name.as_str())
}

/// Adds the values that another provider accepts.
fn either(known: &mut Json, other: Json) {
    let alternatives = known.get_mut("anyOf").and_then(Json::as_array_mut);
    let Some((known, Json::Object(mut other))) = alternatives.zip(Some(other)) else { return };
    if let Some(Json::Array(others)) = other.remove("anyOf") {
        others.into_iter().for_each(|one| {
            if !known.contains(&one) {
                known.push(one);
            }
        });
    }
}

fn attribute_schema(attribute: &AttributeSchema) -> Json {
    let alternatives = json!([
        of_type(&attribute.data_type, 0),
        { "$ref": "#/$defs/expression" },
        { "$ref": "#/$defs/sensitive" },
        { "$ref": "#/$defs/template" },
        { "$ref": "#/$defs/content" },
        { "type": "null" },
    ]);
    let mut schema = Map::new();
    schema.insert("description".to_owned(), attribute.desc.as_str().into());
    schema.insert("markdownDescription".to_owned(), attribute.desc.as_str().into());
    if let Some(default) = &attribute.default {
        schema.insert("default".to_owned(), to_json(default));
    }
    schema.insert("anyOf".to_owned(), alternatives);
    Json::Object(schema)
}

/// Returns the schema of a data type. Constraints without an equivalent in JSON Schema are left out.
fn of_type(data_type: &DataType, depth: u32) -> Json {
    let nested = |inner: &DataType| match depth {
        0..16 => json!({ "anyOf": [
            of_type(inner, depth + 1),
            { "$ref": "#/$defs/expression" },
            { "$ref": "#/$defs/sensitive" },
            { "$ref": "#/$defs/template" },
        ] }),
        _ => json!({}),
    };
    match data_type {
        DataType::Boolean(Some(truth)) => json!({ "const": truth }),
        DataType::Boolean(None) => json!({ "type": "boolean" }),
        DataType::Integer(from, to) => {
            bounded(json!({ "type": "integer" }), "minimum", "maximum", from.map(Json::from), to.map(Json::from))
        }
        DataType::Float(from, to) => {
            bounded(json!({ "type": "number" }), "minimum", "maximum", from.map(Json::from), to.map(Json::from))
        }
        DataType::Numeric => json!({ "type": "number" }),
        DataType::String(from, to) => {
            bounded(scalar(), "minLength", "maxLength", from.map(Json::from), to.map(Json::from))
        }
        DataType::Enum(words) => {
            let words: Vec<&str> = words.iter().map(|word| word.as_str()).collect();
            json!({ "enum": words })
        }
        DataType::Binary => json!({ "anyOf": [scalar(), { "$ref": "#/$defs/bytes" }] }),
        // Ruby's regular expressions differ from those of JSON Schema.
        DataType::Pattern(_) | DataType::Scalar | DataType::ScalarData | DataType::EnumAnyCase(_) => scalar(),
        DataType::Timestamp(..)
        | DataType::Timespan(..)
        | DataType::SemVer(_)
        | DataType::SemVerRange
        | DataType::Regexp(_)
        | DataType::Type(_) => scalar(),
        DataType::Literal(word) => json!({ "const": word.as_str() }),
        DataType::Collection(..) => json!({ "type": ["array", "object"] }),
        DataType::Alias(alias) if depth < 16 => of_type(&alias.definition(), depth + 1),
        DataType::Array(of, from, to) => {
            let array = json!({ "type": "array", "items": nested(of) });
            bounded(array, "minItems", "maxItems", from.map(Json::from), to.map(Json::from))
        }
        DataType::Hash(_, of, from, to) => {
            let object = json!({ "type": "object", "additionalProperties": nested(of) });
            bounded(object, "minProperties", "maxProperties", from.map(Json::from), to.map(Json::from))
        }
        DataType::Struct(fields) => {
            let properties: Map<String, Json> =
                fields.iter().map(|field| (field.name.to_string(), nested(&field.data_type))).collect();
            let required: Vec<&str> = fields.iter().filter(|f| !f.optional).map(|f| f.name.as_str()).collect();
            json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
        }
        DataType::Tuple(types, from, to) => {
            let items: Vec<Json> = types.iter().map(nested).collect();
            let rest = match (from, to) {
                (None, None) => json!(false),
                _ => types.last().map_or(json!({}), nested),
            };
            let (least, most) = match (from, to) {
                (None, None) => (Some(types.len() as u64), Some(types.len() as u64)),
                sizes => (*sizes.0, *sizes.1),
            };
            let array = json!({ "type": "array", "prefixItems": items, "items": rest });
            bounded(array, "minItems", "maxItems", least.map(Json::from), most.map(Json::from))
        }
        DataType::Variant(types) => {
            let alternatives: Vec<Json> = types.iter().map(|t| of_type(t, depth + 1)).collect();
            json!({ "anyOf": alternatives })
        }
        DataType::Optional(inner) | DataType::NotUndef(inner) | DataType::Sensitive(inner) => of_type(inner, depth),
        DataType::Undef => json!({ "type": "null" }),
        _ => json!({}),
    }
}

/// Returns the schema of a text. A plain scalar keeps its text if the attribute expects a text: `mode: 644`,
/// `command: true`.
fn scalar() -> Json {
    json!({ "type": ["string", "number", "boolean"] })
}

fn bounded(mut schema: Json, least: &str, most: &str, from: Option<Json>, to: Option<Json>) -> Json {
    if let Some(object) = schema.as_object_mut() {
        object.extend(from.map(|from| (least.to_owned(), from)));
        object.extend(to.map(|to| (most.to_owned(), to)));
    }
    schema
}
