//! What is cached, for the control plane: its words become an order of the edge, and what that finds words
//! again.

use weir_control::{CachedObject, ListOrder, ListSum, Listing, Progress, rfc3339};
use weir_edge::{Cached, Edge};

/// Lists what is cached.
///
/// # Errors
/// A sentence.
pub(super) fn list(edge: &Edge, order: &ListOrder, progress: &Progress) -> Result<Listing, String> {
    let after = match &order.after {
        Some(text) => of_hex(text).ok_or("no page ends there; begin again")?,
        None => Vec::new(),
    };
    let ListOrder { site, prefix, tag, matching, status, media_type, size, age, .. } = order.clone();
    let ListOrder { freshness, held, place, by_hand, sort, is_sum, limit, .. } = order.clone();
    let order = weir_edge::ListOrder {
        site,
        prefix,
        tag,
        matching,
        status,
        media_type,
        size,
        age,
        freshness,
        held,
        place,
        by_hand,
        sort,
        is_sum,
        limit,
        after,
    };
    if order.site.is_none() && order.prefix.is_none() && order.tag.is_none() {
        let store = edge.store();
        let laid = edge.content_usage().laid.objects;
        progress.expect(match order.by_hand {
            Some(true) => laid,
            Some(false) => store.usage().objects + store.objects_on_volumes(),
            None => store.usage().objects + store.objects_on_volumes() + laid,
        });
    }
    let found = edge.list(&order, &|| progress.step())?;
    let next = found.next.map(|next| next.iter().map(|byte| format!("{byte:02x}")).collect());
    let sum = found.sum.map(|sum| ListSum { objects: sum.objects, held_bytes: sum.held_bytes });
    let objects = found.objects.into_iter().map(cached).collect();
    Ok(Listing { objects, next, sum, walked: found.walked.len() })
}

fn cached(cached: Cached) -> CachedObject {
    let by_hand = cached.by_hand.as_ref();
    let listed = cached.listed;
    let text = String::from_utf8_lossy(&listed.key.full);
    let mut lines = text.lines().map(str::to_owned);
    CachedObject {
        url: lines.next().unwrap_or_default(),
        key: lines.collect(),
        site: cached.site.map(|site| site.to_string()),
        status: listed.status,
        media_type: listed.media_type.clone().map(Into::into),
        body_bytes: listed.body_bytes,
        held_bytes: listed.held_bytes,
        part: listed.is_part(),
        stored: rfc3339(listed.received),
        age_s: listed.age.as_secs(),
        lifetime_s: match by_hand {
            Some(laid) if laid.entry.ends.is_none() => None,
            _ => Some(listed.lifetime.as_secs()),
        },
        fresh: listed.is_fresh,
        memory: listed.is_in_memory,
        volume: listed.volume.is_some(),
        volume_name: listed.volume.as_deref().map(str::to_owned),
        by_hand: by_hand.is_some(),
        shown: by_hand.map(|laid| laid.is_shown),
    }
}

/// Bytes from hexadecimal digits.
fn of_hex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let byte = |pair: &[u8]| match pair {
        [high, low] => u8::try_from(digit(high)? << 4 | digit(low)?).ok(),
        _ => None,
    };
    pairs.map(byte).collect()
}
