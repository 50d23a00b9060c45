//! The fuzz targets of this crate ([long runs](../../../fuzz/README.md)), over their seeds and small mutations of
//! them.

#[path = "../../../fuzz/targets/mold_channel.rs"]
mod mold_channel;
#[path = "../../../fuzz/targets/near.rs"]
mod near;
#[path = "../../../fuzz/targets/script_metadata.rs"]
mod script_metadata;
#[path = "../../../fuzz/targets/script_reply.rs"]
mod script_reply;

#[test]
fn mold_channel_invariants_hold_for_mutated_seeds() {
    near::run("mold_channel", mold_channel::run);
}

#[test]
fn script_metadata_invariants_hold_for_mutated_seeds() {
    near::run("script_metadata", script_metadata::run);
}

#[test]
fn script_reply_invariants_hold_for_mutated_seeds() {
    near::run("script_reply", script_reply::run);
}
