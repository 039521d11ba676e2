//! Fuzz target: `head`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_store::fuzzing::head(data));
