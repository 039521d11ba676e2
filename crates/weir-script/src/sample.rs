//! Sample runs: what a script must have answered without an error before it is taken. They are unlike each
//! other in what scripts forget: no client, no cookie, no metric, nothing up, bytes that are no text.

use std::net::SocketAddr;

use http::header::{COOKIE, HOST, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method};

use crate::clock;
use crate::made::{MadeOrigin, MadeRequest, MadeRow, Metrics};
use crate::mistake::Mistake;
use crate::program::Program;
use crate::state::State;
use weir_upstream::{About, Kind};

/// So often each sample is asked: the second time something may be remembered.
const TIMES: usize = 3;

/// A sample: its words for messages, the request and the origins.
struct Sample {
    words: &'static str,
    request: MadeRequest,
    row: MadeRow,
}

impl Program {
    /// Runs the samples. The origins are those that the script will see, where they are known.
    ///
    /// # Errors
    /// The first error, and with which sample it came.
    pub fn sample(&self, origins: &[MadeOrigin]) -> Result<(), Box<Mistake>> {
        for sample in samples(origins) {
            let state = State::of(1024, 1 << 20, clock::now());
            for time in 0..TIMES {
                let tried = sample.request.ask(self, &sample.row, &state, (clock::now(), time as u64));
                tried.answer.map_err(|failure| {
                    let mistake = Mistake::of_failure(self.source(), failure);
                    let label = mistake.label("the script fails here");
                    Box::new(label.help(format!("with the sample: {}", sample.words)))
                })?;
            }
        }
        Ok(())
    }
}

fn samples(origins: &[MadeOrigin]) -> Vec<Sample> {
    let known = |value: f64| {
        let each = origins.iter().enumerate().map(move |(at, origin)| MadeOrigin {
            metrics: Metrics::Every(value * (at + 1) as f64 / (origins.len() + 1) as f64),
            in_flight: at as u32,
            latency_ms: 5.0 * at as f64,
            ..origin.clone()
        });
        MadeRow(each.collect())
    };
    let unknown = || MadeRow(origins.to_vec());
    let only = |is_up: fn(&MadeOrigin) -> bool| {
        let each = origins.iter().map(|origin| MadeOrigin { is_up: is_up(origin), ..origin.clone() });
        MadeRow(each.collect())
    };
    let none = |_: &MadeOrigin| false;
    let of = |words, request, row| Sample { words, request, row };
    let mut all = vec![
        of("a pass with a cookie and a session, all metrics known", browser("192.0.2.7:4711"), known(1.0)),
        of("a pass without cookie and session, no metric known", bare("[2001:db8::7]:4711"), unknown()),
        of("a fill (no client), all metrics known", fill(), known(0.5)),
        of("a fill (no client), no metric known", fill(), unknown()),
        of("a pass, every metric 1,000,000", browser("198.51.100.7:0"), known(1_000_000.0)),
        of("a pass, no origin is up", browser("192.0.2.7:4711"), only(none)),
        of("a fill, no origin is up", fill(), only(none)),
        of("a pass whose fields are no text", strange(), known(0.1)),
    ];
    let is_backup = |origin: &MadeOrigin| origin.is_backup;
    if origins.iter().any(is_backup) {
        all.push(of("a pass, only backups are up", bare("192.0.2.7:4711"), only(is_backup)));
    }
    all
}

fn about(kind: Kind, client: Option<&str>) -> About {
    About {
        scheme: "https",
        host: "www.sample.example".into(),
        site: "www.sample.example".into(),
        route: "otherwise".into(),
        kind,
        client: client.and_then(|client| client.parse::<SocketAddr>().ok()),
        session: None,
    }
}

fn bare(client: &str) -> MadeRequest {
    let mut headers = HeaderMap::new();
    headers.insert(HOST, HeaderValue::from_static("www.sample.example"));
    MadeRequest {
        method: Method::GET,
        target: b"/".to_vec(),
        headers,
        about: about(Kind::Pass, Some(client)),
    }
}

fn browser(client: &str) -> MadeRequest {
    let mut request = bare(client);
    request.method = Method::POST;
    request.target = b"/login?user=sample&next=%2F".to_vec();
    request.headers.insert(USER_AGENT, HeaderValue::from_static("Sample/1.0"));
    request
        .headers
        .insert(COOKIE, HeaderValue::from_static("session=s4mple; canary=1; id=7; JSESSIONID=a.b"));
    request.about.session = Some("s4mple".into());
    request
}

fn fill() -> MadeRequest {
    MadeRequest { about: about(Kind::Fill, None), target: b"/a/b.html?q=1".to_vec(), ..bare("192.0.2.7:1") }
}

fn strange() -> MadeRequest {
    let mut request = bare("192.0.2.7:1");
    request.method = Method::from_bytes(b"PROPFIND").unwrap_or_default();
    request.target = b"*".to_vec();
    let bytes = HeaderValue::from_bytes(b"a=\xff\xfe; session=\xc3; =; ;canary").ok();
    bytes.into_iter().for_each(|value| {
        request.headers.insert(COOKIE, value.clone());
        request.headers.insert(USER_AGENT, value);
    });
    request
}

/// Rows of origins for a script that no configuration names: some with a backup, and one alone.
pub fn usual_rows() -> [Vec<MadeOrigin>; 2] {
    [usual_origins(), vec![MadeOrigin::new("http://alone.example:80")]]
}

/// Origins that no configuration names: for scripts alone.
pub fn usual_origins() -> Vec<MadeOrigin> {
    let names = ["http://a.example:80", "http://b.example:80", "http://c.example:80"];
    let mut origins: Vec<MadeOrigin> = names.into_iter().map(MadeOrigin::new).collect();
    let backup = MadeOrigin { is_backup: true, ..MadeOrigin::new("http://spare.example:80") };
    origins.push(backup);
    origins
}
