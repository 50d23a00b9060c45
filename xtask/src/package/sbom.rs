//! List of the software in the program, in the format CycloneDX 1.5.
//!
//! cargo-cyclonedx names packages of the workspace by their directories, and does not list the C library, which the
//! program contains.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::step::{cargo, output};

/// Returns the document for the program and one target.
pub(super) fn document(root: &Path, target: &str) -> Result<String, String> {
    let args = ["metadata", "--locked", "--format-version", "1", "--filter-platform", target];
    let metadata = output(cargo(root).args(args))?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|error| format!("`cargo metadata`: {error}"))?;
    let lock = std::fs::read_to_string(root.join("Cargo.lock")).map_err(|error| format!("Cargo.lock: {error}"))?;
    let lock: toml::Table = lock.parse().map_err(|error| format!("Cargo.lock: {error}"))?;
    let mut document = of_crates(&metadata, &checksums(&lock))?;
    let components = document["components"].as_array_mut().expect("the document has components");
    components.extend(linked_libraries(target)?);
    Ok(format!("{document:#}\n"))
}

/// Returns the libraries in the program that are no crates of its lock file.
fn linked_libraries(target: &str) -> Result<Vec<Value>, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = output(Command::new(rustc).arg("-vV"))?;
    let release = version.lines().find_map(|line| line.strip_prefix("release: ")).unwrap_or_default();
    let mut libraries = vec![library("rust-std", release, "MIT OR Apache-2.0")];
    if target.ends_with("-gnu") {
        let version = output(Command::new("getconf").arg("GNU_LIBC_VERSION"))?;
        libraries.push(library("glibc", version.trim().trim_start_matches("glibc "), "LGPL-2.1-or-later"));
    }
    Ok(libraries)
}

fn library(name: &str, version: &str, license: &str) -> Value {
    json!({
        "type": "library", "name": name, "version": version, "bom-ref": format!("pkg:generic/{name}@{version}"),
        "purl": format!("pkg:generic/{name}@{version}"), "licenses": [{ "expression": license }],
    })
}

/// Returns the checksums of the archives of crates.
fn checksums(lock: &toml::Table) -> BTreeMap<(String, String), String> {
    let packages = lock.get("package").and_then(toml::Value::as_array).into_iter().flatten();
    let sums = packages.filter_map(|package| {
        let text = |key| Some(package.get(key)?.as_str()?.to_owned());
        Some(((text("name")?, text("version")?), text("checksum")?))
    });
    sums.collect()
}

/// Returns the document for `kilter` and its normal dependencies.
fn of_crates(metadata: &Value, checksums: &BTreeMap<(String, String), String>) -> Result<Value, String> {
    let missing = || "`cargo metadata` does not list the crate kilter".to_owned();
    let packages = by_id(&metadata["packages"]);
    let nodes = by_id(&metadata["resolve"]["nodes"]);
    let member = |id: &&str| packages.get(id).is_some_and(|package| package["name"] == "kilter");
    let members = metadata["workspace_members"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let program = members.into_iter().find(member).ok_or_else(missing)?;

    // Reference of each crate that was reached, with the references of its dependencies. The order is that of names.
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut components = BTreeMap::new();
    let mut pending = vec![program];
    while let Some(id) = pending.pop() {
        let package = packages.get(id).ok_or_else(missing)?;
        if edges.contains_key(&purl(package)) {
            continue;
        }
        let dependencies = nodes.get(id).map(|node| normal_dependencies(node)).unwrap_or_default();
        let references = dependencies.iter().filter_map(|id| packages.get(id)).map(|package| purl(package));
        edges.insert(purl(package), references.collect());
        let kind = if id == program { "application" } else { "library" };
        components.insert(purl(package), component(package, kind, checksums));
        pending.extend(dependencies);
    }
    let program = components.remove(&purl(packages[program])).ok_or_else(missing)?;
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": program },
        "components": components.into_values().collect::<Vec<_>>(),
        "dependencies": edges.iter().map(|(of, on)| json!({ "ref": of, "dependsOn": on })).collect::<Vec<_>>(),
    }))
}

fn by_id(list: &Value) -> BTreeMap<&str, &Value> {
    let entries = list.as_array().into_iter().flatten();
    entries.filter_map(|entry| Some((entry["id"].as_str()?, entry))).collect()
}

/// Returns the ids of dependencies that are neither of tests nor of build scripts.
fn normal_dependencies(node: &Value) -> Vec<&str> {
    let dependencies = node["deps"].as_array().into_iter().flatten();
    let normal = dependencies.filter(|dependency| {
        dependency["dep_kinds"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
    });
    normal.filter_map(|dependency| dependency["pkg"].as_str()).collect()
}

/// Returns the URL of a crate, which contains no directory of this machine.
fn purl(package: &Value) -> String {
    let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
    format!("pkg:cargo/{}@{}", text("name"), text("version"))
}

fn component(package: &Value, kind: &str, checksums: &BTreeMap<(String, String), String>) -> Value {
    let text = |key: &str| package[key].as_str().map(str::to_owned);
    let (name, version) = (text("name").unwrap_or_default(), text("version").unwrap_or_default());
    let mut component = json!({
        "type": kind, "name": name, "version": version, "bom-ref": purl(package), "purl": purl(package),
    });
    if let Some(license) = text("license") {
        // Some crates use the separator of before SPDX.
        component["licenses"] = json!([{ "expression": license.replace('/', " OR ") }]);
    }
    if let Some(sum) = checksums.get(&(name, version)) {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
    }
    if let Some(repository) = text("repository") {
        component["externalReferences"] = json!([{ "type": "vcs", "url": repository }]);
    }
    component
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_of_tests_and_directories_are_left_out() {
        let id = |name: &str| format!("path+file:///srv/{name}#1.0.0");
        let package =
            |name: &str, license: &str| json!({ "id": id(name), "name": name, "version": "1.0.0", "license": license });
        let on = |name: &str, kind: Value| json!({ "pkg": id(name), "dep_kinds": [{ "kind": kind }] });
        let used = package("used", "MIT/Apache-2.0");
        let metadata = json!({
            "packages": [package("kilter", "MIT"), used, package("tested", "MIT"), package("built", "MIT")],
            "workspace_members": [id("kilter")],
            "resolve": { "nodes": [{ "id": id("kilter"), "deps": [
                on("used", Value::Null), on("tested", json!("dev")), on("built", json!("build")),
            ] }] },
        });
        let lock = "[[package]]\nname = \"used\"\nversion = \"1.0.0\"\nchecksum = \"abcd\"\n".parse().unwrap();
        let document = of_crates(&metadata, &checksums(&lock)).unwrap();
        assert_eq!(document["metadata"]["component"]["bom-ref"], "pkg:cargo/kilter@1.0.0");
        let used = json!({
            "type": "library", "name": "used", "version": "1.0.0", "bom-ref": "pkg:cargo/used@1.0.0",
            "purl": "pkg:cargo/used@1.0.0", "licenses": [{ "expression": "MIT OR Apache-2.0" }],
            "hashes": [{ "alg": "SHA-256", "content": "abcd" }],
        });
        assert_eq!(document["components"], json!([used]));
        let dependencies = json!([
            { "ref": "pkg:cargo/kilter@1.0.0", "dependsOn": ["pkg:cargo/used@1.0.0"] },
            { "ref": "pkg:cargo/used@1.0.0", "dependsOn": [] },
        ]);
        assert_eq!(document["dependencies"], dependencies);
        assert!(!document.to_string().contains("/srv"));
    }
    #[test]
    fn document_of_this_workspace_lists_the_c_library_and_no_directory() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let document = document(root, "x86_64-unknown-linux-gnu").unwrap();
        assert!(
            ["pkg:cargo/kilter-engine@", "pkg:cargo/clap@", "pkg:generic/glibc@"]
                .iter()
                .all(|purl| document.contains(purl))
        );
        assert!(
            !document.contains("pkg:cargo/proptest@") && !document.contains(&*root.to_string_lossy()),
            "{document}"
        );
    }
}
