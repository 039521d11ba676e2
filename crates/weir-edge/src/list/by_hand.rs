//! Content by hand as it is listed: beside what the store has, by the same conditions. It is never in memory
//! nor on a volume, and has no tags.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use weir_content::Entry;
use weir_policy::{CacheKey, Now, media_type};
use weir_store::{Listed, UrlMatch};

use super::ListOrder;
use crate::content::laid::{Content, Laid};
use crate::content::named::canonical;
use crate::plan::Site;
use crate::shared::Running;

/// The schemes that content is there for. A pattern that takes its URL with one of them takes it.
const SCHEMES: [&str; 2] = ["http://", "https://"];

/// A piece of content by hand that is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedByHand {
    /// It.
    pub entry: Arc<Entry>,
    /// Whether requests are answered with it. Not where its URL leads to another site now, or to none, or it
    /// is damaged.
    pub is_shown: bool,
}

/// Pieces of content by hand, by URL.
pub(super) struct ByHand {
    pieces: Vec<Arc<Laid>>,
    now: Now,
}

impl ByHand {
    /// What may be listed by site, prefix, tag and URL.
    ///
    /// # Errors
    /// A sentence: the prefix is none.
    pub(super) fn find(
        content: &Content,
        order: &ListOrder,
        site: Option<&Site>,
        url: Option<&UrlMatch>,
        now: Now,
    ) -> Result<ByHand, String> {
        if order.tag.is_some() || order.place.is_some() || order.by_hand == Some(false) {
            return Ok(ByHand { pieces: Vec::new(), now });
        }
        let prefix = order.prefix.as_deref().map(canonical).transpose()?;
        let mut pieces = content.all();
        pieces.retain(|laid| {
            let entry = &laid.entry;
            !entry.is_over(now.wall)
                && site.is_none_or(|site| site.name == entry.site)
                && prefix.as_ref().is_none_or(|prefix| entry.url.starts_with(prefix.as_str()))
                && url.is_none_or(|url| takes(url, &entry.url))
        });
        Ok(ByHand { pieces, now })
    }

    /// The pieces as the store lists them, in the order of their keys.
    pub(super) fn listed(&self) -> impl Iterator<Item = Listed> {
        self.pieces.iter().enumerate().map(|(number, laid)| listed(laid, number, self.now))
    }

    /// What was listed, if it is a piece.
    pub(super) fn shown(&self, listed: &Listed, running: &Running) -> Option<ListedByHand> {
        let laid = self.pieces.get(listed.besides?)?;
        let is_shown = !laid.is_damaged() && running.laid.shows(&running.plan, laid);
        Some(ListedByHand { entry: Arc::clone(&laid.entry), is_shown })
    }
}

fn takes(pattern: &UrlMatch, url: &str) -> bool {
    SCHEMES.iter().any(|scheme| (pattern.0)(format!("{scheme}{url}").as_bytes()))
}

fn listed(laid: &Laid, number: usize, now: Now) -> Listed {
    let entry = &laid.entry;
    let since = |begin| now.wall.duration_since(begin).unwrap_or_default();
    Listed {
        key: CacheKey::new(Bytes::copy_from_slice(entry.url.as_bytes())),
        body_bytes: Some(entry.body_bytes),
        held_bytes: entry.body_bytes,
        status: laid.stored.status.as_u16(),
        media_type: media_type(&laid.stored.headers).map(String::into_boxed_str),
        received: entry.laid,
        age: since(entry.laid),
        lifetime: entry
            .ends
            .map_or(Duration::MAX, |ends| ends.duration_since(entry.laid).unwrap_or_default()),
        is_fresh: !entry.is_over(now.wall),
        is_in_memory: false,
        volume: None,
        besides: Some(number),
    }
}
