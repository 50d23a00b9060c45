//! The example of the guide for authors of native providers: the page shows the code that is tested here.

#[expect(unreachable_pub, reason = "to readers of the page it is a library of its own")]
mod variable;

const PAGE: &str = include_str!("../../../../docs/guides/native-provider.md");

#[test]
fn the_guide_shows_the_provider_that_is_tested_here() {
    let shown = PAGE.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).next();
    assert_eq!(shown, Some(include_str!("variable.rs")));
}
