//! Optional features of a provider.

/// Optional feature of a provider, in addition to `get` and `set`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Feature {
    /// Converts equivalent values to one canonical form.
    Canonicalize,
    /// Compares some attributes itself.
    CustomInsync,
    /// Generates resources that exist in addition to the declared ones.
    CustomGenerate,
    /// Reads single resources without reading all of them.
    SimpleGetFilter,
    /// Can preview a `set`.
    SupportsNoop,
    /// Manages a remote target.
    RemoteResource,
    /// Acts on a refresh.
    Refresh,
}

impl Feature {
    /// All features.
    pub const ALL: [Feature; 7] = [
        Feature::Canonicalize,
        Feature::CustomInsync,
        Feature::CustomGenerate,
        Feature::SimpleGetFilter,
        Feature::SupportsNoop,
        Feature::RemoteResource,
        Feature::Refresh,
    ];

    /// Returns the keyword in schemas and output.
    pub fn word(self) -> &'static str {
        match self {
            Feature::Canonicalize => "canonicalize",
            Feature::CustomInsync => "custom_insync",
            Feature::CustomGenerate => "custom_generate",
            Feature::SimpleGetFilter => "simple_get_filter",
            Feature::SupportsNoop => "supports_noop",
            Feature::RemoteResource => "remote_resource",
            Feature::Refresh => "refresh",
        }
    }

    /// Returns the feature of a keyword.
    pub fn from_word(word: &str) -> Option<Feature> {
        Feature::ALL.into_iter().find(|feature| feature.word() == word)
    }
}
