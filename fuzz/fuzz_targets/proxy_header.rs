//! Fuzz target: `proxy_header`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fuzz::listen::proxy_header(data));
