//! Built-in facts of machines that are simulated by trees of files.

use crate::support::FakeRoot;
use serde_json::json;

const DEBIAN: &str = "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nNAME=\"Debian GNU/Linux\"\nVERSION_ID=\"12\"\n\
    VERSION=\"12 (bookworm)\"\nVERSION_CODENAME=bookworm\nID=debian\n";

fn debian() -> FakeRoot {
    FakeRoot::new().with([("etc/os-release", DEBIAN), ("etc/debian_version", "12.5\n")])
}

#[test]
fn debian_has_its_point_release() {
    assert_eq!(
        debian().fact("os"),
        json!({
            "architecture": "amd64",
            "distro": {
                "codename": "bookworm",
                "description": "Debian GNU/Linux 12 (bookworm)",
                "id": "debian",
                "release": { "full": "12.5", "major": "12", "minor": "5" },
            },
            "family": "debian",
            "hardware": "x86_64",
            "name": "debian",
            "release": { "full": "12.5", "major": "12", "minor": "5" },
            "selinux": { "enabled": false },
        })
    );
    assert_eq!(debian().fact("architecture"), json!("amd64"));
}

#[test]
fn debian_testing_has_no_number() {
    let testing = FakeRoot::new()
        .with([("etc/os-release", "ID=debian\nVERSION_CODENAME=trixie\n"), ("etc/debian_version", "trixie/sid\n")]);
    assert_eq!(testing.fact("os.release"), json!(null));
    assert_eq!(testing.fact("os.distro.codename"), json!("trixie"));
}

#[test]
fn ubuntu_release_has_two_numbers() {
    let ubuntu = FakeRoot::new().with([
        (
            "etc/os-release",
            "PRETTY_NAME=\"Ubuntu 22.04.4 \
             LTS\"\nVERSION_ID=\"22.04\"\nVERSION_CODENAME=jammy\nID=ubuntu\nID_LIKE=debian\n",
        ),
        ("etc/debian_version", "bookworm/sid\n"),
    ]);
    assert_eq!(ubuntu.fact("os.release"), json!({ "full": "22.04", "major": "22.04" }));
    assert_eq!(ubuntu.fact("os.family"), json!("debian"));
    assert_eq!(ubuntu.fact("os.name"), json!("ubuntu"));
    assert_eq!(ubuntu.fact("os.architecture"), json!("amd64"));
}

#[test]
fn rocky_is_of_the_redhat_family_and_enforces_selinux() {
    let rocky = FakeRoot::new().with([
        (
            "etc/os-release",
            "NAME=\"Rocky Linux\"\nVERSION=\"9.3 (Blue Onyx)\"\nID=\"rocky\"\nID_LIKE=\"rhel centos \
             fedora\"\nVERSION_ID=\"9.3\"\n",
        ),
        ("etc/redhat-release", "Rocky Linux release 9.3 (Blue Onyx)\n"),
        ("sys/fs/selinux/enforce", "1"),
        ("sys/fs/selinux/policyvers", "33"),
        ("etc/selinux/config", "# mode\nSELINUX=enforcing\nSELINUXTYPE=targeted\n"),
    ]);
    assert_eq!(rocky.fact("os.family"), json!("redhat"));
    assert_eq!(rocky.fact("os.release.minor"), json!("3"));
    assert_eq!(rocky.fact("os.distro.codename"), json!("Blue Onyx"));
    assert_eq!(rocky.fact("os.architecture"), json!("x86_64"));
    assert_eq!(
        rocky.fact("os.selinux"),
        json!({
            "config_mode": "enforcing",
            "config_policy": "targeted",
            "current_mode": "enforcing",
            "enabled": true,
            "enforced": true,
            "policy_version": "33",
        })
    );
}

#[test]
fn alpine_has_three_numbers() {
    let alpine = FakeRoot::new().with([
        ("etc/os-release", "NAME=\"Alpine Linux\"\nID=alpine\nVERSION_ID=3.19.1\n"),
        ("etc/alpine-release", "3.19.1\n"),
    ]);
    assert_eq!(alpine.fact("os.release"), json!({ "full": "3.19.1", "major": "3", "minor": "19" }));
    assert_eq!(alpine.fact("os.family"), json!("alpine"));
}

#[test]
fn an_unknown_distribution_is_its_own_family() {
    let other = FakeRoot::new().with([("usr/lib/os-release", "ID=void\n")]);
    assert_eq!(other.fact("os.family"), json!("void"));
}

#[test]
fn facts_without_system_files_omit_unknown_values() {
    let facts = FakeRoot::new().facts();
    let all = facts.all();
    assert_eq!(all["kernel"].to_string(), "Linux");
    assert!(!all.contains_key("memory"), "{all:?}");
    assert_eq!(facts.problems(), []);
}

#[test]
fn kernel_version_has_four_forms() {
    let machine = debian();
    assert_eq!(machine.fact("kernelrelease"), json!("6.1.0-18-amd64"));
    assert_eq!(machine.fact("kernelversion"), json!("6.1.0"));
    assert_eq!(machine.fact("kernelmajversion"), json!("6.1"));
    assert_eq!(machine.fact("fips_enabled"), json!(false));
}

#[test]
fn memory_has_bytes_and_readable_sizes() {
    let machine = FakeRoot::new().with([(
        "proc/meminfo",
        "MemTotal:        2048000 kB\nMemFree:  100 kB\nMemAvailable:    1024000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n",
    )]);
    assert_eq!(
        machine.fact("memory"),
        json!({ "system": {
            "available": "1000.00 MiB",
            "available_bytes": 1_048_576_000,
            "capacity": "50.00%",
            "total": "1.95 GiB",
            "total_bytes": 2_097_152_000,
            "used": "1000.00 MiB",
            "used_bytes": 1_048_576_000,
        } })
    );
}

#[test]
fn processors_are_counted_by_socket_core_and_thread() {
    let cpu = |number: u8, package: u8, core: u8| {
        format!(
            "processor\t: {number}\nmodel name\t: Xeon\ncpu MHz\t\t: 2299.998\nphysical id\t: {package}\ncore id\t\t: \
             {core}\n\n"
        )
    };
    let text = [cpu(0, 0, 0), cpu(1, 0, 0), cpu(2, 1, 0), cpu(3, 1, 0)].concat();
    let machine = FakeRoot::new().with([("proc/cpuinfo", &text), ("sys/devices/system/cpu/online", "0-3\n")]);
    assert_eq!(
        machine.fact("processors"),
        json!({
            "cores": 1, "count": 4, "isa": "x86_64", "models": ["Xeon", "Xeon", "Xeon", "Xeon"],
            "physicalcount": 2, "speed": "2.30 GHz", "threads": 2,
        })
    );
}

#[test]
fn an_arm_machine_without_models_is_counted_by_sysfs() {
    let machine = FakeRoot::new().with([
        ("proc/cpuinfo", "processor\t: 0\nBogoMIPS\t: 50.00\n\nprocessor\t: 1\nBogoMIPS\t: 50.00\n"),
        ("sys/devices/system/cpu/cpu0/topology/physical_package_id", "0"),
        ("sys/devices/system/cpu/cpu0/topology/core_id", "0"),
        ("sys/devices/system/cpu/cpu1/topology/physical_package_id", "0"),
        ("sys/devices/system/cpu/cpu1/topology/core_id", "1"),
        ("sys/devices/system/cpu/cpufreq/policy0/x", ""),
    ]);
    assert_eq!(
        machine.fact("processors"),
        json!({ "cores": 2, "count": 2, "isa": "x86_64", "physicalcount": 1, "threads": 1 })
    );
}

#[test]
fn mountpoints_omit_kernel_and_network_file_systems() {
    let machine = FakeRoot::new().with([
        (
            "proc/self/mountinfo",
            "22 27 0:21 / /proc rw,relatime - proc proc rw\n\
             26 1 0:5 / /old rw - ext4 /dev/vdb rw\n\
             27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw,discard\n\
             30 27 0:40 / /srv/a\\040b ro,nosuid - nfs4 server:/export rw\n",
        ),
        ("sys/dev/block/254:0/uevent", "MAJOR=254\nMINOR=0\nDEVNAME=vda\n"),
        ("srv/a b/file", ""),
    ]);
    let mountpoints = machine.fact("mountpoints");
    assert_eq!(
        mountpoints["/"],
        json!({
            "available": "200.00 MiB", "available_bytes": 209_715_200, "capacity": "78.95%", "device": "/dev/vda",
            "filesystem": "ext4", "options": ["rw", "relatime"], "size": "1000.00 MiB", "size_bytes": 1_048_576_000,
            "used": "750.00 MiB", "used_bytes": 786_432_000,
        })
    );
    assert_eq!(
        mountpoints["/srv/a b"],
        json!({ "device": "server:/export", "filesystem": "nfs4", "options": ["ro", "nosuid"] })
    );
    assert_eq!(mountpoints.get("/proc"), None);
}

#[test]
fn identity_comes_from_local_files() {
    let machine = FakeRoot::new().with([
        ("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n"),
        ("etc/group", "root:x:0:\nstaff:x:1000:ann\n"),
    ]);
    assert_eq!(
        machine.fact("identity"),
        json!({ "gid": 1000, "group": "staff", "privileged": false, "uid": 1000, "user": "ann" })
    );
}

#[test]
fn uptime_and_load_are_read() {
    let machine =
        FakeRoot::new().with([("proc/uptime", "93784.62 2292.58\n"), ("proc/loadavg", "0.50 1.25 2.00 1/2 3\n")]);
    assert_eq!(machine.fact("system_uptime"), json!({ "days": 1, "hours": 26, "seconds": 93_784, "uptime": "1 day" }));
    assert_eq!(machine.fact("load_averages"), json!({ "1m": 0.5, "5m": 1.25, "15m": 2.0 }));
}

#[test]
fn disks_and_partitions_are_read() {
    let machine = FakeRoot::new().with([
        ("sys/block/sda/size", "2048\n"),
        ("sys/block/sda/queue/rotational", "1\n"),
        ("sys/block/sda/device/model", "Disk 9  \n"),
        ("sys/block/sda/sda1/size", "1024\n"),
        ("sys/block/sda/sda1/partition", "1\n"),
        ("sys/block/loop0/size", "8\n"),
        ("proc/self/mountinfo", "27 1 8:1 / / rw - ext4 /dev/sda1 rw\n"),
    ]);
    assert_eq!(
        machine.fact("disks"),
        json!({ "sda": { "model": "Disk 9", "size": "1.00 MiB", "size_bytes": 1_048_576, "type": "hdd" } })
    );
    assert_eq!(
        machine.fact("partitions"),
        json!({ "/dev/sda1": { "filesystem": "ext4", "mount": "/", "size": "512.00 KiB", "size_bytes": 524_288 } })
    );
}

#[test]
fn dmi_and_ssh_keys_are_read() {
    let machine = FakeRoot::new().with([
        ("sys/class/dmi/id/product_name", "ProLiant\n"),
        ("sys/class/dmi/id/chassis_type", "23\n"),
        ("etc/ssh/ssh_host_ed25519_key.pub", "ssh-ed25519 AAAAC3 root@web1\n"),
    ]);
    assert_eq!(
        machine.fact("dmi"),
        json!({ "chassis": { "type": "Rack Mount Chassis" }, "product": { "name": "ProLiant" } })
    );
    assert_eq!(machine.fact("ssh"), json!({ "ed25519": { "key": "AAAAC3", "type": "ssh-ed25519" } }));
}
