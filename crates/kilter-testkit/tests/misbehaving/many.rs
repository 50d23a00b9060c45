//! Requests that are large.

use std::sync::Arc;
use std::time::Duration;

use ecow::EcoString;
use kilter_provider::{Context, Query, Wanted};
use kilter_script::{Limits, Script, ScriptEnvironment, Scripts};

use crate::harness::{ScenarioDir, TestedCall};

#[test]
fn a_script_that_never_reads_a_large_request_does_no_harm() {
    let place = ScenarioDir::new("json", TestedCall::Read, "ignores-stdin");
    let provider = place.provider();
    let names: Vec<EcoString> =
        (0..50_000).map(|number| EcoString::from(format!("resource number {number}"))).collect();
    let wanted: Vec<Wanted<'_>> = names.iter().map(|name| Wanted::new(name, None)).collect();
    let states = provider.get(&Context::empty(), Query::Named(&wanted)).unwrap();
    assert!(states.len() == 50_000 && states.iter().all(|state| !state.exists));
}

/// A script that prints what `print` prints, with more metadata.
fn printing(place: &tempfile::TempDir, metadata: &str, print: &str) -> Arc<dyn Script> {
    use std::os::unix::fs::PermissionsExt;
    let script = place.path().join("t.prov");
    std::fs::write(&script, format!("#!/bin/sh\n{print}\n")).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let text = format!(
        "provider:\n  type: tt\n  invoke: simple\n  suitable: true\n{metadata}  attributes:\n    name:\n    v: \
         {{type: string}}\n"
    );
    std::fs::write(place.path().join("t.yaml"), text).unwrap();
    let limits = Limits { read: Duration::from_secs(60), ..Limits::default() };
    let surroundings = Arc::new(ScriptEnvironment { limits, ..ScriptEnvironment::new() });
    let found = Scripts::find(&[place.path().to_owned()], None, &surroundings);
    found.providers.into_iter().next().unwrap_or_else(|| panic!("{:?}", found.notes))
}

fn list(provider: &Arc<dyn Script>) -> Result<usize, String> {
    let states = provider.get(&Context::empty(), Query::All);
    states.map(|states| states.len()).map_err(|error| error.message.to_string())
}

#[test]
fn list_limit_follows_metadata() {
    let print = "echo '# simple'; seq -f 'name: package-number-%g' 1 100000";
    let place = tempfile::tempdir().unwrap();
    assert_eq!(list(&printing(&place, "", print)), Ok(100_000));
    let why = list(&printing(&place, "  output: 1\n", print)).unwrap_err();
    assert!(why.contains("exceeded the output limit: 1 MiB (`output` in its metadata allows more)"), "{why}");
    let print = "echo '# simple'; seq -f 'name: package-number-%06.0f' 1 400000";
    let why = list(&printing(&place, "", print)).unwrap_err();
    assert!(why.contains("too many values, which would need more than 56 MiB of memory"), "{why}");
    assert_eq!(list(&printing(&place, "  output: 64\n", print)), Ok(400_000));
}
