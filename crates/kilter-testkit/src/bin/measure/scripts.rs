//! What providers that are scripts cost, above what the scripts cost by themselves.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::run::{Bench, best};
use super::table::Table;

/// Milliseconds of user time that libral's own `ralsh`, built with optimisation, takes for a listing by one provider of
/// the convention `simple`, in the measurements that came with the design.
const RALSH: f64 = 24.0;

const METADATA: &str = "provider:\n  type: tt\n  invoke: simple\n  actions: [list, find]\n  suitable: true\n  attributes:\n    name:\n    \
                        ensure: {type: \"enum[present, absent]\"}\n    version: {type: string}\n    platform: {type: string}\n";

/// Lists so many, and finds any.
fn script(place: &Path, count: usize, metadata: &str) -> PathBuf {
    let place = &place.join("providers");
    std::fs::create_dir(place).expect("there is room");
    let resource = |name: &str| format!("name: {name}\nensure: present\nversion: 1.2.3-4\nplatform: amd64\n");
    let list: String = (0..count).map(|number| resource(&format!("package-{number}"))).collect();
    std::fs::write(place.join("list"), format!("# simple\n{list}")).expect("there is room");
    let script = place.join("t.prov");
    let text = format!(
        "#!/bin/bash\neval \"$@\"\ncase \"$ral_action\" in\nlist) printf '%s\\n' \"$(<'{}')\" ;;\n\
         find) printf '# simple\\n{}' \"$name\" ;;\nesac\n",
        place.join("list").display(),
        resource("%s").replace('\n', "\\n")
    );
    std::fs::write(&script, text).expect("there is room");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("it was just made");
    std::fs::write(place.join("t.yaml"), metadata).expect("there is room");
    script
}

/// A listing of 1,000, one resource, and 500 of which each is asked for.
pub(crate) fn scripts(bench: &Bench, table: &mut Table) {
    let place = bench.directory("scripts");
    let path = script(&place, 1000, METADATA);
    let include = place.display().to_string();
    let alone = |words: &[&str]| {
        let mut command = Command::new(&path);
        command.env_clear().env("PATH", "/usr/bin:/bin").args(words);
        command
    };
    let (listed, own) =
        (best(40, || bench.kilter(&["-I", &include, "get", "tt"])), best(40, || alone(&["ral_action=list"])));
    table.limit("1000 resources of a script, CPU above the script's", listed.cpu - own.cpu, "ms", 3.0);
    let (got, own) = (
        best(40, || bench.kilter(&["-I", &include, "get", "tt", "package-7"])),
        best(40, || alone(&["name='package-7'", "ral_action=find"])),
    );
    table.limit("one resource of a script, CPU above bash's", got.cpu - own.cpu, "ms", 5.0);
    table.limit("one resource of a script, wall above bash's", got.wall - own.wall, "ms", 5.0);
    let ralsh = place.join("ralsh");
    std::os::unix::fs::symlink(bench.kilter(&[]).get_program(), &ralsh).expect("there is room");
    let called = best(40, || {
        let mut command = Command::new(&ralsh);
        command.args(["-I", &include, "tt"]).env("KILTER_STATE_DIR", bench.scratch().join("state"));
        command
    });
    table.ratio("the same as `ralsh`, CPU with the script's", called.cpu, RALSH, "ms", "libral's, user", 0.2);
    many(bench, table);
}

/// A provider that can only find: 500 are asked for one by one, some at a time.
fn many(bench: &Bench, table: &mut Table) {
    let place = bench.directory("finds");
    let path = script(&place, 0, &METADATA.replace("[list, find]", "[find]"));
    let include = place.display().to_string();
    let names: Vec<String> = (0..500).map(|number| format!("package-{number}")).collect();
    let mut words = vec!["-I", &include, "get", "tt"];
    words.extend(names.iter().map(String::as_str));
    let all = best(5, || bench.kilter(&words));
    let one = best(40, || {
        let mut command = Command::new(&path);
        command.args(["name='package-7'", "ral_action=find"]);
        command
    });
    table.ratio("500 finds by a script, CPU", all.cpu, 500.0 * one.cpu, "ms", "the scripts alone", 1.5);
    table.ratio("500 finds by a script, wall", all.wall, 500.0 * one.wall, "ms", "one after the other", 0.8);
}
