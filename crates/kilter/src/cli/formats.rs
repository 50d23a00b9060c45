//! Values of options: formats of the output, and strictness.

use clap::ValueEnum;
use kilter_provider::Strictness;

/// Colour of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

impl Color {
    /// Makes it the choice for both outputs.
    pub(crate) fn write_global(self) {
        let choice = match self {
            Color::Auto => anstream::ColorChoice::Auto,
            Color::Always => anstream::ColorChoice::Always,
            Color::Never => anstream::ColorChoice::Never,
        };
        choice.write_global();
    }
}

/// Format of the report of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    Human,
    Json,
}

/// Format of `kilter status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatusFormat {
    Human,
    Json,
    Prometheus,
}

/// Format of resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ResourceFormat {
    Human,
    Json,
    Yaml,
    Puppet,
}

/// Format of types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TypesFormat {
    Human,
    Json,
    Markdown,
}

/// Format of facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FactsFormat {
    Human,
    Json,
    Yaml,
}

/// Format of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphFormat {
    Human,
    Json,
    Dot,
    Mermaid,
    Svg,
}

/// Handling of contract violations by providers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Strict {
    Off,
    #[default]
    Warning,
    Error,
}

impl From<Strict> for Strictness {
    fn from(strict: Strict) -> Strictness {
        match strict {
            Strict::Off => Strictness::Off,
            Strict::Warning => Strictness::Warning,
            Strict::Error => Strictness::Error,
        }
    }
}
