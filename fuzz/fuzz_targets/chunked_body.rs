//! Fuzz target: `chunked_body`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::wire::chunked_body(data));
