//! Cost of validation and comparison: CPU time for 100,000 resources with ten attributes.
//!
//! `cargo run --profile bench -p kilter-provider --example check_bench`

use kilter_model::{AttributeName, Attributes, Behaviour, Change, Outcome, State, TypeSchema, Value};
use kilter_provider::{Context, Mode, Provider, ProviderError, Query, compare};
use rustix::time::{ClockId, clock_gettime};

const RESOURCES: usize = 100_000;

/// The attributes of a file, nearly, and one of each kind that costs something.
const SCHEMA: [(&str, &str); 10] = [
    ("path", r"Pattern[/\A\/([^\n\/\0]+(\/)?)+\z/]"),
    ("ensure", "Enum[absent, present, file, directory, link]"),
    ("content", "Variant[String, Binary]"),
    ("owner", "Variant[String[1], Integer[0]]"),
    ("group", "Optional[Variant[String[1], Integer[0]]]"),
    ("mode", r"Pattern[/\A[0-7]{3,4}\z/]"),
    ("backup", "Boolean"),
    ("tags", "Array[String[1], 0, 16]"),
    ("options", "Struct[{retries => Integer[0, 10], Optional[note] => String}]"),
    ("limits", "Hash[String, Integer[0]]"),
];

/// A provider that has a schema and nothing else.
struct Plain(TypeSchema);

impl Provider for Plain {
    fn schema(&self) -> &TypeSchema {
        &self.0
    }

    fn name(&self) -> &'static str {
        "plain"
    }

    fn get(&self, _: &Context<'_>, _: Query<'_>) -> Result<Vec<State>, ProviderError> {
        Ok(Vec::new())
    }

    fn set(&self, _: &Context<'_>, changes: &[Change<'_>], _: Mode) -> Vec<Outcome> {
        changes.iter().map(|_| Outcome::failed("nothing is changed here")).collect()
    }
}

/// The CPU time of this process in seconds.
fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn resource(number: usize, names: &[AttributeName]) -> Attributes {
    let values = [
        Value::from(format!("/srv/app/{}/{number}.conf", number % 100)),
        Value::from("file"),
        Value::from(format!("listen = {}\n", 1024 + number % 60_000)),
        Value::from("www-data"),
        Value::Integer(33),
        Value::from("0644"),
        Value::Boolean(number.is_multiple_of(2)),
        Value::strings(["web", "managed"]),
        Value::hash([("retries", Value::Integer(3)), ("note", Value::from("by hand"))]),
        Value::hash([("open_files", Value::Integer(4096)), ("processes", Value::Integer(512))]),
    ];
    names.iter().cloned().zip(values).collect()
}

fn main() {
    let schema = SCHEMA.iter().fold(TypeSchema::new("bench", ""), |schema, (name, data_type)| {
        let behaviour = if *name == "path" { Behaviour::Namevar } else { Behaviour::Property };
        schema.attribute(name, data_type, behaviour, "")
    });
    let names: Vec<AttributeName> = schema.attributes.iter().map(|attribute| attribute.name.clone()).collect();
    let provider = Plain(schema);
    // Made twice, so that nothing is shared between what is compared.
    let make = || (0..RESOURCES).map(|number| resource(number, &names)).collect::<Vec<Attributes>>();
    let should = make();
    let is: Vec<State> = make().into_iter().map(|attributes| State::present("x", attributes)).collect();

    let begun = cpu();
    let mut refused = 0;
    for attributes in &should {
        for (name, value) in attributes.iter() {
            let attribute = provider.0.find(name.as_str()).expect("the attributes are those of the schema");
            refused += usize::from(attribute.data_type.check(value).is_err());
        }
    }
    let checked = cpu();
    let different: usize = is
        .iter()
        .zip(&should)
        .map(|(is, should)| compare(&provider, &Context::empty(), is, should).map_or(1, |found| found.len()))
        .sum();
    let compared = cpu();
    assert_eq!((refused, different), (0, 0), "everything fits and is in its state");
    println!("{RESOURCES} resources of {} attributes", SCHEMA.len());
    println!("validated {:.3} s of CPU", checked - begun);
    println!("compared  {:.3} s of CPU", compared - checked);
    println!("both      {:.3} s of CPU", compared - begun);
}
