//! Fuzz target: `sessions`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_upstream::fuzzing::sessions(data));
