//! Requests and orders from a small world, so that they often meet.

use std::fmt;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) scheme: &'static str,
    pub(super) authority: &'static str,
    pub(super) target: String,
    pub(super) lang: Option<&'static str>,
    pub(super) tenant: Option<&'static str>,
    pub(super) cookie: Option<&'static str>,
    pub(super) client: &'static str,
}

const SCHEMES: [&str; 2] = ["http", "https"];
const AUTHORITIES: [&str; 4] = ["a.test", "b.test", "c.test", "a.test:8080"];
const PATHS: [&str; 12] = [
    "/docs/a",
    "/docs/a/x",
    "/docs/b",
    "/docs/",
    "/docs//a",
    "/%64ocs/a",
    "/img/a",
    "/img",
    "/en/docs/a",
    "/en/docs/b",
    "/old/a",
    "/",
];
const QUERIES: [&str; 8] =
    ["", "?", "?page=2", "?page=22", "?page=2&cat=7", "?cat=7&page=2", "?utm_a=1&page=2", "?utm_a=1"];
const LANGS: [Option<&str>; 5] = [None, Some("en"), Some("de"), Some("dk"), Some("x7")];
const TENANTS: [Option<&str>; 3] = [None, Some("t1"), Some("docs")];
const COOKIES: [Option<&str>; 2] = [None, Some("shop=s1")];
const CLIENTS: [&str; 2] = ["192.0.2.1", "203.0.113.1"];

/// What an order names.
#[derive(Clone, Debug)]
pub(super) enum Words {
    Url(String),
    Prefix(String),
    /// The site of a host.
    Site(String),
    Post(Asked),
}

fn one<T: Copy>(random: &mut fastrand::Rng, of: &[T]) -> T {
    of[random.usize(..of.len())]
}

/// Requests that have much in common.
pub(super) fn some(random: &mut fastrand::Rng, count: usize) -> Vec<Asked> {
    let mut all: Vec<Asked> = Vec::with_capacity(count);
    while all.len() < count {
        let mut asked = Asked {
            scheme: one(random, &SCHEMES),
            authority: one(random, &AUTHORITIES),
            target: format!("{}{}", one(random, &PATHS), one(random, &QUERIES)),
            lang: one(random, &LANGS),
            tenant: one(random, &TENANTS),
            cookie: one(random, &COOKIES),
            client: one(random, &CLIENTS),
        };
        // Half of them differ from another one in one thing alone.
        if random.bool() && !all.is_empty() {
            let like = all[random.usize(..all.len())].clone();
            asked = match random.u8(..7) {
                0 => Asked { scheme: asked.scheme, ..like },
                1 => Asked { authority: asked.authority, ..like },
                2 => Asked { target: asked.target, ..like },
                3 => Asked { lang: asked.lang, ..like },
                4 => Asked { tenant: asked.tenant, ..like },
                5 => Asked { cookie: asked.cookie, ..like },
                _ => Asked { client: asked.client, ..like },
            };
        }
        if !all.contains(&asked) {
            all.push(asked);
        }
    }
    all
}

/// The same request for other URLs that words may name.
pub(super) fn universe<'a>(asked: &'a Asked, words: &'a Words) -> impl Iterator<Item = Asked> + 'a {
    let own = match words {
        Words::Url(text) | Words::Prefix(text) => Some(text),
        _ => None,
    };
    // The path and query of the words themselves, and what may follow them.
    let own = own.and_then(|text| {
        let rest = text.split_once("://").map_or(text.as_str(), |(_, rest)| rest);
        rest.find('/').map(|at| rest[at..].to_owned())
    });
    let post = match words {
        Words::Post(post) => Some(post.target.clone()),
        _ => None,
    };
    let written = own.into_iter().flat_map(|own| {
        let after = ["", "a", "docs/a", "page=2", "page=22", "cat=7", "cat=7&page=2", "page=2&cat=7"];
        let joined = after.map(|after| format!("&{after}"));
        after
            .iter()
            .map(ToString::to_string)
            .chain(joined)
            .map(move |after| format!("{own}{after}"))
            .collect::<Vec<_>>()
    });
    let listed = PATHS.iter().flat_map(|path| QUERIES.map(|query| format!("{path}{query}")));
    let targets: Vec<String> = written.chain(post).chain(listed).collect();
    targets.into_iter().map(|target| Asked { target, ..asked.clone() })
}

impl Asked {
    pub(super) fn url(&self) -> String {
        format!("{}://{}{}", self.scheme, self.authority, self.target)
    }

    pub(super) fn host(&self) -> &str {
        self.authority.split(':').next().unwrap()
    }

    pub(super) fn fields(&self) -> Vec<(&'static str, &'static str)> {
        let fields = [("X-Lang", self.lang), ("X-Tenant", self.tenant), ("Cookie", self.cookie)];
        fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    pub(super) fn message(&self, method: &str) -> String {
        let mut fields = self.fields();
        fields.extend([("X-Forwarded-Proto", self.scheme), ("X-Forwarded-For", self.client)]);
        if method == "POST" {
            fields.push(("Content-Length", "0"));
        }
        crate::kit::message(method, self.authority, &self.target, &fields)
    }

    /// Whether both have what no map chooses by.
    pub(super) fn is_like(&self, other: &Asked) -> bool {
        (self.tenant, self.cookie) == (other.tenant, other.cookie)
    }
}

impl Words {
    pub(super) fn any(random: &mut fastrand::Rng, of: &[Asked]) -> Words {
        let asked = of[random.usize(..of.len())].clone();
        let mut text = asked.url();
        if random.bool() {
            text = text.split_once("://").unwrap().1.to_owned();
        }
        match random.u8(..8) {
            0..3 => Words::Url(text),
            3..6 => {
                // It begins with a whole host.
                let least = text.rfind(asked.authority).unwrap() + asked.authority.len();
                text.truncate(random.usize(least..=text.len()));
                Words::Prefix(text)
            }
            6 => Words::Post(asked),
            _ => Words::Site(asked.host().to_owned()),
        }
    }

    /// How a client asks for it, where it can: of both schemes.
    pub(super) fn by_client(&self) -> Option<String> {
        let (text, is_prefix) = self.text().filter(|(text, _)| !text.contains("://"))?;
        let (authority, target) = text.split_at(text.find('/')?);
        let is_plain = target.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'/');
        match is_prefix {
            true if is_plain && target.len() > 1 => Some(crate::kit::message("BAN", authority, target, &[])),
            true => None,
            false => Some(crate::kit::message("PURGE", authority, target, &[])),
        }
    }

    /// What is written, and whether it is a prefix.
    pub(super) fn text(&self) -> Option<(String, bool)> {
        match self {
            Words::Url(text) => Some((text.clone(), false)),
            Words::Prefix(text) => Some((text.clone(), true)),
            _ => None,
        }
    }

    /// Whether a URL is meant.
    pub(super) fn names(&self, url: &str) -> bool {
        match self {
            Words::Post(asked) => asked.url() == url,
            Words::Site(_) => false,
            Words::Url(_) | Words::Prefix(_) => self.is_text_of(url),
        }
    }

    /// Whether a URL, of clients or of keys, is what is written, or begins so.
    pub(super) fn is_text_of(&self, url: &str) -> bool {
        let Some((text, is_prefix)) = self.text() else { return false };
        let (scheme, bare) = match text.split_once("://") {
            Some((scheme, bare)) => (Some(scheme), bare),
            None => (None, text.as_str()),
        };
        let (authority, rest) = bare.split_at(bare.find('/').unwrap_or(bare.len()));
        let rest = if rest.is_empty() { "/" } else { rest };
        let url_of = |scheme: &str| format!("{scheme}://{authority}{rest}");
        let line = url.split('\n').next().unwrap_or_default();
        let is_it = |begin: String| if is_prefix { line.starts_with(&begin) } else { line == begin };
        SCHEMES.iter().filter(|one| scheme.is_none_or(|scheme| scheme == **one)).any(|one| is_it(url_of(one)))
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Asked { lang, tenant, cookie, client, .. } = self;
        write!(out, "{} {lang:?} {tenant:?} {cookie:?} {client}", self.url())
    }
}

impl fmt::Display for Words {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Words::Url(text) => write!(out, "purge {text}"),
            Words::Prefix(text) => write!(out, "purge --prefix {text}"),
            Words::Site(host) => write!(out, "purge --site, that of {host}"),
            Words::Post(asked) => write!(out, "POST {asked}"),
        }
    }
}
