//! Fuzz target: `distributor_answer`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_distributor::fuzzing::distributor_answer(data));
