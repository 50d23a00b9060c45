//! Recognition of containers and hypervisors.

use crate::support::FakeRoot;
use serde_json::json;

#[track_caller]
fn assert_virtual<const N: usize>(files: [(&str, &str); N], expected: &str) {
    let machine = FakeRoot::new().with(files);
    assert_eq!(machine.fact("virtual"), json!(expected));
    assert_eq!(machine.fact("is_virtual"), json!(expected != "physical"));
}

#[test]
fn machine_without_hypervisor_signs_is_physical() {
    assert_virtual([("proc/2/comm", "kthreadd\n"), ("proc/cpuinfo", "flags\t: fpu vme\n")], "physical");
}

#[test]
fn containers_are_recognised_by_files_of_their_managers() {
    assert_virtual([("run/systemd/container", "systemd-nspawn\n")], "systemd_nspawn");
    assert_virtual([("proc/1/environ", "PATH=/bin\0container=lxc\0")], "lxc");
    assert_virtual([("proc/1/cgroup", "0::/docker/0123abcd\n")], "docker");
    assert_virtual([("proc/1/cgroup", "0::/kubepods.slice/kubepods-pod1.slice/cri-1.scope\n")], "kubernetes");
    assert_virtual([("run/.containerenv", "")], "podman");
    assert_virtual([(".dockerenv", ""), ("proc/2/comm", "sh\n")], "docker");
}

#[test]
fn machine_from_a_container_image_is_not_a_container() {
    assert_virtual(
        [
            (".dockerenv", ""),
            ("proc/2/comm", "kthreadd\n"),
            ("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc kvm-clock \n"),
        ],
        "kvm",
    );
}

#[test]
fn hypervisors_are_recognised_by_firmware() {
    assert_virtual([("sys/class/dmi/id/sys_vendor", "QEMU\n")], "kvm");
    assert_virtual([("sys/class/dmi/id/product_name", "VMware Virtual Platform\n")], "vmware");
    assert_virtual([("sys/class/dmi/id/product_name", "VirtualBox\n")], "virtualbox");
    assert_virtual([("sys/class/dmi/id/product_name", "Google Compute Engine\n")], "gce");
    assert_virtual(
        [
            ("sys/class/dmi/id/sys_vendor", "Microsoft Corporation\n"),
            ("sys/class/dmi/id/product_name", "Virtual Machine\n"),
        ],
        "hyperv",
    );
}

#[test]
fn microsofts_hardware_and_amazons_bare_machines_are_physical() {
    assert_virtual(
        [("sys/class/dmi/id/sys_vendor", "Microsoft Corporation\n"), ("sys/class/dmi/id/product_name", "Surface\n")],
        "physical",
    );
    assert_virtual(
        [("sys/class/dmi/id/sys_vendor", "Amazon EC2\n"), ("sys/class/dmi/id/product_name", "c5.metal\n")],
        "physical",
    );
}

#[test]
fn xens_first_domain_is_the_machine_itself() {
    assert_virtual([("sys/hypervisor/type", "xen\n"), ("sys/hypervisor/guest_type", "HVM\n")], "xenhvm");
    assert_virtual([("sys/hypervisor/type", "xen\n"), ("proc/xen/capabilities", "control_d\n")], "physical");
}

#[test]
fn hypervisor_flag_without_name_is_recognised() {
    assert_virtual([("proc/cpuinfo", "flags\t\t: fpu hypervisor vme\n")], "unknown_hypervisor");
}
