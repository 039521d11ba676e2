//! What is kept is what would be made, whatever came before it.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use proptest::prelude::*;

use super::{HEADS, KEPT_MAX, Sender, fields, made};
use crate::message::{Fields, Head, Late, Prepared};

struct Age(u64);

impl Late for Age {
    fn write(&self, to: &mut impl Fields) {
        to.add("age", |out| out.extend_from_slice(self.0.to_string().as_bytes()));
    }
}

fn head(number: u16) -> Prepared {
    let mut map = HeaderMap::new();
    map.insert(HeaderName::from_static("etag"), HeaderValue::from(number));
    map.append(HeaderName::from_static("x-own"), HeaderValue::from_static("one"));
    map.append(HeaderName::from_static("x-own"), HeaderValue::from_static("two"));
    Prepared::new(StatusCode::OK, &map)
}

proptest! {
    #[test]
    fn a_kept_head_is_the_one_that_would_be_made(
        sent in prop::collection::vec(
            (0_u16..8, 0_u64..3, prop::option::of(0_u64..3), any::<bool>()),
            1..200,
        ),
    ) {
        let _sender = Sender::begin();
        let mut heads: Vec<Prepared> = (0..8).map(head).collect();
        for (number, age, length, is_new) in sent {
            if is_new {
                // The old text may be freed, and the new one come to lie at its place.
                heads[usize::from(number)] = head(number + 100);
            }
            let head = || Head::Prepared(heads[usize::from(number)].clone());
            prop_assert_eq!(fields(head(), &Age(age), length), made(head(), &Age(age), length));
        }
    }
}

#[test]
fn heads_are_few_and_go_with_the_last_connection() {
    let one = Sender::begin();
    let two = Sender::begin();
    for number in 0..1000 {
        let head = head(number);
        for _ in 0..3 {
            fields(Head::Prepared(head.clone()), &Age(1), None);
        }
    }
    drop(one);
    let kept = HEADS.with_borrow(|heads| heads.kept.iter().filter(|kept| kept.fields.is_some()).count());
    assert!((1..=KEPT_MAX).contains(&kept), "{kept}");
    drop(two);
    assert!(HEADS.with_borrow(|heads| heads.kept.is_empty()));
}

#[test]
fn a_head_that_is_sent_once_is_not_kept() {
    let _sender = Sender::begin();
    let head = head(1);
    fields(Head::Prepared(head.clone()), &Age(1), None);
    let count = || HEADS.with_borrow(|heads| heads.kept.iter().filter(|kept| kept.fields.is_some()).count());
    assert_eq!(count(), 0);
    fields(Head::Prepared(head), &Age(1), None);
    assert_eq!(count(), 1);
}
