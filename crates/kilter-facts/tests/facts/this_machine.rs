//! The facts of the machine that the tests run on, against what others say of it.

use std::process::Command;

use kilter_facts::{FactSource, Facts};
use kilter_model::Value;

fn facts() -> Facts {
    Facts::new(FactSource::live())
}

fn integer(path: &str) -> i64 {
    facts().lookup(path).unwrap().as_integer().unwrap()
}

fn text(path: &str) -> String {
    facts().lookup(path).unwrap().as_str().unwrap().to_owned()
}

fn output(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().unwrap();
    assert!(output.status.success(), "{program} {args:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn kernel_facts_match_uname() {
    assert_eq!(text("kernel"), output("uname", &["-s"]));
    assert_eq!(text("kernelrelease"), output("uname", &["-r"]));
    assert_eq!(text("os.hardware"), output("uname", &["-m"]));
    let node = output("uname", &["-n"]);
    assert_eq!(text("networking.hostname"), node.split('.').next().unwrap());
}

#[test]
fn processor_count_matches_nproc() {
    assert_eq!(integer("processors.count").to_string(), output("getconf", &["_NPROCESSORS_ONLN"]));
}

#[test]
fn memory_matches_the_kernel() {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap();
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap();
    let kilobytes: i64 = total.split_whitespace().next().unwrap().parse().unwrap();
    assert_eq!(integer("memory.system.total_bytes"), kilobytes * 1024);
    let (used, available) = (integer("memory.system.used_bytes"), integer("memory.system.available_bytes"));
    assert!(used > 0 && available > 0, "{used} {available}");
}

#[test]
fn identity_matches_id() {
    assert_eq!(integer("identity.uid").to_string(), output("id", &["-u"]));
    assert_eq!(text("identity.user"), output("id", &["-un"]));
    assert_eq!(text("identity.group"), output("id", &["-gn"]));
}

#[test]
fn root_file_system_size_matches_df() {
    let size = output("df", &["--block-size=1", "--output=size", "/"]);
    let size = size.lines().last().unwrap().trim().to_owned();
    assert_eq!(integer("mountpoints./.size_bytes").to_string(), size);
}

#[test]
fn time_zone_matches_date() {
    let date = Command::new("date").arg("+%Z").env_remove("TZ").output().unwrap();
    assert_eq!(text("timezone"), String::from_utf8(date.stdout).unwrap().trim());
}

#[test]
fn loopback_is_an_interface_with_its_address() {
    assert_eq!(text("networking.interfaces.lo.ip"), "127.0.0.1");
    assert_eq!(text("networking.interfaces.lo.netmask"), "255.0.0.0");
}

#[test]
fn all_facts_match_single_queries() {
    let facts = facts();
    let all = facts.all();
    for (name, value) in &all {
        assert_eq!(facts.get(name).as_ref(), Some(value), "{name}");
    }
    for name in ["os", "kernel", "networking", "memory", "processors", "mountpoints", "identity", "virtual"] {
        assert!(all.contains_key(name), "{name}");
    }
    assert!(matches!(all["is_virtual"], Value::Boolean(_)));
}
