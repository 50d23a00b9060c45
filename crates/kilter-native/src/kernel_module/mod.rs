//! The type `kernel_module`: modules of the kernel, now and at the next boot.

mod table;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ecow::{EcoString, eco_format};
use kilter_model::{Attributes, Behaviour, Change, Comparison, Feature, Outcome, State, TypeSchema, Value};
use kilter_process::{Invocation, SpawnError};
use kilter_provider::{
    AutoEdge, Context, Declaration, Effect, Footprint, Insync, Match, Mode, POLL, PathState, Predict, Provider,
    ProviderError, Query, Redactor, Relations, Scope, SideEffects, ValidationError, Watch, WatchSource,
    redacted_outcome,
};

use crate::accounts::System;
use crate::builtin::is_absent;
use crate::file::atomic_rewrite::{self, AtomicRewrite, RewriteError};
use crate::line_table::{LineEntry, LineTable};
use crate::tool::{self, RecordedPart};
use table::{BootModule, ModprobeCommand, Setting, plain};

/// Modules to load at the boot (modules-load.d(5)).
const BOOT: &str = "/etc/modules-load.d/kilter.conf";
/// Options and blacklist (modprobe.d(5)).
const SETTINGS: &str = "/etc/modprobe.d/kilter.conf";

/// Directories in which modprobe finds modules, and other names of them.
const SOURCES: [&str; 3] = ["/lib/modules", "/usr/lib/modules", "/etc/modprobe.d"];

/// Maximum duration of modprobe(8). A driver may search for its devices.
const DEADLINE: Duration = Duration::from_secs(120);
/// Maximum size of its output in bytes.
const MAX_OUTPUT_BYTES: usize = 64 << 10;

const DESC: &str = "\
Modules of the kernel: loaded now, loaded at the next boot, their options, and the blacklist.

```yaml
resources:
  kernel_module[br_netfilter]:
    ensure: present
  kernel_module[nvme_core]:
    options: io_timeout=30
    boot: false
  kernel_module[usb_storage]:
    ensure: absent
    blacklist: true
```

`ensure: present` loads the module now and at each boot; with `boot: false` only now. `ensure: absent` unloads the \
module now, and removes it from the modules of the boot. A module that is part of the kernel is always loaded. `-` \
and `_` in a name are the same.

kilter writes `/etc/modules-load.d/kilter.conf` and `/etc/modprobe.d/kilter.conf`, once for all modules, and never \
other files: another file may still load or forbid a module. kilter writes the options before it loads a module. A \
module that is loaded already gets other options at its next load.

`blacklist: true` prevents that a device loads the module. A program can still load it by its name.

kilter checks every five minutes that modules are loaded, because the kernel does not report that. In a container \
that may not load modules, `modprobe` fails; declare the module on the host.

A plan predicts a failure if `modprobe` is not installed or does not find the module, and no earlier resource may \
bring it. If `modprobe` fails, kilter leaves both files as they were.

**Automatic edges.** The resource runs after the declared package `kmod`, and after declared files at these \
paths.";

fn schema() -> TypeSchema {
    TypeSchema::new("kernel_module", DESC)
        .attribute(
            "ensure",
            "Enum[present, absent]",
            Behaviour::Property,
            "State of the module: `present` if it is loaded.",
        )
        .default("present")
        .attribute("name", "String[1]", Behaviour::Namevar, "Name of the module: `br_netfilter`.")
        .attribute(
            "boot",
            "Boolean",
            Behaviour::Property,
            "True to load the module at each boot. Default: true with `ensure: present`, false with `absent`.",
        )
        .attribute(
            "options",
            "String",
            Behaviour::Property,
            "Options of the module on one line: `io_timeout=30 x=1`; `\"\"` for none.",
        )
        .compare(Comparison::Words)
        .attribute("blacklist", "Boolean", Behaviour::Property, "True to prevent that devices load the module.")
        .features(&[Feature::Canonicalize, Feature::CustomInsync, Feature::SimpleGetFilter, Feature::SupportsNoop])
}

/// Provides the type `kernel_module`.
pub struct KernelModuleProvider {
    system: System,
    /// Held from the read of the files to their writes.
    turn: Mutex<()>,
}

/// The files of kilter.
struct ModuleFiles {
    boot: LineTable<BootModule>,
    settings: LineTable<Setting>,
}

impl KernelModuleProvider {
    /// Creates a provider for a system.
    pub fn new(system: System) -> KernelModuleProvider {
        KernelModuleProvider { system, turn: Mutex::new(()) }
    }

    fn read(&self) -> Result<ModuleFiles, EcoString> {
        let bytes = |path: &str| {
            let bytes = atomic_rewrite::read(&self.system.path(path)).map_err(|error| eco_format!("{error}"))?;
            Ok::<_, EcoString>(bytes.unwrap_or_default())
        };
        Ok(ModuleFiles { boot: LineTable::parse(&bytes(BOOT)?), settings: LineTable::parse(&bytes(SETTINGS)?) })
    }

    /// Returns true if the kernel has the module: loaded, or as a part of it.
    fn is_loaded(&self, name: &str) -> bool {
        self.system.root().join("sys/module").join(name).join("initstate").exists() || self.is_builtin(name)
    }

    /// Returns true if the module cannot be loaded and unloaded, because it is a part of the kernel.
    fn is_builtin(&self, name: &str) -> bool {
        let root = self.system.root();
        let release = std::fs::read_to_string(root.join("proc/sys/kernel/osrelease")).unwrap_or_default();
        let list = root.join("lib/modules").join(release.trim()).join("modules.builtin");
        let text = std::fs::read_to_string(list).unwrap_or_default();
        // Lines such as `kernel/fs/ext4/ext4.ko`.
        let mut listed = text.lines().filter_map(|line| line.rsplit('/').next()?.split('.').next());
        let directory = root.join("sys/module").join(name);
        // A part of the kernel with parameters also has a directory.
        listed.any(|module| plain(module) == name) || directory.is_dir() && !directory.join("initstate").exists()
    }

    fn state(&self, name: &EcoString, files: &ModuleFiles) -> State {
        let module = plain(name);
        let is_loaded = self.is_loaded(&module);
        let mut attributes = Attributes::with_capacity(5);
        attributes.push("ensure", if is_loaded { "present" } else { "absent" });
        attributes.push("name", name.clone());
        attributes.push("boot", files.boot.find(&module).is_some());
        let options = files.settings.find(&Setting::id(ModprobeCommand::Options, &module));
        attributes.push("options", options.map(|setting| setting.options.clone()).unwrap_or_default());
        attributes.push("blacklist", files.settings.find(&Setting::id(ModprobeCommand::Blacklist, &module)).is_some());
        State { name: name.clone(), exists: is_loaded, attributes, ..State::default() }
    }

    /// Writes a file if its lines differ.
    fn rewrite<E: LineEntry>(
        &self,
        cx: &Context<'_>,
        path: &str,
        change: &dyn Fn(&mut LineTable<E>),
    ) -> Result<(), EcoString> {
        let path = self.system.path(path);
        atomic_rewrite::rewritten(|| -> Result<(), RewriteError> {
            let file = match AtomicRewrite::open(&path) {
                Err(error) if error.is_missing() => {
                    let mut table = LineTable::<E>::parse(b"");
                    change(&mut table);
                    if table.bytes().is_empty() {
                        return Ok(());
                    }
                    atomic_rewrite::open_in_new_directory(&path)?
                }
                file => file?,
            };
            let mut table = LineTable::<E>::parse(file.bytes());
            change(&mut table);
            let bytes = table.bytes();
            match bytes.is_empty() {
                _ if bytes == file.bytes() => Ok(()),
                true => Ok(file.remove(cx)?),
                false => file.replace(&bytes, 0o644, cx).map(drop).map_err(Into::into),
            }
        })
    }

    /// Writes the options and the blacklist of modules.
    fn write_settings(&self, cx: &Context<'_>, modules: &[(EcoString, &Attributes)]) -> Result<(), EcoString> {
        self.rewrite::<Setting>(cx, SETTINGS, &|settings| {
            for (module, should) in modules {
                let put = |settings: &mut LineTable<Setting>, command, options: &str, is_wanted: bool| match is_wanted {
                    true => settings.put(Setting::new(command, module, options)),
                    false => settings.remove(&Setting::id(command, module)),
                };
                if let Some(options) = should.text("options") {
                    let options = options.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
                    put(settings, ModprobeCommand::Options, &options, !options.is_empty());
                }
                if let Some(is_blacklisted) = should.get_bool("blacklist") {
                    put(settings, ModprobeCommand::Blacklist, "", is_blacklisted);
                }
            }
        })
    }

    /// Writes the modules of the boot.
    fn write_boot(&self, cx: &Context<'_>, modules: &[(EcoString, &Attributes)]) -> Result<(), EcoString> {
        self.rewrite::<BootModule>(cx, BOOT, &|boot| {
            for (module, should) in modules {
                match should.get_bool("boot") {
                    Some(true) => boot.put(BootModule::new(module)),
                    Some(false) => boot.remove(module),
                    None => {}
                }
            }
        })
    }

    /// Runs modprobe(8).
    fn modprobe(&self, cx: &Context<'_>, words: &[&str]) -> Result<(), EcoString> {
        let call = Invocation::new("modprobe").args(words).captured(MAX_OUTPUT_BYTES).deadline(DEADLINE);
        match tool::start(self.system.runner(), cx, &call, RecordedPart::Outputs) {
            Ok(ended) if ended.is_success() => Ok(()),
            Ok(ended) => Err(tool::failure("modprobe", &ended, DEADLINE, tool::ending_of(&ended.stderr.text()))),
            Err(SpawnError::NotFound { .. }) => Err("there is no command modprobe: install the package kmod".into()),
            Err(error) => Err(error.with_sources().into()),
        }
    }

    /// Loads or unloads the module of a change.
    fn load(&self, cx: &Context<'_>, change: &Change<'_>) -> Result<(), EcoString> {
        let (module, should) = wanted(change);
        let is_wanted = !is_absent(&should);
        if self.is_loaded(&module) == is_wanted {
            return Ok(());
        }
        if self.is_builtin(&module) {
            return Err(eco_format!("{module} is a part of the kernel, which cannot be unloaded"));
        }
        let words: &[&str] = if is_wanted { &["--", &module] } else { &["-r", "--", &module] };
        self.modprobe(cx, words)
    }

    /// Fails if the change is certain to fail: a part of the kernel cannot be unloaded, modprobe is not installed, or
    /// it does not find a module. No earlier resource may change that.
    fn preview(&self, cx: &Context<'_>, change: &Change<'_>) -> Result<(), EcoString> {
        let (module, should) = wanted(change);
        let (is_wanted, preview_context) = (!is_absent(&should), cx.preview_context());
        let may_come = preview_context.may_change_before(change.name)
            || SOURCES.iter().any(|path| preview_context.is_written(path));
        if self.is_loaded(&module) == is_wanted || may_come {
            return Ok(());
        }
        if !is_wanted && self.is_builtin(&module) {
            return Err(eco_format!("{module} is a part of the kernel, which cannot be unloaded"));
        }
        // An earlier resource may stop the use of a module.
        let words: &[&str] = if is_wanted { &["--dry-run", "--", &module] } else { &["--version"] };
        self.modprobe(cx, words)
    }

    fn change(&self, cx: &Context<'_>, changes: &[Change<'_>]) -> Vec<Outcome> {
        let problem = |change: &Change<'_>| {
            let none = Attributes::new();
            problems(change.name, change.should.unwrap_or(&none)).into_iter().next()
        };
        // Values from other resources have not been validated before.
        let (bad, good): (Vec<usize>, Vec<usize>) = (0..changes.len()).partition(|at| problem(&changes[*at]).is_some());
        let mut outcomes = vec![Outcome::done(); changes.len()];
        for at in bad {
            outcomes[at] = Outcome::failed(problem(&changes[at]).map(|one| eco_format!("{one}")).unwrap_or_default());
        }
        let wanted: Vec<(EcoString, Attributes)> = changes.iter().map(wanted).collect();
        let of = |places: &[usize]| places.iter().map(|at| (wanted[*at].0.clone(), &wanted[*at].1)).collect::<Vec<_>>();
        // modprobe reads the options.
        let written = self.write_settings(cx, &of(&good));
        let loaded = |at: &usize| written.clone().and_then(|()| self.load(cx, &changes[*at]));
        let results: Vec<_> = good.iter().map(|at| (*at, loaded(at))).collect();
        let (done, failed): (Vec<_>, Vec<_>) = results.into_iter().partition(|(_, result)| result.is_ok());
        let done: Vec<usize> = done.into_iter().map(|(at, _)| at).collect();
        if let Err(why) = self.write_boot(cx, &of(&done)) {
            done.into_iter().for_each(|at| outcomes[at] = Outcome::failed(why.clone()));
        }
        let before = |(at, _): &(usize, _)| (wanted[*at].0.clone(), &changes[*at].is.attributes);
        let restored = self.write_settings(cx, &failed.iter().map(before).collect::<Vec<_>>());
        for (at, result) in failed {
            let mut why = result.err().unwrap_or_default();
            if let Err(error) = &restored {
                why.push_str(&eco_format!("; its options stay in {SETTINGS}: {error}"));
            }
            outcomes[at] = Outcome::failed(why);
        }
        outcomes
    }
}

/// Returns the module of a change and its declaration.
fn wanted(change: &Change<'_>) -> (EcoString, Attributes) {
    let removal = || Attributes::from_iter([("ensure", Value::from("absent")), ("boot", false.into())]);
    (plain(change.name), change.should.cloned().unwrap_or_else(removal))
}

fn problems(name: &str, should: &Attributes) -> Vec<ValidationError> {
    let mut found = Vec::new();
    let is_name = |name: &str| {
        let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        is_plain && !name.is_empty() && name.len() < 56 && !name.starts_with('-')
    };
    if !is_name(name) {
        let problem = ValidationError::with("name", eco_format!("`{name}` is not the name of a module"));
        found.push(problem.hint("write the name as in lsmod(8), without `.ko` and without a directory: br_netfilter"));
    }
    if should.text("options").is_some_and(|options| options.contains(|c: char| c.is_control() || c == '#')) {
        found
            .push(ValidationError::with("options", "options are one line of text, without control characters and `#`"));
    }
    if is_absent(should) && should.get_bool("boot") == Some(true) {
        let problem = ValidationError::with("boot", "`ensure: absent` and `boot: true` contradict each other");
        found.push(problem.hint("remove `boot`"));
    }
    if !is_absent(should) && should.get_bool("blacklist") == Some(true) && should.get_bool("boot") == Some(true) {
        let problem = ValidationError::with("blacklist", "the boot does not load modules of the blacklist");
        found.push(problem.hint("declare `ensure: absent`, or remove `blacklist`"));
    }
    found
}

impl Provider for KernelModuleProvider {
    crate::builtin::describe!("kernel_module", "kmod", schema, [relations, predict, watch]);

    fn get(&self, _: &Context<'_>, query: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let files = self.read().map_err(ProviderError::new)?;
        Ok(match query {
            Query::Named(wanted) => wanted.iter().map(|one| self.state(one.name, &files)).collect(),
            Query::All => {
                let mut names: Vec<EcoString> = files.boot.entries().iter().map(|entry| entry.name().clone()).collect();
                names.extend(files.settings.entries().iter().map(|entry| EcoString::from(entry.module())));
                let loaded = std::fs::read_dir(self.system.root().join("sys/module")).into_iter().flatten();
                let loaded = loaded.filter_map(|entry| Some(EcoString::from(entry.ok()?.file_name().to_str()?)));
                names.extend(loaded.filter(|name| self.is_loaded(name) && !self.is_builtin(name)));
                names.retain(|name| problems(name, &Attributes::new()).is_empty());
                names.sort_unstable();
                names.dedup();
                names.iter().map(|name| self.state(name, &files)).collect()
            }
        })
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let outcomes = match mode {
            Mode::Apply => self.change(cx, changes),
            Mode::Preview => {
                let preview = |change| self.preview(cx, change).map_or_else(Outcome::failed, |()| Outcome::done());
                changes.iter().map(preview).collect()
            }
        };
        outcomes.into_iter().zip(changes).map(|(outcome, change)| redacted_outcome(change, outcome)).collect()
    }

    fn validate(&self, name: &str, should: &Attributes, _: &[&str]) -> Vec<ValidationError> {
        let seal = Redactor::of(should);
        problems(name, should).into_iter().map(|problem| seal.problem(problem)).collect()
    }

    fn canonicalize(&self, _: &Context<'_>, resources: &mut [Declaration<'_>]) -> Vec<Vec<ValidationError>> {
        for Declaration { should, .. } in resources.iter_mut() {
            if let Some(name) = should.text("name").map(plain) {
                should.set("name", name);
            }
            let is_present = should.text("ensure").map(|ensure| ensure == "present");
            let is_blacklisted = should.get_bool("blacklist") == Some(true);
            if let Some(is_present) = is_present.filter(|_| should.get("boot").is_none()) {
                should.set("boot", is_present && !is_blacklisted);
            }
        }
        vec![Vec::new(); resources.len()]
    }

    /// Compares the files also for a module that is not loaded.
    fn insync(&self, _: &Context<'_>, attribute: &str, is: &State, should: &Attributes) -> Insync {
        if attribute != "ensure" || !is_absent(should) || is.exists {
            return Insync::Default;
        }
        let differs = ["boot", "options", "blacklist"].into_iter().find(|attribute| {
            should.get(attribute).is_some_and(|wanted| {
                let found = is.attributes.get(attribute).unwrap_or(&Value::Undef);
                found != wanted && !(*attribute == "options" && Comparison::Words.holds(found, wanted))
            })
        });
        match differs {
            Some(attribute) => Insync::Differs(Some(eco_format!(
                "not loaded, but `{attribute}` is {}",
                is.attributes.get(attribute).and_then(Value::to_text).unwrap_or_default()
            ))),
            None => Insync::Same,
        }
    }
}

impl Relations for KernelModuleProvider {
    fn auto_edges(&self, _: &str, _: &Attributes, add: &mut dyn FnMut(AutoEdge<'_>)) {
        for path in [BOOT, SETTINGS] {
            add(AutoEdge { by: Match::PathOrAncestor, ..AutoEdge::require("file", path) });
        }
        add(AutoEdge::require("package", "kmod"));
    }
}

impl Predict for KernelModuleProvider {
    fn side_effects(&self, _: &Attributes) -> SideEffects {
        SideEffects::Own
    }

    fn effects(&self, _: &Context<'_>, _: &Change<'_>) -> Option<Vec<Effect>> {
        Some([BOOT, SETTINGS].map(|path| Effect::Path { path: path.into(), node: PathState::Unknown }).into())
    }

    fn footprint(&self, _: &str, _: &Attributes, say: &mut dyn FnMut(Footprint<'_>)) {
        [BOOT, SETTINGS].iter().for_each(|path| say(Footprint::Writes { path, is_whole: false }));
    }
}

impl Watch for KernelModuleProvider {
    fn watches(&self, _: &str, _: &Attributes) -> Vec<WatchSource> {
        let file = |path: &str| WatchSource::Path { path: self.system.path(path).into(), scope: Scope::This };
        vec![file(BOOT), file(SETTINGS), WatchSource::Poll(POLL)]
    }
}

#[cfg(test)]
mod tests;
