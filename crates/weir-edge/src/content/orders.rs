//! Laying content by hand, removing and listing it: what operators ask of the edge.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use weir_content::{Entry, Share, Shelf, ShelfError, Stock, Upload, Usage, Wanted};

use super::laid::Laid;
use super::named::{canonical, keys, site_of, split};
use crate::edge::Edge;
use crate::purge::{PurgeOrder, PurgeTarget, site};
use crate::shared::Shared;

/// Content that is to be laid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContentOrder {
    /// The URL, with its scheme or without: it is laid for both.
    pub url: String,
    /// Its media type; none: by the ending of the URL's path.
    pub content_type: Option<String>,
    /// After which time it ends by itself; none: it stays until it is removed.
    pub ttl: Option<Duration>,
    /// How many bytes come, where that is known.
    pub body_bytes: Option<u64>,
    /// The sites that the caller is for alone, by name; none: all. It may give each an equal part of the
    /// room.
    pub sites: Option<Vec<String>>,
}

/// The sites that a URL has to do with, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContentSites {
    /// The one that it leads to now.
    pub now: Option<String>,
    /// The one that what lies over it was laid for.
    pub laid: Option<String>,
}

/// Why content is not laid or removed.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// The order makes no sense.
    #[error("{0}")]
    Unfit(String),
    /// The caller is for other sites.
    #[error("the URL leads to none of the caller's sites")]
    OtherSite,
    /// The folder cannot take it, or cannot be written.
    #[error(transparent)]
    Shelf(#[from] ShelfError),
}

/// A piece of content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentShown {
    /// It.
    pub entry: Arc<Entry>,
    /// Whether requests are answered with it. Not where its URL leads to another site now, or to none, or it
    /// is damaged.
    pub is_shown: bool,
    /// Whether its bytes are known not to be those that were laid, or cannot be read.
    pub is_damaged: bool,
    /// The URL of newer content that all requests for this one get, since the route makes one key of both.
    pub covered_by: Option<Arc<str>>,
}

/// Content that was laid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentLaid {
    /// It.
    pub entry: Arc<Entry>,
    /// Whether it replaces other content by hand.
    pub is_replaced: bool,
}

/// Which content is listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContentWanted {
    /// Only that of these sites, by name.
    pub sites: Option<Vec<String>>,
    /// Only URLs that begin with this text.
    pub prefix: Option<String>,
    /// The most pieces.
    pub limit: usize,
    /// Where the page before ended.
    pub after: Option<String>,
}

/// Content on its way in. One that is dropped before it is finished leaves nothing.
pub struct ContentUpload {
    upload: Upload,
    shelf: Arc<Shelf>,
    shared: Arc<Shared>,
}

impl ContentUpload {
    /// Adds bytes. Blocks.
    ///
    /// # Errors
    /// See [`ShelfError`].
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), ShelfError> {
        self.upload.write(bytes)
    }

    /// Lays the content: durable, and what requests get, when this returns. Blocks.
    ///
    /// # Errors
    /// See [`ContentError`]: what was there before stays.
    pub fn finish(mut self) -> Result<ContentLaid, ContentError> {
        self.upload.sync()?;
        let content = &self.shared.content;
        let still = content.still();
        let running = self.shared.running.load();
        // A reload may have given the host to another site since.
        let Wanted { url, site, .. } = self.upload.wanted();
        if site_of(&running.plan, url).ok().is_none_or(|now| now.name != *site) {
            return Err(ContentError::Unfit(MOVED.to_owned()));
        }
        let laid = self.upload.finish(weir_clock::now().wall)?;
        let shown = Laid::new(Arc::clone(&laid.entry));
        content.show(&still, &running.laid, &running.plan, shown);
        // Only now nobody opens what it replaces.
        self.shelf.tidy();
        Ok(ContentLaid { entry: laid.entry, is_replaced: laid.replaced.is_some() })
    }
}

/// There is no folder for content.
const NOWHERE: &str = "this Weir has no folder for content by hand";
/// The host has come to another site since it was begun.
const MOVED: &str = "a reload has given the URL to another site while the content came: lay it again";

impl Edge {
    /// Begins to lay content. Blocks.
    ///
    /// # Errors
    /// See [`ContentError`].
    pub fn lay(&self, order: &ContentOrder) -> Result<ContentUpload, ContentError> {
        lay(&self.shared, order)
    }

    /// Removes what is laid over a URL; none where nothing is. It is durable when this returns. Blocks. A
    /// caller for some `sites` removes what was laid for one of them, and what lies where one of them is now.
    ///
    /// # Errors
    /// See [`ContentError`].
    pub fn unlay(&self, url: &str, sites: Option<&[String]>) -> Result<Option<Arc<Entry>>, ContentError> {
        let shelf = self.shelf()?;
        let url = canonical(url).map_err(ContentError::Unfit)?;
        let content = &self.shared.content;
        let still = content.still();
        let running = self.shared.running.load();
        if let Some(own) = sites {
            let ContentSites { now, laid } = self.sites_of_content(&url)?;
            let is_own = [now, laid].iter().flatten().any(|site| own.contains(site));
            is_own.then_some(()).ok_or(ContentError::OtherSite)?;
        }
        // Nobody opens what is being removed. Where that fails, it is shown again.
        content.hide(&still, &running.laid, &running.plan, &url);
        let removed = shelf.remove(&url);
        if let Some(stays) = shelf.find(&url) {
            content.show(&still, &running.laid, &running.plan, Laid::new(stays));
        }
        Ok(removed?)
    }

    /// The sites that a URL has to do with.
    ///
    /// # Errors
    /// It is no URL.
    pub fn sites_of_content(&self, url: &str) -> Result<ContentSites, ContentError> {
        let url = canonical(url).map_err(ContentError::Unfit)?;
        let laid = self.shared.content.current(&url).map(|laid| laid.entry.site.to_string());
        Ok(ContentSites { now: site_of(&self.plan(), &url).ok().map(|site| site.name.to_string()), laid })
    }

    /// A page of content, by URL, and where the next one begins; none on the last.
    ///
    /// # Errors
    /// A sentence: the prefix is none.
    pub fn content(&self, wanted: &ContentWanted) -> Result<(Vec<ContentShown>, Option<String>), String> {
        let Some(shelf) = self.shared.content.shelf() else { return Ok((Vec::new(), None)) };
        let prefix = wanted.prefix.as_deref().map(canonical).transpose()?;
        let is_wanted = |entry: &Entry| {
            prefix.as_ref().is_none_or(|prefix| entry.url.starts_with(prefix.as_str()))
                && wanted.sites.as_ref().is_none_or(|sites| sites.iter().any(|site| *site == *entry.site))
        };
        let (entries, next) = shelf.page(wanted.after.as_deref(), wanted.limit, &is_wanted);
        let running = self.shared.running.load();
        let shown = |entry: Arc<Entry>| {
            let laid = self.shared.content.current(&entry.url).filter(|laid| laid.entry == entry);
            let is_damaged = laid.as_ref().is_some_and(|laid| laid.is_damaged());
            let covering = laid.as_ref().and_then(|laid| running.laid.covering(&running.plan, laid));
            let covered_by = covering.map(|newer| Arc::clone(&newer.entry.url));
            let is_shown = laid.is_some_and(|laid| running.laid.shows(&running.plan, &laid));
            ContentShown { entry, is_shown: is_shown && !is_damaged, is_damaged, covered_by }
        };
        Ok((entries.into_iter().map(shown).collect(), next.map(|next| next.to_string())))
    }

    /// How much content there is.
    pub fn content_usage(&self) -> Usage {
        self.shared.content.shelf().map(|shelf| shelf.usage()).unwrap_or_default()
    }

    /// How much content there is of each site, by its name.
    pub fn content_stocks(&self) -> Vec<(Arc<str>, Stock)> {
        self.shared.content.shelf().map(|shelf| shelf.stocks()).unwrap_or_default()
    }

    /// How many pieces of content lie where a purge is ordered, which does not touch them.
    pub fn content_within(&self, orders: &[PurgeOrder]) -> u64 {
        within(&self.shared, orders)
    }

    /// Another size of all content from now on.
    pub fn limit_content(&self, size_bytes: u64) {
        if let Some(shelf) = self.shared.content.shelf() {
            shelf.limit(size_bytes);
        }
    }

    /// Leaves the folder of the content to another process. Blocks until what is being written is, for a
    /// bounded time.
    ///
    /// # Errors
    /// Its drive does not answer.
    pub fn release_content(&self) -> Result<(), ShelfError> {
        self.shared.content.shelf().map_or(Ok(()), |shelf| shelf.release())
    }

    /// Takes it back.
    pub fn resume_content(&self) {
        if let Some(shelf) = self.shared.content.shelf() {
            shelf.resume();
        }
    }

    /// The process that had the folder before has ended. Blocks.
    pub fn own_content(&self) {
        if let Some(shelf) = self.shared.content.shelf() {
            shelf.be_alone();
        }
    }

    fn shelf(&self) -> Result<&Arc<Shelf>, ContentError> {
        shelf_of(&self.shared)
    }
}

fn shelf_of(shared: &Shared) -> Result<&Arc<Shelf>, ContentError> {
    shared.content.shelf().ok_or_else(|| ContentError::Unfit(NOWHERE.to_owned()))
}

/// As [`Edge::lay`].
pub(crate) fn lay(shared: &Arc<Shared>, order: &ContentOrder) -> Result<ContentUpload, ContentError> {
    let shelf = shelf_of(shared)?;
    let url = canonical(&order.url).map_err(ContentError::Unfit)?;
    let running = shared.running.load();
    let plan = &running.plan;
    let site = site_of(plan, &url);
    if let Some(own) = &order.sites {
        let is_own = site.as_ref().is_ok_and(|site| own.iter().any(|own| *own == *site.name));
        is_own.then_some(()).ok_or(ContentError::OtherSite)?;
    }
    let site = site.map_err(ContentError::Unfit)?;
    if keys(site, &url).is_empty() {
        let why = format!("no route of {} takes GET for {url}: it would never be seen", site.name);
        return Err(ContentError::Unfit(why));
    }
    let content_type = match &order.content_type {
        Some(written) => checked_type(written)?,
        None => by_name(&url).to_owned(),
    };
    let share = match order.sites {
        Some(_) => Share::OneOf(plan.sites().len()),
        None => Share::Whole,
    };
    let ends = order.ttl.map(|ttl| end(weir_clock::now().wall, ttl)).transpose()?;
    let wanted = Wanted {
        url: url.into(),
        site: Arc::clone(&site.name),
        content_type: content_type.into(),
        ends,
        body_bytes: order.body_bytes,
        share,
    };
    let upload = Upload::begin(shelf, wanted)?;
    Ok(ContentUpload { upload, shelf: Arc::clone(shelf), shared: Arc::clone(shared) })
}

/// Takes out what has ended by itself, on a thread for what may wait for a drive. It is not served from then
/// on, whenever its file goes.
pub(crate) async fn remove_over(shared: &Arc<Shared>) {
    let Some(shelved) = shared.content.shelved() else { return };
    if shelved.shelf.has_over(weir_clock::now().wall) {
        let own = Arc::clone(shared);
        // A drive that does not answer is asked again.
        let _ = shared.files.apart(&shelved.root, move |_| end_over(&own)).await;
    }
}

/// Blocks.
fn end_over(shared: &Shared) {
    let content = &shared.content;
    let Some(shelf) = content.shelf() else { return };
    let still = content.still();
    let running = shared.running.load();
    for over in shelf.end_over(weir_clock::now().wall) {
        content.hide(&still, &running.laid, &running.plan, &over.url);
    }
}

fn within(shared: &Shared, orders: &[PurgeOrder]) -> u64 {
    let Some(shelf) = shared.content.shelf().filter(|shelf| shelf.usage().laid.objects > 0) else {
        return 0;
    };
    let plan = shared.running.load().plan.clone();
    let all = shelf.all();
    let mut found: BTreeSet<&str> = BTreeSet::new();
    for order in orders {
        match &order.target {
            PurgeTarget::All => return all.len() as u64,
            PurgeTarget::Tags { .. } => {}
            PurgeTarget::Site(name) => {
                let Ok(site) = site(&plan, name) else { continue };
                let of_site = all.iter().filter(|entry| *entry.site == *site.name);
                found.extend(of_site.map(|entry| &*entry.url));
            }
            PurgeTarget::Url(url) => {
                let at = canonical(url).ok();
                let at = at.and_then(|url| all.binary_search_by(|entry| (*entry.url).cmp(&url)).ok());
                found.extend(at.map(|at| &*all[at].url));
            }
            PurgeTarget::Prefix(prefix) => {
                let Ok(prefix) = canonical(prefix) else { continue };
                let from = all.partition_point(|entry| *entry.url < *prefix);
                let begun = all[from..].iter().take_while(|entry| entry.url.starts_with(&prefix));
                found.extend(begun.map(|entry| &*entry.url));
            }
        }
    }
    found.len() as u64
}

/// The longest time after which content ends by itself.
const TTL_MAX: Duration = Duration::from_hours(100 * 366 * 24);

fn end(now: SystemTime, ttl: Duration) -> Result<SystemTime, ContentError> {
    let unfit = |why: &str| ContentError::Unfit(why.to_owned());
    if ttl.is_zero() {
        return Err(unfit("content that ends at once is never seen: name a longer time"));
    }
    let end = now.checked_add(ttl).filter(|_| ttl <= TTL_MAX);
    end.ok_or_else(|| unfit("content stays for at most 100 years; without a time it stays until it is reset"))
}

/// The media type by the ending of a URL's path.
fn by_name(url: &str) -> &'static str {
    let path = split(url).1;
    weir_files::media_type(path.split('?').next().unwrap_or_default().as_bytes())
}

/// A media type as it goes out (RFC 9110 §8.3.1).
fn checked_type(written: &str) -> Result<String, ContentError> {
    let written = written.trim();
    let essence = written.split(';').next().unwrap_or_default().trim_end();
    let is_token = |text: &str| {
        let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        !text.is_empty() && text.bytes().all(is_of_token)
    };
    let is_type = essence.split_once('/').is_some_and(|(kind, form)| is_token(kind) && is_token(form));
    let is_text = written.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    match is_type && is_text {
        true => Ok(written.to_owned()),
        false => Err(ContentError::Unfit(format!(
            "{} is no media type; it has the form text/html or text/html; charset=utf-8",
            written.escape_debug()
        ))),
    }
}

#[cfg(test)]
mod tests;
