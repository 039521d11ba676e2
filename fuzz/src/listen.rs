//! Promises of the PROXY header's reader that hold for any bytes: no panic; a header is complete only if all
//! of it is there; limits are kept; later bytes never change the judgement of earlier ones.

use weir_front::listen::{Parsed, V2_BYTES_MAX, parse};

/// Reads any bytes as the start of a connection.
pub fn proxy_header(data: &[u8]) {
    let all = parse(data);
    if let Ok(Parsed::Complete { header_bytes, .. }) = all {
        assert!(header_bytes <= data.len().min(V2_BYTES_MAX), "a header longer than what is there");
        assert_eq!(parse(&data[..header_bytes]), all, "what follows a header changes it");
    }
    for end in 0..data.len() {
        match parse(&data[..end]) {
            Ok(Parsed::Incomplete) => {}
            early => return assert_eq!(early, all, "more bytes change what {end} bytes said"),
        }
    }
}
