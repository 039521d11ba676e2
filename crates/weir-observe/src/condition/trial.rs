//! Whether lines fit a condition. A number or text that a line lacks is unlike all others: `==` and `<` are
//! false, and so `!=` is true. A missing text is the same as an empty one.

use std::borrow::Cow;
use std::time::Duration;

use super::names::Field;
use super::tree::{Check, Node, Op, Span, Test};
use crate::asked::Asked;
use crate::record::{Facts, Record, Sharing, Storing};
use crate::site::SiteId;

/// The values of a line.
pub(super) trait Values {
    fn number(&self, field: Field) -> Option<i64>;
    fn is_so(&self, field: Field) -> bool;
    fn text(&self, field: Field) -> Cow<'_, str>;
}

impl Node {
    /// Whether a line fits.
    pub(super) fn fits(&self, line: &impl Values) -> bool {
        match self {
            Node::Or(nodes) => nodes.iter().any(|node| node.fits(line)),
            Node::And(nodes) => nodes.iter().all(|node| node.fits(line)),
            Node::Not(node) => !node.fits(line),
            Node::Test(test) => test.fits(line),
        }
    }

    /// Whether a request of these numbers fits; `None` where its texts say it.
    pub(super) fn tried(&self, facts: &Facts) -> Option<bool> {
        match self {
            Node::Or(nodes) => joined(nodes, facts, true),
            Node::And(nodes) => joined(nodes, facts, false),
            Node::Not(node) => node.tried(facts).map(|fits| !fits),
            Node::Test(test) => test.tried(facts),
        }
    }
}

/// Of several: `deciding` where one is, else what all say.
fn joined(nodes: &[Node], facts: &Facts, deciding: bool) -> Option<bool> {
    let mut all = Some(!deciding);
    for node in nodes {
        match node.tried(facts) {
            Some(fits) if fits == deciding => return Some(deciding),
            Some(_) => {}
            None => all = None,
        }
    }
    all
}

/// Visits each test.
fn each(node: &mut Node, visit: &mut dyn FnMut(&mut Test)) {
    match node {
        Node::Or(nodes) | Node::And(nodes) => nodes.iter_mut().for_each(|node| each(node, visit)),
        Node::Not(node) => each(node, visit),
        Node::Test(test) => visit(test),
    }
}

/// Puts the numbers of sites beside their names, where all are known.
pub(super) fn number_sites(node: &mut Node, number: &dyn Fn(&str) -> Option<SiteId>) {
    each(node, &mut |test| {
        if let Test { field: Field::Site, check: Check::Is(names), sites } = test {
            *sites = names.iter().map(|name| number(name).filter(|id| *id != SiteId::NONE)).collect();
        }
    });
}

/// Puts the names of sites in place of their hosts. What is empty stands for none.
pub(super) fn name_sites(node: &mut Node, named: &dyn Fn(&str) -> Option<String>) -> Result<(), String> {
    let mut unknown = None;
    each(node, &mut |test| {
        let Test { field: Field::Site, check: Check::Is(names), .. } = test else { return };
        for name in names.iter_mut().filter(|name| !name.is_empty()) {
            match named(name) {
                Some(known) => *name = known,
                None => unknown = Some(name.clone()),
            }
        }
    });
    unknown.map_or(Ok(()), Err)
}

impl Test {
    fn fits(&self, line: &impl Values) -> bool {
        match &self.check {
            Check::Number(op, span) => line.number(self.field).is_some_and(|value| op.holds(value, *span)),
            Check::Numbers(spans) => line
                .number(self.field)
                .is_some_and(|value| spans.iter().any(|span| Op::Is.holds(value, *span))),
            Check::Yes(wanted) => line.is_so(self.field) == *wanted,
            Check::Is(texts) => {
                let text = line.text(self.field);
                texts.iter().any(|wanted| *wanted == text)
            }
            Check::Matches(pattern) => pattern.is_match(line.text(self.field).as_bytes()),
        }
    }

    fn tried(&self, facts: &Facts) -> Option<bool> {
        if let Some(sites) = self.sites.as_ref().filter(|_| facts.site != SiteId::NONE) {
            return Some(sites.contains(&facts.site));
        }
        is_counted(self.field).then(|| self.fits(facts))
    }
}

impl Op {
    fn holds(self, value: i64, span: Span) -> bool {
        match self {
            Op::Is => (span.first..=span.last).contains(&value),
            Op::Below => value < span.first,
            Op::AtMost => value <= span.last,
            Op::Above => value > span.last,
            Op::AtLeast => value >= span.first,
        }
    }
}

/// Whether a field is among the numbers of a request of a client: what is known before texts are made.
fn is_counted(field: Field) -> bool {
    matches!(
        field,
        Field::Status
            | Field::Outcome
            | Field::Detail
            | Field::Stored
            | Field::TtlSource
            | Field::NotStored
            | Field::Collapsed
            | Field::TtlLeft
            | Field::BodyBytes
            | Field::FirstByte
            | Field::Total
            | Field::Completion
            | Field::Session
    )
}

impl Values for Facts {
    fn number(&self, field: Field) -> Option<i64> {
        Some(match field {
            Field::Status => i64::from(self.status),
            Field::BodyBytes => whole(self.body_bytes),
            Field::FirstByte => microseconds(self.first_byte?),
            Field::Total => microseconds(self.total),
            Field::TtlLeft => self.ttl_left_s?.saturating_mul(1_000_000),
            Field::Stored => match self.storing {
                Storing::Stored { ttl_s, .. } => whole(ttl_s).saturating_mul(1_000_000),
                Storing::NotAsked | Storing::NotStored(_) => return None,
            },
            _ => return None,
        })
    }

    fn is_so(&self, field: Field) -> bool {
        field == Field::Collapsed && self.sharing == Sharing::Joined
    }

    fn text(&self, field: Field) -> Cow<'_, str> {
        Cow::Borrowed(match (field, self.storing) {
            (Field::Outcome, _) => self.outcome.word(),
            (Field::Detail, _) => self.detail,
            (Field::Completion, _) => self.completion.word(),
            (Field::Session, _) => self.session,
            (Field::TtlSource, Storing::Stored { source, .. }) => source,
            (Field::NotStored, Storing::NotStored(word)) => word,
            _ => "",
        })
    }
}

impl Values for Record {
    fn number(&self, field: Field) -> Option<i64> {
        self.facts.number(field)
    }

    fn is_so(&self, field: Field) -> bool {
        match field {
            Field::TlsResumed => self.description.tls.as_ref().is_some_and(|tls| tls.is_resumed),
            _ => self.facts.is_so(field),
        }
    }

    fn text(&self, field: Field) -> Cow<'_, str> {
        let texts = &self.description;
        let tls = texts.tls.as_ref();
        Cow::Borrowed(match field {
            Field::Client => &texts.client,
            Field::Method => texts.method.as_ref().map_or("", |method| method.as_str()),
            Field::Scheme => texts.scheme,
            Field::Host => &texts.host,
            Field::Target => &texts.target,
            Field::Version => texts.version,
            Field::TlsVersion => tls.map_or("", |tls| tls.version),
            Field::TlsGroup => tls.map_or("", |tls| tls.group),
            Field::TlsName => tls.map_or("", |tls| &tls.name),
            Field::TlsClient => tls.map_or("", |tls| &tls.client),
            Field::Site => &texts.site,
            Field::Route => &texts.route,
            Field::Upstream => texts.upstream.as_deref().unwrap_or_default(),
            Field::Origin => texts.origin.as_deref().unwrap_or_default(),
            Field::Pick => &texts.pick,
            Field::RequestId => &texts.request_id,
            Field::Referer => texts.referer.as_deref().unwrap_or_default(),
            Field::UserAgent => texts.user_agent.as_deref().unwrap_or_default(),
            // Several in one line; a pattern finds one of them.
            Field::Asked => {
                let ids: Vec<String> = texts.asked.iter().map(ToString::to_string).collect();
                return Cow::Owned(ids.join(" "));
            }
            _ => return self.facts.text(field),
        })
    }
}

impl Values for Asked {
    fn number(&self, field: Field) -> Option<i64> {
        Some(match field {
            Field::Status => i64::from(self.status?),
            Field::Attempt => i64::from(self.attempt),
            Field::SentBytes => whole(self.sent_bytes),
            Field::ReceivedBytes => whole(self.received_bytes),
            Field::Connect => microseconds(self.connect?),
            Field::FirstByte => microseconds(self.first_byte?),
            Field::Total => microseconds(self.total),
            _ => return None,
        })
    }

    fn is_so(&self, _: Field) -> bool {
        false
    }

    fn text(&self, field: Field) -> Cow<'_, str> {
        let key = self.object.as_ref().map_or("", |object| &object.key);
        let (url, parts) = key.split_once('\n').unwrap_or((key, ""));
        let volume = || self.object.as_ref().and_then(|object| object.volume.as_deref());
        Cow::Borrowed(match field {
            Field::Purpose => self.purpose.word(),
            Field::Asked => return Cow::Owned(self.id.to_string()),
            Field::Retry => self.retry,
            Field::RequestId => &self.request_id,
            Field::Site => &self.site,
            Field::Method => &self.method,
            Field::Host => &self.host,
            Field::Target => &self.target,
            Field::Upstream => &self.upstream,
            Field::Origin => &self.origin,
            Field::Pick => &self.pick,
            Field::Address => &self.address,
            Field::OriginHost => &self.origin_host,
            Field::Range => &self.range,
            Field::ContentType => &self.content_type,
            Field::Key => url,
            Field::KeyFields => parts,
            Field::Volume => volume().unwrap_or_default(),
            Field::Connection => self.connection,
            Field::Completion => self.end.word(),
            Field::Error => self.end.error(),
            _ => "",
        })
    }
}

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn microseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
