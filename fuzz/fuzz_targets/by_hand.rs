//! Fuzz target: `by_hand`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_content::form::fuzzed(data));
