//! Compares what a cache serves by these rules with what its origin sends, over random variants, tags, 304s
//! and requests.

use super::given::{EPOCH_S, at, fields, request};
use crate::{
    CacheRules, ResponseView, Stored, accept_encoding, conditional, freshen, freshness, matches, storable,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use proptest::prelude::*;
use std::time::{Duration, SystemTime};

const LIFETIME_S: u64 = 4;
const TAKEN: [&str; 10] = [
    "",
    "gzip",
    "br",
    "gzip, br",
    "gzip, br, zstd",
    "br, gzip;q=0.5",
    "gzip, br;q=0.5",
    "*",
    "gzip;q=0",
    "gzip, identity;q=0",
];
const OWN: [&str; 3] = ["", "shop", "evil"];

/// How an origin names the version of a response.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Tags {
    /// A strong tag for each coding.
    Strong,
    /// As nginx: a weak tag for coded responses, and 304s with the strong tag of the plain one.
    Weak,
    /// One strong tag, whatever was negotiated.
    Shared,
    /// No tag, but a date. A 304 to any date that is not older, as Apache and Node give it.
    Dated,
}

/// What an origin answers where it has nothing: with a tag and a date of its page for that.
const MISSING: [u16; 5] = [404, 410, 301, 302, 300];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Says {
    Vary,
    Nothing,
}

#[derive(Clone, Debug)]
struct Origin {
    tags: Tags,
    /// The codings that it has, the preferred first.
    codings: Vec<&'static str>,
    /// Whether it follows the client's preference.
    asks: bool,
    /// Whether it codes for clients that did not ask for it.
    always: bool,
    says: Says,
    varies_on_own: bool,
    /// Which versions are there; of the others it says this status.
    missing: u16,
    gone: Vec<bool>,
}

/// A body, by what it is made of.
#[derive(Clone, Debug, PartialEq)]
struct Body {
    version: u64,
    status: u16,
    coding: &'static str,
    own: String,
}

/// The weight of a coding in a field of the tests, in tenths. Identity has 1 by default.
fn weight(taken: &str, coding: &str) -> u32 {
    let of = |name: &str| {
        taken.split(", ").find_map(|member| {
            let (named, weight) = member.split_once(";q=").unwrap_or((member, "1"));
            (named == name).then(|| (weight.parse::<f32>().unwrap() * 10.0) as u32)
        })
    };
    of(coding).or_else(|| of("*")).unwrap_or(u32::from(coding == "identity"))
}

impl Origin {
    fn body(&self, taken: &str, own: &str, version: u64) -> Body {
        let mut codings = self.codings.clone();
        if !self.always {
            codings.retain(|coding| weight(taken, coding) > 0);
        }
        if self.asks {
            codings.sort_by_key(|coding| std::cmp::Reverse(weight(taken, coding)));
        }
        let own = if self.varies_on_own { own.to_owned() } else { String::new() };
        let coding = codings.first().copied().unwrap_or("identity");
        let is_gone = self.gone.get(version as usize).copied().unwrap_or_default();
        Body { version, status: if is_gone { self.missing } else { 200 }, coding, own }
    }

    fn tag(&self, body: &Body) -> Option<String> {
        let Body { version, coding, status, .. } = body;
        let version = if *status == 200 { version.to_string() } else { "missing".to_owned() };
        match self.tags {
            Tags::Strong => Some(format!("\"{version}-{coding}\"")),
            Tags::Weak if *coding != "identity" => Some(format!("W/\"{version}\"")),
            Tags::Weak | Tags::Shared => Some(format!("\"{version}\"")),
            Tags::Dated => None,
        }
    }

    /// Answers a request with these fields.
    fn answer(&self, asked: &HeaderMap, version: u64) -> (StatusCode, HeaderMap, Body) {
        let text = |name: &str| asked.get(name).map_or("", |value| value.to_str().unwrap());
        let body = self.body(text("accept-encoding"), text("x-own"), version);
        // The page for what is missing is newer than any file.
        let is_there = body.status == 200;
        let before_s = if is_there { 100_000 - version } else { 50_000 };
        let date = SystemTime::UNIX_EPOCH + Duration::from_secs(EPOCH_S - before_s);
        let mut said = fields(&format!("cache-control: max-age={LIFETIME_S}\nx-for: {}", body.own));
        let mut put = |name, value: &str| {
            said.append(name, HeaderValue::from_str(value).unwrap());
        };
        put(header::LAST_MODIFIED, &httpdate::fmt_http_date(date));
        let tag = self.tag(&body);
        let plain = |tag: &str| tag.trim_start_matches("W/").to_owned();
        let is_same = match (&tag, asked.get(header::IF_NONE_MATCH)) {
            (Some(tag), Some(list)) => list.to_str().unwrap().split(", ").any(|one| plain(one) == plain(tag)),
            (_, Some(_)) => false,
            (_, None) => asked
                .get(header::IF_MODIFIED_SINCE)
                .is_some_and(|since| httpdate::parse_http_date(since.to_str().unwrap()).unwrap() >= date),
        };
        // Conditions are for what is there (RFC 9110 §13.2.1).
        let is_same = is_same && is_there;
        if let Some(tag) = &tag {
            put(header::ETAG, &if is_same && self.tags == Tags::Weak { plain(tag) } else { tag.clone() });
        }
        if self.says == Says::Vary {
            put(header::VARY, "Accept-Encoding");
        }
        if self.varies_on_own {
            put(header::VARY, "X-Own");
        }
        if body.coding != "identity" && !is_same {
            put(header::CONTENT_ENCODING, body.coding);
        }
        let status = if is_same { 304 } else { body.status };
        (StatusCode::from_u16(status).unwrap(), said, body)
    }
}

/// A cache of one key by the rules of this crate. The newest response is last.
#[derive(Default)]
struct Cache(Vec<(Stored, Body)>);

enum How {
    Hit,
    Asked,
}

impl Cache {
    fn serve(
        &mut self,
        origin: &Origin,
        asked: &HeaderMap,
        now_s: u64,
        version: u64,
    ) -> (HeaderMap, Body, How) {
        let now = at(now_s);
        let again = asked.contains_key(header::CACHE_CONTROL);
        let found = self.0.iter().rposition(|(stored, _)| matches(&stored.variant, asked));
        let held = found.map(|place| &self.0[place]);
        if let Some((stored, body)) = held.filter(|(stored, _)| !again && freshness(stored, now).is_fresh()) {
            return (stored.headers.clone(), body.clone(), How::Hit);
        }
        let mut sent = asked.clone();
        sent.remove(header::ACCEPT_ENCODING);
        sent.extend(accept_encoding(asked).map(|value| (header::ACCEPT_ENCODING, value)));
        conditional(held.map(|(stored, _)| stored), &mut sent);
        let (status, said, body) = origin.answer(&sent, version);
        let rules = CacheRules::default();
        if status == StatusCode::NOT_MODIFIED {
            let (stored, body) = &mut self.0[found.expect("nothing was asked about")];
            *stored = freshen(asked, stored, &ResponseView::new(status, &said, now, now), &rules);
            return (stored.headers.clone(), body.clone(), How::Asked);
        }
        let view = request(&Method::GET, "/a", asked);
        let judged = storable(&view, &ResponseView::new(status, &said, now, now), &rules);
        let mut storable = judged.expect("it may be stored");
        if self.0.iter().any(|(stored, _)| stored.variant.varies_on_codings()) {
            storable = storable.beside_codings(asked);
        }
        let stored = storable.into_stored();
        self.0.retain(|(older, _)| !stored.variant.covers(&older.variant));
        let headers = stored.headers.clone();
        self.0.push((stored, body.clone()));
        (headers, body, How::Asked)
    }
}

fn origins() -> impl Strategy<Value = Origin> {
    let tags = prop_oneof![Just(Tags::Strong), Just(Tags::Weak), Just(Tags::Shared), Just(Tags::Dated)];
    let codings = Just(vec!["gzip", "br", "zstd"]).prop_shuffle();
    let missing = (prop::sample::select(MISSING.to_vec()), prop::collection::vec(any::<bool>(), 0..4));
    (tags, codings, 0..=3_usize, any::<[bool; 3]>(), 0..4, missing).prop_map(
        |(tags, mut codings, count, [asks, says, varies_on_own], always, (missing, gone))| {
            codings.truncate(count);
            // An origin that codes alike for every client has no reason to vary.
            let always = always == 0;
            let says = if says && !always { Says::Vary } else { Says::Nothing };
            Origin { tags, codings, asks, always, says, varies_on_own, missing, gone }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    /// The cache serves what the origin sends to this request, or sent within its lifetime. The coding is one
    /// that this client accepts or that the origin itself would choose for it. The fields are those of a
    /// response to this request.
    #[test]
    fn what_is_served_is_what_the_origin_gives(
        origin in origins(),
        steps in proptest::collection::vec((0..TAKEN.len(), 0..OWN.len(), 0..4_u8, 0..3_u64, 0..4_u8), 1..40),
    ) {
        let mut cache = Cache::default();
        let mut now_s = 0;
        let mut versions = vec![(0, 0)];
        for (taken, own, again, pause_s, changes) in steps {
            now_s += pause_s;
            if changes == 0 {
                versions.push((now_s, versions.len() as u64));
            }
            let version = versions[versions.len() - 1].1;
            let mut lines = String::new();
            for (name, value) in [("accept-encoding", TAKEN[taken]), ("x-own", OWN[own])] {
                if !value.is_empty() {
                    lines.push_str(&format!("{name}: {value}\n"));
                }
            }
            let plain = fields(&lines);
            let mut asked = plain.clone();
            if again == 0 {
                asked.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
            }
            let (said, body, _) = cache.serve(&origin, &asked, now_s, version);
            let normal = accept_encoding(&asked);
            let normal = normal.as_ref().map_or("", |value| value.to_str().unwrap());
            let own = if origin.varies_on_own { OWN[own] } else { "" };
            let right = origin.body(normal, own, version);
            let text = |name: &str| said.get(name).map_or("", |value| value.to_str().unwrap());
            prop_assert_eq!((&*body.own, text("x-for")), (own, own), "{:?}", asked);
            let coding = if body.coding == "identity" { "" } else { body.coding };
            prop_assert_eq!(text("content-encoding"), coding);
            // A client that refuses identity may get it all the same, since most content has no other form.
            let is_taken = body.coding == "identity" || weight(TAKEN[taken], body.coding) > 0;
            let is_right = is_taken || body.coding == right.coding;
            prop_assert!(is_right, "{:?} for {:?}, not {:?}", body, asked, right);
            // It was the newest version at some moment of the lifetime.
            let ended_s = versions.iter().find(|(_, number)| *number == body.version + 1).map(|(at, _)| *at);
            let was_newest = ended_s.is_none_or(|ended_s| ended_s + LIFETIME_S > now_s);
            prop_assert!(was_newest, "{:?} at {}", body, now_s);
            let (_, again, how) = cache.serve(&origin, &plain, now_s, version);
            prop_assert!(matches!(how, How::Hit), "{:?}", asked);
            prop_assert_eq!(again, body);
        }
    }
}
