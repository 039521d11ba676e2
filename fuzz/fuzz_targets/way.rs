//! Fuzz target: `way`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_files::fuzzing::way(data));
