//! Fuzz target: `http2`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::http2::http2(data));
