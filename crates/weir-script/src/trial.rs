//! Tests beside a script: `FILE.tests.toml`, run by `weir picks test` and by CI. Each test asks the script
//! once or more about a made-up request and says what it must answer. They must not depend on the time of
//! day or on chance: draws are the same each time.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use http::header::HOST;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use serde::Deserialize;
use weir_upstream::{About, Kind};

use crate::made::{MadeOrigin, MadeRequest, MadeRow, Metrics, Tried};
use crate::mistake::Source;
use crate::program::{Answer, Program, Setting};
use crate::sample::usual_origins;
use crate::state::State;

/// The most often that one test asks.
const TIMES_MAX: u32 = 100_000;

/// A file of tests.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    origin: Vec<OriginText>,
    test: Vec<Step>,
}

/// A test, or a step of one.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Step {
    name: String,
    request: Option<String>,
    fields: Option<BTreeMap<String, String>>,
    client: Option<String>,
    session: Option<String>,
    kind: Option<String>,
    site: Option<String>,
    route: Option<String>,
    settings: BTreeMap<String, toml::Value>,
    times: Option<u32>,
    after_s: u32,
    origin: Option<Vec<OriginText>>,
    expect: Option<Expected>,
    one_of: Option<Vec<String>>,
    then: Vec<Step>,
}

/// An origin as a test writes it. Any other name is that of a metric.
#[derive(Debug, Clone, Deserialize)]
struct OriginText {
    name: String,
    id: Option<String>,
    #[serde(default = "one")]
    weight: f64,
    #[serde(default)]
    backup: bool,
    #[serde(default = "yes")]
    up: bool,
    #[serde(default)]
    in_flight: u32,
    #[serde(default)]
    latency: f64,
    #[serde(default)]
    stale: BTreeMap<String, f64>,
    #[serde(flatten)]
    metrics: BTreeMap<String, f64>,
}

fn one() -> f64 {
    1.0
}

fn yes() -> bool {
    true
}

#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Expected {
    Word(String),
    Among(Vec<String>),
}

/// What came of one test.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Its name; that of a step stands behind that of its test.
    pub name: String,
    /// What was expected, and what came, where they differ.
    pub failed: Option<String>,
    /// The operations of the last call.
    pub operations: u64,
}

/// What a test says, until a step says otherwise.
#[derive(Debug, Clone)]
struct Scene {
    request: MadeRequest,
    row: MadeRow,
}

/// Runs the tests of a script.
///
/// # Errors
/// A sentence, where the tests or the script cannot be read.
pub fn tests(source: &Source, tests: &str) -> Result<Vec<Outcome>, String> {
    let file: File = toml::from_str(tests).map_err(|error| error.to_string())?;
    if file.test.is_empty() {
        return Err("it has no `[[test]]`".to_owned());
    }
    let mut outcomes = Vec::new();
    for test in &file.test {
        let settings = settings(&test.settings)?;
        let program = Program::compile(source.clone(), &settings).map_err(|mistake| mistake.to_string())?;
        let usual = if file.origin.is_empty() { usual_origins() } else { made(&file.origin) };
        let begin = Scene { request: request("GET https://www.example/")?, row: MadeRow(usual) };
        let state = State::new(crate::clock::now());
        let mut run = Run { program: &program, state, now: crate::clock::now(), outcomes: &mut outcomes };
        run.step(test, &begin, "")?;
    }
    Ok(outcomes)
}

struct Run<'r> {
    program: &'r Program,
    state: State,
    now: Instant,
    outcomes: &'r mut Vec<Outcome>,
}

impl Run<'_> {
    fn step(&mut self, step: &Step, before: &Scene, above: &str) -> Result<(), String> {
        let name = match (above.is_empty(), step.name.is_empty()) {
            (true, _) => step.name.clone(),
            (false, true) => format!("{above}, then"),
            (false, false) => format!("{above}, then {}", step.name),
        };
        let now = changed(before, step).map_err(|why| format!("in the test \"{name}\": {why}"))?;
        self.now += Duration::from_secs(step.after_s.into());
        let times = step.times.unwrap_or(1).clamp(1, TIMES_MAX);
        let mut last = None;
        for time in 0..times {
            let chance = u64::from(time);
            last = Some(now.request.ask(self.program, &now.row, &self.state, (self.now, chance)));
            // Each call of a test is as late as the one before; its time is that of the machine.
        }
        if let Some(tried) = last {
            let failed =
                judged(step, &tried, &now.row).map_err(|why| format!("in the test \"{name}\": {why}"))?;
            self.outcomes.push(Outcome { name: name.clone(), failed, operations: tried.operations });
        }
        for then in &step.then {
            self.step(then, &now, &name)?;
        }
        Ok(())
    }
}

fn judged(step: &Step, tried: &Tried, row: &MadeRow) -> Result<Option<String>, String> {
    let came = words(&tried.answer, row);
    let expected: Vec<String> = match (&step.expect, &step.one_of) {
        (Some(Expected::Word(word)), None) => vec![word.clone()],
        (Some(Expected::Among(names)), None) => {
            let mut names = names.clone();
            names.sort_unstable();
            vec![format!("one of {}", names.join(", "))]
        }
        (None, Some(one_of)) => one_of.clone(),
        (None, None) => return Err("it says neither `expect` nor `one_of`".to_owned()),
        (Some(_), Some(_)) => return Err("it says both `expect` and `one_of`".to_owned()),
    };
    if expected.contains(&came) {
        return Ok(None);
    }
    Ok(Some(format!("expected {}, but it said {came}", expected.join(" or "))))
}

/// An answer in words: a name, `one of A, B`, `deny 429 10`, `nothing`, or why it failed.
pub fn words(answer: &Result<Answer, crate::Failure>, row: &MadeRow) -> String {
    let name = |at: usize| row.0.get(at).map_or("no origin", |origin| origin.name.as_str()).to_owned();
    match answer {
        Ok(Answer::Nothing) => "nothing".to_owned(),
        Ok(Answer::Origin(at)) => name(*at),
        Ok(Answer::Among(numbers)) => {
            let mut names: Vec<String> = numbers.iter().map(|at| name(*at)).collect();
            names.sort_unstable();
            format!("one of {}", names.join(", "))
        }
        Ok(Answer::Deny(denial)) => match denial.retry_after_s {
            Some(seconds) => format!("deny {} {seconds}", denial.status.as_u16()),
            None => format!("deny {}", denial.status.as_u16()),
        },
        Err(failure) => format!("an error: {failure}"),
    }
}

fn changed(before: &Scene, step: &Step) -> Result<Scene, String> {
    let mut now = before.clone();
    if let Some(text) = &step.request {
        let fields = std::mem::take(&mut now.request.headers);
        let about = now.request.about.clone();
        let new = request(text)?;
        let host = new.headers.get(HOST).cloned();
        now.request = MadeRequest { headers: fields, ..new };
        host.map(|host| now.request.headers.insert(HOST, host));
        now.request.about.client = about.client;
        now.request.about.session = about.session;
        now.request.about.kind = about.kind;
    }
    for (name, value) in step.fields.iter().flatten() {
        field(&mut now.request, name, value)?;
    }
    if let Some(text) = &step.client {
        now.request.about.client = Some(client(text)?);
    }
    if let Some(session) = &step.session {
        now.request.about.session = Some(session.as_str().into());
    }
    if let Some(site) = &step.site {
        now.request.about.site = site.as_str().into();
    }
    if let Some(route) = &step.route {
        now.request.about.route = route.as_str().into();
    }
    match step.kind.as_deref() {
        None => {}
        Some("pass") => now.request.about.kind = Kind::Pass,
        Some("fill") => now.request.about.kind = Kind::Fill,
        Some(other) => return Err(format!("a request is a `pass` or a `fill`, not `{other}`")),
    }
    if let Some(origins) = &step.origin {
        now.row = MadeRow(made(origins));
    }
    Ok(now)
}

fn made(texts: &[OriginText]) -> Vec<MadeOrigin> {
    let of = |text: &OriginText| {
        let fresh = text.metrics.iter().map(|(name, value)| (name.clone(), *value, 0.0));
        let stale = text.stale.iter().map(|(name, value)| (name.clone(), *value, -60.0));
        MadeOrigin {
            name: text.name.clone(),
            id: text.id.clone(),
            weight: text.weight,
            is_backup: text.backup,
            is_up: text.up,
            in_flight: text.in_flight,
            latency_ms: text.latency,
            metrics: Metrics::Listed(fresh.chain(stale).collect()),
        }
    };
    texts.iter().map(of).collect()
}

/// A request as `GET https://host/path?query`, for a client, without fields but `Host`.
///
/// # Errors
/// A sentence.
pub fn request(text: &str) -> Result<MadeRequest, String> {
    let (method, url) = text.split_once(' ').unwrap_or(("GET", text));
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| format!("`{method}` is no method"))?;
    let uri: Uri = url.trim().parse().map_err(|_| format!("`{url}` is no URL"))?;
    let scheme = match uri.scheme_str() {
        Some("http") => "http",
        Some("https") | None => "https",
        Some(other) => return Err(format!("a request is of `http` or `https`, not of `{other}`")),
    };
    let host = uri.host().unwrap_or("www.example").to_owned();
    let mut headers = HeaderMap::new();
    let authority = uri.authority().map_or(host.as_str(), |authority| authority.as_str());
    headers.insert(HOST, HeaderValue::from_str(authority).map_err(|_| format!("`{url}` has no host"))?);
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let about = About {
        scheme,
        site: host.as_str().into(),
        host: host.into(),
        route: "otherwise".into(),
        kind: Kind::Pass,
        client: Some(SocketAddr::from(([192, 0, 2, 1], 40_000))),
        session: None,
    };
    Ok(MadeRequest { method, target: target.as_bytes().to_vec(), headers, about })
}

/// Makes a request one for all clients.
pub fn for_all(request: &mut MadeRequest) {
    request.about.kind = Kind::Fill;
    request.about.client = None;
    request.about.session = None;
}

/// Gives a request another field.
///
/// # Errors
/// A sentence.
pub fn field(request: &mut MadeRequest, name: &str, value: &str) -> Result<(), String> {
    let name: HeaderName = name.trim().parse().map_err(|_| format!("`{name}` is no field"))?;
    let value =
        HeaderValue::from_str(value.trim()).map_err(|_| format!("`{value}` is no value of a field"))?;
    request.headers.insert(name, value);
    Ok(())
}

/// A client: `192.0.2.7:1234`, `[2001:db8::7]:1234`, or an address alone.
///
/// # Errors
/// A sentence.
pub fn client(text: &str) -> Result<SocketAddr, String> {
    let alone = || text.parse().ok().map(|address| SocketAddr::new(address, 0));
    text.parse().ok().or_else(alone).ok_or_else(|| format!("`{text}` is no address of a client"))
}

/// An origin as `URL,cpu=0.3,in_flight=2,id=a,backup,down`.
///
/// # Errors
/// A sentence.
pub fn origin(text: &str) -> Result<MadeOrigin, String> {
    let mut parts = text.split(',');
    let mut origin = MadeOrigin::new(parts.next().unwrap_or_default().trim());
    for part in parts {
        let number = |value: &str| value.parse::<f64>().map_err(|_| format!("`{value}` is no number"));
        match part.trim().split_once('=') {
            None if part == "backup" => origin.is_backup = true,
            None if part == "down" => origin.is_up = false,
            None => return Err(format!("`{part}` is neither `NAME=VALUE` nor `backup` nor `down`")),
            Some(("id", id)) => origin.id = Some(id.to_owned()),
            Some(("weight", value)) => origin.weight = number(value)?,
            Some(("latency", value)) => origin.latency_ms = number(value)?,
            Some(("in_flight", value)) => origin.in_flight = number(value)? as u32,
            Some((name, value)) => origin = origin.with(name, number(value)?),
        }
    }
    if origin.name.is_empty() { Err("an origin begins with its URL".to_owned()) } else { Ok(origin) }
}

fn settings(texts: &BTreeMap<String, toml::Value>) -> Result<Vec<(String, Setting)>, String> {
    texts.iter().map(|(name, value)| Ok((name.clone(), setting(value)?))).collect()
}

fn setting(value: &toml::Value) -> Result<Setting, String> {
    Ok(match value {
        toml::Value::Boolean(flag) => Setting::Flag(*flag),
        toml::Value::Integer(number) => Setting::Integer(*number),
        toml::Value::Float(number) => Setting::Number(*number),
        toml::Value::String(text) => Setting::Text(text.clone()),
        toml::Value::Array(list) => Setting::List(list.iter().map(setting).collect::<Result<_, _>>()?),
        other => return Err(format!("a setting is no {}", other.type_str())),
    })
}
