//! What a provider can do beyond `get` and `set`.

/// What a provider can do beyond `get` and `set`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Feature {
    /// Brings values that mean the same into one form.
    Canonicalize,
    /// Compares some attributes by itself.
    CustomInsync,
    /// Makes resources of what it finds beside those that are wanted.
    CustomGenerate,
    /// Reads single resources without reading all of them.
    SimpleGetFilter,
    /// Can preview a `set`.
    SupportsNoop,
    /// Lives on a remote target.
    RemoteResource,
    /// Acts on a refresh.
    Refresh,
}

impl Feature {
    /// All there are.
    pub const ALL: [Feature; 7] = [
        Feature::Canonicalize,
        Feature::CustomInsync,
        Feature::CustomGenerate,
        Feature::SimpleGetFilter,
        Feature::SupportsNoop,
        Feature::RemoteResource,
        Feature::Refresh,
    ];

    /// The word for it in schemas and output.
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

    /// The feature of a word.
    pub fn from_word(word: &str) -> Option<Feature> {
        Feature::ALL.into_iter().find(|feature| feature.word() == word)
    }
}
