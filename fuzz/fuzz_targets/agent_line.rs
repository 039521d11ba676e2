//! Fuzz target: `agent_line`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_upstream::fuzzing::agent_line(data));
