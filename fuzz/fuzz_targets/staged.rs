//! Fuzz target: `staged`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_body::testing::staged(data));
