//! The operations on content by hand, and the addresses of the Monkey cache for the same.

use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use hyper::body::{Body, Incoming};
use serde::Serialize;
use serde_json::json;

use super::acts::{ended, entry, settled};
use super::views::own_site;
use crate::answer::{self, Answer, Refusal, Waiting};
use crate::call::Call;
use crate::control::Control;
use crate::data_plane::{ContentLaid, ContentListing, ContentOrder, ContentShown};
use crate::query::{self, ContentNamed};
use crate::upload::{self, Begin, Sent};

/// What a form of a web page says of its content, and `curl --data` of any: it tells nothing.
const FORM: &str = "application/x-www-form-urlencoded";
/// What the Monkey cache answers.
const ADDED: &str = "Cache resource added sucessfully!";
const RESET: &str = "Cache Reset Successfully!";

/// A page of what is laid.
pub(super) fn list(control: &Arc<Control>, call: &Call) -> Result<Answer, Refusal> {
    Ok(answer::ok(&listed(control, call)?))
}

fn listed(control: &Arc<Control>, call: &Call) -> Result<ContentListing, Refusal> {
    let mut wanted = query::read_content_list(&call.query).map_err(Refusal::unfit)?;
    if call.caller.sites.is_some() && wanted.site.is_some() {
        wanted.site = Some(own_site(control, &call.caller, wanted.site.as_deref())?);
    }
    wanted.sites.clone_from(&call.caller.sites);
    let mut listing = control.content(&wanted).map_err(Refusal::unfit)?;
    if call.caller.sites.is_some() {
        listing.in_use = None;
    }
    Ok(listing)
}

/// Lays the content of the request over a URL.
pub(super) fn put(control: Arc<Control>, call: Call, body: Incoming) -> Waiting {
    Box::pin(async move {
        let named = query::read_content(&call.query, &["url", "type", "ttl"]).map_err(Refusal::unfit)?;
        let url = named_url(&named)?;
        let laid = lay(&control, &call, (url, named), body).await?;
        let status = if laid.replaced { StatusCode::OK } else { StatusCode::CREATED };
        Ok(answer::json(status, &laid))
    })
}

/// `POST /cache/add/<uri>` of the Monkey cache.
pub(super) fn add(control: Arc<Control>, call: Call, body: Incoming) -> Waiting {
    Box::pin(async move {
        let named = query::read_content(&call.query, &["site", "type", "ttl"]).map_err(Refusal::unfit)?;
        let url = url_of(&control, &call, named.site.as_deref())?;
        // Its clients send forms, whatever the content is.
        let call = Call { fields: HeaderMap::new(), ..call };
        lay(&control, &call, (url, named), body).await?;
        Ok(answer::text(StatusCode::OK, ADDED))
    })
}

fn named_url(named: &ContentNamed) -> Result<String, Refusal> {
    named.url.clone().ok_or_else(|| Refusal::unfit("name the URL: `?url=https://HOST/PATH`, percent-encoded"))
}

async fn lay(
    control: &Arc<Control>,
    call: &Call,
    (url, named): (String, ContentNamed),
    body: Incoming,
) -> Result<ContentLaid, Refusal> {
    let mut entry = entry(call, "content-put");
    let ttl_s = named.ttl.map(|ttl| ttl.as_secs());
    entry.scope = json!({ "url": url, "ttl_s": ttl_s });
    // It is of the site that the URL leads to now, whatever lies there.
    let may = control.sites_of_content(&url).map_err(upload::refusal).and_then(|sites| {
        entry.sites = sites.now.iter().cloned().collect();
        call.caller.check_site(sites.now.as_deref())
    });
    let laid = match may {
        Err(refusal) => Err(refusal),
        Ok(()) => {
            let order = ContentOrder {
                url,
                content_type: named.content_type.or_else(|| type_of(&call.fields)),
                ttl_s,
                body_bytes: body.size_hint().exact(),
                sites: call.caller.sites.clone(),
            };
            let waits = call.fields.contains_key(http::header::EXPECT);
            let own = control.clone();
            let begin: Begin = Box::new(move || own.begin_content(&order));
            upload::lay(begin, Sent { body, moves: call.moves.clone(), waits }).await
        }
    };
    ended(&mut entry, &laid);
    control.record(entry).await;
    laid.map_err(Refusal::recorded)
}

/// The media type that the request says, where it says one of its own.
fn type_of(fields: &HeaderMap) -> Option<String> {
    let said = fields.get(http::header::CONTENT_TYPE)?.to_str().ok()?.trim();
    let essence = said.split(';').next().unwrap_or_default().trim_end();
    (!essence.is_empty() && !essence.eq_ignore_ascii_case(FORM)).then(|| said.to_owned())
}

/// Resets a URL.
pub(super) fn reset(control: &Arc<Control>, call: &Call) -> Result<Answer, Refusal> {
    let named = query::read_content(&call.query, &["url"]).map_err(Refusal::unfit)?;
    removed(control, call, named_url(&named)?)
}

/// `POST /cache/reset/<uri>` of the Monkey cache. It succeeds also where nothing is laid, as there.
pub(super) fn reset_uri(control: &Arc<Control>, call: &Call) -> Result<Answer, Refusal> {
    let named = query::read_content(&call.query, &["site"]).map_err(Refusal::unfit)?;
    let url = url_of(control, call, named.site.as_deref())?;
    match removed(control, call, url) {
        Err(refusal) if refusal.status != StatusCode::NOT_FOUND => Err(refusal),
        _ => Ok(answer::text(StatusCode::OK, RESET)),
    }
}

fn removed(control: &Arc<Control>, call: &Call, url: String) -> Result<Answer, Refusal> {
    let mut entry = entry(call, "content-reset");
    entry.scope = json!({ "url": url });
    let may = control.sites_of_content(&url).map_err(upload::refusal).and_then(|sites| {
        // What was laid for a site is its own, also where its host has gone to another.
        let own = sites.laid.filter(|laid| call.caller.has(laid)).or(sites.now);
        entry.sites = own.iter().cloned().collect();
        call.caller.check_site(own.as_deref())
    });
    let removed = may.and_then(|()| {
        let removed = control.reset_content(&url, call.caller.sites.as_deref()).map_err(upload::refusal)?;
        removed.ok_or_else(|| {
            Refusal::new(StatusCode::NOT_FOUND, "not-laid", format!("nothing is laid over {url} by hand"))
                .help("see `weir content list`")
        })
    });
    settled::<ContentShown>(control, entry, removed)
}

/// The URL for the path behind an address of the Monkey cache: of the site that is named, or of the only one.
fn url_of(control: &Control, call: &Call, site: Option<&str>) -> Result<String, Refusal> {
    let slash = if call.name.starts_with('/') { "" } else { "/" };
    let hosts = |why: String| Err(Refusal::unfit(why).help("name a host: `?site=www.example.com`"));
    let own = match call.caller.sites.as_deref() {
        None => control.only_site(),
        Some([only]) => Some(only.clone()),
        Some(_) => None,
    };
    let Some(host) = site.map(str::to_owned).or(own) else {
        return hosts("there are several sites".to_owned());
    };
    match host.contains('*') {
        true => hosts(format!("{host} stands for many hosts")),
        false => Ok(format!("{host}{slash}{}", call.name)),
    }
}

/// `GET /cache/stats` of the Monkey cache, as that answers it.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Stats {
    /// What its memory has, in MiB.
    memory: StatsMemory,
    /// What it is asked for.
    requests: StatsRequests,
    /// A page of what is laid.
    files: Vec<StatsFile>,
    /// Where the next page begins; absent on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StatsMemory {
    /// There are no pipes here.
    pipe_size: f64,
    /// Bytes of responses in memory, in MiB.
    pipe_mem_used: f64,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StatsRequests {
    /// Requests a second, as a mean since the start.
    served_per_sec: f64,
}

#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct StatsFile {
    /// The URL without its scheme.
    uri: String,
    /// Its length in bytes.
    size: u64,
}

/// `GET /cache/stats` of the Monkey cache.
pub(super) fn stats(control: &Arc<Control>, call: &Call) -> Result<Answer, Refusal> {
    let listing = listed(control, call)?;
    let file = |content: ContentShown| StatsFile { uri: content.url, size: content.body_bytes };
    let mut stats = Stats { next: listing.next, ..Stats::default() };
    stats.files = listing.content.into_iter().map(file).collect();
    // What concerns the whole Weir is not for a token of some sites.
    if call.caller.sites.is_none() {
        let status = control.status();
        stats.memory.pipe_mem_used = mib(status.cache.memory_bytes);
        let seconds = status.uptime_s.max(1);
        stats.requests.served_per_sec = (status.requests.finished as f64 / seconds as f64).ceil();
    }
    Ok(answer::ok(&stats))
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
