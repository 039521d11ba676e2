//! Content by hand: opens its folder, and joins what the API orders with what the edge does.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use weir_config::Loaded;
use weir_content::{Entry, Shelf, ShelfError, Usage};
use weir_control::state::CONTENT;
use weir_control::{
    ContentLaid, ContentListing, ContentOrder, ContentRefusal, ContentShown, ContentSites, ContentUpload,
    ContentUse, ContentWanted, rfc3339,
};
use weir_edge::{ContentError, Edge};
use weir_store::OsDisk;

use crate::print::size;

/// Opens the folder in the state folder; the log says what is amiss. None where it cannot be used: Weir then
/// answers as if nothing was laid. In an upgrade another process still reads it.
pub(crate) fn open(loaded: &Loaded, state: &Path, is_upgrade: bool) -> Option<(Shelf, PathBuf)> {
    let folder = state.join(CONTENT);
    let disk = Arc::new(OsDisk::at(&folder));
    let open = if is_upgrade { Shelf::open_beside } else { Shelf::open };
    match open(disk, size_bytes(loaded), weir_clock::now().wall) {
        Ok((shelf, troubles)) => {
            for trouble in troubles {
                let (file, why) = (folder.join(&trouble.file), trouble.why);
                let file = file.display();
                tracing::error!(%file, why, "a file of content by hand cannot be used: move it away");
            }
            Some((shelf, folder))
        }
        Err(error) => {
            let folder = folder.display();
            tracing::error!(%folder, %error, "content by hand cannot be read, and is as if not laid");
            None
        }
    }
}

/// `[content] size`.
pub(crate) fn size_bytes(loaded: &Loaded) -> u64 {
    loaded.config.content.size.0
}

/// How much there is.
pub(crate) fn in_use(edge: &Edge) -> ContentUse {
    let Usage { laid, used_bytes, size_bytes, .. } = edge.content_usage();
    ContentUse { objects: laid.objects, bytes: laid.bytes, used_bytes, size_bytes }
}

/// Content on its way in.
struct Uploading(weir_edge::ContentUpload);

impl ContentUpload for Uploading {
    fn write(&mut self, bytes: &[u8]) -> Result<(), ContentRefusal> {
        self.0.write(bytes).map_err(refused)
    }

    fn finish(self: Box<Self>) -> Result<ContentLaid, ContentRefusal> {
        let laid = self.0.finish().map_err(refusal)?;
        Ok(ContentLaid { replaced: laid.is_replaced, content: shown(&laid.entry, true) })
    }
}

/// Begins to lay content.
///
/// # Errors
/// See [`ContentRefusal`].
pub(crate) fn begin(edge: &Edge, order: &ContentOrder) -> Result<Box<dyn ContentUpload>, ContentRefusal> {
    let ContentOrder { url, content_type, ttl_s, body_bytes, sites } = order.clone();
    let ttl = ttl_s.map(Duration::from_secs);
    let order = weir_edge::ContentOrder { url, content_type, ttl, body_bytes, sites };
    Ok(Box::new(Uploading(edge.lay(&order).map_err(refusal)?)))
}

/// Resets a URL.
///
/// # Errors
/// See [`ContentRefusal`].
pub(crate) fn reset(
    edge: &Edge,
    url: &str,
    sites: Option<&[String]>,
) -> Result<Option<ContentShown>, ContentRefusal> {
    let removed = edge.unlay(url, sites).map_err(refusal)?;
    Ok(removed.map(|entry| shown(&entry, false)))
}

/// The sites that a URL has to do with.
///
/// # Errors
/// It is no URL.
pub(crate) fn sites(edge: &Edge, url: &str) -> Result<ContentSites, ContentRefusal> {
    let weir_edge::ContentSites { now, laid } = edge.sites_of_content(url).map_err(refusal)?;
    Ok(ContentSites { now, laid })
}

/// A page.
///
/// # Errors
/// A sentence.
pub(crate) fn list(edge: &Edge, wanted: &ContentWanted) -> Result<ContentListing, String> {
    let ContentWanted { sites, prefix, limit, after, .. } = wanted.clone();
    let (page, next) = edge.content(&weir_edge::ContentWanted { sites, prefix, limit, after })?;
    let piece = |one: weir_edge::ContentShown| ContentShown {
        damaged: one.is_damaged,
        covered_by: one.covered_by.as_ref().map(ToString::to_string),
        ..shown(&one.entry, one.is_shown)
    };
    let content = page.into_iter().map(piece).collect();
    Ok(ContentListing { content, next, in_use: Some(in_use(edge)) })
}

fn shown(entry: &Entry, is_shown: bool) -> ContentShown {
    ContentShown {
        url: entry.url.to_string(),
        site: entry.site.to_string(),
        content_type: entry.content_type.to_string(),
        body_bytes: entry.body_bytes,
        etag: entry.tag(),
        laid: rfc3339(entry.laid),
        ends: entry.ends.map(rfc3339),
        shown: is_shown,
        damaged: false,
        covered_by: None,
    }
}

fn refusal(error: ContentError) -> ContentRefusal {
    match error {
        ContentError::Unfit(why) => ContentRefusal::Unfit(why),
        ContentError::OtherSite => ContentRefusal::OtherSite(error.to_string()),
        ContentError::Shelf(error) => refused(error),
    }
}

fn refused(error: ShelfError) -> ContentRefusal {
    match error {
        ShelfError::TooLong(_) => ContentRefusal::Unfit(error.to_string()),
        ShelfError::TooLarge(most) => ContentRefusal::TooLarge(format!(
            "content by hand has room for {} here, in all or of this site",
            size(most)
        )),
        ShelfError::Full(left) => ContentRefusal::Full(format!(
            "content by hand has room for {} more here; what it replaces stays until it is there",
            size(left)
        )),
        ShelfError::TooMany => ContentRefusal::Full(error.to_string()),
        ShelfError::Busy => ContentRefusal::Busy(error.to_string()),
        ShelfError::Released => ContentRefusal::Moving("a new process is taking over".to_owned()),
        ShelfError::DiskFull(_) => {
            ContentRefusal::DiskFull("the drive of the state folder has no room left".to_owned())
        }
        ShelfError::NoNumber(_) | ShelfError::Disk(_) | ShelfError::Silent => {
            ContentRefusal::Failed(error.to_string())
        }
    }
}
