//! The fuzz targets of this crate ([long runs](../../../fuzz/README.md)), over their seeds and small mutations of
//! them.

#[path = "../../../fuzz/targets/data_type.rs"]
mod data_type;
#[path = "../../../fuzz/targets/definition.rs"]
mod definition;
#[path = "../../../fuzz/targets/near.rs"]
mod near;
#[path = "../../../fuzz/targets/title.rs"]
mod title;

#[test]
fn data_type_invariants_hold_for_mutated_seeds() {
    near::run("data_type", data_type::run);
}

#[test]
fn definition_invariants_hold_for_mutated_seeds() {
    near::run("definition", definition::run);
}

#[test]
fn title_invariants_hold_for_mutated_seeds() {
    near::run("title", title::run);
}
