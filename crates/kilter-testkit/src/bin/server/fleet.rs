//! The server on eight hosts at once, from a controller, in two groups.

use kilter_testkit::fleet::{Finished, Fleet, names};
use serde_json::Value as Json;

use crate::empty_host::{Inputs, NAME, PREPARE, json};

/// Number of hosts.
const HOSTS: usize = 8;

/// Number of the first host of the second group, which has another port.
const SECOND_GROUP: usize = 6;

/// Text with the characters that a shell, ssh or YAML would change.
const TEXT: &str = "a'b\"c\\d $(touch /x) `touch /x` ${HOME} %h !x\n\ttab\n \u{fc}\n";

/// Applies the manifests to eight empty hosts over ssh: one plan, two groups, and no change afterwards.
pub(crate) fn run(inputs: &Inputs) -> Result<(), String> {
    let files = inputs.files();
    let fleet = Fleet::boot(inputs.program.clone(), HOSTS, &files)?;
    // The host name is part of a file, and hosts with different files are different groups.
    let prepare = format!("hostname {NAME}; echo {NAME} >/etc/hostname; {PREPARE}");
    std::thread::scope(|scope| {
        let prepared: Vec<_> =
            fleet.hosts().iter().map(|host| scope.spawn(|| host.run(&["bash", "-euc", &prepare]).code)).collect();
        prepared.into_iter().all(|thread| thread.join().is_ok_and(|code| code == 0))
    })
    .then_some(())
    .ok_or("a host has no repository of packages")?;
    let manifests = written(&fleet, inputs)?;
    let with = |words: &[&str]| {
        let mut args = vec!["--on", "all"];
        args.extend_from_slice(words);
        args.extend(manifests.iter().map(String::as_str));
        args.extend(["--var", "repository=/srv/sources/shop.git", "--var", "theme=/srv/sources/theme-1.2.tar.gz"]);
        fleet.kilter(&args)
    };

    let plan = with(&["plan", "--format", "json", "-o", "server.plan"]);
    plan.expect(plan.code == 2, "exit code 2 of the plan")?;
    let groups = groups(&plan)?;
    let expected = [names(1..SECOND_GROUP), names(SECOND_GROUP..HOSTS + 1)];
    plan.expect(groups == expected, &format!("the groups are {groups:?}"))?;
    println!("plan of {HOSTS} hosts: {:.1} s, groups of {} and {}", seconds(&plan), groups[0].len(), groups[1].len());

    let applied = fleet.kilter(&["apply", "--yes", "server.plan"]);
    let summary = format!("{HOSTS} hosts: {HOSTS} applied");
    applied.expect(applied.code == 0 && applied.stderr.contains(&summary), &summary)?;
    println!("apply: {:.1} s", seconds(&applied));
    print!("{}", applied.stdout);

    let second = with(&["plan", "--format", "json"]);
    second.expect(second.code == 0, "the second plan has no changes")?;
    println!("second plan: {:.1} s, {HOSTS} hosts unchanged", seconds(&second));

    for number in 1..=HOSTS {
        let port = if number < SECOND_GROUP { "8080" } else { "9090" };
        let script =
            format!("grep -qx PORT={port} /etc/shop/settings.env; systemctl is-active nginx postgresql; test ! -e /x");
        let found = fleet.host(number).run(&["bash", "-euc", &script]);
        applied.expect(found.code == 0, &format!("h{number} is not the declared server: {found:?}"))?;
        let text = std::fs::read_to_string(fleet.host(number).root().join("srv/text")).unwrap_or_default();
        applied.expect(text == TEXT, &format!("/srv/text of h{number} is {text:?}"))?;
    }
    let left = fleet.hosts().iter().map(|host| {
        host.run(&[
            "bash",
            "-c",
            "pgrep -x kilter; ls -d /tmp/*kilter* /dev/shm/*kilter* /run/kilter-$(printf '?%.0s' {1..32})",
        ])
    });
    let left: Vec<String> = left.map(|found| found.stdout).filter(|found| !found.is_empty()).collect();
    applied.expect(left.is_empty(), &format!("left on the hosts: {left:?}"))
}

/// Writes the manifests and the inventory for the controller. Returns the names of the manifests.
fn written(fleet: &Fleet, inputs: &Inputs) -> Result<Vec<String>, String> {
    let hosts: String = (1..=HOSTS).map(|number| format!("  {}\n", fleet.entry(number))).collect();
    let second = names(SECOND_GROUP..HOSTS + 1).join(", ");
    fleet.write(
        "hosts.yaml",
        &format!("hosts:\n{hosts}groups:\n  second: {{hosts: [{second}], vars: {{port: 9090}}}}\n"),
    )?;
    let text = serde_json::to_string(&TEXT.replace("${", "$${")).map_err(|error| error.to_string())?;
    let own = format!("resources:\n  file[/srv/text]: {{content: {text}}}\n");
    let texts = inputs.texts.iter().chain([&own]).enumerate();
    texts
        .map(|(number, text)| {
            let name = format!("{number}.yaml");
            fleet.write(&name, text).map(|()| name)
        })
        .collect()
}

/// Returns the hosts of each group, the largest first.
fn groups(plan: &Finished) -> Result<Vec<Vec<String>>, String> {
    let document: Json = json(&plan.stdout)?;
    let hosts = |group: &Json| {
        group["hosts"].as_array().into_iter().flatten().filter_map(|host| host.as_str().map(str::to_owned)).collect()
    };
    Ok(document["groups"].as_array().into_iter().flatten().map(hosts).collect())
}

fn seconds(finished: &Finished) -> f64 {
    finished.time.as_secs_f64()
}
