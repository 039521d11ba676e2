//! The arguments, checked and prepared: all that does not change during a load.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::args::{Pick, StressArgs};
use crate::body::{Body, Content};
use crate::clock;
use crate::head::Framing;
use crate::recorder::Recorder;
use crate::scenario::catalogue::Catalogue;
use crate::scenario::settings::is_time;
use crate::secure::Tls;
use crate::target::{Reach, Scheme, Target};

/// The most connections of a load. More would test the machine rather than the server.
const USERS_MAX: usize = 100_000;
/// The most requests at a time on a connection. Servers rarely allow more.
const STREAMS_MAX: usize = 1000;
/// How long a load lasts by default, in seconds.
const SECONDS_DEFAULT: f64 = 5.0;

/// Why a load could not begin, or was given up.
#[derive(Debug, thiserror::Error)]
pub enum StressError {
    /// The URL cannot be loaded.
    #[error("`{0}` is no target; write http(s)://127.0.0.1:8080/path, `{{}}` for the object's number")]
    Url(String),
    /// The host has no address.
    #[error("cannot find the address of `{host}`: {source}")]
    Resolve {
        /// As written.
        host: String,
        /// What the resolver said.
        #[source]
        source: io::Error,
    },
    /// The target is another machine, and the caller does not claim it.
    #[error(
        "`{0}` is not this machine; loading other people's servers is an attack: if it is yours, add \
        --i-own-this-host"
    )]
    Foreign(String),
    /// A header without the form of one.
    #[error("`{0}` is no header; write 'Name: value'")]
    Header(String),
    /// It was told to end before it had.
    #[error("it was told to end; what was measured until then is in the report")]
    Interrupted,
    /// Arguments that contradict each other.
    #[error("{0}")]
    Arguments(&'static str),
    /// TLS cannot be prepared.
    #[error("TLS: {0}")]
    Tls(String),
    /// No sockets, or no epoll.
    #[error("{act}: {source}")]
    System {
        /// What was tried.
        act: &'static str,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The scenario's file cannot be used.
    #[error("{file}: {what}")]
    File {
        /// The file.
        file: String,
        /// What is wrong with it, and what to write instead.
        what: String,
    },
    /// A scenario cannot go on.
    #[error("{0}")]
    Scenario(String),
    /// All requests failed.
    #[error("given up after {faults} faults in a row: {first}")]
    Hopeless {
        /// How many.
        faults: u64,
        /// The first one.
        first: String,
    },
}

/// A load, ready to run.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) target: Target,
    /// The request's head behind the path, without the final empty line.
    pub(crate) fields: Vec<u8>,
    /// The host that is asked for.
    pub(crate) authority: String,
    /// The given headers but for Host, for HTTP/2.
    pub(crate) headers: http::HeaderMap,
    pub(crate) tls: Option<Tls>,
    pub(crate) protocol: Protocol,
    pub(crate) connections: Connections,
    pub(crate) users: usize,
    pub(crate) status: u16,
    pub(crate) length: Option<u64>,
    pub(crate) content: Content,
    /// The whole object's length, if random ranges of it are requested.
    pub(crate) ranges_of: Option<u64>,
    pub(crate) requests_max: Option<u64>,
    pub(crate) time_ns: Option<u64>,
    /// The time from one request's begin to the next one's, where they are spaced.
    pub(crate) gap_ns: Option<u64>,
    pub(crate) timeout_ns: u64,
    pub(crate) pick: Pick,
    pub(crate) first: u64,
    pub(crate) objects: u64,
    pub(crate) wonders: f64,
    pub(crate) seed: u64,
    /// What bodies must be by their paths, where the scenario's own origin made them.
    pub(crate) catalogue: Option<Arc<Catalogue>>,
    /// Who else is told what happens.
    pub(crate) recorder: Option<Arc<Recorder>>,
    /// Ends the load early.
    pub(crate) stop: Option<Arc<AtomicBool>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Connections {
    Kept,
    NewEach,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    /// With this many streams at a time on each connection.
    Http2 {
        streams: usize,
    },
}

impl Plan {
    /// Requests at a time on one connection.
    pub(crate) fn streams(&self) -> usize {
        match self.protocol {
            Protocol::Http1 => 1,
            Protocol::Http2 { streams } => streams,
        }
    }

    /// The body of the response to a request for `path` that begins now, at `begin` of the object. Its head
    /// says this version, or none.
    pub(crate) fn body(&self, path: &[u8], framing: Framing, begin: u64, version: Option<u64>) -> Body {
        let catalogue = self.catalogue.as_ref();
        match catalogue.and_then(|catalogue| catalogue.expected(path, version.unwrap_or(0))) {
            Some(expected) => Body::expecting(framing, begin, expected, self.content),
            None => Body::new(framing, begin, self.content),
        }
    }

    pub(crate) fn new(args: &StressArgs, url: &str) -> Result<Self, StressError> {
        let reach = if args.i_own_this_host { Reach::Anywhere } else { Reach::Loopback };
        let target = Target::new(url, reach)?;
        check(args, &target)?;
        let connections = if args.new_connections { Connections::NewEach } else { Connections::Kept };
        let protocol = if args.http2 { Protocol::Http2 { streams: args.streams } } else { Protocol::Http1 };
        let authority = authority(&target, &args.headers);
        let tls = match target.scheme {
            Scheme::Http => None,
            Scheme::Https => Some(Tls::new(args, &authority)?),
        };
        let seconds = args.seconds.or_else(|| args.requests.is_none().then_some(SECONDS_DEFAULT));
        Ok(Self {
            fields: fields(&authority, &args.headers, connections)?,
            headers: headers(&args.headers)?,
            authority,
            tls,
            protocol,
            target,
            connections,
            users: args.users,
            status: args.status.unwrap_or(if args.ranges { 206 } else { 200 }),
            length: args.length.filter(|_| !args.ranges),
            content: content(args),
            ranges_of: args.length.filter(|_| args.ranges),
            requests_max: args.requests,
            time_ns: seconds.map(clock::nanoseconds),
            gap_ns: args.rate.map(|rate| (1e9 / rate) as u64),
            timeout_ns: clock::nanoseconds(args.timeout),
            pick: args.pick,
            first: args.first,
            objects: args.objects,
            wonders: args.wonders,
            seed: args.seed,
            catalogue: None,
            recorder: None,
            stop: None,
        })
    }
}

fn check(args: &StressArgs, target: &Target) -> Result<(), StressError> {
    let refuse = |why| Err(StressError::Arguments(why));
    if args.users == 0 || args.users > USERS_MAX {
        return refuse("--users must be 1 to 100000");
    }
    if args.streams == 0 || args.streams > STREAMS_MAX || (args.streams > 1 && !args.http2) {
        return refuse("--streams must be 1 to 1000, and above 1 needs --http2");
    }
    if args.streams * args.users > USERS_MAX {
        return refuse("--users times --streams must be at most 100000");
    }
    if args.streams > 1 && args.new_connections {
        return refuse("--streams and --new-connections exclude each other");
    }
    let of_tls = args.insecure || args.resume || args.ca.is_some() || args.group.is_some();
    if target.scheme == Scheme::Http && of_tls {
        return refuse("--ca, --insecure, --resume and --group need an https:// target");
    }
    if args.resume && !args.new_connections {
        return refuse("--resume needs --new-connections");
    }
    if args.objects == 0 || args.first.checked_add(args.objects).is_none() {
        return refuse("--objects must be at least 1");
    }
    if target.after.is_none() && (args.objects > 1 || args.wonders > 0.0) {
        return refuse("several objects need a `{}` in the URL's path where their number goes");
    }
    if !(0.0..=1.0).contains(&args.wonders) {
        return refuse("--wonders is a share from 0 to 1");
    }
    if args.ranges && args.length.is_none_or(|length| length == 0) {
        return refuse("--ranges needs the object's --length");
    }
    if usize::from(args.discard) + usize::from(args.same) + usize::from(args.offsets || args.ranges) > 1 {
        return refuse("--discard, --same and --offsets (or --ranges) exclude each other");
    }
    let is_number = |number: f64| number.is_finite() && number > 0.0;
    if !args.seconds.is_none_or(is_time) || !is_time(args.timeout) {
        return refuse("seconds must be a number above 0, up to a week");
    }
    if args.rate.is_some_and(|rate| !is_number(rate)) {
        return refuse("--rate must be a number above 0");
    }
    if args.requests == Some(0) || args.rounds == 0 {
        return refuse("--requests and --rounds must be at least 1");
    }
    Ok(())
}

fn content(args: &StressArgs) -> Content {
    if args.discard {
        Content::Discarded
    } else if args.same {
        Content::Same
    } else if args.offsets || args.ranges {
        Content::Offsets
    } else {
        Content::Counted
    }
}

/// The host of the given Host header, or of the URL.
fn authority(target: &Target, headers: &[String]) -> String {
    let said = headers.iter().filter_map(|line| line.split_once(':'));
    let host = said.into_iter().find(|(name, _)| name.eq_ignore_ascii_case("host"));
    host.map_or(target.host.clone(), |(_, value)| value.trim().to_owned())
}

/// The head behind the path, without the final empty line.
fn fields(authority: &str, headers: &[String], connections: Connections) -> Result<Vec<u8>, StressError> {
    let mut fields = b" HTTP/1.1\r\n".to_vec();
    if !headers.iter().any(|line| line.to_ascii_lowercase().starts_with("host:")) {
        fields.extend(format!("Host: {authority}\r\n").as_bytes());
    }
    for line in headers {
        let name = line.split(':').next().unwrap_or("");
        let is_token = !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic());
        if !line.contains(':') || !is_token || line.bytes().any(|b| b < 0x20 || b == 0x7f) {
            return Err(StressError::Header(line.clone()));
        }
        fields.extend(line.as_bytes());
        fields.extend(b"\r\n");
    }
    if connections == Connections::NewEach {
        fields.extend(b"Connection: close\r\n");
    }
    Ok(fields)
}

/// The headers in the form of HTTP/2.
fn headers(lines: &[String]) -> Result<http::HeaderMap, StressError> {
    let mut headers = http::HeaderMap::new();
    for line in lines {
        let bad = || StressError::Header(line.clone());
        let (name, value) = line.split_once(':').ok_or_else(bad)?;
        let name = http::HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
        let value = http::HeaderValue::from_str(value.trim()).map_err(|_| bad())?;
        if name != http::header::HOST {
            headers.append(name, value);
        }
    }
    Ok(headers)
}
