//! What an origin's head makes of a fill: a new generation, an unchanged one, a response that is not
//! stored and for whom it is, a failure. RFC 9111 §3, §4.3.3, §4.3.4. It must not move a body.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT_RANGES, AGE, CONTENT_LENGTH, CONTENT_RANGE, SET_COOKIE, VARY};
use http::{HeaderMap, HeaderValue, StatusCode};
use weir_policy::{
    BodyEnd, CacheKey, NotStored, Now, ResponseView, SetCookie, Storable, Variant, may_freshen, storable,
};
use weir_store::{Generation, NotAdmitted, Retirement, Writer};
use weir_upstream::Length;
use weir_upstream::{Blame, OriginBody, OriginError, OriginResponse};

use super::again::{Part, ReadOver, is_coded_alike, strong};
use super::cold::{Cold, Kept, placed_alone};
use super::gap;
use super::gap::list::Begun;
use super::machine::Event;
use super::memory::Manner;
use super::task::{Errand, Give, Handed, Sharing};
use super::{Concern, Fill, FillHead, OriginFailure, SharedResponse, complete};
use crate::watch;
use weir_clock as clock;
use weir_observe::EventKind;

/// Error responses up to this size are shared with those already waiting.
const SHARED_BYTES_MAX: u64 = 64 << 10;
/// What a 206 says of the part that it sends.
const OF_PART: [&str; 5] = ["content-range", "content-length", "content-digest", "content-md5", "digest"];
/// Parts up to this size are kept by themselves.
const ALONE_BYTES_MAX: u64 = 1 << 20;
/// How long they wait for the body of one.
const SHARED_TIME_MAX: Duration = Duration::from_secs(5);

impl Errand {
    /// No response.
    pub(super) fn fail(&self, fill: &Fill, error: &OriginError) {
        let mut failure = OriginFailure::of(error);
        self.means.counters().error(failure.word);
        let (desk, upstream, now) = (&self.means.desk, self.again.upstream.name(), clock::mono());
        match failure.concern {
            Concern::All if error.blame() == Blame::Origin => desk.upstreams.failed(upstream, now),
            // What one client may have is its own affair, and no failure.
            Concern::All => {}
            Concern::Lead if error.blame() == Blame::Local => {}
            Concern::Lead => {
                desk.upstreams.suspected(upstream, self.client, failure.kind, now);
                failure.concern = self.concern(fill, now);
            }
        }
        if failure.concern == Concern::All && failure.status != StatusCode::SERVICE_UNAVAILABLE {
            desk.memory.fail(fill.key().digest, now, failure.clone());
        }
        self.end(fill, FillHead::Failed(failure), Event::Failed);
    }

    /// Whom a failure concerns that the request may have caused.
    fn concern(&self, fill: &Fill, now: Instant) -> Concern {
        match self.means.desk.memory.witnessed(fill.key().digest, self.client, now) {
            true => Concern::All,
            false => Concern::Lead,
        }
    }

    /// Judges the head and does what it asks for; true when the fill ended as it should.
    pub(super) async fn head(
        &self,
        fill: &Arc<Fill>,
        requested: Now,
        response: OriginResponse,
        give: Give,
    ) -> bool {
        let received = clock::now();
        self.note(fill, &response);
        if response.status == StatusCode::NOT_MODIFIED {
            return self.unchanged(fill, (requested, received), response, give).await;
        }
        if let Some(cold) = self.cold.filter(|_| response.status == StatusCode::PARTIAL_CONTENT) {
            return self.part(fill, cold, (requested, received), response, give).await;
        }
        if self.cold.is_some() && response.status == StatusCode::OK {
            self.handle(fill, Manner::Whole);
        }
        let body_end = match response.length {
            Length::UntilClose => BodyEnd::Close,
            _ => BodyEnd::Framed,
        };
        let view = ResponseView::new(response.status, &response.headers, requested, received);
        let view = ResponseView { body_end, ..view };
        let judged = storable(&self.view(), &view, self.settings.rules());
        // An error never takes the place of what may still go out instead of it (RFC 5861 §4).
        let is_outage = response.status.is_server_error() && self.validating.is_some();
        let reason = match judged {
            Ok(_) if is_outage => NotStored::ServerError,
            Ok(_) if self.is_too_large(response.length) => NotStored::TooLarge,
            Ok(storable) => {
                let length = response.length.bytes();
                match self.begin(fill, storable, &response, length) {
                    Ok((generation, writer)) if generation.is_part() => {
                        let end = length.unwrap_or_default();
                        let part = Part { body: response.body, skip_bytes: 0, end };
                        let made = (generation, writer, response.origin.name_shared());
                        return self.go_on_in_part(fill, made, &response.headers, part, give);
                    }
                    Ok((generation, writer)) => {
                        generation.set_origin(response.origin.name_shared());
                        self.means.desk.memory.accept(fill.key().digest, clock::mono());
                        if let Some(fields) =
                            self.for_lead(&response.headers, &generation.head().stored.headers)
                        {
                            let _ = give.send(Handed::Fields(fields));
                        }
                        return self.fill(fill, generation, writer, length, response.body).await;
                    }
                    Err(_) => NotStored::NoRoom,
                }
            }
            Err(reason) => reason,
        };
        match self.shareable(&response, reason) {
            Some(variant) => self.share(fill, reason, variant, response).await,
            None => self.decline(fill, reason, response, give),
        }
    }

    /// Notes that there is an answer, and whose.
    fn note(&self, fill: &Fill, response: &OriginResponse) {
        self.means.desk.upstreams.answered(self.again.upstream.name());
        if !response.status.is_server_error() {
            self.means.desk.memory.answered(fill.key().digest);
        }
        let _ = fill.origin.set(response.origin.name().into());
        fill.had_age.store(response.headers.contains_key(AGE), Ordering::Relaxed);
        for _ in 0..response.times.retries {
            self.means.counters().retried();
        }
    }

    /// A 206 to a range of which nothing is held: a generation of which a part is held, if it can be told
    /// which version it is.
    async fn part(
        &self,
        fill: &Arc<Fill>,
        cold: Cold,
        (requested, received): (Now, Now),
        mut response: OriginResponse,
        give: Give,
    ) -> bool {
        if self.settings.range().keeps_alone && strong(&response.headers).is_none() {
            return self.part_alone(fill, (requested, received), response, give).await;
        }
        let kept = cold.read(&response);
        strip_of_part(&mut response.headers);
        let is_strong = strong(&response.headers).is_some();
        let Some(kept) = kept.filter(|kept| is_strong && kept.length <= self.means.store.object_bytes_max())
        else {
            self.handle(fill, Manner::Pass);
            return self.no_part(fill, NotStored::Status);
        };
        if self.validating.as_ref().is_some_and(|held| is_same(held, &response.headers, kept.length)) {
            // It does not look at what it is asked first.
            return self.unchanged(fill, (requested, received), response, give).await;
        }
        match self.storable_of_part(&response.headers, (requested, received)) {
            Ok(storable) => self.begin_part(fill, kept, storable, response, give),
            Err(reason) => {
                if self.shared == Sharing::Shared && reason.is_of_response() {
                    let memory = &self.means.desk.memory;
                    memory.decline(fill.key().digest, clock::mono(), reason, response.status);
                } else {
                    self.handle(fill, Manner::Pass);
                }
                self.supersede(reason, StatusCode::OK);
                self.no_part(fill, reason)
            }
        }
    }

    /// A part that does not say which version it is of: its lead gets it as it came, and it is kept by
    /// itself.
    async fn part_alone(
        &self,
        fill: &Arc<Fill>,
        (requested, received): (Now, Now),
        mut response: OriginResponse,
        give: Give,
    ) -> bool {
        let is_short = matches!(response.length, Length::Known(bytes) if bytes <= ALONE_BYTES_MAX);
        let body = match is_short {
            true => tokio::time::timeout(SHARED_TIME_MAX, whole(&mut response.body)).await.ok(),
            false => None,
        };
        let Some(Ok(body)) = body else {
            self.handle(fill, Manner::Pass);
            return self.no_part(fill, NotStored::Status);
        };
        let mut headers = response.headers.clone();
        strip_of_part(&mut headers);
        let judged = self.storable_of_part(&headers, (requested, received));
        let placed = placed_alone(&response.headers, body.len() as u64);
        if let (Ok(storable), Some((start, length))) = (judged, placed) {
            let (key, bytes) = (fill.key().clone(), body.clone());
            // Where it cannot be kept its lead has it all the same.
            let _ =
                self.means.store.keep_unvalidated_part(storable, key, fill.stamp(), (length, start), bytes);
        }
        if let Some(variant) = Variant::of(&self.client_headers, &response.headers) {
            let (status, origin) = (response.status, response.origin.name_shared().clone());
            let (headers, reason) = (response.headers, NotStored::Status);
            let concern = Concern::Lead;
            let response = SharedResponse { status, headers, body, reason, origin, variant, concern };
            let _ = give.send(Handed::Alone(Box::new(response)));
        }
        self.no_part(fill, NotStored::Status)
    }

    /// Remembers how ranges of the key are to be fetched: those of who asks alone, if it does.
    fn handle(&self, fill: &Fill, manner: Manner) {
        let digest = self.shared.digest_of_ranges(fill.key());
        self.means.desk.memory.handle(digest, clock::mono(), manner);
    }

    fn begin_part(
        &self,
        fill: &Arc<Fill>,
        kept: Kept,
        storable: Storable,
        response: OriginResponse,
        give: Give,
    ) -> bool {
        let store = &self.means.store;
        let storable = self.beside_others(storable, fill.key());
        let begun = store.begin_part(storable, fill.key().clone(), fill.stamp(), kept.length, kept.interval);
        let Ok((generation, writer)) = begun else { return self.no_part(fill, NotStored::NoRoom) };
        let part = Part { body: response.body, skip_bytes: kept.skip_bytes, end: kept.interval.end };
        let made = (generation, writer, response.origin.name_shared());
        self.go_on_in_part(fill, made, &response.headers, part, give)
    }

    /// Goes on with what has just begun as a part.
    fn go_on_in_part(
        &self,
        fill: &Arc<Fill>,
        (generation, writer, maker): (Arc<Generation>, Writer, &Arc<str>),
        headers: &HeaderMap,
        part: Part,
        give: Give,
    ) -> bool {
        generation.set_origin(maker);
        self.means.desk.memory.accept(fill.key().digest, clock::mono());
        if let Some(fields) = self.for_lead(headers, &generation.head().stored.headers) {
            let _ = give.send(Handed::Fields(fields));
        }
        let errand = gap::task::Errand {
            means: self.means.clone(),
            again: self.again.in_nobodys_name(),
            settings: self.settings.clone(),
            over: ReadOver::Little,
        };
        let (asked, is_whole) = (fill.begun(), self.cold.is_none());
        errand.start_with(Begun { writer, part, asked, is_whole });
        complete::start(&errand, &generation);
        self.end(fill, FillHead::Part(generation), Event::Parted);
        true
    }

    /// Begins a generation of a whole.
    fn begin(
        &self,
        fill: &Fill,
        storable: Storable,
        response: &OriginResponse,
        length: Option<u64>,
    ) -> Result<(Arc<Generation>, Writer), NotAdmitted> {
        let storable = self.beside_others(storable, fill.key());
        let (store, key, stamp) = (&self.means.store, fill.key().clone(), fill.stamp());
        match length.filter(|_| self.is_partable(fill, response)) {
            Some(length) => store.begin_partable(storable, key, stamp, length),
            None => store.begin(storable, key, stamp, length),
        }
    }

    /// Whether parts of a whole that has begun to come can be asked for by themselves, as the origin says
    /// (RFC 9110 §14.3).
    fn is_partable(&self, fill: &Fill, response: &OriginResponse) -> bool {
        let is_of_bytes = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"bytes");
        let digest = self.shared.digest_of_ranges(fill.key());
        response.status == StatusCode::OK
            && self.validating.is_none()
            && strong(&response.headers).is_some()
            && response.headers.get(ACCEPT_RANGES).is_some_and(is_of_bytes)
            && self.means.desk.memory.manner(digest, clock::mono()).is_none()
    }

    /// Whether the whole that a part is of may be stored; `headers` are without what a part says of itself.
    fn storable_of_part(
        &self,
        headers: &HeaderMap,
        (requested, received): (Now, Now),
    ) -> Result<Storable, NotStored> {
        let whole = ResponseView::new(StatusCode::OK, headers, requested, received);
        storable(&self.view(), &whole, self.settings.rules())
    }

    /// What has come is not what any client asked for: each asks by itself.
    fn no_part(&self, fill: &Fill, reason: NotStored) -> bool {
        self.end(fill, FillHead::Declined(reason, StatusCode::PARTIAL_CONTENT), Event::Declined(reason));
        true
    }

    /// A response of a key that has variants by coding: an origin that forgets Vary forgets it in what it
    /// does not code, too.
    fn beside_others(&self, storable: Storable, key: &CacheKey) -> Storable {
        let others = self.means.store.variants(key.digest, &key.full);
        match others.iter().any(|held| held.head().stored.variant.varies_on_codings()) {
            true => storable.beside_codings(&self.client_headers),
            false => storable,
        }
    }

    fn is_too_large(&self, length: Length) -> bool {
        matches!(length, Length::Known(length) if length > self.means.store.object_bytes_max())
    }

    /// The lead keeps its stream; joiners are told to pass.
    fn decline(&self, fill: &Fill, reason: NotStored, response: OriginResponse, give: Give) -> bool {
        if self.shared == Sharing::Shared && reason.is_of_response() && !response.status.is_server_error() {
            let memory = &self.means.desk.memory;
            memory.decline(fill.key().digest, clock::mono(), reason, response.status);
        }
        self.supersede(reason, response.status);
        let status = response.status;
        // A lead that has gone drops the response, and with it the connection.
        let _ = give.send(Handed::Response(Box::new(response)));
        self.end(fill, FillHead::Declined(reason, status), Event::Declined(reason));
        true
    }

    /// What was asked about has been replaced by something that is not stored: it must not go out again.
    fn supersede(&self, reason: NotStored, status: StatusCode) {
        let replaces = status.is_success()
            || status.is_redirection()
            || matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE);
        let Some(old) = &self.validating else { return };
        if replaces && (reason.is_of_response() || reason == NotStored::NoRoom) {
            self.means.store.retire(old);
        }
    }

    /// For which of those waiting a response that is not stored may be, if it is short enough to be kept for
    /// a moment.
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

    /// A short server error is shared with those who wait.
    async fn share(
        &self,
        fill: &Fill,
        reason: NotStored,
        variant: Variant,
        mut response: OriginResponse,
    ) -> bool {
        let body = tokio::time::timeout(SHARED_TIME_MAX, whole(&mut response.body)).await;
        match body.unwrap_or(Err(OriginError::ReadTimeout)) {
            Ok(body) => {
                let origin = response.origin.name().into();
                let (status, headers) = (response.status, response.headers);
                let concern = self.concern(fill, clock::mono());
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

    /// A 304: what was asked about, and nothing else that is held, is freshened (RFC 9111 §4.3.4): it is what
    /// the request selects.
    async fn unchanged(
        &self,
        fill: &Fill,
        (requested, received): (Now, Now),
        mut response: OriginResponse,
        give: Give,
    ) -> bool {
        // Reading to the end makes the connection usable again.
        let _ = response.body.next().await;
        let Some(generation) = &self.validating else {
            // Nothing was asked about: the lead asks again on its own.
            return self.decline(fill, NotStored::UnaskedNotModified, response, give);
        };
        let (fresh, is_for_all) = {
            let stored = &generation.head().stored;
            let rules = self.settings.rules();
            let view = ResponseView::new(response.status, &response.headers, requested, received);
            let is_for_all = may_freshen(&self.client_headers, stored, &view, rules);
            (weir_policy::freshen(stored, &view, rules), is_for_all)
        };
        // What was replaced or invalidated meanwhile stays so; who waits may have it all the same.
        let is_gone = matches!(
            generation.retirement(),
            Some(Retirement::Replaced | Retirement::Outgrown | Retirement::Abandoned)
        );
        if !is_gone && is_for_all {
            self.means.store.freshen(generation, fresh, fill.stamp());
            let events = self.means.events();
            watch::tell(events, EventKind::Revalidated, generation, "304");
        }
        self.means.desk.memory.accept(fill.key().digest, clock::mono());
        self.end(fill, FillHead::Unchanged(generation.clone()), Event::Unchanged);
        true
    }

    /// The origin's fields, if the stored ones are not all of them.
    fn for_lead(&self, origin: &HeaderMap, stored: &HeaderMap) -> Option<HeaderMap> {
        let mut fields = origin.clone();
        weir_policy::strip_hop_by_hop(&mut fields);
        fields.remove(CONTENT_LENGTH);
        fields.remove(CONTENT_RANGE);
        fields.remove(AGE);
        if self.settings.rules().set_cookie == SetCookie::Strip {
            fields.remove(SET_COOKIE);
        }
        if !fields.keys().any(|name| !stored.contains_key(name)) {
            return None;
        }
        // The lead may be a cache, too.
        fields.remove(VARY);
        for value in stored.get_all(VARY) {
            fields.append(VARY, value.clone());
        }
        Some(fields)
    }
}

/// Takes out what a part says of itself, and not of the whole (RFC 9110 §14.4, RFC 9530 §2).
pub fn strip_of_part(headers: &mut HeaderMap) {
    for name in OF_PART {
        headers.remove(name);
    }
}

/// Whether a part that has come is of the version that is held.
fn is_same(held: &Generation, part: &HeaderMap, length: u64) -> bool {
    let head = held.head();
    let stored = &head.stored.headers;
    held.length() == Some(length)
        && strong(stored).is_some_and(|tag| strong(part) == Some(tag))
        && is_coded_alike(part, stored)
}

/// A short body as one piece.
async fn whole(body: &mut OriginBody) -> Result<Bytes, OriginError> {
    let mut all = BytesMut::new();
    while let Some(bytes) = body.next().await? {
        all.extend_from_slice(&bytes);
    }
    Ok(all.freeze())
}
