use std::path::PathBuf;
use std::sync::Arc;

use kilter_model::{Difference, Value};
use kilter_process::{Cancel, Captured, Output, SpawnError, Status};
use kilter_provider::{check, get_checked};

use super::*;
use crate::accounts::Runner;

/// Runs `mount`, `umount`, `swapon` and `swapoff` on the files below a directory. A name that contains `busy` fails,
/// and so does the mount of the device `broken`. The mount of the device `missing` succeeds without an effect. While a
/// name that contains `raced` is unmounted, another program adds a line to fstab.
struct FakeKernel {
    root: PathBuf,
    calls: Mutex<Vec<String>>,
}

impl FakeKernel {
    fn proc(&self, name: &str) -> String {
        std::fs::read_to_string(self.root.join("proc").join(name)).unwrap()
    }

    fn mounts(&self) -> String {
        self.proc("self/mountinfo")
    }

    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }
}

impl Runner for FakeKernel {
    fn run(&self, invocation: &Invocation, _: Cancel<'_>) -> Result<Output, SpawnError> {
        let words = std::iter::once(&invocation.program).chain(&invocation.args);
        let argv: Vec<&str> = words.map(|word| word.to_str().unwrap()).collect();
        self.calls.lock().unwrap().push(argv.join(" "));
        let name = argv[argv.len() - 1];
        let table = || FstabTable::parse(&std::fs::read(self.root.join("etc/fstab")).unwrap());
        let mounts =
            |device: &str| argv[0] == "mount" && table().find(name).is_some_and(|entry| entry.device == device);
        if name.contains("busy") || mounts("broken") {
            let stderr = Captured { bytes: b"target is busy.".to_vec(), dropped: 0 };
            return Ok(Output { stderr, ..Output::of(Status::Code(32)) });
        }
        if mounts("missing") {
            return Ok(Output::of(Status::Code(0)));
        }
        if name.contains("raced") && argv[0] == "umount" {
            let path = self.root.join("etc/fstab");
            std::fs::write(&path, std::fs::read_to_string(&path).unwrap() + "# theirs\n").unwrap();
        }
        let table = table();
        let without = |file: &str, at: usize| -> String {
            let mut lines: Vec<String> = self.proc(file).lines().map(str::to_owned).collect();
            if let Some(last) = lines.iter().rposition(|line| line.split(' ').nth(at) == Some(name)) {
                lines.remove(last);
            }
            lines.into_iter().map(|line| line + "\n").collect()
        };
        let line = |options: &str| {
            let entry = table.find(name).unwrap();
            format!("9 1 0:1 / {name} {options} - {} {} rw\n", entry.fstype, entry.device)
        };
        let (file, text) = match argv[..] {
            ["mount", "--", _] => {
                let options = table.find(name).unwrap().options.replace("defaults", "rw");
                ("self/mountinfo", self.mounts() + &line(&options))
            }
            ["mount", "-o", words, "--", _] => {
                ("self/mountinfo", without("self/mountinfo", 4) + &line(&words.replace("remount", "rw")))
            }
            ["umount", "--", _] => ("self/mountinfo", without("self/mountinfo", 4)),
            ["swapon", "--", _] => ("swaps", self.proc("swaps") + &format!("{name} file 1 0 -2\n")),
            ["swapoff", "--", _] => ("swaps", without("swaps", 0)),
            _ => return Ok(Output::of(Status::Code(0))),
        };
        std::fs::write(self.root.join("proc").join(file), text).unwrap();
        Ok(Output::of(Status::Code(0)))
    }
}

struct MountBench {
    root: tempfile::TempDir,
    kernel: Arc<FakeKernel>,
    provider: MountProvider,
}

const FSTAB: &str = "# keep me\n/dev/vda\t/\text4\terrors=remount-ro\t0\t1\n";
const ROOT: &str = "1 0 254:0 / / rw - ext4 /dev/vda rw\n";

impl MountBench {
    fn new(fstab: &str) -> MountBench {
        let root = tempfile::tempdir().unwrap();
        for directory in ["etc", "proc/self", "data/sub", "raced", "busy", "busy_too"] {
            std::fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        std::fs::write(root.path().join("etc/fstab"), fstab).unwrap();
        std::fs::write(root.path().join("proc/self/mountinfo"), ROOT).unwrap();
        std::fs::write(root.path().join("proc/swaps"), "Filename Type Size Used Priority\n").unwrap();
        let kernel = Arc::new(FakeKernel { root: root.path().to_owned(), calls: Mutex::default() });
        let provider = MountProvider::new(System::new(root.path(), kernel.clone()));
        MountBench { root, kernel, provider }
    }

    fn fstab(&self) -> String {
        std::fs::read_to_string(self.root.path().join("etc/fstab")).unwrap()
    }

    fn differences(&self, name: &str, should: &Attributes) -> Vec<Difference> {
        let name = name.into();
        check(&self.provider, &Context::empty(), &[Wanted::new(&name, Some(should))]).remove(0).unwrap().differences
    }

    fn set(&self, name: &str, attributes: &[(&str, &str)]) -> Outcome {
        let name = name.into();
        let should: Attributes = attributes.iter().map(|(name, value)| (*name, Value::from(*value))).collect();
        let is = State::absent(EcoString::clone(&name));
        let change = Change::new(&name, &is, Some(&should), &[]);
        self.provider.set(&Context::empty(), &[change], Mode::Apply).remove(0)
    }

    /// Changes a resource, and expects that it is in sync afterwards. Returns the programs that ran.
    #[track_caller]
    fn converges(&self, name: &str, attributes: &[(&str, &str)]) -> Vec<String> {
        let should = attributes.iter().map(|(name, value)| (*name, Value::from(*value))).collect();
        assert_ne!(self.differences(name, &should), [], "{name} {attributes:?}");
        assert_eq!(self.set(name, attributes), Outcome::done());
        assert_eq!(self.differences(name, &should), []);
        self.kernel.calls()
    }
}

const DATA: [(&str, &str); 3] = [("ensure", "mounted"), ("device", "/dev/vdb"), ("fstype", "ext4")];

#[test]
fn file_system_is_mounted_changed_and_removed() {
    let bench = MountBench::new(FSTAB);
    assert_eq!(bench.converges("/data", &DATA), ["mount -- /data"]);
    assert_eq!(bench.fstab(), format!("{FSTAB}/dev/vdb\t/data\text4\tdefaults\t0\t0\n"));
    let with = |more: &[(&'static str, &'static str)]| [&DATA[..], more].concat();
    assert_eq!(bench.converges("/data", &with(&[("options", "noexec,ro")])), ["mount -o remount,noexec,ro -- /data"]);
    assert_eq!(bench.differences("/data", &Attributes::from_iter([("options", "ro,noexec")])), []);
    let other = [("ensure", "mounted"), ("device", "/dev/vdc"), ("fstype", "ext4")];
    assert_eq!(bench.converges("/data", &other), ["umount -- /data", "mount -- /data"]);
    assert_eq!(bench.converges("/data", &[("ensure", "unmounted")]), ["umount -- /data"]);
    assert_eq!(bench.differences("/data", &Attributes::from_iter([("ensure", "defined")])), []);
    assert_eq!(bench.converges("/data", &[("ensure", "mounted")]), ["mount -- /data"]);
    assert_eq!(bench.converges("/data", &[("ensure", "absent")]), ["umount -- /data"]);
    assert_eq!((bench.fstab().as_str(), bench.kernel.mounts().as_str()), (FSTAB, ROOT));
}

#[test]
fn options_that_another_program_removed_are_restored_by_a_remount() {
    let bench = MountBench::new(FSTAB);
    let declared = [&DATA[..], &[("options", "nosuid,noatime")]].concat();
    bench.converges("/data", &declared);
    let mounts = bench.kernel.mounts().replace("nosuid,noatime", "rw");
    std::fs::write(bench.root.path().join("proc/self/mountinfo"), mounts).unwrap();
    let should = declared.iter().map(|(name, value)| (*name, Value::from(*value))).collect();
    let differences = bench.differences("/data", &should);
    assert_eq!(differences[0].message.as_deref(), Some("the mount does not have `nosuid`"));
    assert_eq!(bench.converges("/data", &declared), ["mount -o remount,nosuid,noatime -- /data"]);
}

#[test]
fn ghost_is_found_by_name_and_gets_an_entry_without_another_mount() {
    let bench = MountBench::new(FSTAB);
    std::fs::write(
        bench.root.path().join("proc/self/mountinfo"),
        format!("{ROOT}9 1 0:1 / /data rw - ext4 /dev/vdb rw\n"),
    )
    .unwrap();
    let listed = get_checked(&bench.provider, &Context::empty(), Query::All).unwrap();
    assert_eq!(listed.iter().map(|state| state.name.as_str()).collect::<Vec<_>>(), ["/"]);
    let name = "/data".into();
    let found = get_checked(&bench.provider, &Context::empty(), Query::Named(&[Wanted::new(&name, None)])).unwrap();
    assert_eq!(found[0].attributes.text("ensure"), Some("ghost"));
    let calls = bench.converges("/data", &DATA);
    assert!(!calls.iter().any(|call| call == "mount -- /data"), "{calls:?}");
    assert_eq!(bench.converges("/data/", &[("ensure", "absent")]), ["umount -- /data"]);
}

#[test]
fn busy_file_system_keeps_its_entry() {
    let fstab = format!("{FSTAB}/dev/vdb /busy ext4\n");
    let bench = MountBench::new(&fstab);
    std::fs::write(bench.root.path().join("proc/self/mountinfo"), "9 1 0:1 / /busy rw - ext4 /dev/vdb rw\n").unwrap();
    let failure = bench.set("/busy", &[("ensure", "absent")]).failure.unwrap();
    assert!(failure.starts_with("umount failed with") && failure.ends_with("target is busy."), "{failure}");
    assert_eq!(bench.fstab(), fstab);
}

#[test]
fn line_of_another_program_is_kept_and_the_file_system_mounted_again() {
    let bench = MountBench::new(FSTAB);
    bench.converges("/raced", &DATA);
    let other = [("ensure", "defined"), ("device", "/dev/vdc"), ("fstype", "ext4")];
    assert_eq!(bench.converges("/raced", &other), ["umount -- /raced", "mount -- /raced"]);
    assert_eq!(bench.fstab(), format!("{FSTAB}/dev/vdc\t/raced\text4\tdefaults\t0\t0\n# theirs\n"));
}

#[test]
fn nested_mounts_of_one_call_are_mounted_outside_in() {
    let bench = MountBench::new(FSTAB);
    let is = State::absent("x");
    let should: Attributes = DATA.iter().map(|(name, value)| (*name, Value::from(*value))).collect();
    let absent = Attributes::from_iter([("ensure", "absent")]);
    let names = ["/data/sub", "/data"].map(EcoString::from);
    for (should, calls) in
        [(&should, ["mount -- /data", "mount -- /data/sub"]), (&absent, ["umount -- /data/sub", "umount -- /data"])]
    {
        let changes: Vec<Change<'_>> = names.iter().map(|name| Change::new(name, &is, Some(should), &[])).collect();
        assert_eq!(bench.provider.set(&Context::empty(), &changes, Mode::Apply), [Outcome::done(), Outcome::done()]);
        assert_eq!(bench.kernel.calls(), calls);
    }
    assert_eq!(bench.fstab(), FSTAB);
}

#[test]
fn swap_area_is_named_by_its_device() {
    let bench = MountBench::new(FSTAB);
    let swap = [("ensure", "mounted"), ("fstype", "swap")];
    assert_eq!(bench.converges("/swapfile", &swap), ["swapon -- /swapfile"]);
    assert_eq!(bench.fstab(), format!("{FSTAB}/swapfile\tnone\tswap\tdefaults\t0\t0\n"));
    assert_eq!(bench.converges("/swapfile", &[("ensure", "absent")]), ["swapoff -- /swapfile"]);
    assert_eq!(bench.fstab(), FSTAB);
}

#[test]
fn bind_mount_is_remounted_without_its_file_system() {
    let bench = MountBench::new(FSTAB);
    let bind = [("ensure", "mounted"), ("device", "/a"), ("fstype", "none"), ("options", "bind")];
    bench.converges("/data", &bind);
    let read_only = [&bind[..3], &[("options", "bind,ro")]].concat();
    assert_eq!(bench.converges("/data", &read_only), ["mount -o remount,bind,ro -- /data"]);
}

#[test]
fn invalid_declarations_name_the_attribute_and_the_remedy() {
    let bench = MountBench::new(FSTAB);
    let says = |name: &str, attributes: &[(&str, &str)]| {
        let should = attributes.iter().map(|(name, value)| (*name, Value::from(*value))).collect();
        let problems = bench.provider.validate(name, &should, &[]);
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(says("/data", &DATA), "");
    assert_eq!(says("/swapfile", &[("fstype", "swap")]), "");
    assert_eq!(says("/data", &[("ensure", "absent")]), "");
    for (name, attributes, words) in [
        ("data", &DATA[..], "is not an absolute path"),
        ("/a/../b", &DATA[..], "is not an absolute path"),
        ("/data", &[("ensure", "ghost")][..], "`ghost` is a state that kilter finds"),
        ("/data", &[("device", "x"), ("fstype", "ext4"), ("options", "a b")][..], "contains white space"),
        ("/data", &[("device", "x\ny"), ("fstype", "ext4")][..], "one line"),
        ("/swapfile", &[("device", "/dev/x"), ("fstype", "swap")][..], "the device of a swap area is its name"),
    ] {
        assert!(says(name, attributes).contains(words), "{}", says(name, attributes));
    }
}

#[test]
fn preview_needs_a_mount_point() {
    let bench = MountBench::new(FSTAB);
    std::fs::remove_dir_all(bench.root.path().join("data")).unwrap();
    let (name, is) = ("/data".into(), State::absent("/data"));
    let should: Attributes = DATA.iter().map(|(name, value)| (*name, Value::from(*value))).collect();
    let previewed = || {
        let change = Change::new(&name, &is, Some(&should), &[]);
        bench.provider.set(&Context::empty(), &[change], Mode::Preview).remove(0).failure
    };
    let lacks = |attributes: &[(&str, &str)]| {
        let should: Attributes = attributes.iter().map(|(name, value)| (*name, Value::from(*value))).collect();
        let change = Change::new(&name, &is, Some(&should), &[]);
        let previewed = bench.provider.set(&Context::empty(), &[change], Mode::Preview).remove(0).failure;
        assert_eq!(previewed, bench.set("/data", attributes).failure);
        previewed.unwrap()
    };
    assert!(lacks(&[("fstype", "ext4")]).contains("add `device`"));
    assert!(lacks(&[("device", "/dev/vdb")]).contains("add `fstype`"));
    assert_eq!(bench.fstab(), FSTAB);
    assert!(lacks(&DATA).contains("declare `file[/data]` with `ensure: directory`"));
    assert_eq!((bench.fstab().as_str(), bench.kernel.calls()), (FSTAB, vec![]));
    std::fs::write(bench.root.path().join("data"), "").unwrap();
    let bind = [("ensure", "mounted"), ("device", "/etc/fstab"), ("fstype", "none"), ("options", "bind")];
    bench.converges("/data", &bind);
    std::fs::remove_file(bench.root.path().join("data")).unwrap();
    bench.set("/data", &[("ensure", "absent")]);
    assert!(previewed().is_some());
    std::fs::create_dir(bench.root.path().join("data")).unwrap();
    assert_eq!(previewed(), None);
}

#[test]
fn failed_mount_leaves_no_new_line_and_restores_a_changed_one() {
    let bench = MountBench::new(FSTAB);
    let path = bench.root.path().join("etc/fstab");
    let swap = [("ensure", "mounted"), ("fstype", "swap")];
    for (attributes, program) in [(&DATA[..], "mount"), (&swap[..], "swapon")] {
        let failure = bench.set("/busy", attributes).failure.unwrap();
        let removed = format!("kilter removed the new line from {}, because {program} failed", path.display());
        assert!(failure.starts_with(&removed) && failure.ends_with("target is busy."), "{failure}");
        assert_eq!(bench.fstab(), FSTAB);
    }
    let fstab = format!("{FSTAB}/dev/vdb  /busy  ext4  noatime\n/dev/vdc /busy_too ext4");
    std::fs::write(&path, &fstab).unwrap();
    let failure = bench.set("/busy", &[("ensure", "mounted"), ("options", "ro")]).failure.unwrap();
    let restored = format!("kilter restored the previous line in {}, because mount failed", path.display());
    assert!(failure.starts_with(&restored), "{failure}");
    assert_eq!(bench.fstab(), fstab);
    // The last line gets its line break.
    assert!(bench.set("/busy_too", &[("ensure", "mounted"), ("options", "ro")]).failure.is_some());
    assert_eq!(bench.fstab(), format!("{fstab}\n"));
    let failure = bench.set("/busy", &[("ensure", "mounted")]).failure.unwrap();
    assert!(failure.starts_with("mount failed"), "{failure}");
}

#[test]
fn mount_without_an_effect_is_a_failed_mount() {
    let bench = MountBench::new(FSTAB);
    let missing = |options| [("ensure", "mounted"), ("device", "missing"), ("fstype", "ext4"), ("options", options)];
    let failure = bench.set("/data", &missing("nofail")).failure.unwrap();
    assert!(failure.starts_with("kilter removed the new line from "), "{failure}");
    let why = "because mount ended with exit code 0, but /data is not mounted: `nofail` hides the failure";
    assert!(failure.contains(why), "{failure}");
    assert_eq!(bench.fstab(), FSTAB);
    assert_eq!(bench.set("/data", &missing("bg")), Outcome::done());
}

#[test]
fn mount_point_may_be_a_link() {
    let bench = MountBench::new(FSTAB);
    let target = bench.root.path().join("data");
    std::os::unix::fs::symlink(&target, bench.root.path().join("link")).unwrap();
    let mounted = format!("{ROOT}9 1 0:1 / {} rw - ext4 /dev/vdb rw\n", target.display());
    std::fs::write(bench.root.path().join("proc/self/mountinfo"), mounted).unwrap();
    assert_eq!((bench.provider.is_mounted("/link"), bench.provider.is_mounted("/raced")), (Ok(true), Ok(false)));
}

#[test]
fn failed_mount_of_another_device_mounts_the_previous_one_again() {
    let bench = MountBench::new(FSTAB);
    bench.converges("/data", &DATA);
    let before = (bench.fstab(), bench.kernel.mounts());
    let other = [("ensure", "mounted"), ("device", "broken"), ("fstype", "ext4")];
    let failure = bench.set("/data", &other).failure.unwrap();
    assert!(failure.starts_with("kilter restored the previous line"), "{failure}");
    assert_eq!(bench.kernel.calls(), ["umount -- /data", "mount -- /data", "mount -- /data"]);
    assert_eq!((bench.fstab(), bench.kernel.mounts()), before);
}
