use kilter_devkit::conformance::{Sample, Subject, Suite, Unsupported};
use kilter_native::SysctlProvider;

use crate::{assert_edges, assert_held_but, tree};

const FILE: &str = "# mine\n-net.ipv4.tcp_sack = 0\n  nonsense";

fn subject() -> Subject {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let root = directory.path().to_owned();
    for (path, text) in [
        ("etc/sysctl.d/zz-kilter.conf", FILE),
        ("proc/sys/net/ipv4/ip_forward", "0\n"),
        ("proc/sys/net/ipv4/tcp_rmem", "1\t2\t3\n"),
    ] {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("the directory is new");
        std::fs::write(path, text).expect("the directory is new");
    }
    let below = root.clone();
    let forward = Sample::new("net.ipv4.ip_forward")
        .present([("live", "1"), ("kept", "2")])
        .changed([("live", "0")])
        .changed([("kept", "4")]);
    let memory = Sample::new("net.ipv4.tcp_rmem").present([("value", "7 8 9")]).changed([("value", "a text")]);
    Subject::new(move || SysctlProvider::new(&root), move || tree::fingerprint(&below))
        .specimen(forward)
        .specimen(memory)
        .unknown(["net.kilter.nothing"])
        .failing(Sample::new("net.kilter.nothing").present([("value", "1")]))
        .without(Unsupported::Slow, "files are written at once")
        .names_like(|text| format!("net.kilter.{}", text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>()))
        .keeping(directory)
}

#[test]
fn sysctl_conforms() {
    let report = Suite::new(subject).run();
    assert_held_but(
        &report,
        &[
            ("titles-fit-namevars", "the type has one namevar"),
            ("a-refresh-is-served", "the provider does not have the feature `refresh`"),
            ("ensure-absent-removes", "the type has no `ensure: absent`"),
            ("absent-stays-absent", "the type has no `ensure: absent`"),
            ("an-interrupt-ends-a-call", "files are written at once"),
        ],
    );
    assert_edges(&report, 20, "");
}
