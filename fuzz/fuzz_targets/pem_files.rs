//! Fuzz target: `pem_files`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::tls::pem_files(data));
