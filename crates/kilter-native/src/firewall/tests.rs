use std::process::{Child, Command, Stdio};

use kilter_model::{Difference, Value};
use kilter_process::{Cancel, Invocation, Output, SpawnError};
use kilter_provider::{check, get_checked};

use super::*;
use crate::accounts::Runner;

/// Runs programs in the network namespace of a process.
struct InNamespace(u32, Mutex<Vec<String>>);

impl Runner for InNamespace {
    fn run(&self, invocation: &Invocation, cancel: Cancel<'_>) -> Result<Output, SpawnError> {
        let words = std::iter::once(&invocation.program).chain(&invocation.args);
        let words: Vec<&str> = words.map(|word| word.to_str().unwrap()).collect();
        self.1.lock().unwrap().push(words.join(" "));
        let mut inside = invocation.clone();
        inside.program = "nsenter".into();
        inside.args = [format!("--net=/proc/{}/ns/net", self.0), "--".into()].map(Into::into).into();
        inside.args.extend(words.iter().map(Into::into));
        kilter_process::run(&inside, Some(cancel))
    }
}

/// A network namespace and a directory with files. The process that keeps the namespace ends with it.
struct FirewallFixture {
    root: tempfile::TempDir,
    keeper: Child,
    tools: Arc<InNamespace>,
    provider: FirewallProvider,
}

impl Drop for FirewallFixture {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

/// The only call if the rules in effect are right.
const LIST: [&str; 1] = ["nft -s list ruleset"];

const DEFAULTS: &str = "#!/usr/sbin/nft -f\n\nflush ruleset\n";

impl FirewallFixture {
    fn new() -> FirewallFixture {
        assert!(rustix::process::geteuid().is_root(), "run this test as root: it makes network namespaces");
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("etc")).unwrap();
        std::fs::write(root.path().join("etc/nftables.conf"), DEFAULTS).unwrap();
        // The program writes a line when it is in its namespace.
        let mut keeper = Command::new("unshare");
        keeper.args(["--net", "--", "sh", "-c", "echo; exec cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut keeper = keeper.spawn().unwrap();
        std::io::Read::read_exact(keeper.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let tools = Arc::new(InNamespace(keeper.id(), Mutex::default()));
        let provider = FirewallProvider::new(System::new(root.path(), tools.clone()));
        FirewallFixture { root, keeper, tools, provider }
    }

    /// Runs nft by hand.
    fn nft(&self, text: &str) {
        nft::load(&*self.tools, &Context::empty(), text).unwrap();
        self.calls();
    }

    fn live(&self, name: &str) -> Option<String> {
        let tables = nft::list(&*self.tools, &Context::empty()).unwrap();
        self.calls();
        tables.into_iter().find(|(table, _)| table == name).map(|(_, content)| content)
    }

    fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.root.path().join(path)).unwrap()
    }

    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.tools.1.lock().unwrap())
    }

    fn differences(&self, name: &str, should: &Attributes) -> Vec<Difference> {
        let name = name.into();
        check(&self.provider, &Context::empty(), &[Wanted::new(&name, Some(should))]).remove(0).unwrap().differences
    }

    fn set(&self, wanted: &[(&str, &Attributes)], mode: Mode) -> Vec<Outcome> {
        let names: Vec<EcoString> = wanted.iter().map(|(name, _)| (*name).into()).collect();
        let differences: Vec<Vec<Difference>> =
            wanted.iter().map(|(name, should)| self.differences(name, should)).collect();
        let absent: Vec<State> = names.iter().map(|name| State::absent(name.clone())).collect();
        let change = |at: usize| Change::new(&names[at], &absent[at], Some(wanted[at].1), &differences[at]);
        let changes: Vec<Change<'_>> = (0..names.len()).map(change).collect();
        self.calls();
        self.provider.set(&Context::empty(), &changes, mode)
    }

    #[track_caller]
    fn converges(&self, wanted: &[(&str, &Attributes)]) {
        for outcome in self.set(wanted, Mode::Apply) {
            assert!(outcome.is_done(), "{outcome:?}");
        }
        let calls = self.calls();
        for (name, should) in wanted {
            assert_eq!(self.differences(name, should), [], "{name}");
        }
        *self.tools.1.lock().unwrap() = calls;
    }
}

fn should(content: &str) -> Attributes {
    Attributes::from_iter([
        ("ensure", Value::from("present")),
        ("content", content.into()),
        ("persist", Value::Boolean(true)),
    ])
}

fn absent() -> Attributes {
    Attributes::from_iter([("ensure", "absent")])
}

const INPUT: &str = "set office { type ipv4_addr; flags interval; elements = { 10.0.0.0/8 }; }\nchain input {\n  type \
                     filter hook input priority 0; policy drop;\n  iifname lo accept\n  tcp dport { ssh, 80 } ip saddr \
                     @office counter accept comment \"office\"\n}\n";

#[test]
fn table_is_loaded_kept_and_removed() {
    let machine = FirewallFixture::new();
    let declared = should(INPUT);
    machine.converges(&[("inet filter", &declared)]);
    let live = machine.live("inet filter").unwrap();
    assert!(live.contains("tcp dport { 22, 80 } ip saddr @office counter accept comment \"office\""), "{live}");
    let file = machine.text("etc/nftables.d/kilter-inet-filter.nft");
    assert_eq!(file, text::replacement("inet filter", INPUT));
    assert_eq!(machine.text("etc/nftables.conf"), format!("{DEFAULTS}include \"/etc/nftables.d/kilter-*.nft\"\n"));
    machine.nft("flush ruleset\n");
    machine.nft(&file);
    assert_eq!(machine.differences("inet filter", &declared), [], "the file loads the same table");
    machine.nft("add table ip empty\n");
    let listed = get_checked(&machine.provider, &Context::empty(), Query::All).unwrap();
    assert_eq!(listed.len(), 2);
    machine.converges(&[("inet filter", &absent())]);
    assert_eq!(machine.live("inet filter"), None);
    assert!(!machine.root.path().join("etc/nftables.d").exists());
    assert_eq!(machine.text("etc/nftables.conf"), DEFAULTS);
    machine.converges(&[("inet filter", &absent())]);
}

#[test]
fn listed_content_can_be_declared() {
    let machine = FirewallFixture::new();
    machine.converges(&[("inet filter", &should(INPUT))]);
    let live = machine.live("inet filter").unwrap();
    let differences = machine.differences("inet filter", &should(&live));
    assert!(differences.iter().all(|difference| difference.attribute.as_str() == "persist"), "{differences:?}");
}

#[test]
fn other_notation_is_no_difference_and_nft_starts_once() {
    let machine = FirewallFixture::new();
    machine.converges(&[("inet filter", &should(INPUT))]);
    machine.calls();
    let other = INPUT.replace("ssh, 80", "80,22").replace("priority 0", "priority filter");
    for round in 0..3 {
        let found = machine.differences("inet filter", &should(&other));
        assert!(found.iter().all(|difference| difference.attribute.as_str() == "persist"), "{found:?}");
        let normalizations = machine.calls().iter().filter(|call| call.starts_with("unshare")).count();
        assert_eq!(normalizations, usize::from(round == 0));
    }
}

#[test]
fn damages_are_found_and_repaired() {
    let machine = FirewallFixture::new();
    let declared = should(INPUT);
    machine.converges(&[("inet filter", &declared)]);
    for damage in [
        "add rule inet filter input tcp dport 23 accept\n",
        "flush chain inet filter input\n",
        "add chain inet filter input { policy accept; }\n",
        "add element inet filter office { 192.168.0.0/16 }\n",
        "add chain inet filter other\n",
        "delete table inet filter\n",
    ] {
        machine.nft(damage);
        assert_ne!(machine.differences("inet filter", &declared), [], "{damage}");
        machine.converges(&[("inet filter", &declared)]);
    }
    std::fs::write(machine.root.path().join("etc/nftables.conf"), DEFAULTS).unwrap();
    assert_eq!(machine.differences("inet filter", &declared)[0].attribute.as_str(), "persist");
    machine.converges(&[("inet filter", &declared)]);
    assert_eq!(machine.calls(), LIST, "the rules in effect were right");
    std::fs::remove_dir_all(machine.root.path().join("etc/nftables.d")).unwrap();
    machine.converges(&[("inet filter", &declared)]);
}

#[test]
fn tables_of_a_batch_are_one_transaction_and_others_stay() {
    let machine = FirewallFixture::new();
    machine.nft("table ip docker {\n chain nat { accept; comment \"theirs\"\n }\n}\n".replace("accept; ", "").as_str());
    let theirs = machine.live("ip docker");
    let (one, two) = (should("chain a { }"), should("chain b { }"));
    machine.converges(&[("inet one", &one), ("inet two", &two)]);
    let loads: Vec<String> =
        machine.calls().into_iter().filter(|call| call.starts_with("nft") && call.contains("-f")).collect();
    assert_eq!(loads, ["nft -c -f -", "nft -f -"]);
    assert_eq!(machine.live("ip docker"), theirs);
}

#[test]
fn invalid_table_changes_nothing_and_stops_no_other() {
    let machine = FirewallFixture::new();
    let (good, bad) = (should("chain a { accept\n }"), should("chain a { tcp dport nosuch accept\n }"));
    let outcomes = machine.set(&[("inet bad", &bad), ("inet good", &good)], Mode::Apply);
    assert!(format!("{:?}", outcomes[0]).contains("tcp dport nosuch accept"), "{outcomes:?}");
    assert!(outcomes[1].is_done(), "{outcomes:?}");
    assert_eq!(machine.live("inet bad"), None);
    let outcomes = machine.set(&[("inet bad", &bad)], Mode::Preview);
    assert!(!outcomes[0].is_done(), "{outcomes:?}");
    let index = machine.set(&[("inet bad", &should("chain a { iif eth9 accept\n }"))], Mode::Preview);
    assert!(format!("{index:?}").contains("use `iifname`"), "{index:?}");
    assert!(!machine.root.path().join("etc/nftables.d/kilter-inet-bad.nft").exists());
}

#[test]
fn elements_added_at_run_time_are_no_difference() {
    let machine = FirewallFixture::new();
    let declared = should("set seen { type ipv4_addr; flags dynamic,timeout; timeout 1h; }\n");
    machine.converges(&[("inet filter", &declared)]);
    machine.nft("add element inet filter seen { 10.0.0.1, 10.0.0.2 timeout 5m }\n");
    assert_eq!(machine.differences("inet filter", &declared), []);
}

#[test]
fn table_without_persistence_has_no_file() {
    let machine = FirewallFixture::new();
    let mut declared = should("chain a { }");
    machine.converges(&[("ip nat", &declared)]);
    declared.set("persist", false);
    machine.converges(&[("ip nat", &declared)]);
    assert!(!machine.root.path().join("etc/nftables.d/kilter-ip-nat.nft").exists());
    assert_eq!(machine.calls(), LIST);
    std::fs::remove_file(machine.root.path().join("etc/nftables.conf")).unwrap();
    machine.converges(&[("ip nat", &should("chain a { }"))]);
    assert_eq!(machine.text("etc/nftables.conf"), format!("{DEFAULTS}\ninclude \"/etc/nftables.d/kilter-*.nft\"\n"));
}

#[test]
fn plan_shows_rules_as_nft_lists_them() {
    let machine = FirewallFixture::new();
    let declared = should("chain a { tcp dport ssh accept\n }");
    machine.converges(&[("inet filter", &declared)]);
    machine.nft("add rule inet filter a drop\n");
    let shown = machine.differences("inet filter", &declared);
    assert_eq!(shown[0].message.as_deref(), Some("lines removed: 1, added: 0"));
    assert!(shown[0].diff.as_deref().unwrap().contains("\n-\tdrop\n"), "{shown:?}");
    let new = machine.differences("inet other", &declared);
    let content = new.iter().find(|difference| difference.attribute.as_str() == "content").unwrap();
    assert!(content.diff.as_deref().unwrap().contains("+\ttcp dport 22 accept\n"), "{content:?}");
}

#[test]
fn invalid_declarations_are_refused() {
    let machine = FirewallFixture::new();
    let validate = |name: &str, attributes: &Attributes| {
        let found = machine.provider.validate(name, attributes, &[]);
        found.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    assert!(validate("filter", &absent()).contains("is not the name of a table"));
    assert!(validate("inet filter", &Attributes::new()).contains("needs chains"));
    assert!(validate("inet filter", &should("chain a { } } flush ruleset")).contains("would end the table"));
    let secret = Attributes::from_iter([("content", Value::sensitive("chain a { }".into()))]);
    assert!(validate("inet filter", &secret).contains("cannot hold a secret"));
    let outcomes = machine.set(&[("inet filter", &secret)], Mode::Apply);
    assert!(format!("{outcomes:?}").contains("cannot hold a secret"), "{outcomes:?}");
    assert_eq!(validate("inet filter", &should(INPUT)), "");
    let outcomes = machine.set(&[("inet filter", &should("} flush ruleset; table inet x {"))], Mode::Apply);
    assert!(!outcomes[0].is_done());
}
