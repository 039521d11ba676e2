//! Fuzz target: `response_head`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::wire::response_head(data));
