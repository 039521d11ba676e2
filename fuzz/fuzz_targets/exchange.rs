//! Fuzz target: `exchange`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::policy::exchange(data));
