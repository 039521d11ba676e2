//! Fuzz target: `cookies`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::cookies::cookies(data));
