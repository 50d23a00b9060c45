//! The provider with files below a directory, and the real apt-get.

use std::path::{Path, PathBuf};

use kilter_model::Difference;
use kilter_process::{Cancel, Invocation, Output, SpawnError};
use kilter_provider::{canonicalize_one, check, get_checked};

use super::key::tests::{KEY, OTHER_KEY};
use super::*;
use crate::accounts::Runner;

/// Runs the real program with its directories below a root.
struct AptRoot(PathBuf, Mutex<Vec<String>>);

impl Runner for AptRoot {
    fn run(&self, invocation: &Invocation, cancel: Cancel<'_>) -> Result<Output, SpawnError> {
        let words: Vec<&str> = invocation.args.iter().filter_map(|word| word.to_str()).collect();
        let only = words.iter().find_map(|word| word.strip_prefix("Dir::Etc::sourcelist="));
        let file = only.map(|path| Path::new(path).file_name().unwrap().to_string_lossy().into_owned());
        self.1.lock().unwrap().push(file.unwrap_or_else(|| "all".into()));
        let root = self.0.display();
        let options = [
            format!("Dir={root}"),
            format!("Dir::State::status={root}/var/lib/dpkg/status"),
            "Dir::Bin::methods=/usr/lib/apt/methods".into(),
            "APT::Sandbox::User=root".into(),
        ];
        let mut rooted = invocation.clone();
        let options = options.into_iter().flat_map(|option| ["-o".to_owned(), option]);
        rooted.args = options.map(Into::into).chain(invocation.args.iter().cloned()).collect();
        kilter_process::run(&rooted, Some(cancel))
    }
}

struct AptRepositoryFixture {
    root: tempfile::TempDir,
    tools: Arc<AptRoot>,
    provider: AptRepositoryProvider,
    state_dir: tempfile::TempDir,
}

impl AptRepositoryFixture {
    fn new() -> AptRepositoryFixture {
        AptRepositoryFixture::trusting(TrustPolicy::any())
    }

    fn trusting(trust: TrustPolicy) -> AptRepositoryFixture {
        let root = tempfile::tempdir().unwrap();
        for path in [
            "etc/apt/sources.list.d",
            "etc/apt/preferences.d",
            "etc/apt/apt.conf.d",
            "var/lib/dpkg",
            "var/lib/apt/lists/partial",
            "var/cache/apt/archives/partial",
            "repository",
        ] {
            std::fs::create_dir_all(root.path().join(path)).unwrap();
        }
        std::fs::write(root.path().join("var/lib/dpkg/status"), "").unwrap();
        std::fs::write(root.path().join("repository/Packages"), "").unwrap();
        let tools = Arc::new(AptRoot(root.path().to_owned(), Mutex::default()));
        let provider = AptRepositoryProvider::new(System::new(root.path(), tools.clone()), trust);
        AptRepositoryFixture { root, tools, provider, state_dir: tempfile::tempdir().unwrap() }
    }

    fn cx(&self) -> Context<'_> {
        Context::empty().with_var_dir(Some(self.state_dir.path()))
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    fn content(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap_or_else(|_| "missing".into())
    }

    fn write(&self, path: &str, text: &str) {
        std::fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        std::fs::write(self.path(path), text).unwrap();
    }

    /// Returns the updates: `all`, or the file of a single repository.
    fn updates(&self) -> Vec<String> {
        std::mem::take(&mut self.tools.1.lock().unwrap())
    }

    /// Declares a repository of this machine.
    fn local(&self, attributes: &[(&str, Value)]) -> Attributes {
        let uri = format!("file:{}", self.path("repository").display());
        let usual = [("uris", Value::from(uri)), ("suites", "./".into()), ("trusted", true.into())];
        let mut should = should(&usual);
        attributes.iter().for_each(|(name, value)| should.set(*name, value.clone()));
        should
    }

    fn differences(&self, name: &str, should: &Attributes) -> Vec<Difference> {
        let (name, cx) = (name.into(), self.cx());
        check(&self.provider, &cx, &[Wanted::new(&name, Some(should))]).remove(0).unwrap().differences
    }

    fn set(&self, wanted: &[(&str, Attributes)], mode: Mode) -> Vec<Option<EcoString>> {
        let names: Vec<EcoString> = wanted.iter().map(|(name, _)| (*name).into()).collect();
        let absent: Vec<State> = names.iter().map(|name| State::absent(name.clone())).collect();
        let change = |at: usize| Change::new(&names[at], &absent[at], Some(&wanted[at].1), &[]);
        let changes: Vec<Change<'_>> = (0..names.len()).map(change).collect();
        self.provider.set(&self.cx(), &changes, mode).into_iter().map(|outcome| outcome.failure).collect()
    }

    #[track_caller]
    fn converges(&self, wanted: &[(&str, Attributes)]) {
        assert_eq!(self.set(wanted, Mode::Apply), vec![None; wanted.len()]);
        for (name, should) in wanted {
            assert_eq!(self.differences(name, should), [], "{name}");
        }
    }

    #[track_caller]
    fn fails(&self, name: &str, should: Attributes, reason: &str) {
        let failures = self.set(&[(name, should)], Mode::Apply);
        assert!(failures[0].as_ref().is_some_and(|found| found.contains(reason)), "{failures:?}");
    }
}

fn should(attributes: &[(&str, Value)]) -> Attributes {
    let defaults = [
        ("ensure", Value::from("present")),
        ("types", "deb".into()),
        ("enabled", true.into()),
        ("notify_update", true.into()),
    ];
    let mut should = Attributes::from_iter(defaults);
    attributes.iter().for_each(|(name, value)| should.set(*name, value.clone()));
    let (provider, mut name) = (AptRepositoryProvider::new(System::real(), TrustPolicy::any()), "x".into());
    canonicalize_one(&provider, &Context::empty(), &mut name, &mut should).unwrap();
    should
}

fn absent() -> Attributes {
    Attributes::from_iter([("ensure", "absent")])
}

fn vendor(attributes: &[(&str, Value)]) -> Attributes {
    let usual = [
        ("uris", Value::from("https://vendor.example/debian")),
        ("suites", "stable".into()),
        ("components", Value::strings(["main", "contrib"])),
        ("notify_update", false.into()),
    ];
    should(&[&usual[..], attributes].concat())
}

#[test]
fn repositories_of_a_batch_are_updated_once() {
    let machine = AptRepositoryFixture::new();
    let both = [("one", machine.local(&[])), ("two", machine.local(&[("comment", "Second".into())]))];
    machine.converges(&both);
    assert_eq!(machine.updates(), ["all"]);
    let uri = machine.path("repository");
    assert_eq!(
        machine.content("/etc/apt/sources.list.d/two.sources"),
        format!("# Second\nTypes: deb\nURIs: file:{}\nSuites: ./\nTrusted: yes\n", uri.display())
    );
    let cx = machine.cx();
    let listed = get_checked(&machine.provider, &cx, Query::All).unwrap();
    assert_eq!(listed.iter().map(|state| state.name.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    machine.converges(&[("two", absent())]);
    assert_eq!(machine.updates(), [""; 0], "lists of removed repositories are not used");
    assert_eq!(machine.content("/etc/apt/sources.list.d/two.sources"), "missing");
    machine.converges(&[("two", machine.local(&[("enabled", false.into())]))]);
    machine.converges(&[("two", machine.local(&[("notify_update", false.into())]))]);
    assert_eq!(machine.updates(), [""; 0]);
}

#[test]
fn unreachable_repository_fails_alone_and_stays_out_of_sync() {
    let machine = AptRepositoryFixture::new();
    let bad = || machine.local(&[("uris", Value::strings(["file:/nonexistent/kilter"]))]);
    let failures = machine.set(&[("bad", bad()), ("good", machine.local(&[]))], Mode::Apply);
    assert!(failures[0].as_ref().is_some_and(|why| why.contains("/nonexistent/kilter")), "{failures:?}");
    assert_eq!(failures[1], None);
    assert_eq!(machine.updates(), ["all", "bad.sources", "good.sources"]);
    assert_eq!(machine.differences("good", &machine.local(&[])), []);
    let found = machine.differences("bad", &bad());
    assert_eq!(found[0].message.as_deref(), Some("the package lists are not updated"));
    machine.converges(&[("bad", machine.local(&[]))]);
}

#[test]
fn declared_fields_change_and_all_others_stay() {
    let machine = AptRepositoryFixture::new();
    let path = "/etc/apt/sources.list.d/vendor.sources";
    let old = "# By hand.\nTypes: deb\nURIs:  https://vendor.example/debian \nSuites: old\nComponents: main\n contrib\n\
               X-Repolib-Name: Vendor\nLanguages: none\n";
    machine.write(path, old);
    let options = Value::hash([("languages", Value::from("de en")), ("By-Hash", "force".into())]);
    let declared = vendor(&[("options", options), ("architectures", "amd64".into())]);
    let names: Vec<String> =
        machine.differences("vendor", &declared).iter().map(|found| found.attribute.to_string()).collect();
    assert_eq!(names, ["suites", "options", "architectures"]);
    machine.converges(&[("vendor", declared)]);
    let new = old.replace("Suites: old", "Suites: stable").replace("Languages: none", "Languages: de en");
    assert_eq!(machine.content(path), new + "Architectures: amd64\nBy-Hash: force\n");
    let removed = Value::hash([("LANGUAGES", Value::from("")), ("x-repolib-name", "".into())]);
    let bare = vendor(&[
        ("options", removed),
        ("architectures", Value::strings([""; 0])),
        ("enabled", false.into()),
        ("comment", "New\n\nlines ".into()),
    ]);
    machine.converges(&[("vendor", bare)]);
    let expected = "# New\n#\n# lines\nTypes: deb\nURIs:  https://vendor.example/debian \nSuites: stable\n\
                    Components: main\n contrib\nBy-Hash: force\nEnabled: no\n";
    assert_eq!(machine.content(path), expected);
    machine.converges(&[("vendor", vendor(&[("comment", "".into())]))]);
    assert!(machine.content(path).starts_with("Types: deb\n") && machine.content(path).ends_with("Enabled: yes\n"));
}

#[test]
fn files_that_cannot_be_kept_are_refused() {
    let machine = AptRepositoryFixture::new();
    let path = "/etc/apt/sources.list.d/vendor.sources";
    for (text, reason) in [
        ("deb http://a b c\n", "line 1 has the one-line format"),
        ("Types: deb\n\nTypes: deb-src\n", "line 3 begins a second stanza"),
    ] {
        machine.write(path, text);
        machine.fails("vendor", vendor(&[]), reason);
        assert_eq!(machine.content(path), text);
        let cx = machine.cx();
        assert_eq!(machine.provider.get(&cx, Query::All).unwrap(), []);
        let name = EcoString::from("vendor");
        let found = machine.provider.get(&cx, Query::Named(&[Wanted::new(&name, None)])).unwrap();
        assert!(found[0].unreadable.as_ref().is_some_and(|why| why.contains(reason)), "{found:?}");
    }
    machine.converges(&[("vendor", absent())]);
    machine.write("/etc/apt/sources.list.d/vendor.list", "deb http://a b c\n");
    for mode in [Mode::Preview, Mode::Apply] {
        let failures = machine.set(&[("vendor", vendor(&[]))], mode);
        assert!(
            failures[0].as_ref().is_some_and(|why| why.contains("vendor.list in the one-line format")),
            "{failures:?}"
        );
    }
    assert_eq!(machine.content(path), "missing");
}

#[test]
fn key_is_written_beside_the_repository_and_removed_with_it() {
    let machine = AptRepositoryFixture::new();
    let declared = vendor(&[("key", KEY.into())]);
    machine.converges(&[("vendor", declared.clone())]);
    assert_eq!(machine.content("/etc/apt/keyrings/vendor.asc"), KEY);
    let sources = "/etc/apt/sources.list.d/vendor.sources";
    assert!(machine.content(sources).ends_with("Signed-By: /etc/apt/keyrings/vendor.asc\n"));
    for (path, text, difference) in [
        ("/etc/apt/keyrings/vendor.asc", OTHER_KEY, "/etc/apt/keyrings/vendor.asc has another key"),
        (sources, "Types: deb\n", "Signed-By does not name the keyring of kilter"),
    ] {
        machine.write(path, text);
        let found = machine.differences("vendor", &declared);
        assert_eq!(found.last().unwrap().message.as_deref(), Some(difference), "{found:?}");
        machine.converges(&[("vendor", declared.clone())]);
    }
    // A key that others have written stays.
    machine.write("/etc/apt/keyrings/foreign.asc", KEY);
    let foreign = vendor(&[("signed_by", "/etc/apt/keyrings/foreign.asc".into())]);
    machine.converges(&[("vendor", foreign)]);
    machine.converges(&[("vendor", absent())]);
    assert_eq!(machine.content("/etc/apt/keyrings/foreign.asc"), KEY);
    machine.converges(&[("vendor", declared)]);
    machine.converges(&[("vendor", absent())]);
    assert_eq!(machine.content("/etc/apt/keyrings/vendor.asc"), "missing");
}

#[test]
fn absent_repository_loses_its_files_in_both_formats_and_the_key_that_they_name() {
    let machine = AptRepositoryFixture::new();
    let list = "/etc/apt/sources.list.d/vendor.list";
    for option in ["signed-by", "arch=amd64 signed-by"] {
        for ring in ["/etc/apt/keyrings/vendor.gpg", "/etc/apt/keyrings/shared.gpg"] {
            machine.write(list, &format!("# The vendor\ndeb [{option}={ring}] https://a.example stable main\n"));
            machine.write(ring, KEY);
            assert_eq!(machine.differences("vendor", &absent()).len(), 1);
            machine.converges(&[("vendor", absent())]);
            assert_eq!(machine.content(list), "missing");
            assert_eq!(machine.content(ring) == "missing", ring.contains("vendor"), "{ring}");
        }
    }
    // Debian's own file has several stanzas.
    let sources = "/etc/apt/sources.list.d/vendor.sources";
    let stanza = "Types: deb\nURIs: https://a.example\nSuites: ./\nSigned-By:/etc/apt/keyrings/vendor.asc\n";
    machine.write(sources, &format!("{stanza}\n{stanza}"));
    machine.write("/etc/apt/keyrings/vendor.asc", KEY);
    machine.write(list, "deb https://a.example ./\n");
    let name = EcoString::from("vendor");
    let (is, should) = (State::absent(name.clone()), absent());
    let change = Change::new(&name, &is, Some(&should), &[]);
    let planned = machine.provider.set(&machine.cx(), &[change], Mode::Preview).remove(0);
    assert_eq!(planned.notes, [format!("removes /etc/apt/keyrings/vendor.asc, {sources}, {list}")]);
    machine.converges(&[("vendor", absent())]);
    for path in [sources, list, "/etc/apt/keyrings/vendor.asc"] {
        assert_eq!(machine.content(path), "missing", "{path}");
    }
}

#[test]
fn key_in_the_stanza_is_read_back() {
    let machine = AptRepositoryFixture::new();
    machine.converges(&[("vendor", vendor(&[("signed_by", KEY.into())]))]);
    let text = machine.content("/etc/apt/sources.list.d/vendor.sources");
    assert!(text.contains("\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mDME"), "{text}");
    let found = machine.differences("vendor", &vendor(&[("signed_by", OTHER_KEY.into())]));
    assert_eq!(found[0].attribute, "signed_by");
}

#[test]
fn key_of_a_file_is_copied_and_checked() {
    let machine = AptRepositoryFixture::new();
    let binary = kilter_model::from_base64(
        &KEY.lines().filter(|line| !line.starts_with(['-', '='])).collect::<Vec<_>>().concat(),
    )
    .unwrap();
    machine.write("/srv/key", KEY);
    let declared = vendor(&[("key_source", "/srv/key".into())]);
    machine.converges(&[("vendor", declared.clone())]);
    std::fs::write(machine.path("/srv/key"), &binary).unwrap();
    machine.converges(&[("vendor", declared.clone())]);
    assert_eq!(std::fs::read(machine.path("/etc/apt/keyrings/vendor.gpg")).unwrap(), binary);
    assert_eq!(machine.content("/etc/apt/keyrings/vendor.asc"), "missing", "only one form stays");
    let sum = unpack::checksum_of(&binary, "{sha256}");
    machine.converges(&[("vendor", vendor(&[("key_source", "/srv/key".into()), ("key_checksum", sum[8..].into())]))]);
    machine.write("/srv/key", "<html>");
    machine.fails("vendor", declared.clone(), "/srv/key: it is not an OpenPGP public key");
    let checked = vendor(&[("key_source", "/srv/key".into()), ("key_checksum", sum[8..].into())]);
    assert_eq!(machine.differences("vendor", &checked), [], "the installed key is the declared one");
    std::fs::remove_file(machine.path("/etc/apt/keyrings/vendor.gpg")).unwrap();
    machine.fails("vendor", checked, "/srv/key has another checksum");
    machine.fails("none", vendor(&[("key_source", "/srv/none".into())]), "/srv/none");
    let preview = machine.set(&[("vendor", declared)], Mode::Preview);
    assert!(preview[0].as_ref().is_some_and(|why| why.contains("not an OpenPGP")), "{preview:?}");
}

#[test]
fn key_file_that_others_can_change_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let machine = AptRepositoryFixture::trusting(TrustPolicy::root());
    machine.write("/srv/key", KEY);
    std::fs::set_permissions(machine.path("/srv/key"), std::fs::Permissions::from_mode(0o666)).unwrap();
    machine.fails("vendor", vendor(&[("key_source", "/srv/key".into())]), "/srv/key");
    assert_eq!(machine.content("/etc/apt/keyrings/vendor.asc"), "missing");
}

#[test]
fn key_of_a_server_is_downloaded_once() {
    use std::io::{BufRead as _, BufReader, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/key.asc", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        // The second request gets no answer.
        let (mut stream, _) = listener.accept().unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
        lines.take_while(|line| !line.is_empty()).for_each(drop);
        let length = KEY.len();
        let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{KEY}");
    });
    let machine = AptRepositoryFixture::new();
    let sum = unpack::checksum_of(KEY.as_bytes(), "{sha256}");
    let declared = vendor(&[("key_source", url.into()), ("key_checksum", sum[8..].into())]);
    machine.converges(&[("vendor", declared.clone())]);
    std::fs::remove_file(machine.path("/etc/apt/sources.list.d/vendor.sources")).unwrap();
    machine.converges(&[("vendor", declared)]);
    assert_eq!(machine.content("/etc/apt/keyrings/vendor.asc"), KEY);
}

#[test]
fn invalid_declarations_are_refused() {
    let machine = AptRepositoryFixture::new();
    let problems = |attributes: &[(&str, Value)]| {
        let found = machine.provider.validate("x", &vendor(attributes), &[]);
        found.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    let words = |words: &[&str]| Value::strings(words.iter().copied());
    assert_eq!(problems(&[]), "");
    for (attributes, problem) in [
        (&[("uris", words(&[]))][..], "uris: a repository needs `uris` (add `uris: https://"),
        (&[("uris", "vendor.example".into())], "`vendor.example` is no address"),
        (&[("uris", "https://a b".into())], "`https://a b` is not one word (write a list"),
        (&[("suites", words(&["a\nb"]))], "`a\\nb` is not one word"),
        (&[("types", "rpm".into())], "`rpm` is no type of repositories"),
        (&[("components", words(&[]))], "the suites need components (add `components: main`)"),
        (&[("suites", "./".into())], "a suite that ends with `/` has no components"),
        (&[("signed_by", "keys/vendor.gpg".into())], "neither a path, nor a fingerprint, nor a key"),
        (&[("signed_by", "/a/../b".into())], "is no absolute path"),
        (&[("signed_by", KEY.replace("mDME", "mDMF").into())], "damaged"),
        (&[("key", "x".into())], "key: it is not an OpenPGP public key"),
        (&[("key", KEY.into()), ("key_source", "/x".into())], "`key` and `key_source` exclude each other"),
        (&[("key_source", "x".into())], "`x` is neither an address nor an absolute path"),
        (&[("key_source", "http://a/x".into())], "anyone on the way can change a key"),
        (&[("key_source", "/x".into()), ("key_checksum", "12".into())], "`12` is no such checksum"),
        (&[("key_checksum", "a".repeat(64).into())], "a checksum needs a `key_source`"),
        (
            &[("options", Value::hash([("URIs", Value::from("x"))]))],
            "`URIs` has an attribute of its own (write `uris`)",
        ),
        (&[("options", Value::hash([("a b", Value::from("x"))]))], "`a b` is no field"),
        (&[("options", Value::hash([("X", Value::from("a\nURIs: b"))]))], "`X` is no field with one line"),
        (&[("comment", "a\rb".into())], "a comment has no control characters"),
        (&[("uris", Value::sensitive("https://u:p@a/".into()))], "every user can read the files of repositories"),
    ] {
        assert!(problems(attributes).contains(problem), "{attributes:?}: {}", problems(attributes));
    }
    for keys in ["A4B469963BF863CC A4B469963BF863CD!", "6B514D1149B91016CA239C6F29C5DB7F8B84AAF2"] {
        assert_eq!(problems(&[("signed_by", keys.into())]), "");
    }
    assert_eq!(machine.provider.validate("x", &absent(), &[]), []);
    let deferred = ["uris", "components"];
    let partial = should(&[("suites", "stable".into())]);
    assert_eq!(machine.provider.validate("x", &partial, &deferred), []);
}
