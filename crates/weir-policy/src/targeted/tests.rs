//! Targeted fields beside Cache-Control.

use super::effective;
use crate::control::ControlField;
use crate::tests::given::fields;
use crate::{CacheRules, Surrogate};
use http::StatusCode;

fn check(lines: &str, field: ControlField, max_age_s: Option<u32>) {
    let control = effective(&fields(lines), StatusCode::OK, &CacheRules::default());
    assert_eq!((control.field, control.max_age_s), (field, max_age_s), "{lines}");
}

#[test]
fn cdn_cache_control_comes_first() {
    check("cdn-cache-control: max-age=9\ncache-control: max-age=1", ControlField::Cdn, Some(9));
    check("cdn-cache-control: max-age=9\nsurrogate-control: max-age=1", ControlField::Cdn, Some(9));
    check("cdn-cache-control: foo, max-age=9;x=y", ControlField::Cdn, Some(9));
    check("cdn-cache-control: max-age=1, max-age=9", ControlField::Cdn, Some(9));
    check("cdn-cache-control: foo\ncdn-cache-control: max-age=9", ControlField::Cdn, Some(9));
    check("cdn-cache-control: max-age=99999999999", ControlField::Cdn, Some(1 << 31));
    check("cdn-cache-control: max-age=-9", ControlField::Cdn, Some(0));
    check("cdn-cache-control: no-store\ncache-control: max-age=1", ControlField::Cdn, None);
}

#[test]
fn a_field_that_is_no_dictionary_counts_as_absent() {
    for given in [
        "",
        "max-age=9, &&&&",
        "MaX-aGe=9",
        "max-age =9",
        "max-age= 9",
        "max-age=\"9\"",
        "max-age=9.5",
        "max-age=(9)",
        "max-age",
        "max-age=1234567890123456",
        "max-age=9,",
    ] {
        check(&format!("cdn-cache-control: {given}\ncache-control: max-age=1"), ControlField::Plain, Some(1));
    }
}

#[test]
fn cdn_words() {
    use crate::control::Directives;
    let control = |given: &str| effective(&fields(given), StatusCode::OK, &CacheRules::default());
    assert!(control("cdn-cache-control: private").has(Directives::PRIVATE));
    assert!(control("cdn-cache-control: no-store=?1").has(Directives::NO_STORE));
    assert!(!control("cdn-cache-control: no-store=?0").has(Directives::NO_STORE));
    assert!(!control("cdn-cache-control: no-cache=\"a\"").has(Directives::NO_CACHE));
    assert_eq!(control("cdn-cache-control: no-cache=\"a\"").withheld.len(), 1);
    assert_eq!(control("cdn-cache-control: private=(a b), max-age=9").max_age_s, Some(9));
}

#[test]
fn surrogate_control_is_aimed() {
    check("surrogate-control: max-age=9\ncache-control: max-age=1", ControlField::Surrogate, Some(9));
    check("surrogate-control: MaX-aGe=9", ControlField::Surrogate, Some(9));
    check("surrogate-control: max-age=9;weir", ControlField::Surrogate, Some(9));
    check("surrogate-control: max-age=9;weir, max-age=5", ControlField::Surrogate, Some(9));
    check("surrogate-control: max-age=9;other\ncache-control: max-age=1", ControlField::Plain, Some(1));
    check("surrogate-control: foo\ncache-control: max-age=1", ControlField::Plain, Some(1));
    check("surrogate-control: content=\"ESI/1.0\"\ncache-control: max-age=1", ControlField::Plain, Some(1));
    check("surrogate-control: no-store;weir, max-age=9;other", ControlField::Surrogate, None);
    let control =
        effective(&fields("surrogate-control: max-age=9+30"), StatusCode::OK, &CacheRules::default());
    assert_eq!((control.max_age_s, control.while_revalidate_s), (Some(9), Some(30)));
}

#[test]
fn surrogate_control_can_be_ignored() {
    let rules = CacheRules { surrogate: Surrogate::Ignore, ..CacheRules::default() };
    let control =
        effective(&fields("surrogate-control: max-age=9\ncache-control: max-age=1"), StatusCode::OK, &rules);
    assert_eq!((control.field, control.max_age_s), (ControlField::Plain, Some(1)));
}
