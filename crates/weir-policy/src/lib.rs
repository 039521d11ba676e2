//! The caching rules of Weir as pure functions of values: RFC 9111 (caching), RFC 9110 §13 and §14
//! (preconditions, ranges), RFC 5861 (stale extensions), RFC 8246 (immutable), RFC 9211 (Cache-Status),
//! RFC 9213 (targeted cache control).
//!
//! This crate does no I/O, reads no clock and knows no runtime: time is an argument ([`Now`]).
//!
//! The walk of a request through it:
//! [`consult`] → [`write_key`] → (lookup, [`matches()`]) → [`verdict()`] → [`answer()`]; and on a miss
//! [`forwarded`] → (origin) → [`storable()`]; on a revalidation [`conditional`] → (origin) → [`freshen`].

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod answer;
mod by_status;
pub mod cache_status;
mod codings;
mod condition;
mod consult;
mod control;
pub mod cookies;
mod date;
mod fields;
mod freshness;
pub mod glob;
mod intervals;
mod invalidate;
mod key;
mod media;
mod now;
mod path;
mod placed;
pub mod purge;
mod query;
mod range;
mod request;
mod response;
mod rules;
pub mod set_cookie;
mod signed;
mod storable;
mod stored;
pub mod tags;
mod targeted;
mod validate;
pub mod value;
mod vary;
mod verdict;
mod whose_cookie;

pub use answer::{Answer, ContentRange, Parts, answer};
pub use by_status::{Lifetimes, Statuses, Windows, is_never_stored};
pub use codings::{Accepted, Coding};
pub use consult::{Ask, AskKind, Consult, PassReason, consult};
pub use control::{DELTA_SECONDS_MAX, Ignored, IgnoredDirective, MaxStale, RequestDirectives};
pub use date::http_date;
pub use fields::{
    is_hop_by_hop, is_in_304, is_respelled, respelled, strip_hop_by_hop, strip_named, strip_named_by,
};
pub use freshness::{Freshness, LifetimeSource, age_s, freshness, is_of_content};
pub use glob::overlap as globs_overlap;
pub use intervals::{Interval, Intervals};
pub use invalidate::{InvalidationTargets, invalidation, is_safe};
pub use key::{Beginning, Beginnings, CacheKey, KeyParts};
pub use key::{beginnings, forwarded, site_hash, write_key, write_url};
pub use media::{MEDIA_TYPE_BYTES_MAX, media_type};
pub use now::Now;
pub use path::{Readings, TooMany, has_dot_segment, read_escapes, read_path, readings};
pub use placed::is_placed;
pub use range::{Asked, range_from_front, wanted_cold};
pub use request::RequestView;
pub use response::{BodyEnd, ResponseView};
pub use rules::{
    CacheRules, ClientDirectives, CloseDelimited, Errors, HeadRequests, HeaderTrigger, Heuristics, KeyRules,
    KeySources, MapTrigger, MinUses, PairTrigger, QueryOrder, QueryRule, RangeRules, SetCookie, StaleRules,
    Surrogate, Triggers,
};
pub use signed::{changes_fields, may_be_of_signature, may_be_signed};
pub use storable::{NotStored, Storable, storable};
pub use stored::{ETag, Facts, Stored, StoredFlags, Validators};
pub use tags::Tags;
pub use targeted::SURROGATE_CAPABILITY;
pub use validate::{
    HeadEffect, can_be_validated, conditional, freshen, head_effect, is_conditional, may_freshen,
};
pub use vary::{Selecting, Variant, accept_encoding, matches};
pub use verdict::{
    Excuse, Failure, MissReason, Reusable, RevalidateReason, Revalidation, StaleUse, Verdict, against_stale,
    error_reusable, joined, outlasts, unreachable_window, verdict,
};

#[cfg(test)]
mod tests;
