//! A record with its trace as JSON: what `weir log --full` prints. The end of the response is a step too,
//! which comes from the record's own numbers.

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use super::record::{Completion, Facts, Record, milliseconds, present};
use super::trace::{Company, Found, Moment, Others, Place, Step, Trace, Tried};

/// A record with its trace.
pub(super) struct Full<'r>(pub(super) &'r Record);

impl Serialize for Full<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.0.entries(&mut map)?;
        entries(self.0, &mut map)?;
        map.end()
    }
}

/// What the trace of a record adds to it.
pub(super) fn entries<M: SerializeMap>(record: &Record, map: &mut M) -> Result<(), M::Error> {
    let none = Trace::default();
    let trace = record.description.trace.as_deref().unwrap_or(&none);
    serialize_key(map, &trace.key)?;
    map.serialize_entry("traced", &trace.is_noted)?;
    if trace.left_out > 0 {
        map.serialize_entry("steps_left_out", &trace.left_out)?;
    }
    map.serialize_entry("steps", &Steps { trace, facts: &record.facts })
}

fn serialize_key<M: SerializeMap>(map: &mut M, key: &str) -> Result<(), M::Error> {
    let mut parts = key.lines();
    present(map, "key", parts.next().unwrap_or_default())?;
    let more: Vec<&str> = parts.collect();
    if more.is_empty() { Ok(()) } else { map.serialize_entry("key_fields", &more) }
}

/// The steps, and those at the end.
struct Steps<'r> {
    trace: &'r Trace,
    facts: &'r Facts,
}

impl Serialize for Steps<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut sequence = serializer.serialize_seq(None)?;
        let first_byte_us = self.facts.first_byte.map(|at| i64::try_from(at.as_micros()).unwrap_or(i64::MAX));
        let mut before = first_byte_us.map(|at_us| (at_us, End::FirstByte));
        for moment in &self.trace.steps {
            if let Some((at_us, end)) = before.take_if(|(at_us, _)| *at_us < moment.at_us) {
                sequence.serialize_element(&At(at_us, end))?;
            }
            sequence.serialize_element(&Written(moment))?;
        }
        if let Some((at_us, end)) = before {
            sequence.serialize_element(&At(at_us, end))?;
        }
        let ended_us = i64::try_from(self.facts.total.as_micros()).unwrap_or(i64::MAX);
        sequence.serialize_element(&At(ended_us, End::Ended(self.facts)))?;
        sequence.end()
    }
}

/// A step that comes from the record's numbers.
#[derive(Clone, Copy)]
enum End<'r> {
    FirstByte,
    Ended(&'r Facts),
}

struct At<'r>(i64, End<'r>);

impl Serialize for At<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("at_ms", &signed_milliseconds(self.0))?;
        match self.1 {
            End::FirstByte => map.serialize_entry("step", "first-byte")?,
            End::Ended(facts) => {
                map.serialize_entry("step", ended(facts))?;
                map.serialize_entry("body_bytes", &facts.body_bytes)?;
                if facts.completion != Completion::Whole {
                    present(&mut map, "why", facts.detail)?;
                }
            }
        }
        map.end()
    }
}

fn ended(facts: &Facts) -> &'static str {
    match facts.completion {
        Completion::Whole => "sent",
        Completion::Cut => "cut",
        Completion::ClientGone => "client-gone",
    }
}

struct Written<'r>(&'r Moment);

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("at_ms", &signed_milliseconds(self.0.at_us))?;
        map.serialize_entry("step", word(&self.0.step))?;
        details(&self.0.step, &mut map)?;
        map.end()
    }
}

fn word(step: &Step) -> &'static str {
    match step {
        Step::Found(_) => "found",
        Step::NotFound(_) => "not-found",
        Step::Decided(..) => "decided",
        Step::Passed(_) => "passed",
        Step::Lost(_) => "fields-lost",
        Step::Refreshing => "refreshing",
        Step::Led(_) => "led",
        Step::Joined => "joined",
        Step::Answered(_) => "answered",
        Step::Missing(_) => "missing",
        Step::Tried(_) => "attempt",
        Step::Stored { .. } => "stored",
        Step::NotStored(_) => "not-stored",
        Step::Ready(_) => "ready",
    }
}

fn details<M: SerializeMap>(step: &Step, map: &mut M) -> Result<(), M::Error> {
    match step {
        Step::Found(found) => of_found(found, map),
        Step::NotFound(Others::None) | Step::Led(Company::Joinable) | Step::Joined | Step::Refreshing => {
            Ok(())
        }
        Step::NotFound(Others::Variants) => map.serialize_entry("other_variants", &true),
        Step::Led(Company::Alone) => map.serialize_entry("alone", &true),
        Step::Decided(verdict, why) => {
            map.serialize_entry("verdict", verdict.word())?;
            present(map, "why", why)
        }
        Step::Passed(why) | Step::NotStored(why) => present(map, "why", why),
        Step::Lost(fields) => map.serialize_entry("fields", &**fields),
        Step::Missing(bytes) => map.serialize_entry("bytes", bytes),
        Step::Answered(head) => map.serialize_entry("head", head.word()),
        Step::Tried(tried) => of_tried(tried, map),
        Step::Stored { ttl_s, source, volume } => {
            map.serialize_entry("ttl_s", ttl_s)?;
            present(map, "ttl_source", source)?;
            present(map, "volume", volume.as_deref().unwrap_or_default())
        }
        Step::Ready(status) => map.serialize_entry("status", status),
    }
}

fn of_found<M: SerializeMap>(found: &Found, map: &mut M) -> Result<(), M::Error> {
    map.serialize_entry("status", &found.status)?;
    map.serialize_entry("age_s", &found.age_s)?;
    map.serialize_entry("ttl_left_s", &found.ttl_left_s)?;
    present(map, "ttl_source", found.source)?;
    map.serialize_entry("extent", found.extent.word())?;
    match &found.place {
        Place::Memory => map.serialize_entry("place", "memory"),
        Place::Volume(name) => {
            map.serialize_entry("place", "volume")?;
            map.serialize_entry("volume", &**name)
        }
    }
}

/// With the names of the log of requests to origins.
fn of_tried<M: SerializeMap>(tried: &Tried, map: &mut M) -> Result<(), M::Error> {
    map.serialize_entry("asked", &format!("{:016x}", tried.asked))?;
    map.serialize_entry("purpose", tried.purpose)?;
    map.serialize_entry("attempt", &tried.attempt)?;
    present(map, "retry", tried.retry)?;
    present(map, "origin", &tried.origin)?;
    present(map, "pick", &tried.pick)?;
    present(map, "address", &tried.address)?;
    present(map, "connection", tried.connection)?;
    if let Some(connect) = tried.connect {
        map.serialize_entry("connect_ms", &milliseconds(connect))?;
    }
    if let Some(status) = tried.status {
        map.serialize_entry("status", &status)?;
    }
    if let Some(first_byte) = tried.first_byte {
        map.serialize_entry("first_byte_ms", &milliseconds(first_byte))?;
    }
    map.serialize_entry("received_bytes", &tried.received_bytes)?;
    let Some(end) = &tried.ended else { return map.serialize_entry("completion", "under-way") };
    map.serialize_entry("total_ms", &milliseconds(end.total))?;
    map.serialize_entry("completion", end.completion)?;
    present(map, "error", end.error)
}

/// Milliseconds with three decimals.
fn signed_milliseconds(us: i64) -> f64 {
    us as f64 / 1000.0
}

#[cfg(test)]
mod tests;
