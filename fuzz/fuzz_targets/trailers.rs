//! Fuzz target: `trailers`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::wire::trailers(data));
