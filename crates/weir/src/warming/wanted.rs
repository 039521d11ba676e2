//! Orders of warmings: from the API, from the configuration, and as they are kept. What makes no sense is
//! refused here.

use http::{HeaderName, HeaderValue};
use weir_config::model;
use weir_control::{WarmBy, WarmFolder, WarmOrder, WarmRefusal};
use weir_warm::{Folder, Order, PARALLEL, PARALLEL_MAX};

/// The most fields of a request.
const HEADERS_MAX: usize = 32;
const HEADERS_BYTES_MAX: usize = 16 << 10;
/// The most sitemaps that are named at once.
const SITEMAPS_MAX: usize = 1000;
/// The most URLs a second.
const RATE_MAX: u32 = 100_000;

/// An order as it is kept.
///
/// # Errors
/// It makes no sense.
pub(super) fn wanted(order: &WarmOrder, by: &WarmBy) -> Result<Order, WarmRefusal> {
    let unfit = |why: String| Err(WarmRefusal::Unfit(why));
    if order.sitemaps.len() > SITEMAPS_MAX {
        return unfit(format!("name at most {SITEMAPS_MAX} sitemaps at once"));
    }
    let parallel = order.parallel.unwrap_or(PARALLEL);
    if !(1..=PARALLEL_MAX).contains(&parallel) {
        return unfit(format!("`parallel` is 1 to {PARALLEL_MAX}, not {parallel}"));
    }
    if order.rate.is_some_and(|rate| !(1..=RATE_MAX).contains(&rate)) {
        return unfit(format!("`rate` is 1 to {RATE_MAX} URLs a second"));
    }
    let headers = order.headers.iter().map(|line| field(line)).collect::<Result<Vec<_>, _>>()?;
    let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    if headers.len() > HEADERS_MAX || bytes > HEADERS_BYTES_MAX {
        return unfit(format!("a request has at most {HEADERS_MAX} fields of {HEADERS_BYTES_MAX} bytes"));
    }
    let folder = match &order.folder {
        None => None,
        Some(folder) => {
            if !folder.path.is_absolute() || !folder.path.is_dir() {
                return unfit(format!(
                    "{} is no folder; name one with its whole path",
                    folder.path.display()
                ));
            }
            if !weir_warm::sitemap::is_url(&folder.url) || folder.url.contains(['?', '#']) {
                return unfit(format!("{} is no URL of a folder", folder.url));
            }
            let end = if folder.url.ends_with('/') { "" } else { "/" };
            Some(Folder { path: folder.path.clone(), url: format!("{}{end}", folder.url) })
        }
    };
    Ok(Order {
        actor: by.actor.clone(),
        owner: by.owner.clone(),
        sites: by.sites.clone(),
        entry: by.entry.clone(),
        sitemaps: order.sitemaps.clone(),
        folder,
        headers,
        rate: order.rate,
        parallel,
        refresh: order.refresh,
    })
}

/// A field of a request.
fn field(line: &str) -> Result<(String, String), WarmRefusal> {
    let parsed = line.split_once(':').and_then(|(name, value)| {
        let name: HeaderName = name.trim().parse().ok()?;
        HeaderValue::from_str(value.trim()).ok()?;
        Some((name.as_str().to_owned(), value.trim().to_owned()))
    });
    match parsed {
        None => Err(WarmRefusal::Unfit("a field is written `Name: value`".to_owned())),
        Some((name, _)) if model::Warm::NOT_SENT.contains(&name.as_str()) => {
            Err(WarmRefusal::Unfit(format!(
                "a warming cannot send {name}: what it asks for must be whole, and the same for all \
                 clients"
            )))
        }
        Some(field) => Ok(field),
    }
}

/// What an entry of the configuration wants, without its `list`.
pub(super) fn of_entry(entry: &model::Warm) -> WarmOrder {
    let folder = entry.folder.as_ref().zip(entry.url.as_ref());
    WarmOrder {
        urls: entry.urls.clone(),
        sitemaps: entry.sitemaps.clone(),
        folder: folder.map(|(path, url)| WarmFolder { path: path.0.clone(), url: url.clone() }),
        headers: entry.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect(),
        rate: entry.rate.map(std::num::NonZeroU32::get),
        parallel: Some(entry.parallel),
        refresh: entry.refresh,
        more: entry.list.is_some(),
    }
}
