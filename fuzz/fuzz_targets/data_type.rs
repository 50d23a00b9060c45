//! libFuzzer entry point for `../targets/data_type.rs`.

#![no_main]

#[path = "../targets/data_type.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::run(data));
