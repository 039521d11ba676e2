//! Which coding a client gets, of those that there are.

use http::{HeaderMap, HeaderValue, header};

use super::Coding::{Br, Gzip, Zstd};
use super::{Accepted, Coding};

const ALL: &[Coding] = &[Br, Zstd, Gzip];

fn check(field: Option<&'static str>, there: &[Coding], expect: Option<Coding>) {
    let mut headers = HeaderMap::new();
    if let Some(field) = field {
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(field));
    }
    let chosen = Accepted::read(&headers).choose(there.iter().copied());
    assert_eq!(chosen, expect, "{field:?} {there:?}");
}

#[test]
fn the_client_chooses_and_of_equal_ones_the_best_is_sent() {
    check(None, ALL, None);
    check(Some(""), ALL, None);
    check(Some("gzip, deflate, br, zstd"), ALL, Some(Br));
    check(Some("gzip, deflate, br, zstd"), &[Zstd, Gzip], Some(Zstd));
    check(Some("gzip;q=1, br;q=0.5"), ALL, Some(Gzip));
    check(Some("br;q=0, *"), ALL, Some(Zstd));
    check(Some("*;q=0"), ALL, None);
    check(Some("x-GZIP"), ALL, Some(Gzip));
    check(Some("X-gzip ; Q=0.1"), ALL, Some(Gzip));
    check(Some("gzip;q=0"), ALL, None);
    check(Some("gzip;q=0.5, identity"), ALL, None);
    check(Some("gzip;q=0.5, identity;q=0.1"), ALL, Some(Gzip));
    check(Some("gzip"), &[], None);
}

#[test]
fn a_weight_that_is_none_refuses() {
    for weight in ["nonsense", "", "-1", "2", "0.0001", ".5", "1e-1", "+1", " 1"] {
        let field: &str = format!("gzip;q={weight}").leak();
        check(Some(field), ALL, None);
    }
}
