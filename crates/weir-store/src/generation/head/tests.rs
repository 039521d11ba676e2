//! What `head` must do, by example.

use super::*;
use crate::samples::{fields, proof};

#[test]
fn a_detached_head_is_equal_and_lies_elsewhere() {
    let response = [
        ("etag", "\"v1\""),
        ("vary", "accept-language"),
        ("content-language", "de"),
        ("x-a", "1"),
        ("x-a", "2"),
    ];
    let stored = proof(&[("accept-language", "de")], &response).into_stored();
    let copy = detached(stored.clone());
    assert_eq!(copy.headers, stored.headers);
    assert_eq!((&copy.validators, &copy.variant), (&stored.validators, &stored.variant));
    for (name, value) in &stored.headers {
        let copied = copy.headers.get_all(name).iter();
        assert!(copied.into_iter().all(|other| other.as_bytes().as_ptr() != value.as_bytes().as_ptr()));
    }
    assert_eq!(fields(&response).get_all("x-a").iter().count(), copy.headers.get_all("x-a").iter().count());
}
