//! The JSON Schema of manifests, held against manifests.

#[expect(dead_code, reason = "it serves several test files")]
mod support;

use kilter_manifest::json_schema;
use serde_json::{Value as Json, json};
use support::World;

/// Returns true if `value` fits `schema`. Supports the keywords of the schema and panics at any other.
fn fits(schema: &Json, value: &Json, root: &Json) -> bool {
    let Some(keywords) = schema.as_object() else { return schema.as_bool().unwrap_or(true) };
    keywords.iter().all(|(keyword, wanted)| match keyword.as_str() {
        "$schema" | "$defs" | "title" | "description" | "markdownDescription" | "patternErrorMessage" | "default" => {
            true
        }
        "$ref" => {
            let path = wanted.as_str().and_then(|r| r.strip_prefix('#')).expect("references stay within the schema");
            fits(root.pointer(path).unwrap_or_else(|| panic!("{path}")), value, root)
        }
        "anyOf" => wanted.as_array().is_some_and(|all| all.iter().any(|one| fits(one, value, root))),
        "type" => match wanted {
            Json::Array(names) => names.iter().any(|name| is(value, name)),
            name => is(value, name),
        },
        "const" => value == wanted,
        "enum" => wanted.as_array().is_some_and(|words| words.contains(value)),
        "pattern" => value.as_str().is_none_or(|text| matches(wanted, text)),
        "minimum" => value.as_f64().is_none_or(|n| n >= wanted.as_f64().unwrap_or(0.0)),
        "maximum" => value.as_f64().is_none_or(|n| n <= wanted.as_f64().unwrap_or(0.0)),
        "minItems" => value.as_array().is_none_or(|a| a.len() as u64 >= wanted.as_u64().unwrap_or(0)),
        "maxItems" => value.as_array().is_none_or(|a| a.len() as u64 <= wanted.as_u64().unwrap_or(0)),
        "items" => value.as_array().is_none_or(|a| a.iter().all(|v| fits(wanted, v, root))),
        "required" => value.as_object().is_none_or(|object| {
            wanted.as_array().is_some_and(|names| names.iter().all(|n| object.contains_key(n.as_str().unwrap_or(""))))
        }),
        "properties" => wanted.as_object().is_none_or(|wanted| {
            wanted.iter().all(|(name, schema)| value.get(name).is_none_or(|value| fits(schema, value, root)))
        }),
        "patternProperties" | "then" | "else" => true,
        "if" => {
            let branch = if value.is_object() && fits(wanted, value, root) { "then" } else { "else" };
            keywords.get(branch).is_none_or(|branch| fits(branch, value, root))
        }
        "additionalProperties" => value.as_object().is_none_or(|object| {
            object.iter().all(|(name, value)| {
                let own = keywords.get("properties").and_then(|p| p.get(name));
                let patterns = keywords.get("patternProperties").and_then(Json::as_object);
                let by_pattern = patterns.and_then(|p| p.iter().find(|(pattern, _)| matches(&json!(pattern), name)));
                fits(own.or(by_pattern.map(|(_, schema)| schema)).unwrap_or(wanted), value, root)
            })
        }),
        other => panic!("the schema uses `{other}`"),
    })
}

fn is(value: &Json, name: &Json) -> bool {
    match name.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        other => panic!("the schema uses the type {other:?}"),
    }
}

/// The patterns of the schema, which are few and of simple forms.
fn matches(pattern: &Json, text: &str) -> bool {
    let pattern = pattern.as_str().unwrap_or_default();
    if pattern == "\\$\\{" {
        return text.contains("${");
    }
    if pattern.starts_with("^([a-z]") {
        return text.contains("${") || kilter_model::ResourceRef::split(text).is_ok();
    }
    if pattern.starts_with("^[a-z][a-z0-9_]*(::") {
        return !text.contains(|c: char| !c.is_ascii_lowercase());
    }
    if let Some(known) = pattern.strip_prefix("^(?!(").and_then(|rest| rest.split_once(")\\[)")).map(|parts| parts.0) {
        return kilter_model::ResourceRef::split(text)
            .is_ok_and(|(name, _)| known.split('|').all(|known| known != name));
    }
    let type_name = pattern.strip_prefix('^').and_then(|p| p.strip_suffix("\\[[\\s\\S]+\\]$"));
    let type_name = type_name.unwrap_or_else(|| panic!("the schema uses the pattern {pattern}"));
    kilter_model::ResourceRef::split(text).is_ok_and(|(name, _)| name == type_name)
}

fn check(manifest: Json) -> bool {
    let schema = json_schema(&World::new());
    fits(&schema, &manifest, &schema)
}

#[test]
fn manifests_that_compile_fit_the_schema() {
    for manifest in [
        json!({}),
        json!(null),
        json!({"vars": {"a": 1}, "include": ["x"], "resources": null}),
        json!({"resources": {"file[/a]": null, "file[a b]": {"mode": 644, "content": "${vars.x}", "backup": true}}}),
        json!({"resources": {"file[/a]": {"notify": ["service[s]"], "require": "user[u]", "when": "true", "meta": {"retry": -1}}}}),
        json!({"resources": {"file[/a]": {"meta": {"poll": -1, "limit": 0.5, "burst": 3, "sema": ["a:2"], "policy": "warn"}}}}),
        json!({"defaults": {"*": {"meta": {"retry": 1}}, "file": {"meta": {"timeout": 500}, "mode": "0644", "owner": null}}}),
        json!({"types": {"site": {}}, "defaults": {"site": {"port": 80}, "file": {"mode": "${vars.mode}"}}}),
        json!({"resources": {"file[/a]": {"before": "user[*]", "require": ["exec[*]"]}}}),
        json!({"resources": {"exec[e]": {"command": ["a", "${vars.b}"], "environment": {"A": {"sensitive": {"env": "X"}}}}}}),
        json!({"resources": {"user[u]": {"uid": "${exec[t].stdout}", "password": {"sensitive": "x"}}}}),
        json!({"resources": {"file[/b]": {"content": {"base64": "/w=="}}, "user[u]": {"password": {"sensitive": {"base64": "/w=="}}}}}),
        json!({"include": "types.yaml", "resources": {"site[a]": {"port": 80}}}),
        json!({"types": {"site": {"desc": "x", "attributes": {"port": {"type": "Integer", "default": 80}}, "resources": {"file[/a]": {"mode": "0644"}, "other[b]": null}}, "other": {}}, "resources": {"site[a]": {"port": 80}}}),
        json!({"types": {"site": {}}, "defaults": {"site": {"meta": {"retry": 1}}, "file": {"meta": {"retry": 1}}, "*": null}}),
        json!({"include": "types.yaml", "defaults": {"site": {"meta": {"retry": 1}}}}),
        json!({"resources": {"user[${each.key}]": {"for_each": {"a": 1}, "uid": "${each.value}"}, "file[${each.value}]": {"for_each": ["/a"]}}}),
        json!({"resources": {"user": {"titles": ["a", 7], "uid": 5}, "file": ["/a", {"titles": "${vars.x}", "mode": "0644"}]}}),
        json!({"types": {"site": {}}, "resources": {"site": {"titles": ["a"]}, "user": ["b"]}}),
        json!({"resources": {"service[s]": {"enable": "mask", "ensure": "running"}, "file[/t]": {"limits": {"a": 10}}}}),
    ] {
        assert!(check(manifest.clone()), "{manifest}");
    }
}

#[test]
fn manifests_that_do_not_compile_do_not_fit_it() {
    for manifest in [
        json!([]),
        json!({"resource": {}}),
        json!({"resources": {"wibble[a]": {}}}),
        json!({"types": {"site": {"resurces": {}}}}),
        json!({"types": {"site": {"attributes": {"port": {"default": 80}}}}}),
        json!({"types": {"site": {"resources": {"file[/a]": {"mdoe": "0644"}}}}}),
        json!({"types": {"site": {}}, "resources": {"site[a]": {}, "file[/a]": {"mdoe": "0644"}}}),
        json!({"resources": {"file": {}}}),
        json!({"resources": {"file[/a]": {"mdoe": "0644"}}}),
        json!({"resources": {"file[/a]": {"size": 1}}}),
        json!({"resources": {"file[/a]": {"ensure": "presnt"}}}),
        json!({"resources": {"file[/a]": {"backup": "yes"}}}),
        json!({"resources": {"file[/a]": {"notify": "nginx"}}}),
        json!({"resources": {"file[/a]": {"meta": {"retry": "x"}}}}),
        json!({"resources": {"file[/a]": {"meta": {"export": "x"}}}}),
        json!({"defaults": {"flie": {"meta": {"retry": 1}}}}),
        json!({"defaults": {"file": {"mdoe": "0644"}}}),
        json!({"defaults": {"file": {"path": "/a"}}}),
        json!({"defaults": {"file": {"mode": ["0644"]}}}),
        json!({"defaults": {"*": {"mode": "0644"}}}),
        json!({"types": {"site": {}}, "defaults": {"file": {"mdoe": "0644"}}}),
        json!({"include": "types.yaml", "defaults": {"Site": {"meta": {"retry": 1}}}}),
        json!({"resources": {"exec[e]": {}}}),
        json!({"resources": {"exec[e]": {"command": []}}}),
        json!({"resources": {"exec[e]": {"command": "x", "tries": 0}}}),
        json!({"resources": {"file[/a]": {"limits": {"a": 11}}}}),
        json!({"resources": {"file[/b]": {"content": {"base46": "/w=="}}}}),
        json!({"resources": {"user[u]": {"password": {"sensitive": {"fiel": "x"}}}}}),
    ] {
        assert!(!check(manifest.clone()), "{manifest}");
    }
}

#[test]
fn every_attribute_is_described() {
    let schema = json_schema(&World::new());
    let mode = schema.pointer("/$defs/type.file/properties/mode").expect("the attribute is there");
    assert_eq!(mode["description"], "The permissions.");
    assert_eq!(schema.pointer("/$defs/type.file/properties/ensure/default"), Some(&json!("present")));
}

#[test]
fn schema_explains_patterns_in_words() {
    fn check(schema: &Json, seen: &mut usize) {
        if let Some(object) = schema.as_object() {
            if object.get("pattern").is_some_and(Json::is_string) {
                assert!(object.contains_key("patternErrorMessage") && object.contains_key("description"), "{schema}");
                *seen += 1;
            }
            object.values().for_each(|inner| check(inner, seen));
        }
        schema.as_array().into_iter().flatten().for_each(|inner| check(inner, seen));
    }
    let mut seen = 0;
    check(&json_schema(&World::new()), &mut seen);
    assert_eq!(seen, 2);
}
