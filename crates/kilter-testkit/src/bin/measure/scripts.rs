//! Measures script providers: kilter's cost in addition to that of the scripts.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::peer;
use super::run::{Cost, MeasureSetup, best, best_of_both, least, once, once_read};
use super::table::CostTable;

/// Number of repetitions of short measurements. The minimum of a few runs is still above the actual cost.
const SERIES: usize = 200;

const METADATA: &str = "provider:\n  type: tt\n  invoke: simple\n  actions: [list, find]\n  suitable: true\n  \
                        attributes:\n    name:\n    \
                        ensure: {type: \"enum[present, absent]\"}\n    version: {type: string}\n    platform: {type: \
                        string}\n";

/// Creates a script that lists `count` resources and finds any resource.
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

/// Returns the script without kilter, in the same environment, because bash pays for the locale in both cases.
fn alone(script: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(script);
    let locale = [("LANG", "C.UTF-8"), ("LC_ALL", "C.UTF-8")];
    command.env_clear().env("PATH", "/usr/bin:/bin").envs(locale).args(words);
    command
}

/// Returns kilter's cost in addition to that of the script with a reader, and the cost of the script. The latter
/// shows the current speed of the machine.
fn above(bench: &MeasureSetup, script: (&Path, &[&str]), words: &[&str]) -> (Cost, Cost) {
    let [kilter, own] =
        best_of_both(SERIES, [&mut || once(bench.kilter(words)), &mut || once_read(alone(script.0, script.1))]);
    (Cost { cpu: kilter.cpu - own.cpu, wall: kilter.wall - own.wall, ..kilter }, own)
}

fn script_alone(cost: f64) -> String {
    format!("the script {cost:.2} ms")
}

/// Measures a listing of 1,000 resources, a single resource, and 500 separate queries.
pub(crate) fn scripts(bench: &MeasureSetup, table: &mut CostTable) {
    let place = bench.directory("scripts");
    let path = script(&place, 1000, METADATA);
    let include = place.display().to_string();
    let (listed, own) = above(bench, (&path, &["ral_action=list"]), &["-I", &include, "get", "tt"]);
    let what = "1000 resources of a script, CPU above the script's";
    table.ratio(what, listed.cpu, own.cpu, "ms", "the script", 2.0);
    let (got, own) =
        above(bench, (&path, &["name='package-7'", "ral_action=find"]), &["-I", &include, "get", "tt", "package-7"]);
    table.limit_beside("one resource of a script, CPU above bash's", got.cpu, script_alone(own.cpu), "ms", 5.0);
    table.limit_beside("one resource of a script, wall above bash's", got.wall, script_alone(own.wall), "ms", 5.0);
    as_ralsh(bench, table, &place);
    many(bench, table);
}

/// Measures the listing by kilter under the name `ralsh`, and by libral's `ralsh`.
fn as_ralsh(bench: &MeasureSetup, table: &mut CostTable, place: &Path) {
    let Some(peer) = peer::ralsh() else { return };
    let own = place.join("ralsh");
    std::os::unix::fs::symlink(bench.kilter(&[]).get_program(), &own).expect("there is room");
    let listing = |program: &Path| {
        let mut command = Command::new(program);
        command.arg("-I").arg(place).arg("tt").env("KILTER_STATE_DIR", bench.scratch().join("state"));
        command
    };
    let (own, peer) = (best(SERIES, || listing(&own)), best(SERIES, || listing(&peer)));
    table.ratio("1000 resources listed by `ralsh`, CPU with the script's", own.cpu, peer.cpu, "ms", "libral's", 0.2);
}

/// Measures a provider without a list: 500 single queries, some of them in parallel.
fn many(bench: &MeasureSetup, table: &mut CostTable) {
    let place = bench.directory("finds");
    let path = script(&place, 0, &METADATA.replace("[list, find]", "[find]"));
    let include = place.display().to_string();
    let names: Vec<String> = (0..500).map(|number| format!("package-{number}")).collect();
    let mut words = vec!["-I", &include, "get", "tt"];
    words.extend(names.iter().map(String::as_str));
    let all = best(5, || bench.kilter(&words));
    // The sum of minima would be less than the cost of a sequence.
    let alone = least((0..3).map(|_| {
        let one = |_| once(alone(&path, &["name='package-7'", "ral_action=find"]));
        names.iter().map(one).fold(Cost::default(), |a, b| Cost { cpu: a.cpu + b.cpu, wall: a.wall + b.wall, ..b })
    }));
    table.ratio("500 finds by a script, CPU", all.cpu, alone.cpu, "ms", "the scripts alone", 1.5);
    table.ratio("500 finds by a script, wall", all.wall, alone.wall, "ms", "one after the other", 0.8);
}
