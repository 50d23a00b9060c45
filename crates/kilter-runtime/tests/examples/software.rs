//! `software`: two namevars, two forms of titles.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use kilter_model::{Attributes, State, TypeSchema};
use kilter_provider::{
    ChangeLog, Context, Declaration, Failure, Name, Provider, ProviderError, Query, Simple, SimpleProvider,
    ValidationError,
};

use crate::site::{Site, defined, definition};

/// Style of the titles that the provider returns.
#[derive(Clone, Copy)]
enum Titles {
    /// As the text asks for: `php-yum`.
    Right,
    /// Another package's.
    Wrong,
    /// None.
    Missing,
}

/// Packages of several package managers, which refuse impossible calls.
struct Software {
    schema: TypeSchema,
    installed: Mutex<BTreeSet<(String, String)>>,
    titles: Titles,
}

impl Software {
    fn holding(packages: &[(&str, &str)], titles: Titles) -> Arc<Simple<Software>> {
        let installed = packages.iter().map(|(package, manager)| ((*package).into(), (*manager).into())).collect();
        let schema = defined(definition!("software"));
        Arc::new(Simple::new(Software { schema, installed: Mutex::new(installed), titles }).unwrap())
    }

    fn title(&self, package: &str, manager: &str) -> Option<String> {
        match self.titles {
            Titles::Right => Some(format!("{package}-{manager}")),
            Titles::Wrong => Some(format!("{package}-rpm")),
            Titles::Missing => None,
        }
    }
}

/// Package and manager, which are handed over by name.
fn pair(name: Name<'_>) -> (String, String) {
    assert_eq!(name.single(), None, "there are two namevars");
    let text = |namevar: &str| name.get(namevar).and_then(|value| value.as_str()).unwrap().to_owned();
    (text("package"), text("manager"))
}

impl SimpleProvider for Software {
    fn schema(&self) -> &TypeSchema {
        &self.schema
    }

    fn name(&self) -> &'static str {
        "managers"
    }

    fn get(&self, _: &Context<'_>, _: Query<'_>) -> Result<Vec<State>, ProviderError> {
        let installed = self.installed.lock().unwrap();
        let state = |(package, manager): &(String, String)| {
            let attributes = [("package", package.as_str()), ("manager", manager), ("ensure", "present")];
            let mut state = State::present("", attributes.into_iter().collect());
            state.title = self.title(package, manager).map(Into::into);
            state
        };
        Ok(installed.iter().map(state).collect())
    }

    fn canonicalize(&self, _: &Context<'_>, resources: &mut [Declaration<'_>]) -> Vec<Vec<ValidationError>> {
        for Declaration { should, .. } in resources.iter_mut() {
            if let Some(package) = should.text("package").map(str::to_lowercase) {
                should.set("package", package);
            }
        }
        vec![Vec::new(); resources.len()]
    }

    fn create(&self, _: &mut ChangeLog<'_>, name: Name<'_>, should: &Attributes) -> Result<(), Failure> {
        let (package, manager) = pair(name);
        assert_eq!((should.text("package"), should.text("manager")), (Some(&*package), Some(&*manager)));
        if package == "none" {
            return Err("no manager knows `none`".into());
        }
        match self.installed.lock().unwrap().insert((package, manager)) {
            true => Ok(()),
            false => Err("it is installed already".into()),
        }
    }

    fn update(&self, _: &mut ChangeLog<'_>, _: Name<'_>, _: &Attributes) -> Result<(), Failure> {
        Err("there is nothing that could be updated".into())
    }

    fn delete(&self, _: &mut ChangeLog<'_>, name: Name<'_>) -> Result<(), Failure> {
        match self.installed.lock().unwrap().remove(&pair(name)) {
            true => Ok(()),
            false => Err("it is not installed".into()),
        }
    }
}

fn site(software: &Arc<Simple<Software>>) -> Site {
    Site::new([Arc::clone(software) as Arc<dyn Provider>]).strict()
}

fn installed(software: &Simple<Software>) -> Vec<String> {
    let installed = software.inner().installed.lock().unwrap();
    installed.iter().map(|(package, manager)| format!("{package} by {manager}")).collect()
}

#[test]
fn titles_of_the_first_form_name_a_package_and_its_manager() {
    let software = Software::holding(&[("php", "gem")], Titles::Right);
    let manifest = "resources:\n  software[php-yum]: { ensure: present }\n  software[php-gem]: { ensure: absent }\n";
    let ran = site(&software).apply(manifest);
    assert_eq!(
        ran.told(),
        [
            "software[php-yum]: changed",
            "  ensure: absent → present",
            "software[php-gem]: changed",
            "  ensure: present → absent",
        ]
    );
    assert_eq!(installed(&software), ["php by yum"]);
    // Lines name the resource by its namevars.
    let yum = r#"software[{"package":"php","manager":"yum"}]"#;
    assert!(ran.lines.contains(&format!("notice: {yum}: Creating: Finished")), "{:#?}", ran.lines);
    assert_eq!(site(&software).apply(manifest).in_sync(), 2);
}

#[test]
fn a_title_of_the_second_form_takes_the_manager_from_the_attributes() {
    let software = Software::holding(&[], Titles::Right);
    let ran = site(&software).apply("resources:\n  software[php]: { ensure: present, manager: yum }\n");
    assert_eq!(ran.told(), ["software[php]: changed", "  ensure: absent → present"]);
    assert_eq!(installed(&software), ["php by yum"]);
    // The other form means the same resource.
    assert_eq!(site(&software).apply("resources:\n  software[php-yum]: {}\n").in_sync(), 1);
}

#[test]
fn both_forms_in_one_manifest_manage_one_resource_twice() {
    let software = Software::holding(&[], Titles::Right);
    let manifest = "resources:\n  software[php-yum]: {}\n  software[php]: { ensure: absent, manager: yum }\n";
    let expected = r#"3:3 two resources manage the software `{"package":"php","manager":"yum"}`"#;
    assert_eq!(site(&software).refused(manifest), [expected]);
}

#[test]
fn attributes_override_the_title_if_they_disagree() {
    let software = Software::holding(&[], Titles::Right);
    site(&software).apply("resources:\n  software[php-yum]: { manager: gem }\n");
    assert_eq!(installed(&software), ["php by gem"]);
    // So a title may be any text that a pattern takes.
    let manifest = "resources:\n  software[the language]: { package: php, manager: gem, ensure: absent }\n";
    site(&software).apply(manifest);
    assert_eq!(installed(&software), [""; 0]);
}

#[test]
fn a_resource_without_all_of_its_namevars_is_refused() {
    let software = Software::holding(&[], Titles::Right);
    let told = site(&software).refused("resources:\n  software[php]: { ensure: present }\n");
    assert_eq!(told, ["2:3 `software[php]` is not fully named: it needs package, manager"]);
}

#[test]
fn a_title_that_no_pattern_matches_is_an_error_that_names_the_patterns() {
    let text = definition!("software").replace("(?<package>.*)$", "(?<package>[a-z]+)$");
    let software = Software { schema: defined(&text), installed: Mutex::default(), titles: Titles::Right };
    let site = Site::new([Arc::new(Simple::new(software).unwrap()) as Arc<dyn Provider>]);
    assert_eq!(
        site.refused("resources:\n  software[php123]: { manager: yum }\n"),
        [concat!(
            r#"2:3 No set of title patterns matched the title "php123": "#,
            r"tried /^(?<package>.*[^-])-(?<manager>.*)$/, /^(?<package>[a-z]+)$/"
        )]
    );
}

#[test]
fn the_key_of_several_namevars_is_canonical() {
    let text = format!("{}features: [canonicalize]\n", definition!("software"));
    let installed = Mutex::new([("php".to_owned(), "yum".to_owned())].into());
    let software = Software { schema: defined(&text), installed, titles: Titles::Right };
    let site = Site::new([Arc::new(Simple::new(software).unwrap()) as Arc<dyn Provider>]).strict();
    assert_eq!(site.apply("resources:\n  software[PHP-yum]: {}\n").in_sync(), 1);
    assert_eq!(
        site.refused("resources:\n  software[PHP-yum]: {}\n  software[php-yum]: {}\n"),
        [r#"software[php-yum]: software[PHP-yum] manages the same `{"package":"php","manager":"yum"}`"#]
    );
}

#[test]
fn a_provider_that_returns_another_resources_title_does_not_keep_its_promises() {
    let manifest = "resources:\n  software[php-yum]: {}\n";
    for (titles, why) in [
        (Titles::Wrong, r#"the title "php-rpm" does not match all namevars: `manager` is "yum", by the title "rpm""#),
        (Titles::Missing, "it returned no title"),
    ] {
        let software = Software::holding(&[("php", "yum")], titles);
        let key = r#"software[{"package":"php","manager":"yum"}]"#;
        let failure = format!("  the provider `managers` does not keep its promises for {key}: {why}");
        assert_eq!(site(&software).apply(manifest).told(), ["software[php-yum]: failed".to_owned(), failure]);
        // Where that is not strictly held, it is warned of.
        let ran = Site::new([software as Arc<dyn Provider>]).apply(manifest);
        assert_eq!(ran.in_sync(), 1);
        assert_eq!(ran.lines, [format!("warning: {key}: the provider managers: {why}")]);
    }
}

#[test]
fn a_plan_changes_nothing_and_a_failure_is_that_of_its_resource() {
    let software = Software::holding(&[], Titles::Right);
    let manifest = "resources:\n  software[php-yum]: {}\n  software[php-gem]: {}\n  software[none-gem]: {}\n";
    assert_eq!(site(&software).plan(manifest).report.counts.would_change, 3);
    assert_eq!(installed(&software), [""; 0]);
    let ran = site(&software).apply(manifest);
    assert_eq!((ran.report.counts.changed, ran.report.counts.failed), (2, 1));
    assert_eq!(ran.told().last().map(String::as_str), Some("  no manager knows `none`"));
    assert_eq!(installed(&software), ["php by gem", "php by yum"]);
}
