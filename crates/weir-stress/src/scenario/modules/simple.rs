//! `simple`: a list of URLs, each with what its response must be: status, length, digest, fields,
//! `Cache-Status` (RFC 9211).

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::body::{Body, Content};
use crate::head::Head;
use crate::plan::StressError;
use crate::scenario::client::{Ask, Failure, Response, failure};
use crate::scenario::module::{Module, check_time, check_users};
use crate::scenario::stage::{Measured, Stage, judge_bytes};
use crate::tally::Fault;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Simple {
    urls: Vec<Wanted>,
    #[serde(default = "one")]
    times: u64,
    #[serde(default = "one_user")]
    users: usize,
    #[serde(default = "thirty")]
    timeout: f64,
}

/// A URL, and what its response must be.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    path: String,
    #[serde(default)]
    method: Method,
    #[serde(default = "ok")]
    status: u16,
    #[serde(default)]
    bytes: Option<u64>,
    #[serde(default)]
    sha256: Option<String>,
    /// What `Cache-Status` must say: `hit`, or `fwd=miss` and the like.
    #[serde(default)]
    cache_status: Option<String>,
    /// Fields, each with what its value must contain.
    #[serde(default)]
    fields: BTreeMap<String, String>,
    /// Fields of the request.
    #[serde(default)]
    ask: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Method {
    #[default]
    Get,
    Head,
    Options,
    Delete,
    Purge,
}

fn one() -> u64 {
    1
}

fn one_user() -> usize {
    1
}

fn ok() -> u16 {
    200
}

fn thirty() -> f64 {
    30.0
}

impl Method {
    fn word(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Options => "OPTIONS",
            Self::Delete => "DELETE",
            Self::Purge => "PURGE",
        }
    }
}

impl Module for Simple {
    fn check(&self) -> Result<(), String> {
        check_users(self.users)?;
        check_time("timeout", self.timeout)?;
        if self.urls.is_empty() || self.times == 0 {
            return Err("`urls` has at least one, and `times` is at least 1".to_owned());
        }
        for wanted in &self.urls {
            if !wanted.path.starts_with('/') {
                return Err(format!("`{}` is no path; it begins with /", wanted.path));
            }
            let is_digest = |text: &String| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
            if wanted.sha256.as_ref().is_some_and(|text| !is_digest(text)) {
                return Err(format!("`sha256` of {} has 64 hexadecimal digits", wanted.path));
            }
        }
        Ok(())
    }

    fn run(&self, stage: &Stage) -> Result<Measured, StressError> {
        let mut measured = stage.measure(self.users, |_, sheet| {
            let (stage, urls, times) = (stage.clone(), self.urls.clone(), self.times);
            let timeout = self.timeout;
            async move {
                let mut client = stage.client(timeout);
                for _ in 0..times {
                    for wanted in &urls {
                        if stage.is_stopped() {
                            return;
                        }
                        let got = client.ask(&wanted.ask(), wanted.expect(&stage)).await;
                        let mut sheet = sheet.borrow_mut();
                        let judged = got.and_then(|response| {
                            sheet.response(&response);
                            wanted.judge(&response)
                        });
                        if let Err(failure) = judged {
                            sheet.fault(&failure);
                        }
                    }
                }
            }
        })?;
        let is_content = |wanted: &&Wanted| {
            wanted.sha256.is_none() && wanted.status == 200 && matches!(wanted.method, Method::Get)
        };
        let uncompared = self.urls.iter().filter(is_content);
        uncompared.for_each(|wanted| stage.note_uncompared(&wanted.path, &mut measured));
        Ok(measured)
    }
}

impl Wanted {
    fn ask(&self) -> Ask {
        let fields = self.ask.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        Ask { method: self.method.word(), path: self.path.clone(), fields }
    }

    fn expect(&self, stage: &Stage) -> impl Fn(&Head, &[(String, String)]) -> Body + use<> {
        let (seeded, by_digest) = (stage.expect(&self.path), self.sha256.is_some());
        move |head: &Head, fields: &[(String, String)]| match by_digest {
            true => Body::new(head.framing, 0, Content::Digest),
            false => seeded(head, fields),
        }
    }

    fn judge(&self, response: &Response) -> Result<(), Failure> {
        let path = &self.path;
        if response.status != self.status {
            return Err(failure(
                Fault::Status,
                format!("{} instead of {} for {path}", response.status, self.status),
            ));
        }
        judge_bytes(path, response)?;
        let is_whole = matches!(self.method, Method::Get) && response.range.is_none();
        let bytes = self.bytes.or(response.body.expected_bytes.filter(|_| is_whole));
        if let Some(bytes) = bytes.filter(|bytes| *bytes != response.body.received) {
            let received = response.body.received;
            return Err(failure(Fault::Length, format!("{received} bytes instead of {bytes} for {path}")));
        }
        if let Some(wanted) = &self.sha256 {
            let got = response.body.sha256().unwrap_or_default();
            if !got.eq_ignore_ascii_case(wanted) {
                return Err(failure(Fault::Content, format!("{path} has the SHA-256 {got}")));
            }
        }
        self.judge_fields(response)
    }

    fn judge_fields(&self, response: &Response) -> Result<(), Failure> {
        let wanted = self.fields.iter().map(|(name, value)| (name.to_ascii_lowercase(), value));
        let status = self.cache_status.iter().map(|value| ("cache-status".to_owned(), value));
        for (name, value) in wanted.chain(status) {
            let said = response.field(&name);
            if !said.is_some_and(|said| said.contains(value.as_str())) {
                let said = said.map_or("absent".to_owned(), |said| format!("`{said}`"));
                let what = format!("{name} of {} is {said}; `{value}` was expected in it", self.path);
                return Err(failure(Fault::Field, what));
            }
        }
        Ok(())
    }
}
