//! The head of a generation: what policy knows of the response, and its printed form.
//!
//! The store reads no field. It copies all values into one allocation: those of a response that has just
//! arrived are slices of a connection's buffer, which a kept head would keep alive.

use std::ops::Deref;
use std::sync::Arc;

use arc_swap::Guard;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue};
use weir_body::PrintedSlot;
use weir_policy::{ETag, Stored};

use crate::budget::Charge;

/// What the allocator adds to an allocation, roughly.
pub(crate) const ALLOCATION_BYTES: u64 = 16;
/// An entry of a [`HeaderMap`] with its place in the table.
const FIELD_BYTES: u64 = 112;
/// What a printed head has beside the fields: status line, separators, Weir's own fields, reference counts.
const PRINTED_BYTES: u64 = 320;

/// The head of a generation. A 304 replaces it as a whole.
#[derive(Debug)]
pub struct Head {
    /// What policy knows of the response.
    pub stored: Stored,
    /// The serialised response head, once the edge has printed it twice. Its bytes are charged beforehand.
    pub printed: PrintedSlot,
    _charge: Charge,
}

impl Head {
    pub(crate) fn new(stored: Stored, charge: Charge) -> Head {
        Head { stored, printed: PrintedSlot::default(), _charge: charge }
    }
}

/// A borrowed head. It touches no reference count. Keep it short, and never over an `.await`.
pub struct HeadRef(pub(crate) Guard<Arc<Head>>);

impl HeadRef {
    /// The head in an [`Arc`], to be kept.
    pub fn to_arc(&self) -> Arc<Head> {
        Arc::clone(&self.0)
    }
}

impl Deref for HeadRef {
    type Target = Head;

    fn deref(&self) -> &Head {
        &self.0
    }
}

/// The same head with its values in memory of its own.
pub(crate) fn detached(mut stored: Stored) -> Stored {
    let mut headers = HeaderMap::with_capacity(stored.headers.len());
    let mut values = BytesMut::with_capacity(stored.headers.values().map(HeaderValue::len).sum());
    for (name, value) in &stored.headers {
        values.extend_from_slice(value.as_bytes());
        headers.append(name, copied(value, values.split().freeze()));
    }
    stored.headers = headers;
    stored.validators.etag = stored.validators.etag.and_then(|tag| ETag::read(&alone(tag.value())));
    stored.variant.language = stored.variant.language.map(|language| alone(&language));
    stored
}

fn alone(value: &HeaderValue) -> HeaderValue {
    copied(value, Bytes::copy_from_slice(value.as_bytes()))
}

/// `bytes` as a value; they are a copy of the value's own.
fn copied(value: &HeaderValue, bytes: Bytes) -> HeaderValue {
    let mut copy = HeaderValue::from_maybe_shared(bytes).unwrap_or_else(|_| value.clone());
    copy.set_sensitive(value.is_sensitive());
    copy
}

/// What a head costs in memory, its printed form included.
pub(crate) fn head_bytes(stored: &Stored) -> u64 {
    let fields = stored.headers.capacity().max(stored.headers.len()) as u64 * FIELD_BYTES;
    let text: usize = stored.headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    let selecting: usize = stored
        .variant
        .selecting
        .iter()
        .map(|field| field.value.as_ref().map_or(0, |value| value.len() + 32))
        .sum();
    let spilled =
        if stored.variant.selecting.spilled() { stored.variant.selecting.capacity() * 96 } else { 0 };
    let own = size_of::<Head>() as u64 + 3 * ALLOCATION_BYTES;
    let tags = size_of_val(stored.tags.hashes());
    own + fields + 2 * text as u64 + PRINTED_BYTES + (selecting + spilled + tags) as u64
}

#[cfg(test)]
mod tests;
