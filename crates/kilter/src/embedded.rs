//! Scripts that are part of the program: the directory `providers` of the sources. A link in the crate leads there, so
//! that the published crate contains them.

use kilter_script::EmbeddedScript;

macro_rules! embedded {
    ($($type_name:literal $name:literal),* $(,)?) => {
        [$(EmbeddedScript {
            type_name: $type_name,
            name: $name,
            text: include_str!(concat!("../providers/", $name, ".prov")),
            metadata: include_str!(concat!("../providers/", $name, ".yaml")),
        }),*]
    };
}

/// Embedded scripts.
pub(crate) static SCRIPTS: [EmbeddedScript; 2] = embedded! {
    "package" "pip",
    "package" "npm",
};

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kilter_script::{EmbeddedProvider, ScriptEnvironment};

    use super::*;

    #[test]
    fn each_script_has_the_type_and_name_of_its_metadata() {
        let environment = Arc::new(ScriptEnvironment::new());
        for source in &SCRIPTS {
            let provider = EmbeddedProvider::new(source, Vec::new(), &environment);
            let script = provider.script();
            assert_eq!((script.type_name(), script.name()), (source.type_name, source.name));
            assert_eq!(script.metadata().warnings, [], "{}", source.name);
        }
    }

    #[test]
    fn each_script_of_the_directory_is_embedded() {
        let directory = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/providers")).unwrap();
        let names = directory.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut found: Vec<String> = names.filter_map(|name| name.strip_suffix(".prov").map(str::to_owned)).collect();
        let mut embedded: Vec<&str> = SCRIPTS.iter().map(|script| script.name).collect();
        found.sort_unstable();
        embedded.sort_unstable();
        assert_eq!(found, embedded);
    }
}
