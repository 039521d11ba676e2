//! Fuzz target: `orca`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_upstream::fuzzing::orca(data));
