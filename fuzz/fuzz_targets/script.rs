//! Fuzz target: `script`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_script::fuzzing::script(data));
