//! What `index` must do, by example.

use super::*;
use crate::Store;
use crate::samples::{key, put};

#[test]
fn what_is_removed_or_dropped_is_found_no_more() {
    let index = Index::new();
    let store = Store::new(1 << 20);
    let (old, new) = (put(&store, 1, 10), put(&store, 1, 20));
    index.insert(&new);
    index.insert(&old);
    index.insert(&old);
    let digest = key(1).digest;
    assert!(Arc::ptr_eq(&index.find(digest, |_| true).unwrap(), &new));
    assert_eq!(index.all(digest).len(), 2);
    index.remove(&new.label);
    assert!(Arc::ptr_eq(&index.find(digest, |_| true).unwrap(), &old));
    drop(old);
    assert!(index.find(digest, |_| true).is_none());
    index.remove(&new.label);
    assert_eq!(index.len(), 0);
}
