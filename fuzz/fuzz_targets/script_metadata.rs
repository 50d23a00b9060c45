//! libFuzzer entry point for `../targets/script_metadata.rs`.

#![no_main]

#[path = "../targets/script_metadata.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::run(data));
