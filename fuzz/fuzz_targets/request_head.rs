//! Fuzz target: `request_head`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::wire::request_head(data));
