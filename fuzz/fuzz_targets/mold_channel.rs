//! libFuzzer entry point for `../targets/mold_channel.rs`.

#![no_main]

#[path = "../targets/mold_channel.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::run(data));
