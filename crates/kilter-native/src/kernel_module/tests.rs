use std::path::PathBuf;
use std::sync::Arc;

use kilter_model::Difference;
use kilter_process::{Cancel, Output, SpawnError, Status};
use kilter_provider::{Wanted, canonicalize_one, check, get_checked};

use super::*;
use crate::accounts::Runner;

/// A kernel of directories, which modprobe changes.
struct Modprobe(PathBuf, Mutex<Vec<String>>);

impl Runner for Modprobe {
    fn run(&self, invocation: &Invocation, _: Cancel<'_>) -> Result<Output, SpawnError> {
        let words: Vec<String> = invocation.args.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let module = self.0.join("sys/module").join(words.last().unwrap());
        match words[0].as_str() {
            _ if words.last().unwrap() == "uninstalled" => {
                return Err(SpawnError::NotFound { program: "modprobe".into(), path: "/sbin".into() });
            }
            "-r" => std::fs::remove_dir_all(&module).unwrap(),
            _ if words.last().unwrap() == "missing" => return Ok(Output::of(Status::Code(1))),
            "--dry-run" | "--version" => {}
            _ => {
                std::fs::create_dir_all(&module).unwrap();
                std::fs::write(module.join("initstate"), "live\n").unwrap();
            }
        }
        self.1.lock().unwrap().push(words.join(" "));
        Ok(Output::of(Status::Code(0)))
    }
}

struct KernelModuleBench {
    root: tempfile::TempDir,
    runner: Arc<Modprobe>,
    provider: KernelModuleProvider,
}

impl KernelModuleBench {
    fn new() -> KernelModuleBench {
        let root = tempfile::tempdir().unwrap();
        let runner = Arc::new(Modprobe(root.path().to_owned(), Mutex::default()));
        let provider = KernelModuleProvider::new(System::new(root.path(), runner.clone()));
        let bench = KernelModuleBench { root, runner, provider };
        bench.write("proc/sys/kernel/osrelease", "6.1\n");
        bench.write("lib/modules/6.1/modules.builtin", "kernel/fs/ext4/ext4.ko\n");
        bench.write("sys/module/printk/parameters/time", "Y\n");
        bench
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.root.path().join(path.trim_start_matches('/'))).unwrap_or_else(|_| "(none)".into())
    }

    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut *self.runner.1.lock().unwrap())
    }

    fn found(&self, name: &str, should: &Attributes) -> kilter_provider::Found {
        check(&self.provider, &Context::empty(), &[Wanted::new(&name.into(), Some(should))]).remove(0).unwrap()
    }

    fn differences(&self, name: &str, should: &Attributes) -> Vec<Difference> {
        self.found(name, should).differences
    }

    fn set(&self, name: &str, should: &Attributes) -> Outcome {
        let (found, name) = (self.found(name, should), name.into());
        let change = Change::new(&name, &found.state, Some(should), &found.differences);
        self.provider.set(&Context::empty(), &[change], Mode::Apply).remove(0)
    }

    #[track_caller]
    fn converges(&self, name: &str, should: &Attributes) {
        assert_ne!(self.differences(name, should), [], "{name}");
        assert_eq!(self.set(name, should), Outcome::done());
        assert_eq!(self.differences(name, should), [], "{name}");
    }
}

/// Returns a declaration in canonical form.
fn should(attributes: &[(&str, Value)]) -> Attributes {
    let mut should = Attributes::from_iter([("ensure", Value::from("present"))]);
    attributes.iter().for_each(|(name, value)| should.set(*name, value.clone()));
    let provider = KernelModuleProvider::new(System::real());
    canonicalize_one(&provider, &Context::empty(), &mut "x".into(), &mut should).unwrap();
    should
}

#[test]
fn module_is_loaded_now_and_at_the_boot() {
    let bench = KernelModuleBench::new();
    bench.converges("br_netfilter", &should(&[]));
    assert_eq!((bench.calls(), bench.read(BOOT)), (vec!["-- br_netfilter".to_owned()], "br_netfilter\n".to_owned()));
    assert_eq!(bench.differences("br-netfilter", &should(&[])), []);
    std::fs::remove_dir_all(bench.root.path().join("sys/module/br_netfilter")).unwrap();
    bench.converges("br-netfilter", &should(&[]));
    assert_eq!(bench.calls(), ["-- br_netfilter"]);
    bench.converges("br_netfilter", &should(&[("boot", false.into())]));
    assert_eq!((bench.read(BOOT).as_str(), bench.calls()), ("(none)", vec![]));
}

#[test]
fn module_is_unloaded_and_on_the_blacklist() {
    let bench = KernelModuleBench::new();
    bench.write("etc/modules-load.d/kilter.conf", "# mine\nusb-storage\n");
    bench.write("etc/modprobe.d/kilter.conf", "install x /bin/true\n");
    bench.write("sys/module/usb_storage/initstate", "live\n");
    let absent = should(&[("ensure", "absent".into()), ("blacklist", true.into())]);
    bench.converges("usb_storage", &absent);
    assert_eq!(bench.calls(), ["-r -- usb_storage"]);
    assert_eq!(bench.read(BOOT), "# mine\n");
    assert_eq!(bench.read(SETTINGS), "install x /bin/true\nblacklist usb_storage\n");
    bench.write("etc/modules-load.d/kilter.conf", "usb_storage\n");
    let message = bench.differences("usb_storage", &absent).remove(0).message.unwrap();
    assert_eq!(message, "not loaded, but `boot` is true");
    bench.converges("usb_storage", &absent);
    assert_eq!(bench.calls(), [""; 0]);
}

#[test]
fn options_are_written_before_the_module_is_loaded() {
    let bench = KernelModuleBench::new();
    let options = should(&[("options", "a=1  b=2".into()), ("boot", false.into())]);
    bench.converges("nvme-core", &options);
    assert_eq!(bench.read(SETTINGS), "options nvme_core a=1 b=2\n");
    bench.converges("nvme_core", &should(&[("options", "a=3".into()), ("boot", false.into())]));
    assert_eq!(bench.read(SETTINGS), "options nvme_core a=3\n");
    bench.converges("nvme_core", &should(&[("options", "".into()), ("boot", false.into())]));
    assert_eq!((bench.read(SETTINGS).as_str(), bench.calls()), ("(none)", vec!["-- nvme_core".to_owned()]));
}

#[test]
fn part_of_the_kernel_is_loaded_and_stays() {
    let bench = KernelModuleBench::new();
    for name in ["ext4", "printk"] {
        bench.converges(name, &should(&[]));
        let failed = bench.set(name, &should(&[("ensure", "absent".into())])).failure.unwrap();
        assert!(failed.contains("a part of the kernel"), "{failed}");
    }
    assert_eq!(bench.calls(), [""; 0]);
}

#[test]
fn preview_finds_failures_that_are_certain() {
    let bench = KernelModuleBench::new();
    let preview = |name: &str, should: &Attributes, preview_context: &dyn kilter_provider::PreviewContext| {
        let (found, name) = (bench.found(name, should), name.into());
        let change = Change::new(&name, &found.state, Some(should), &found.differences);
        let cx = Context::empty().with_preview_context(preview_context);
        bench.provider.set(&cx, &[change], Mode::Preview).remove(0).failure.unwrap_or_default()
    };
    let (present, absent) = (should(&[]), should(&[("ensure", "absent".into())]));
    let none = kilter_provider::NoPendingChanges;
    assert_eq!(preview("loop", &present, &none), "");
    assert_eq!(preview("missing", &present, &none), "modprobe failed with exit code 1");
    assert_eq!(preview("uninstalled", &present, &none), "there is no command modprobe: install the package kmod");
    assert_eq!(preview("missing", &present, &ModuleBench), "", "a declared file may bring the module");
    assert!(preview("ext4", &absent, &none).contains("a part of the kernel"));
    assert_eq!(bench.calls(), ["--dry-run -- loop"]);
    assert_eq!(bench.read(BOOT), "(none)");
}

/// A run that writes modules of the kernel.
struct ModuleBench;

impl kilter_provider::PreviewContext for ModuleBench {
    fn may_change_before(&self, _: &str) -> bool {
        false
    }

    fn declared(&self, _: &str, _: &str) -> Option<&Attributes> {
        None
    }

    fn is_written(&self, path: &str) -> bool {
        path == "/lib/modules"
    }
}

#[test]
fn modules_of_a_batch_are_written_together_and_fail_alone() {
    let bench = KernelModuleBench::new();
    let (good, bad) = (should(&[]), should(&[("options", "a\nb".into())]));
    let names: Vec<EcoString> = ["one", "missing", "two", "bad"].map(EcoString::from).to_vec();
    let is = State::absent("x");
    let declared = [&good, &good, &good, &bad];
    let changes: Vec<Change<'_>> =
        names.iter().zip(declared).map(|(name, should)| Change::new(name, &is, Some(should), &[])).collect();
    let outcomes = bench.provider.set(&Context::empty(), &changes, Mode::Apply);
    assert_eq!(outcomes.iter().map(Outcome::is_done).collect::<Vec<_>>(), [true, false, true, false]);
    assert_eq!(bench.read(BOOT), "one\ntwo\n");
}

#[test]
fn module_that_cannot_be_loaded_leaves_the_files_as_they_were() {
    let bench = KernelModuleBench::new();
    let blacklisted = should(&[("options", "a=2".into()), ("boot", false.into()), ("blacklist", true.into())]);
    for (name, why) in [("missing", "exit code 1"), ("uninstalled", "there is no command modprobe")] {
        let before = format!("options {name} a=1\nblacklist other\n");
        bench.write("etc/modprobe.d/kilter.conf", &before);
        for should in [should(&[("options", "a=2".into())]), blacklisted.clone()] {
            let failure = bench.set(name, &should).failure.unwrap();
            assert!(failure.contains(why), "{failure}");
            assert_eq!((bench.read(BOOT).as_str(), bench.read(SETTINGS)), ("(none)", before.clone()));
        }
    }
}

#[test]
fn list_has_loaded_and_declared_modules() {
    let bench = KernelModuleBench::new();
    bench.write("etc/modprobe.d/kilter.conf", "blacklist floppy\n");
    bench.write("sys/module/loop/initstate", "live\n");
    let states = get_checked(&bench.provider, &Context::empty(), Query::All).unwrap();
    assert_eq!(states.iter().map(|state| state.name.as_str()).collect::<Vec<_>>(), ["floppy", "loop"]);
    for state in states {
        assert_eq!(bench.provider.validate(&state.name, &state.attributes, &[]), []);
        assert_eq!(bench.differences(&state.name, &state.attributes), []);
    }
}

#[test]
fn bad_values_are_refused() {
    let bench = KernelModuleBench::new();
    for name in ["", "../x", "-r", "a b", "a.ko", "x\ny"] {
        assert_eq!(bench.provider.validate(name, &should(&[]), &[]).len(), 1, "{name}");
    }
    for bad in [
        &[("options", Value::from("a # b"))][..],
        &[("ensure", "absent".into()), ("boot", true.into())],
        &[("blacklist", true.into()), ("boot", true.into())],
    ] {
        assert_eq!(bench.provider.validate("x", &should(bad), &[]).len(), 1, "{bad:?}");
    }
}
