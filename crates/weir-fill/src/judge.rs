//! What an origin's response head makes of a fill: a new generation, an unchanged one, a response that is not
//! stored and whose it is, a failure. RFC 9111 §3, §4.3.3, §4.3.4. It must not load a body.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT_RANGES, AGE, CONTENT_LENGTH, CONTENT_RANGE, COOKIE, SET_COOKIE, VARY};
use http::{HeaderMap, HeaderValue, StatusCode};
use weir_policy::cookies::has_own_cookies;
use weir_policy::{
    BodyEnd, CacheKey, NotStored, Now, ResponseView, SetCookie, Storable, Variant, can_be_validated,
    may_be_of_signature, may_freshen, outlasts, storable,
};
use weir_store::{Claim, Generation, NotAdmitted, Retirement, Writer};
use weir_upstream::Length;
use weir_upstream::{Blame, ExchangeError, OriginBody, OriginError, OriginResponse};

use super::cold::{Cold, Kept, place_of_unvalidated_part};
use super::gap;
use super::gap::list::Begun;
use super::machine::Event;
use super::recent::{RangeFetch, digest_of_visitors};
use super::refetch::{FetchBy, Part, is_coded_alike, strong};
use super::room;
use super::task::{FillRequest, ForLead, LeadSender, Sharing, Waiting};
use super::{Concern, Fill, FillHead, OriginAnswer, OriginFailure, SharedResponse, complete};
use crate::events;
use weir_clock as clock;
use weir_observe::EventKind;

/// Error responses up to this size go to all waiting requests.
const SHARED_BYTES_MAX: u64 = 64 << 10;
/// Fields in which a 206 speaks of its part and not of the whole.
const OF_PART: [&str; 5] = ["content-range", "content-length", "content-digest", "content-md5", "digest"];
/// Parts without a strong validator are kept up to this size: 1 MiB.
const UNVALIDATED_PART_BYTES_MAX: u64 = 1 << 20;
/// How long the body of a short response is waited for.
const SHARED_TIME_MAX: Duration = Duration::from_secs(5);

impl FillRequest {
    /// No response.
    pub(super) fn fail(&self, fill: &Fill, error: &OriginError) {
        let mut failure = OriginFailure::of(error);
        self.resources.counters().error(failure.word);
        let (inflight, upstream, now) =
            (&self.resources.inflight, self.refetch.upstream.name(), clock::mono());
        match failure.concern {
            Concern::All if error.blame() == Blame::Origin => inflight.upstreams.failed(upstream, now),
            // A client that has used up its share is no failure of the origin.
            Concern::All => {}
            Concern::Lead if error.blame() == Blame::Local => {}
            Concern::Lead => {
                inflight.upstreams.suspected(upstream, self.client, failure.kind, now);
                failure.concern = self.concern(fill, now);
            }
        }
        if failure.concern == Concern::All && failure.status != StatusCode::SERVICE_UNAVAILABLE {
            inflight.recent.fail(fill.key().digest, now, failure.clone());
        }
        self.end(fill, FillHead::Failed(failure), Event::Failed);
    }

    /// Which requests a failure concerns that this one may have caused.
    fn concern(&self, fill: &Fill, now: Instant) -> Concern {
        match self.resources.inflight.recent.witnessed(fill.key().digest, self.client, now) {
            true => Concern::All,
            false => Concern::Lead,
        }
    }

    /// Judges the head and acts on it. True when the fill ended as it should.
    pub(super) async fn head(
        &self,
        fill: &Arc<Fill>,
        requested: Now,
        response: Box<OriginResponse>,
        to_lead: LeadSender,
    ) -> bool {
        let received = clock::now();
        self.note(fill, &response);
        if response.status == StatusCode::NOT_MODIFIED {
            return Box::pin(self.unchanged(fill, (requested, received), response, to_lead)).await;
        }
        if let Some(cold) = self.cold.filter(|_| response.status == StatusCode::PARTIAL_CONTENT) {
            return Box::pin(self.part(fill, cold, (requested, received), response, to_lead)).await;
        }
        if self.cold.is_some() && response.status == StatusCode::OK {
            self.note_ranges(fill, RangeFetch::Whole);
        }
        let length = response.length.bytes();
        let begun = match self.to_store(&response, (requested, received)) {
            Ok(storable) => {
                // Readers of a long version without a name have nothing but the drive, should it stall.
                let is_fit =
                    |length: &u64| *length < room::SHORT_BYTES || strong(&response.headers).is_some();
                let _claim = match length.filter(is_fit) {
                    Some(length) => self.turn(fill, &storable, (length, length)).await,
                    None => None,
                };
                self.begin(fill, storable, &response, length).map_err(|_| NotStored::NoRoom)
            }
            Err(reason) => Err(reason),
        };
        let reason = match begun {
            Ok((generation, writer)) if generation.is_part() => {
                let end = length.unwrap_or_default();
                let part = Part { body: response.body, skip_bytes: 0, end };
                generation.set_origin(response.origin.name_shared());
                return self.go_on_in_part(fill, writer, part, &response.headers, to_lead);
            }
            Ok((generation, writer)) => {
                generation.set_origin(response.origin.name_shared());
                self.resources.inflight.recent.accept(fill.key().digest, clock::mono());
                if let Some(fields) = self.for_lead(&response.headers, &generation.head().stored.headers) {
                    let _ = to_lead.send(ForLead::Fields(fields));
                }
                return Box::pin(self.fill(fill, writer, response.body)).await;
            }
            Err(reason) => reason,
        };
        match self.shareable(&response, reason) {
            Some(variant) => Box::pin(self.share(fill, reason, variant, response)).await,
            None => self.decline(fill, reason, response, to_lead),
        }
    }

    /// What is stored of a response. `times` are those of its request and its head.
    fn to_store(&self, response: &OriginResponse, times: (Now, Now)) -> Result<Storable, NotStored> {
        let body_end = match response.length {
            Length::UntilClose => BodyEnd::Close,
            _ => BodyEnd::Framed,
        };
        let view = ResponseView::new(response.status, &response.headers, times.0, times.1);
        let storable = self.judged(&ResponseView { body_end, ..view })?;
        if self.is_too_large(response.length) { Err(NotStored::TooLarge) } else { Ok(storable) }
    }

    /// Waits until memory has room for a body of `whole` bytes, of which `length` are to come. Begin it
    /// without another wait, and keep the claim until then.
    async fn turn(&self, fill: &Fill, storable: &Storable, (whole, length): (u64, u64)) -> Option<Claim> {
        let store = &self.resources.store;
        let bytes = store.needed_bytes(fill.key(), storable, whole);
        let need = room::Need { bytes, length, is_passable: self.waiting == Waiting::Client };
        let is_wanted = || fill.transfer.readers() > 0;
        let inflight = &self.resources.inflight;
        let _counted = match self.refetch.client {
            Some(client) if !store.has_room(bytes) => {
                Some(inflight.claimants.count(client, room::WAITING_OF_CLIENT_MAX)?)
            }
            _ => None,
        };
        room::wait(store, &inflight.forgotten, need, is_wanted).await
    }

    /// Whether a response is stored. One in whose place a stored response may still be served stale never
    /// replaces that (RFC 5861 §4). Nor does a server error of which only the origin says how long it lives.
    fn judged(&self, view: &ResponseView<'_>) -> Result<Storable, NotStored> {
        if self.is_changed && may_be_of_signature(view.status) {
            return Err(NotStored::Refused);
        }
        let rules = self.settings.rules();
        let judged = storable(&self.view(), view, rules);
        let Some(held) = &self.validating else { return judged };
        let head = held.head();
        let is_error = view.status.is_server_error();
        let is_outlasted = outlasts(&head.stored, view.status, &rules.stale, view.received);
        match judged {
            Err(reason) if is_error => Err(reason),
            _ if is_outlasted && !is_error => Err(NotStored::Outlasted),
            Ok(storable) if is_error => {
                let is_of_origin = storable.stored().facts.source.is_explicit();
                let is_kept = is_outlasted || (is_of_origin && !head.stored.status.is_server_error());
                if is_kept { Err(NotStored::ServerError) } else { Ok(storable) }
            }
            judged => judged,
        }
    }

    /// Notes that an origin has answered, and which.
    fn note(&self, fill: &Fill, response: &OriginResponse) {
        self.resources.inflight.upstreams.answered(self.refetch.upstream.name());
        if !response.status.is_server_error() {
            self.resources.inflight.recent.answered(fill.key().digest);
        }
        let _ = fill.origin.set(response.origin.name().into());
        let _ = fill.answered.set(OriginAnswer::of(response));
        fill.had_age.store(response.headers.contains_key(AGE), Ordering::Relaxed);
        for _ in 0..response.times.retries {
            self.resources.counters().retried();
        }
    }

    /// A 206 to a range of which nothing is held begins a generation with a part, if its version is known.
    async fn part(
        &self,
        fill: &Arc<Fill>,
        cold: Cold,
        (requested, received): (Now, Now),
        mut response: Box<OriginResponse>,
        to_lead: LeadSender,
    ) -> bool {
        if self.settings.range().keeps_unvalidated_parts && strong(&response.headers).is_none() {
            return self.unvalidated_part(fill, (requested, received), response, to_lead).await;
        }
        let kept = cold.read(&response);
        strip_of_part(&mut response.headers);
        let is_strong = strong(&response.headers).is_some();
        let Some(kept) =
            kept.filter(|kept| is_strong && kept.length <= self.resources.store.object_bytes_max())
        else {
            self.note_ranges(fill, RangeFetch::Pass);
            return self.no_part(fill, NotStored::Status);
        };
        if self.validating.as_ref().is_some_and(|held| is_same(held, &response.headers, kept.length)) {
            // The origin has ignored the precondition.
            return self.unchanged(fill, (requested, received), response, to_lead).await;
        }
        match self.storable_of_part(&response.headers, (requested, received)) {
            Ok(storable) => {
                let _claim = self.turn(fill, &storable, (kept.length, kept.interval.length())).await;
                self.begin_part(fill, kept, storable, response, to_lead)
            }
            Err(reason) => {
                if self.shared == Sharing::Shared && reason.is_of_response() {
                    let recent = &self.resources.inflight.recent;
                    recent.decline(fill.key().digest, clock::mono(), reason, response.status);
                } else {
                    self.note_ranges(fill, RangeFetch::Pass);
                }
                self.supersede(reason, StatusCode::OK);
                self.no_part(fill, reason)
            }
        }
    }

    /// A part without a strong validator: its lead gets it as it came, and it is kept as an unvalidated part.
    async fn unvalidated_part(
        &self,
        fill: &Arc<Fill>,
        (requested, received): (Now, Now),
        mut response: Box<OriginResponse>,
        to_lead: LeadSender,
    ) -> bool {
        let is_short = matches!(response.length, Length::Known(bytes) if bytes <= UNVALIDATED_PART_BYTES_MAX);
        let body = match is_short {
            true => tokio::time::timeout(SHARED_TIME_MAX, whole(&mut response.body)).await.ok(),
            false => None,
        };
        let Some(Ok(body)) = body else {
            self.note_ranges(fill, RangeFetch::Pass);
            return self.no_part(fill, NotStored::Status);
        };
        let mut headers = response.headers.clone();
        strip_of_part(&mut headers);
        let judged = self.storable_of_part(&headers, (requested, received));
        let placed = place_of_unvalidated_part(&response.headers, body.len() as u64);
        if let (Ok(storable), Some((start, length))) = (judged, placed) {
            let (key, bytes) = (fill.key().clone(), body.clone());
            // Where it cannot be kept, its lead still gets it.
            let _ = self.resources.store.keep_unvalidated_part(
                storable,
                key,
                fill.stamp(),
                (length, start),
                bytes,
            );
        }
        if let Some(variant) = Variant::of(&self.client_headers, &response.headers) {
            let (status, origin) = (response.status, response.origin.name_shared().clone());
            let (headers, reason) = (response.headers, NotStored::Status);
            let concern = Concern::Lead;
            let response = SharedResponse { status, headers, body, reason, origin, variant, concern };
            let _ = to_lead.send(ForLead::UnvalidatedPart(Box::new(response)));
        }
        self.no_part(fill, NotStored::Status)
    }

    /// Remembers how ranges of the key are to be fetched, for shared and unshared fills separately.
    fn note_ranges(&self, fill: &Fill, range_fetch: RangeFetch) {
        let digest = self.shared.digest_of_ranges(fill.key());
        self.resources.inflight.recent.note_ranges(digest, clock::mono(), range_fetch);
    }

    fn begin_part(
        &self,
        fill: &Arc<Fill>,
        kept: Kept,
        storable: Storable,
        response: Box<OriginResponse>,
        to_lead: LeadSender,
    ) -> bool {
        let store = &self.resources.store;
        let storable = self.beside_others(storable, fill.key());
        let begun = store.begin_part(storable, fill.key().clone(), fill.stamp(), kept.length, kept.interval);
        let Ok((generation, writer)) = begun else { return self.no_part(fill, NotStored::NoRoom) };
        let part = Part { body: response.body, skip_bytes: kept.skip_bytes, end: kept.interval.end };
        generation.set_origin(response.origin.name_shared());
        self.go_on_in_part(fill, writer, part, &response.headers, to_lead)
    }

    /// Hands a generation that has just begun as a part to the transfer of a gap.
    fn go_on_in_part(
        &self,
        fill: &Arc<Fill>,
        writer: Writer,
        part: Part,
        headers: &HeaderMap,
        to_lead: LeadSender,
    ) -> bool {
        let generation = writer.generation().clone();
        self.resources.inflight.recent.accept(fill.key().digest, clock::mono());
        if let Some(fields) = self.for_lead(headers, &generation.head().stored.headers) {
            let _ = to_lead.send(ForLead::Fields(fields));
        }
        let request = gap::task::GapRequest {
            resources: self.resources.clone(),
            refetch: self.refetch.anonymous(),
            settings: self.settings.clone(),
            by: FetchBy::Range,
        };
        let (asked, is_whole) = (fill.begun(), self.cold.is_none());
        let asks = fill.transfer.asks_if_any();
        request.start_with(Begun { writer, part, asked, is_whole, asks });
        complete::start(&request, &generation);
        self.end(fill, FillHead::Part(generation), Event::HandedToGaps);
        true
    }

    /// Begins a generation with its first byte.
    fn begin(
        &self,
        fill: &Fill,
        storable: Storable,
        response: &OriginResponse,
        length: Option<u64>,
    ) -> Result<(Arc<Generation>, Writer), NotAdmitted> {
        let storable = self.beside_others(storable, fill.key());
        let (store, key, stamp) = (&self.resources.store, fill.key().clone(), fill.stamp());
        match length.filter(|_| self.is_partable(fill, response)) {
            Some(length) => store.begin_partable(storable, key, stamp, length),
            None => store.begin(storable, key, stamp, length),
        }
    }

    /// Whether the origin says that parts of this response can be asked for separately (RFC 9110 §14.3).
    fn is_partable(&self, fill: &Fill, response: &OriginResponse) -> bool {
        let is_of_bytes = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"bytes");
        let digest = self.shared.digest_of_ranges(fill.key());
        response.status == StatusCode::OK
            && self.validating.is_none()
            && strong(&response.headers).is_some()
            && response.headers.get(ACCEPT_RANGES).is_some_and(is_of_bytes)
            && self.resources.inflight.recent.range_fetch(digest, clock::mono()).is_none()
    }

    /// Whether the whole response may be stored that a part belongs to. `headers` are those of the whole
    /// ([`strip_of_part`]).
    fn storable_of_part(
        &self,
        headers: &HeaderMap,
        (requested, received): (Now, Now),
    ) -> Result<Storable, NotStored> {
        let whole = ResponseView::new(StatusCode::OK, headers, requested, received);
        storable(&self.view(), &whole, self.settings.rules())
    }

    /// No client asked for what has come: each request goes past the cache.
    fn no_part(&self, fill: &Fill, reason: NotStored) -> bool {
        self.end(fill, FillHead::Declined(reason, StatusCode::PARTIAL_CONTENT), Event::Declined(reason));
        true
    }

    /// A response of a key with variants by coding varies by coding, whatever it says: origins that forget
    /// `Vary` forget it in responses without a coding, too.
    fn beside_others(&self, storable: Storable, key: &CacheKey) -> Storable {
        let others = self.resources.store.variants(key.digest, &key.full);
        match others.iter().any(|held| held.head().stored.variant.varies_on_codings()) {
            true => storable.beside_codings(&self.client_headers),
            false => storable,
        }
    }

    fn is_too_large(&self, length: Length) -> bool {
        matches!(length, Length::Known(length) if length > self.resources.store.object_bytes_max())
    }

    /// The lead gets the response. Requests that joined go past the cache.
    fn decline(
        &self,
        fill: &Fill,
        reason: NotStored,
        response: Box<OriginResponse>,
        to_lead: LeadSender,
    ) -> bool {
        let digest = match reason {
            NotStored::VaryCookie | NotStored::RequestCookie => Some(digest_of_visitors(fill.key().digest)),
            _ => reason.is_of_response().then_some(fill.key().digest),
        };
        if let Some(digest) = digest
            && self.shared == Sharing::Shared
            && !response.status.is_server_error()
        {
            self.resources.inflight.recent.decline(digest, clock::mono(), reason, response.status);
        }
        self.supersede(reason, response.status);
        let status = response.status;
        // If the lead has left, this drops the response and with it the connection.
        let _ = to_lead.send(ForLead::Response(response));
        self.end(fill, FillHead::Declined(reason, status), Event::Declined(reason));
        true
    }

    /// Whether the request has cookies on which the stored response does not depend.
    fn has_own_cookies(&self, held: &Generation) -> bool {
        self.refetch.headers.contains_key(COOKIE)
            && has_own_cookies(&self.client_headers, &held.head().stored.variant, &self.settings.rules().key)
    }

    /// Retires what was to be revalidated where a response that is not stored has replaced it, unless the
    /// client's own cookies may be the reason.
    fn supersede(&self, reason: NotStored, status: StatusCode) {
        let replaces = status.is_success()
            || status.is_redirection()
            || matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE);
        let Some(old) = &self.validating else { return };
        // What a client's own cookie brought about says nothing of what others get.
        if self.has_own_cookies(old) {
            return;
        }
        if replaces
            && (reason.is_of_response() || matches!(reason, NotStored::NoRoom | NotStored::VaryCookie))
        {
            self.resources.store.retire(old);
        }
    }

    /// Which of the waiting requests may get a response that is not stored; none where it is too long to be
    /// kept for a moment.
    fn shareable(&self, response: &OriginResponse, reason: NotStored) -> Option<Variant> {
        let is_short = match response.length {
            Length::Known(length) => length <= SHARED_BYTES_MAX,
            Length::None => true,
            Length::Unknown | Length::UntilClose => false,
        };
        if !is_short || !response.status.is_server_error() || !reason.may_be_shared() {
            return None;
        }
        Variant::of(&self.client_headers, &response.headers)
    }

    /// A short server error goes to all waiting requests.
    async fn share(
        &self,
        fill: &Fill,
        reason: NotStored,
        variant: Variant,
        mut response: Box<OriginResponse>,
    ) -> bool {
        let body = tokio::time::timeout(SHARED_TIME_MAX, whole(&mut response.body)).await;
        match body.unwrap_or(Err(ExchangeError::ReadTimeout.into())) {
            Ok(body) => {
                let origin = response.origin.name().into();
                let (status, mut headers) = (response.status, response.headers);
                let concern = self.concern(fill, clock::mono());
                if concern == Concern::All {
                    self.settings.rules().strip_for_waiting(status, &mut headers);
                }
                let shared = SharedResponse { status, headers, body, reason, origin, variant, concern };
                self.end(fill, FillHead::Shared(Arc::new(shared)), Event::Shared);
                true
            }
            Err(error) => {
                self.fail(fill, &error);
                false
            }
        }
    }

    /// A 304 freshens the generation that the request selected and asked about, and no other (RFC 9111
    /// §4.3.4).
    async fn unchanged(
        &self,
        fill: &Fill,
        (requested, received): (Now, Now),
        mut response: Box<OriginResponse>,
        to_lead: LeadSender,
    ) -> bool {
        // Once read to its end, the connection can be used again.
        let _ = response.body.next().await;
        let is_asked = |held: &&Arc<Generation>| can_be_validated(&held.head().stored);
        let Some(generation) = self.validating.as_ref().filter(is_asked) else {
            // The request had no precondition: the lead asks again, past the cache.
            return self.decline(fill, NotStored::UnaskedNotModified, response, to_lead);
        };
        let (fresh, is_for_all) = {
            let stored = &generation.head().stored;
            let rules = self.settings.rules();
            let view = ResponseView::new(response.status, &response.headers, requested, received);
            let is_for_all = may_freshen(&self.client_headers, stored, &view, rules);
            (weir_policy::freshen(&self.client_headers, stored, &view, rules), is_for_all)
        };
        // What was replaced or invalidated meanwhile stays so. The waiting requests may have it all the same.
        let is_gone = matches!(
            generation.retirement(),
            Some(Retirement::Replaced | Retirement::Outgrown | Retirement::Abandoned)
        );
        if !is_gone && is_for_all {
            self.resources.store.freshen(generation, fresh, fill.stamp());
            let events = self.resources.events();
            events::report(events, EventKind::Revalidated, generation, "304");
        }
        self.resources.inflight.recent.accept(fill.key().digest, clock::mono());
        self.end(fill, FillHead::Unchanged(generation.clone()), Event::Unchanged);
        true
    }

    /// The origin's fields, where some of them are not stored.
    fn for_lead(&self, origin: &HeaderMap, stored: &HeaderMap) -> Option<HeaderMap> {
        let mut fields = origin.clone();
        weir_policy::strip_hop_by_hop(&mut fields);
        fields.remove(CONTENT_LENGTH);
        fields.remove(CONTENT_RANGE);
        fields.remove(AGE);
        self.settings.rules().strip_cookies(&mut fields);
        if self.settings.rules().set_cookie == SetCookie::Strip {
            fields.remove(SET_COOKIE);
        }
        if !fields.keys().any(|name| !stored.contains_key(name)) {
            return None;
        }
        // The lead's client may be a cache, too.
        fields.remove(VARY);
        for value in stored.get_all(VARY) {
            fields.append(VARY, value.clone());
        }
        Some(fields)
    }
}

/// Removes the fields in which a 206 speaks of its part and not of the whole (RFC 9110 §14.4, RFC 9530 §2).
pub fn strip_of_part(headers: &mut HeaderMap) {
    for name in OF_PART {
        headers.remove(name);
    }
}

/// Whether a part belongs to the version that is held.
fn is_same(held: &Generation, part: &HeaderMap, length: u64) -> bool {
    let head = held.head();
    let stored = &head.stored.headers;
    head.stored.status == StatusCode::OK
        && held.length() == Some(length)
        && strong(stored).is_some_and(|tag| strong(part) == Some(tag))
        && is_coded_alike(part, stored)
}

/// A short body, whole.
async fn whole(body: &mut OriginBody) -> Result<Bytes, OriginError> {
    let mut all = BytesMut::new();
    while let Some(bytes) = body.next().await? {
        all.extend_from_slice(&bytes);
    }
    Ok(all.freeze())
}
