//! libFuzzer entry point for `../targets/title.rs`.

#![no_main]

#[path = "../targets/title.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::run(data));
