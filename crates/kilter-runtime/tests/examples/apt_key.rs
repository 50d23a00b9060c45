//! `apt_key`, the first example of the text: a provider with `get`, `set` and `canonicalize`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use kilter_model::{Change, Outcome, State, TypeSchema, Value};
use kilter_provider::{
    ChangeLog, Context, Declaration, Failure, Mode, Provider, ProviderError, Query, ValidationError,
};

use crate::relations::Shelf;
use crate::site::{Site, defined, definition};

/// Output of `apt-key list` on a machine.
const LIST: &str = include_str!("fixtures/apt-key-list.txt");

const PUPPET: &str = "6F6B15509CF8E59E6E469F327F438280EF8D349F";
const AUTOMATIC: &str = "B8B80B5B623EAB6AD8775C45B7C5D7D6350947F8";
const STABLE: &str = "4D64FEC119C2029067D6E791F8D2585B8783D481";
/// A key that only its vendor has.
const VENDOR: &str = "0123456789ABCDEF0123456789ABCDEF01234567";

/// apt's keys as the tool `apt-key` keeps them: it lists, adds and deletes, and writes like it.
pub(crate) struct AptKeyTool {
    /// The paragraphs of its list, each a file with one key.
    files: Mutex<Vec<String>>,
    /// Available keys: the list of each key, by its location.
    sources: Arc<Mutex<BTreeMap<String, String>>>,
    is_installed: bool,
}

impl AptKeyTool {
    fn list(&self) -> Result<String, String> {
        match self.is_installed {
            true => Ok(self.files.lock().unwrap().join("\n\n") + "\n\n"),
            false => Err("there is no command `apt-key`".into()),
        }
    }

    fn add(&self, source: &str) -> Result<(), String> {
        let key = self.sources.lock().unwrap().get(source).cloned();
        let key = key.ok_or_else(|| format!("apt-key add: cannot fetch {source}: 404 Not Found"))?;
        self.files.lock().unwrap().push(format!("/etc/apt/trusted.gpg.d/added.gpg\n----\n{key}"));
        Ok(())
    }

    fn del(&self, fingerprint: &str) -> Result<(), String> {
        let mut files = self.files.lock().unwrap();
        let has_key = |file: &&mut String| file.replace(' ', "").contains(fingerprint);
        if files.iter_mut().find(has_key).is_none() {
            return Err(format!("apt-key del: {fingerprint}: not found"));
        }
        files.retain(|file| !file.replace(' ', "").contains(fingerprint));
        Ok(())
    }
}

struct AptKey {
    schema: TypeSchema,
    tool: Arc<AptKeyTool>,
    /// The changes that it was handed: is, should.
    changes: Mutex<Vec<String>>,
}

impl AptKey {
    fn holding(list: &str) -> (Arc<AptKey>, Arc<Mutex<BTreeMap<String, String>>>) {
        let files = list.trim_end().split("\n\n").map(str::to_owned).collect();
        let vendor = "pub   rsa3072 2024-02-29 [SC]\n      0123 4567 89AB CDEF 0123  4567 89AB CDEF 0123 4567\n\
                      uid           [ unknown] A Vendor <keys@example.com>";
        let sources = BTreeMap::from([("https://example.com/vendor.asc".to_owned(), vendor.to_owned())]);
        let sources = Arc::new(Mutex::new(sources));
        let tool = AptKeyTool { files: Mutex::new(files), sources: Arc::clone(&sources), is_installed: true };
        (Arc::new(AptKey::with(tool)), sources)
    }

    fn with(tool: AptKeyTool) -> AptKey {
        AptKey { schema: defined(definition!("apt_key")), tool: Arc::new(tool), changes: Mutex::default() }
    }

    fn changes(&self) -> Vec<String> {
        std::mem::take(&mut self.changes.lock().unwrap())
    }
}

/// The keys in a list: fingerprint and date, which stand on two lines, the first with `pub`.
fn parse(list: &str) -> Vec<(String, String)> {
    let mut lines = list.lines();
    let mut keys = Vec::new();
    while let Some(line) = lines.next() {
        let mut words = line.split_whitespace();
        if words.next() != Some("pub") {
            continue;
        }
        let fingerprint = lines.next().map(|line| line.replace(' ', ""));
        keys.extend(fingerprint.zip(words.nth(1).map(str::to_owned)));
    }
    keys
}

impl Provider for AptKey {
    fn schema(&self) -> &TypeSchema {
        &self.schema
    }

    fn name(&self) -> &'static str {
        "apt"
    }

    fn get(&self, _: &Context<'_>, _: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let list = self.tool.list().map_err(ProviderError::new)?;
        let state = |(id, created): (String, String)| {
            let attributes = [("ensure", "present"), ("id", id.as_str()), ("created", created.as_str())];
            State::present(id.as_str(), attributes.into_iter().collect())
        };
        Ok(parse(&list).into_iter().map(state).collect())
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        let mut log = ChangeLog::new(self, cx, changes, mode);
        for change in changes {
            let should = change.should.filter(|should| should.text("ensure") != Some("absent"));
            self.changes
                .lock()
                .unwrap()
                .push(format!("{} exists: {} should: {should:?}", change.name, change.is.exists));
            match should {
                Some(should) => log.creating(change, None, |log| {
                    let source = should.text("source").ok_or("neither a server nor a `source` is known")?;
                    log.debug(&format!("Executing 'apt-key add {source}'"));
                    self.tool.add(source).map_err(Failure::from)
                }),
                None => log.deleting(change, None, |log| {
                    log.debug(&format!("Executing 'apt-key del {}'", change.name));
                    self.tool.del(change.name).map_err(Failure::from)
                }),
            };
        }
        log.outcomes()
    }

    fn canonicalize(&self, _: &Context<'_>, resources: &mut [Declaration<'_>]) -> Vec<Vec<ValidationError>> {
        for Declaration { should, .. } in resources.iter_mut() {
            if let Some(id) = should.text("id") {
                let id = id.strip_prefix("0x").unwrap_or(id).to_uppercase();
                should.set("id", id);
            }
        }
        vec![Vec::new(); resources.len()]
    }
}

fn site() -> (Site, Arc<AptKey>) {
    let (keys, _) = AptKey::holding(LIST);
    (Site::new([Arc::clone(&keys) as Arc<dyn Provider>]).strict(), keys)
}

#[test]
fn get_reports_the_keys_that_the_tool_lists() {
    let keys = parse(LIST);
    let expected = [(PUPPET, "2016-08-18"), (AUTOMATIC, "2023-01-21"), (STABLE, "2023-01-23")];
    assert_eq!(keys, expected.map(|(id, created)| (id.to_owned(), created.to_owned())));
    let (site, keys) = site();
    let ran = site.apply(&format!("resources:\n  apt_key[{PUPPET}]: {{ ensure: present }}\n"));
    assert_eq!((ran.in_sync(), ran.told().len()), (1, 0));
    assert_eq!(keys.changes(), [""; 0]);
}

#[test]
fn an_id_is_the_same_in_every_form_in_which_it_may_be_written() {
    let (site, keys) = site();
    let lower = PUPPET.to_lowercase();
    for form in [PUPPET, &lower, &format!("0x{PUPPET}"), &format!("0x{lower}")] {
        let ran = site.apply(&format!("resources:\n  apt_key[{form}]: {{ ensure: present }}\n"));
        assert_eq!((ran.in_sync(), ran.told()), (1, Vec::new()), "{form}");
        let titled = format!("resources:\n  apt_key[puppet]: {{ ensure: present, id: '{form}' }}\n");
        assert_eq!(site.apply(&titled).in_sync(), 1, "{form}");
    }
    assert_eq!(keys.changes(), [""; 0]);
}

#[test]
fn two_forms_of_one_id_are_a_duplicate_key() {
    let (site, _) = site();
    let lower = PUPPET.to_lowercase();
    let manifest = format!("resources:\n  apt_key[{PUPPET}]: {{}}\n  apt_key[0x{lower}]: {{ ensure: absent }}\n");
    assert_eq!(site.refused(&manifest), [format!("apt_key[0x{lower}]: apt_key[{PUPPET}] manages the same `{PUPPET}`")]);
    // What is hidden is not managed.
    let hidden = manifest.replace(&format!("[{PUPPET}]: {{}}"), &format!("[{PUPPET}]: {{ meta: {{ hidden: true }} }}"));
    assert_eq!(site.prepare(&hidden).unwrap().resources()[1].name, PUPPET);
}

#[test]
fn set_gets_the_canonical_id_and_its_lines_name_it() {
    let (site, keys) = site();
    let lower = VENDOR.to_lowercase();
    let source = "https://example.com/vendor.asc";
    let manifest = format!("resources:\n  apt_key[0x{lower}]: {{ ensure: present, source: '{source}' }}\n");
    let ran = site.apply(&manifest);
    let reference = format!("apt_key[0x{lower}]");
    assert_eq!(ran.told(), [format!("{reference}: changed"), "  ensure: absent → present".into()]);
    assert_eq!(
        ran.lines,
        [
            format!("debug: apt_key[{VENDOR}]: Creating: Start"),
            format!("debug: apt_key[{VENDOR}]: Creating: Executing 'apt-key add {source}'"),
            format!("notice: apt_key[{VENDOR}]: Creating: Finished"),
        ]
    );
    let [change] = keys.changes().try_into().unwrap();
    assert!(change.starts_with(&format!("{VENDOR} exists: false")), "{change}");
    assert!(change.contains(&format!("{:?}", Value::from(VENDOR))), "{change}");
    // It is there now, under whichever form.
    assert_eq!(site.apply(&manifest).in_sync(), 1);
    assert_eq!(site.apply(&format!("resources:\n  apt_key[{VENDOR}]: {{ ensure: present }}\n")).in_sync(), 1);
}

#[test]
fn keys_are_deleted_and_absent_keys_stay_untouched() {
    let (site, keys) = site();
    let manifest = format!("resources:\n  apt_key[{PUPPET}]: {{ ensure: absent }}\n");
    let ran = site.apply(&manifest);
    assert_eq!(ran.told(), [format!("apt_key[{PUPPET}]: changed"), "  ensure: present → absent".into()]);
    assert_eq!(
        ran.lines,
        [
            format!("debug: apt_key[{PUPPET}]: Deleting: Start"),
            format!("debug: apt_key[{PUPPET}]: Deleting: Executing 'apt-key del {PUPPET}'"),
            format!("notice: apt_key[{PUPPET}]: Deleting: Finished"),
        ]
    );
    assert_eq!(parse(&keys.tool.list().unwrap()).len(), 2);
    keys.changes();
    assert_eq!(site.apply(&manifest).in_sync(), 1);
    assert_eq!(keys.changes(), [""; 0]);
}

#[test]
fn a_parameter_steers_the_provider_and_is_never_compared() {
    let (site, keys) = site();
    let manifest = format!("resources:\n  apt_key[{STABLE}]: {{ ensure: present, source: /somewhere/else }}\n");
    assert_eq!(site.apply(&manifest).in_sync(), 1);
    assert_eq!(keys.changes(), [""; 0]);
}

#[test]
fn absent_key_without_ensure_is_not_managed() {
    let (site, keys) = site();
    assert_eq!(site.apply(&format!("resources:\n  apt_key[{VENDOR}]: {{}}\n")).in_sync(), 1);
    assert_eq!(keys.changes(), [""; 0]);
}

#[test]
fn a_failure_in_the_block_is_logged_consumed_and_that_of_its_key_alone() {
    let (site, keys) = site();
    let manifest = format!(
        "resources:\n  apt_key[{VENDOR}]: {{ ensure: present, source: 'https://example.com/none' }}\n  \
         apt_key[{PUPPET}]: {{ ensure: absent }}\n"
    );
    let ran = site.apply(&manifest);
    let why = "apt-key add: cannot fetch https://example.com/none: 404 Not Found";
    assert_eq!(
        ran.told(),
        [
            format!("apt_key[{VENDOR}]: failed"),
            "  ensure: absent → present".into(),
            format!("  {why}"),
            format!("apt_key[{PUPPET}]: changed"),
            "  ensure: present → absent".into(),
        ]
    );
    assert!(ran.lines.contains(&format!("err: apt_key[{VENDOR}]: Creating: Failed: {why}")), "{:#?}", ran.lines);
    assert_eq!(keys.changes().len(), 2);
}

#[test]
fn without_the_tool_no_key_can_be_managed() {
    let tool = AptKeyTool { files: Mutex::default(), sources: Arc::default(), is_installed: false };
    let site = Site::new([Arc::new(AptKey::with(tool)) as Arc<dyn Provider>]);
    let ran = site.apply(&format!("resources:\n  apt_key[{PUPPET}]: {{}}\n  apt_key[{STABLE}]: {{}}\n"));
    assert_eq!(
        ran.told(),
        [
            format!("apt_key[{PUPPET}]: failed"),
            "  there is no command `apt-key`".into(),
            format!("apt_key[{STABLE}]: failed"),
            "  there is no command `apt-key`".into(),
        ]
    );
}

#[test]
fn invalid_id_is_refused_with_the_message_of_the_type() {
    let (site, _) = site();
    let patterns = r"Pattern[/\A(0x)?[0-9a-fA-F]{8}\Z/, /\A(0x)?[0-9a-fA-F]{16}\Z/, /\A(0x)?[0-9a-fA-F]{40}\Z/]";
    for (manifest, place, id) in [
        ("resources:\n  apt_key[0xA123]: {}\n", "2:3", "0xA123"),
        ("resources:\n  apt_key[puppet]: { id: EF8D349Z }\n", "2:26", "EF8D349Z"),
    ] {
        assert_eq!(site.refused(manifest), [format!("{place} `id` expects a match for {patterns}, got '{id}'")]);
    }
}

#[test]
fn read_only_attribute_in_manifest_is_refused() {
    let (site, _) = site();
    let manifest = format!("resources:\n  apt_key[{PUPPET}]: {{ ensure: absent, created: '2017-01-01' }}\n");
    let [problem] = site.refused(&manifest).try_into().unwrap();
    assert!(problem.ends_with("`created` is read_only: it is reported, and cannot be set"), "{problem}");
}

#[test]
fn managed_source_and_package_precede_the_key() {
    let (keys, sources) = AptKey::holding(LIST);
    // The file with the key appears in the world when its resource is brought about.
    let vendor = sources.lock().unwrap().remove("https://example.com/vendor.asc").unwrap();
    let files = Shelf::new("file").on_create(move |path| {
        sources.lock().unwrap().insert(path.to_owned(), vendor.clone());
    });
    let packages = Shelf::new("package");
    let site = Site::new([keys as Arc<dyn Provider>, files.provider(), packages.provider()]);
    let manifest = format!(
        "resources:\n  apt_key[{VENDOR}]: {{ ensure: present, source: /etc/vendor.asc }}\n  \
         file[/etc/vendor.asc]: {{ ensure: present }}\n  package[apt]: {{ ensure: present }}\n  \
         package[vim]: {{ ensure: present }}\n"
    );
    let prepared = site.prepare(&manifest).unwrap();
    let mut edges: Vec<(usize, usize)> =
        prepared.graph().edges().iter().map(|edge| (edge.from.slot(), edge.to.slot())).collect();
    edges.sort_unstable();
    assert_eq!(edges, [(1, 0), (2, 0)]);
    let ran = site.apply(&manifest);
    assert_eq!(ran.report.counts.changed, 4, "{:#?}", ran.told());
    // Where they are not managed, nothing is asked of them.
    let alone = format!("resources:\n  apt_key[{VENDOR}]: {{ ensure: present, source: /etc/vendor.asc }}\n");
    assert!(site.prepare(&alone).unwrap().graph().edges().is_empty());
}

#[test]
fn id_is_canonicalised_before_the_source_exists() {
    let (keys, sources) = AptKey::holding(LIST);
    let vendor = sources.lock().unwrap().remove("https://example.com/vendor.asc").unwrap();
    sources.lock().unwrap().insert("/srv/vendor".to_owned(), vendor);
    let site = Site::new([Arc::clone(&keys) as Arc<dyn Provider>, Shelf::new("mirror").provider()]).strict();
    let lower = VENDOR.to_lowercase();
    let key = format!("  apt_key[0x{lower}]: {{ ensure: present, source: '${{mirror[vendor].path}}' }}\n");
    let manifest = format!("resources:\n{key}  mirror[vendor]: {{ ensure: present }}\n");
    assert_eq!(site.prepare(&manifest).unwrap().resources()[0].name, VENDOR);
    let ran = site.apply(&manifest);
    assert_eq!(ran.report.counts.changed, 2, "{:#?}", ran.told());
    assert!(keys.changes()[0].starts_with(&format!("{VENDOR} exists: false")));
    let twice = format!("{manifest}  apt_key[{VENDOR}]: {{}}\n");
    assert_eq!(site.refused(&twice), [format!("apt_key[{VENDOR}]: apt_key[0x{lower}] manages the same `{VENDOR}`")]);
}
