//! Fuzz target: `purge_pattern`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::policy::purge_pattern(data));
