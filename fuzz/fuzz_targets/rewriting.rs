//! Fuzz target: `rewriting`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_edge::route::rewrite::fuzzing::rewriting(data));
