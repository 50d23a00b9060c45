//! libFuzzer entry point for `../targets/definition.rs`.

#![no_main]

#[path = "../targets/definition.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::run(data));
