//! The examples of the guide for authors of native providers: the page shows the code that is tested here.

#[expect(unreachable_pub, reason = "to readers of the page it is a library of its own")]
mod marker;
#[expect(unreachable_pub, reason = "to readers of the page it is a library of its own")]
mod variable;

use kilter_model::{Attributes, Change, Difference};
use kilter_provider::{Context, Mode, Provider, Wanted, check};

const PAGE: &str = include_str!("../../../../docs/guides/native-provider.md");

/// Maximum number of lines of the minimal provider.
const MINIMAL: usize = 40;

#[test]
fn the_guide_shows_the_providers_that_are_tested_here() {
    let shown: Vec<&str> = PAGE.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let (marker, variable) = (include_str!("marker.rs"), include_str!("variable.rs"));
    assert_eq!(shown[..2], [marker, variable]);
    assert!(marker.lines().count() <= MINIMAL, "the minimal provider has {} lines", marker.lines().count());
}

#[test]
fn minimal_provider_creates_and_removes() {
    let directory = tempfile::tempdir().unwrap();
    let provider = marker::Markers(directory.path().to_owned(), marker::schema());
    let name = "ready".into();
    for (ensure, is_there) in [("present", true), ("absent", false)] {
        let should = Attributes::from_iter([("ensure", ensure)]);
        let check = || check(&provider, &Context::empty(), &[Wanted::new(&name, Some(&should))]).remove(0).unwrap();
        let found = check();
        let differences: &[Difference] = &found.differences;
        assert_eq!(differences.len(), 1);
        let change = Change::new(&name, &found.state, Some(&should), differences);
        assert!(provider.set(&Context::empty(), &[change], Mode::Apply)[0].is_done());
        assert_eq!((check().differences, directory.path().join("ready").exists()), (vec![], is_there));
    }
}
