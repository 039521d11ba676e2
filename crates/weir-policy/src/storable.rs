//! May this response be stored (RFC 9111 §3), and which of its fields? The only maker of [`Storable`].

use crate::by_status::{is_never_stored, is_of_request};
use crate::control::{Directives, RequestDirectives, ResponseControl};
use crate::cookies::{self, cookies, has_unkeyed};
use crate::date::http_date;
use crate::fields::{is_respelled, strip_hop_by_hop};
use crate::freshness::{LifetimeSource, initial_age, lifetime};
use crate::invalidate::same_origin_target;
use crate::now::Now;
use crate::query;
use crate::request::RequestView;
use crate::response::{BodyEnd, ResponseView};
use crate::rules::{CacheRules, CloseDelimited, Errors, Heuristics, SetCookie};
use crate::set_cookie::name_set;
use crate::signed::has_credentials;
use crate::stored::{Facts, Stored, StoredFlags, Validators};
use crate::tags::Tags;
use crate::targeted::effective;
use crate::validate::can_be_validated;
use crate::vary::{Variant, Varies, vary_on_codings};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use std::time::Duration;

/// Proof that a response may be stored, with the head that is stored.
#[derive(Clone, Debug)]
pub struct Storable {
    stored: Stored,
    volume_uses_min: u8,
}

impl Storable {
    /// The head that is stored.
    pub fn stored(&self) -> &Stored {
        &self.stored
    }

    /// From which request to its key on it may be written to a volume.
    pub fn volume_uses_min(&self) -> u8 {
        self.volume_uses_min
    }

    /// Makes it a variant by Accept-Encoding, as others under its key are. The origin codes for clients that
    /// accept it, though it may not say so in a response without a coding.
    #[must_use]
    pub fn beside_codings(mut self, request: &HeaderMap) -> Storable {
        self.stored.variant.vary_on_codings(request, &mut self.stored.headers);
        self
    }

    /// Returns the head that is stored.
    pub fn into_stored(self) -> Stored {
        self.stored
    }
}

/// Why a response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotStored {
    /// Responses to this method are not stored.
    Method,
    /// The request had content, which is in no key.
    RequestBody,
    /// The client said no-store.
    RequestNoStore,
    /// The route's rules let the request bypass the cache.
    Bypass,
    /// Not a whole response (206, 304), or a status that is never stored (511).
    Status,
    /// The status finds fault with this one request (400, 412, 414, 431, 501, ...). Other requests will most
    /// likely get another answer, whatever the lifetime of this one. A 501 and a 505 only if they have no
    /// explicit lifetime.
    Refused,
    /// A 5xx without an explicit lifetime, or on a route that stores none.
    ServerError,
    /// must-understand with a status whose caching rules are not known.
    MustUnderstand,
    /// no-store.
    NoStore,
    /// private.
    Private,
    /// Vary is `*`, or cannot be read.
    VaryAny,
    /// Vary: Cookie, and the request has a cookie that is not in the key.
    VaryCookie,
    /// The request has another spelling of a field that is in the key or that the response varies on, or
    /// cookies that can be read in another way than the key has them. An origin may have mistaken one for the
    /// other.
    Respelled,
    /// The request was authenticated and the response is not marked for sharing (RFC 9111 §3.5).
    Authorization,
    /// The same, where the query has a signature that opens something.
    Signature,
    /// The route ignores what the response says, and the request has a cookie that is not in the key.
    RequestCookie,
    /// It sets a cookie.
    SetCookie,
    /// It sets a cookie that is part of the key.
    SetKeyCookie,
    /// Its body ends with the connection.
    CloseDelimited,
    /// No source gives a lifetime.
    NoFreshness,
    /// It must be validated before each use, and cannot be: it has no validators, or is no success.
    NoCache,
    /// It was stale when it arrived, and cannot be validated.
    Stale,
    /// It is larger than the store accepts. The edge says so.
    TooLarge,
    /// The store has no room at the moment. The edge says so.
    NoRoom,
    /// A 304 to a request without a condition. The edge says so.
    UnaskedNotModified,
    /// The key was not asked for often enough yet. The edge says so.
    MinUses,
    /// A stored response may go out in place of this status, and stays. The edge says so.
    Outlasted,
}

impl NotStored {
    /// The word for logs and Cache-Status `detail`.
    pub fn word(self) -> &'static str {
        match self {
            NotStored::Method => "method",
            NotStored::RequestBody => "body",
            NotStored::RequestNoStore => "request-no-store",
            NotStored::Bypass => "bypass",
            NotStored::Status => "status",
            NotStored::Refused => "refused",
            NotStored::ServerError => "server-error",
            NotStored::MustUnderstand => "must-understand",
            NotStored::NoStore => "no-store",
            NotStored::Private => "private",
            NotStored::VaryAny => "vary-any",
            NotStored::VaryCookie => "vary-cookie",
            NotStored::Respelled => "respelled",
            NotStored::Authorization => "authorization",
            NotStored::Signature => "signature",
            NotStored::RequestCookie => "request-cookie",
            NotStored::SetCookie => "set-cookie",
            NotStored::SetKeyCookie => "set-key-cookie",
            NotStored::CloseDelimited => "close-delimited",
            NotStored::NoFreshness => "no-freshness",
            NotStored::NoCache => "no-cache",
            NotStored::Stale => "stale",
            NotStored::TooLarge => "too-large",
            NotStored::NoRoom => "no-room",
            NotStored::UnaskedNotModified => "unasked-not-modified",
            NotStored::Outlasted => "outlasted",
            NotStored::MinUses => "min-uses",
        }
    }

    /// Whether requests that wait for the response may share it although it is not stored. It is short-lived
    /// or an error, but nothing in it says that it is for one client.
    pub fn may_be_shared(self) -> bool {
        matches!(self, NotStored::ServerError | NotStored::Stale | NotStored::NoFreshness)
    }

    /// Whether the reason lies in the response alone, so that the next client's response will most likely not
    /// be storable either. Only such reasons may be remembered for a key.
    pub fn is_of_response(self) -> bool {
        use NotStored::{
            Authorization, Bypass, Method, MinUses, NoRoom, Outlasted, Refused, RequestBody, RequestCookie,
            RequestNoStore, Respelled, Signature, UnaskedNotModified, VaryCookie,
        };
        !matches!(
            self,
            Method
                | RequestBody
                | RequestNoStore
                | Bypass
                | Refused
                | Respelled
                | Authorization
                | Signature
                | NoRoom
                | UnaskedNotModified
                | VaryCookie
                | MinUses
                | Outlasted
                | RequestCookie
        )
    }
}

/// Decides whether the response to `request` may be stored (RFC 9111 §3).
///
/// A response to HEAD is never stored: the edge fetches with GET. A response to POST is stored where it names
/// its own target as Content-Location and has an explicit lifetime (RFC 9110 §9.3.3); it then answers GET and
/// HEAD.
///
/// # Errors
/// The reason why it is not stored.
pub fn storable(
    request: &RequestView<'_>,
    response: &ResponseView<'_>,
    rules: &CacheRules,
) -> Result<Storable, NotStored> {
    let ResponseView { status, headers, .. } = *response;
    let control = effective(headers, status, rules);
    request_allows(request, rules)?;
    status_allows(status, &control, rules)?;
    if control.has(Directives::PRIVATE) {
        return Err(NotStored::Private);
    }
    let variant = match Varies::read(request.headers, headers, &rules.vary_ignored) {
        Varies::On(variant) => variant,
        Varies::Any => return Err(NotStored::VaryAny),
    };
    if variant.varies_on_cookies() && has_unkeyed(request.headers, &rules.key) {
        return Err(NotStored::VaryCookie);
    }
    if is_ambiguous(request.headers, &variant, rules)
        || cookies::is_ambiguous(request.headers, &rules.key)
        || query::is_ambiguous(request, &rules.key)
    {
        return Err(NotStored::Respelled);
    }
    if has_credentials(request, &rules.key) && !is_shareable(&control) {
        return Err(of_credentials(request));
    }
    cookie_allows(headers, &control, rules)?;
    if !control.ignored.is_empty() {
        is_for_nobody_in_particular(request, headers, rules)?;
    }
    if response.body_end == BodyEnd::Close && rules.close_delimited == CloseDelimited::NoStore {
        return Err(NotStored::CloseDelimited);
    }
    if status.is_server_error() && rules.errors == Errors::NoStore {
        let is_bound = control.has(Directives::NO_CACHE);
        return Err(if is_bound { NotStored::NoCache } else { without_lifetime(status) });
    }
    let mut stored = assemble(response, &control, variant, rules);
    if has_credentials(request, &rules.key) && is_shared_by_s_maxage(&control) {
        stored.facts.bind_to_credentials();
    }
    is_of_use(&stored)?;
    if *request.method == Method::POST {
        // A route ignores directives of what GET returns.
        if !control.ignored.is_empty() {
            return Err(NotStored::Method);
        }
        post_allows(request, &stored, status)?;
    }
    Ok(Storable { stored, volume_uses_min: rules.min_uses.volume })
}

/// Why a request with credentials has nothing stored.
fn of_credentials(request: &RequestView<'_>) -> NotStored {
    match request.headers.contains_key(header::AUTHORIZATION) {
        true => NotStored::Authorization,
        false => NotStored::Signature,
    }
}

/// Checks what in the request forbids storing (RFC 9111 §3, §5.2.1.5).
fn request_allows(request: &RequestView<'_>, rules: &CacheRules) -> Result<(), NotStored> {
    if *request.method == Method::GET {
        if request.has_body {
            return Err(NotStored::RequestBody);
        }
    } else if *request.method != Method::POST {
        return Err(NotStored::Method);
    }
    if RequestDirectives::read(request, rules).no_store() {
        return Err(NotStored::RequestNoStore);
    }
    Ok(())
}

/// Whether a response forbids a shared cache to store it (RFC 9111 §5.2.2.5, §5.2.2.7).
pub(crate) fn is_refused(control: &ResponseControl) -> bool {
    control.has(Directives::PRIVATE)
        || (control.has(Directives::NO_STORE) && !control.has(Directives::MUST_UNDERSTAND))
}

/// Checks what in the status forbids storing, and no-store. must-understand overrules no-store if the status
/// is understood (RFC 9111 §5.2.2.3).
fn status_allows(status: StatusCode, control: &ResponseControl, rules: &CacheRules) -> Result<(), NotStored> {
    let code = status.as_u16();
    if is_kept_out(status, rules) {
        return Err(if is_of_request(code) { NotStored::Refused } else { NotStored::Status });
    }
    let must_understand = control.has(Directives::MUST_UNDERSTAND);
    if must_understand && !is_understood(code) {
        return Err(NotStored::MustUnderstand);
    }
    if control.has(Directives::NO_STORE) && !must_understand {
        return Err(NotStored::NoStore);
    }
    Ok(())
}

/// Whether a status is not stored by these rules, whatever the response says.
fn is_kept_out(status: StatusCode, rules: &CacheRules) -> bool {
    match status.as_u16() {
        400 => rules.errors != Errors::Store400,
        414 => rules.heuristics != Heuristics::Whole,
        _ => is_never_stored(status),
    }
}

/// Why a response without a lifetime is not stored.
fn without_lifetime(status: StatusCode) -> NotStored {
    match status.as_u16() {
        code if is_of_request(code) => NotStored::Refused,
        500..=599 => NotStored::ServerError,
        _ => NotStored::NoFreshness,
    }
}

/// Whether the request has a second spelling of a field that decides the key or the variant.
fn is_ambiguous(headers: &HeaderMap, variant: &Variant, rules: &CacheRules) -> bool {
    let selecting = || {
        variant
            .selecting
            .iter()
            .map(|field| &field.name)
            .chain(&rules.key.headers)
            .chain(&rules.key.sources.headers)
    };
    selecting().next().is_some()
        && headers.keys().any(|name| selecting().any(|selecting| is_respelled(name, selecting)))
}

/// Whether the caching rules of a final status are known: the statuses of RFC 9110 §15 that ask for no
/// partial storage, and 451.
fn is_understood(code: u16) -> bool {
    matches!(
        code,
        200 | 203 | 204 | 300 | 301 | 302 | 303 | 307 | 308 | 400 | 403 | 404 | 405 | 410 | 414 | 451 | 500
            ..=504
    )
}

/// Whether a response to an authenticated request may be given to other clients (RFC 9111 §3.5). A targeted
/// field means to this cache what s-maxage means, but it lacks the directive that §3.5 asks for, so it does
/// not count by itself.
pub(crate) fn is_shareable(control: &ResponseControl) -> bool {
    control.has(Directives::PUBLIC)
        || control.has(Directives::MUST_REVALIDATE)
        || control.s_maxage_s.is_some()
}

/// Whether such a response may be given to other clients because of its s-maxage alone.
pub(crate) fn is_shared_by_s_maxage(control: &ResponseControl) -> bool {
    control.s_maxage_s.is_some()
        && !control.has(Directives::PUBLIC)
        && !control.has(Directives::MUST_REVALIDATE)
}

/// Checks what must hold where the route ignores what the response says: nothing shows that the response is
/// for one client. Neither `public` nor a rule for Set-Cookie helps here.
fn is_for_nobody_in_particular(
    request: &RequestView<'_>,
    headers: &HeaderMap,
    rules: &CacheRules,
) -> Result<(), NotStored> {
    if has_credentials(request, &rules.key) {
        return Err(of_credentials(request));
    }
    if has_unkeyed(request.headers, &rules.key) {
        return Err(NotStored::RequestCookie);
    }
    if headers.get_all(header::SET_COOKIE).iter().any(|line| !rules.strips(line)) {
        return Err(NotStored::SetCookie);
    }
    Ok(())
}

/// Checks the rule for Set-Cookie. A cookie that no-cache="set-cookie" or private="set-cookie" removes from
/// the stored response does no harm.
fn cookie_allows(
    headers: &HeaderMap,
    control: &ResponseControl,
    rules: &CacheRules,
) -> Result<(), NotStored> {
    if rules.begins_session(headers) {
        return Err(NotStored::SetCookie);
    }
    let mut lines = headers.get_all(header::SET_COOKIE).iter().filter(|line| !rules.strips(line)).peekable();
    if lines.peek().is_none() {
        return Ok(());
    }
    if lines.any(|line| cookies::in_key(&rules.key).any(|keyed| keyed.as_bytes() == name_set(line))) {
        return Err(NotStored::SetKeyCookie);
    }
    if rules.set_cookie == SetCookie::NoStore && !control.withheld.contains(&header::SET_COOKIE) {
        return Err(NotStored::SetCookie);
    }
    Ok(())
}

/// Makes the stored head of a response.
fn assemble(
    response: &ResponseView<'_>,
    control: &ResponseControl,
    variant: Variant,
    rules: &CacheRules,
) -> Stored {
    let validators = Validators::read(response.headers, response.received.wall);
    let facts = facts(response, control, &validators, rules);
    let mut kept = response.headers.clone();
    clean(&mut kept, control, rules, response.received);
    if variant.varies_on_codings() {
        // The caches behind this one must know as well, even if the origin forgot to say it.
        vary_on_codings(&mut kept);
    }
    let tags = Tags::read(&kept);
    Stored { status: response.status, headers: kept, validators, variant, facts, tags }
}

/// Removes fields that may not be stored (RFC 9111 §3.1), a Content-Range in bytes, which a whole response
/// does not have (RFC 9110 §14.4), and Age, which is computed for each use. Adds the Date that a recipient
/// with a clock must add (RFC 9110 §6.6.1).
pub(crate) fn clean(headers: &mut HeaderMap, control: &ResponseControl, rules: &CacheRules, received: Now) {
    strip_hop_by_hop(headers);
    headers.remove(header::AGE);
    if headers.get_all(header::CONTENT_RANGE).iter().any(is_in_bytes) {
        headers.remove(header::CONTENT_RANGE);
    }
    rules.strip_withheld(control, headers);
    rules.strip_cookies(headers);
    rules.strip_cookies_of_one(headers);
    if !headers.contains_key(header::DATE)
        && let Some(Ok(date)) = http_date(received.wall).map(HeaderValue::try_from)
    {
        headers.insert(header::DATE, date);
    }
}

/// Whether a Content-Range counts in bytes.
fn is_in_bytes(range: &HeaderValue) -> bool {
    range.as_bytes().get(..5).is_some_and(|unit| unit.eq_ignore_ascii_case(b"bytes"))
}

/// Computes what freshness needs.
pub(crate) fn facts(
    response: &ResponseView<'_>,
    control: &ResponseControl,
    validators: &Validators,
    rules: &CacheRules,
) -> Facts {
    let named = lifetime(response, control, validators, rules);
    let (lifetime, source) = named.unwrap_or((Duration::ZERO, LifetimeSource::Nothing));
    let mut flags = StoredFlags::default();
    if control.has(Directives::NO_CACHE) {
        flags.insert(StoredFlags::NO_CACHE);
    }
    if control.has(Directives::MUST_REVALIDATE) || control.has(Directives::PROXY_REVALIDATE) {
        flags.insert(StoredFlags::MUST_REVALIDATE);
    }
    if control.has(Directives::S_MAXAGE) {
        flags.insert(StoredFlags::S_MAXAGE);
    }
    if control.has(Directives::IMMUTABLE) {
        flags.insert(StoredFlags::IMMUTABLE);
    }
    if control.if_error_s.is_some() && rules.stale.if_error.is_none() {
        flags.insert(StoredFlags::NAMES_IF_ERROR);
    }
    let window = |route: Option<Duration>, origin_s: Option<u32>| match (route, origin_s) {
        (Some(window), _) => window,
        (None, Some(seconds)) => Duration::from_secs(u64::from(seconds)),
        (None, None) => Duration::ZERO,
    };
    let is_bound = flags.has(StoredFlags::MUST_REVALIDATE) || flags.has(StoredFlags::NO_CACHE);
    let unless_bound = |window| if is_bound { Duration::ZERO } else { window };
    Facts {
        lifetime,
        source,
        initial_age: initial_age(response),
        received_mono: response.received.mono,
        received_wall: response.received.wall,
        while_revalidate: unless_bound(window(rules.stale.while_revalidate, control.while_revalidate_s)),
        if_error: unless_bound(window(rules.stale.if_error, control.if_error_s)),
        flags,
    }
}

/// Whether a stored response could ever be used: it is fresh, or can be validated, or has a window in which
/// it may be used stale.
fn is_of_use(stored: &Stored) -> Result<(), NotStored> {
    let facts = &stored.facts;
    let needs_validation = facts.flags.has(StoredFlags::NO_CACHE);
    let has_validators = can_be_validated(stored);
    if facts.source == LifetimeSource::Nothing && !(needs_validation && has_validators) {
        return Err(if needs_validation { NotStored::NoCache } else { without_lifetime(stored.status) });
    }
    if has_validators {
        return Ok(());
    }
    if needs_validation {
        return Err(NotStored::NoCache);
    }
    let usable = facts.lifetime + facts.while_revalidate.max(facts.if_error);
    if usable <= facts.initial_age { Err(NotStored::Stale) } else { Ok(()) }
}

/// Checks that a POST says itself what a GET would return, and for how long. Only then is it stored for later
/// GETs (RFC 9110 §9.3.3).
fn post_allows(request: &RequestView<'_>, stored: &Stored, status: StatusCode) -> Result<(), NotStored> {
    let mut locations = stored.headers.get_all(header::CONTENT_LOCATION).iter();
    let location = locations.next().filter(|_| locations.next().is_none());
    let target = location.and_then(|location| same_origin_target(request, location));
    let names_itself = target.as_deref() == Some(request.path_and_query);
    // A field or cookie in the key may differ between a POST and a GET. Vary takes care of the rest.
    let is_plain = cookies(request.headers).next().is_none();
    if status == StatusCode::OK && names_itself && is_plain && stored.facts.source.is_explicit() {
        Ok(())
    } else {
        Err(NotStored::Method)
    }
}

#[cfg(test)]
mod tests;
