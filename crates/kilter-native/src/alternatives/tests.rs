use std::sync::Arc;

use kilter_model::Difference;
use kilter_process::{Cancel, Output, SpawnError};
use kilter_provider::{Wanted, check, get_checked};

use super::*;
use crate::accounts::Runner;

/// Runs the real program on the files below a root.
struct AlternativesRoot(String);

impl Runner for AlternativesRoot {
    fn run(&self, invocation: &Invocation, cancel: Cancel<'_>) -> Result<Output, SpawnError> {
        let mut rooted = invocation.clone();
        let options = ["--root".into(), self.0.clone().into(), "--quiet".into()];
        rooted.args = options.into_iter().chain(invocation.args.iter().cloned()).collect();
        kilter_process::run(&rooted, Some(cancel))
    }
}

struct AlternativesFixture {
    root: tempfile::TempDir,
    provider: AlternativesProvider,
}

impl AlternativesFixture {
    fn new() -> AlternativesFixture {
        let root = tempfile::tempdir().unwrap();
        for directory in ["etc/alternatives", "usr/bin", "usr/share/man", "var/lib/dpkg/alternatives", "var/log"] {
            std::fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        for program in ["nano", "vim", "ed", "nano.1", "vim.1"] {
            std::fs::write(root.path().join("usr/bin").join(program), "").unwrap();
        }
        let tools = AlternativesRoot(root.path().to_str().unwrap().to_owned());
        for (program, priority) in [("nano", "40"), ("vim", "30")] {
            let path = format!("/usr/bin/{program}");
            let words = ["--install", "/usr/bin/editor", "editor", &path, priority];
            let slave = ["--slave", "/usr/share/man/editor.1", "editor.1", &format!("{path}.1")];
            let tool = Invocation::new(PROGRAM).args(words).args(slave);
            let done = tools.run(&tool, crate::tool::cancel(&Context::empty())).unwrap();
            assert!(done.is_success(), "{}", done.stderr.text());
        }
        let provider = AlternativesProvider::new(System::new(root.path(), Arc::new(tools)));
        AlternativesFixture { root, provider }
    }

    fn target(&self, link: &str) -> String {
        std::fs::read_link(self.root.path().join(link)).unwrap().to_str().unwrap().to_owned()
    }

    fn canonical(&self, name: &str, attributes: &[(&str, Value)]) -> Attributes {
        let mut should: Attributes = attributes.iter().cloned().collect();
        if should.get("ensure").is_none() {
            should.push("ensure", "present");
        }
        let name = EcoString::from(name);
        self.provider.canonicalize(&Context::empty(), &mut [Declaration { name: &name, should: &mut should }]);
        should
    }

    fn differences(&self, name: &str, should: &Attributes) -> Vec<Difference> {
        let name = name.into();
        check(&self.provider, &Context::empty(), &[Wanted::new(&name, Some(should))]).remove(0).unwrap().differences
    }

    fn set(&self, name: &str, should: &Attributes, mode: Mode) -> Outcome {
        let name = EcoString::from(name);
        let is = State::absent(name.clone());
        let change = Change::new(&name, &is, Some(should), &[]);
        self.provider.set(&Context::empty(), &[change], mode).remove(0)
    }

    #[track_caller]
    fn converges(&self, name: &str, attributes: &[(&str, Value)]) {
        let should = self.canonical(name, attributes);
        assert_ne!(self.differences(name, &should), [], "{attributes:?}");
        let outcome = self.set(name, &should, Mode::Apply);
        assert!(outcome.is_done(), "{outcome:?}");
        assert_eq!(self.differences(name, &should), [], "{attributes:?}");
    }

    #[track_caller]
    fn fails(&self, name: &str, attributes: &[(&str, Value)], why: &str) {
        let should = self.canonical(name, attributes);
        for mode in [Mode::Preview, Mode::Apply] {
            let outcome = format!("{:?}", self.set(name, &should, mode));
            assert!(outcome.contains(why), "{mode:?}: {outcome}");
        }
    }
}

fn path(path: &str) -> (&'static str, Value) {
    ("path", path.into())
}

#[test]
fn choice_is_pinned_and_released() {
    let machine = AlternativesFixture::new();
    assert_eq!(machine.target("etc/alternatives/editor"), "/usr/bin/nano");
    machine.converges("editor", &[path("/usr/bin/vim")]);
    assert_eq!(machine.target("etc/alternatives/editor"), "/usr/bin/vim");
    assert_eq!(machine.target("etc/alternatives/editor.1"), "/usr/bin/vim.1", "slaves follow");
    machine.converges("editor", &[("mode", "auto".into())]);
    assert_eq!(machine.target("etc/alternatives/editor"), "/usr/bin/nano");
    machine.converges("editor", &[path("/usr/bin/nano")]);
    machine.converges("editor", &[("mode", "auto".into())]);
    machine.converges("editor", &[("mode", "manual".into())]);
    assert_eq!(machine.target("etc/alternatives/editor"), "/usr/bin/nano");
    let listed = get_checked(&machine.provider, &Context::empty(), Query::All).unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].attributes.get("choices"), Some(&Value::strings(["/usr/bin/nano", "/usr/bin/vim"])));
}

#[test]
fn path_and_group_are_added_and_removed() {
    let machine = AlternativesFixture::new();
    machine.converges("editor", &[path("/usr/bin/ed"), ("priority", Value::Integer(-5))]);
    machine.converges("editor", &[path("/usr/bin/ed"), ("priority", Value::Integer(90)), ("mode", "auto".into())]);
    assert_eq!(machine.target("etc/alternatives/editor"), "/usr/bin/ed");
    machine.converges("editor", &[path("/usr/bin/ed"), ("ensure", "absent".into())]);
    assert_eq!(machine.target("etc/alternatives/editor"), "/usr/bin/nano");
    let new = [("link", "/usr/bin/line-editor".into()), path("/usr/bin/ed"), ("priority", Value::Integer(1))];
    machine.converges("line-editor", &new);
    assert_eq!(machine.target("usr/bin/line-editor"), "/etc/alternatives/line-editor");
    let moved = [("link", "/usr/bin/le".into()), path("/usr/bin/ed"), ("priority", Value::Integer(1))];
    machine.converges("line-editor", &moved);
    assert_eq!(machine.target("usr/bin/le"), "/etc/alternatives/line-editor");
    machine.converges("line-editor", &[("ensure", "absent".into())]);
    assert!(!machine.root.path().join("usr/bin/le").is_symlink());
}

#[test]
fn damages_are_found_and_repaired() {
    let machine = AlternativesFixture::new();
    let declared = [path("/usr/bin/vim")];
    machine.converges("editor", &declared);
    for damage in ["usr/bin/editor", "etc/alternatives/editor"] {
        std::fs::remove_file(machine.root.path().join(damage)).unwrap();
        machine.converges("editor", &declared);
    }
    assert_eq!(machine.target("usr/bin/editor"), "/etc/alternatives/editor");
}

#[test]
fn impossible_choices_are_refused() {
    let machine = AlternativesFixture::new();
    machine.fails("editor", &[path("/usr/bin/emacs")], "it has /usr/bin/nano, /usr/bin/vim");
    machine.fails("pager", &[path("/usr/bin/less")], "the group does not exist");
    machine.fails("pager", &[("mode", "auto".into())], "there are no alternatives `pager`");
    for name in ["", "-x", "../x", "a b"] {
        assert!(!machine.provider.validate(name, &Attributes::new(), &[]).is_empty(), "{name}");
    }
    let relative = Attributes::from_iter([("path", "vim")]);
    assert!(!machine.provider.validate("editor", &relative, &[]).is_empty());
    std::fs::write(machine.root.path().join("var/lib/dpkg/alternatives/editor"), "other\n").unwrap();
    let listed = machine.provider.get(&Context::empty(), Query::All).unwrap();
    assert!(listed[0].unreadable.as_deref().unwrap().contains("is not a record"), "{listed:?}");
}
