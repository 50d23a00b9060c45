//! libFuzzer entry point for `../targets/script_reply.rs`.

#![no_main]

#[path = "../targets/script_reply.rs"]
mod target;

libfuzzer_sys::fuzz_target!(|data: &[u8]| target::run(data));
