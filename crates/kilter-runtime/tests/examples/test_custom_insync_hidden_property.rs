//! `test_custom_insync_hidden_property`: a type without properties, which is compared as a whole.

use std::sync::{Arc, Mutex};

use kilter_model::{Attributes, Change, Outcome, State, TypeSchema};
use kilter_provider::{ChangeLog, Context, INSYNC_TRIGGER, Insync, Mode, Provider, ProviderError, Query};

use crate::site::{Site, defined, definition};

const TYPE: &str = "test_custom_insync_hidden_property";

/// A provider with one resource, `example`, that logs its changes.
struct Hidden {
    schema: TypeSchema,
    /// Reason for the difference if it is out of sync.
    message: Option<&'static str>,
    /// The attributes that were asked about.
    asked: Mutex<Vec<String>>,
}

fn hidden(message: Option<&'static str>) -> Arc<Hidden> {
    let schema = defined(definition!("test_custom_insync_hidden_property"));
    Arc::new(Hidden { schema, message, asked: Mutex::default() })
}

impl Provider for Hidden {
    fn schema(&self) -> &TypeSchema {
        &self.schema
    }

    fn name(&self) -> &'static str {
        "memory"
    }

    fn get(&self, _: &Context<'_>, _: Query<'_>) -> Result<Vec<State>, ProviderError> {
        Ok(vec![State::present("example", [("name", "example")].into_iter().collect())])
    }

    fn set(&self, cx: &Context<'_>, changes: &[Change<'_>], mode: Mode) -> Vec<Outcome> {
        let mut log = ChangeLog::new(self, cx, changes, mode);
        for change in changes {
            let should = change.should.unwrap();
            let told: Vec<String> = should.iter().map(|(name, value)| format!("{name}: {value}")).collect();
            log.notice_for(change, &format!("Setting with {}", told.join(", ")));
        }
        log.outcomes()
    }

    fn insync(&self, _: &Context<'_>, attribute: &str, _: &State, should: &Attributes) -> Insync {
        self.asked.lock().unwrap().push(attribute.to_owned());
        match should.get_bool("force") {
            Some(true) => Insync::Differs(self.message.map(Into::into)),
            _ => Insync::Same,
        }
    }
}

fn site(provider: &Arc<Hidden>) -> Site {
    Site::new([Arc::clone(provider) as Arc<dyn Provider>]).strict()
}

#[test]
fn resource_in_sync_as_a_whole_is_unchanged() {
    let provider = hidden(None);
    let ran = site(&provider).apply(&format!("resources:\n  {TYPE}[example]: {{}}\n"));
    assert_eq!((ran.in_sync(), ran.told(), ran.lines), (1, Vec::new(), Vec::new()));
    assert_eq!(*provider.asked.lock().unwrap(), [INSYNC_TRIGGER]);
}

#[test]
fn resource_out_of_sync_as_a_whole_is_changed_with_the_default_message() {
    let provider = hidden(None);
    let manifest = format!("resources:\n  {TYPE}[example]: {{ force: true }}\n");
    let message = "  rsapi_custom_insync_trigger: Custom insync logic determined that this resource is out of sync";
    for _ in 0..2 {
        let ran = site(&provider).apply(&manifest);
        assert_eq!(ran.told(), [format!("{TYPE}[example]: changed"), message.into()]);
        // The hidden property is not among what is set.
        assert_eq!(ran.lines, [format!("notice: {TYPE}[example]: Setting with force: true")]);
    }
    let plan = site(&provider).plan(&manifest);
    assert_eq!(plan.told(), [format!("{TYPE}[example]: would_change"), message.into()]);
    assert_eq!(plan.lines, [""; 0]);
}

#[test]
fn provider_may_supply_its_own_message() {
    let provider = hidden(Some("it is to be forced"));
    let ran = site(&provider).apply(&format!("resources:\n  {TYPE}[example]: {{ force: true }}\n"));
    let message = "  rsapi_custom_insync_trigger: it is to be forced";
    assert_eq!(ran.told(), [format!("{TYPE}[example]: changed"), message.into()]);
}

#[test]
fn hidden_property_cannot_be_read_or_declared() {
    let provider = hidden(None);
    assert!(provider.schema.find(INSYNC_TRIGGER).is_none());
    let manifest = format!("resources:\n  {TYPE}[example]: {{ {INSYNC_TRIGGER}: true }}\n");
    let [problem] = site(&provider).refused(&manifest).try_into().unwrap();
    assert!(problem.ends_with(&format!("`{TYPE}` has no attribute `{INSYNC_TRIGGER}`")), "{problem}");
}
