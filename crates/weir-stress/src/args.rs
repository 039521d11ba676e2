//! What to send to which server, how hard and for how long: the command line.

use std::path::PathBuf;

use clap::Args;

/// The arguments of `weir stress`, the program `weir-stress`.
#[derive(Debug, Clone, Args)]
pub struct StressArgs {
    /// What to ask for, e.g. https://127.0.0.1:8443/page; `{}` in the path becomes the object's number. Or a
    /// scenario: a file that ends in .toml
    pub url: String,
    /// Another server to compare with, may be repeated: all take turns, A B C C B A, and ratios to the first
    /// are printed
    #[arg(long, value_name = "URL")]
    pub vs: Vec<String>,
    /// Connections, each with one request at a time, or with --streams
    #[arg(short = 'c', long, default_value_t = 64, value_name = "N")]
    pub users: usize,
    /// End after so many seconds (of each turn with --vs) [default: 5 where no -n is given]
    #[arg(short = 'd', long, value_name = "S")]
    pub seconds: Option<f64>,
    /// End after so many requests (of each turn with --vs)
    #[arg(short = 'n', long, value_name = "N")]
    pub requests: Option<u64>,
    /// Begin so many requests a second, evenly spaced, instead of one after the other; times count from when
    /// each was due
    #[arg(long, value_name = "N")]
    pub rate: Option<f64>,
    /// Rounds of A B C C B A with --vs
    #[arg(long, default_value_t = 2, value_name = "N")]
    pub rounds: usize,
    /// How many numbered objects the path's `{}` stands for
    #[arg(short = 'o', long, default_value_t = 1, value_name = "N")]
    pub objects: u64,
    /// The first object's number
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub first: u64,
    /// In which order objects are asked for: seq, uniform or zipf:EXPONENT
    #[arg(long, default_value = "seq", value_name = "HOW")]
    pub pick: Pick,
    /// Share of requests, 0 to 1, for an object that is asked for only once
    #[arg(long, default_value_t = 0.0, value_name = "P")]
    pub wonders: f64,
    /// Add a header line, e.g. 'Accept-Encoding: gzip'; Host replaces the URL's
    #[arg(short = 'H', long = "header", value_name = "LINE")]
    pub headers: Vec<String>,
    /// A new connection for each request
    #[arg(long)]
    pub new_connections: bool,
    /// Speak HTTP/2: by ALPN with https, at once with http
    #[arg(long)]
    pub http2: bool,
    /// Requests at a time on each connection (needs --http2)
    #[arg(short = 'm', long, default_value_t = 1, value_name = "N")]
    pub streams: usize,
    /// Believe these certificates, PEM, instead of the system's
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Believe every certificate
    #[arg(long)]
    pub insecure: bool,
    /// New connections go on with earlier TLS sessions
    #[arg(long)]
    pub resume: bool,
    /// The group of the TLS key exchange: x25519, x25519mlkem768 or secp256r1 [default: as the server likes]
    #[arg(long, value_name = "NAME")]
    pub group: Option<String>,
    /// The status every response must have [default: 200, 206 with --ranges]
    #[arg(long, value_name = "CODE")]
    pub status: Option<u16>,
    /// The length every body must have; with --ranges the whole object's
    #[arg(long, value_name = "BYTES")]
    pub length: Option<u64>,
    /// All bodies of one URL must be the same
    #[arg(long)]
    pub same: bool,
    /// Every body must be the offset pattern
    #[arg(long)]
    pub offsets: bool,
    /// Ask for random single ranges of the offset pattern (needs --length)
    #[arg(long)]
    pub ranges: bool,
    /// Throw bodies away inside the kernel, so that the client is not what is measured
    #[arg(long)]
    pub discard: bool,
    /// A response that takes longer is a fault
    #[arg(long, default_value_t = 30.0, value_name = "S")]
    pub timeout: f64,
    /// Makes the choices repeatable
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Allow a target that is not this machine: it is yours to load
    #[arg(long)]
    pub i_own_this_host: bool,
    /// What only scenario files understand.
    #[command(flatten)]
    pub scenario: ScenarioArgs,
}

impl StressArgs {
    /// The arguments of `weir stress URL`.
    pub(crate) fn plain(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            vs: Vec::new(),
            users: 64,
            seconds: None,
            requests: None,
            rate: None,
            rounds: 2,
            objects: 1,
            first: 0,
            pick: Pick::Seq,
            wonders: 0.0,
            headers: Vec::new(),
            new_connections: false,
            http2: false,
            streams: 1,
            ca: None,
            insecure: false,
            resume: false,
            group: None,
            status: None,
            length: None,
            same: false,
            offsets: false,
            ranges: false,
            discard: false,
            timeout: 30.0,
            seed: 1,
            json: false,
            i_own_this_host: false,
            scenario: ScenarioArgs::default(),
        }
    }
}

/// What only scenario files understand.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "With a scenario file")]
pub struct ScenarioArgs {
    /// Write the report as a page that stands alone
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write a row for each second
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Run these modules alone, by name, with commas between
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Test these servers alone, by name, with commas between
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub servers: Vec<String>,
    /// Run the servers under valgrind; what it finds fails the run
    #[arg(long)]
    pub valgrind: bool,
    /// Words before each server's command, e.g. another checker
    #[arg(long, value_name = "COMMAND")]
    pub wrap: Option<String>,
    /// Where servers' files, logs and caches go [default: a new folder in the temporary one, removed at the
    /// end]
    #[arg(long, value_name = "FOLDER")]
    pub scratch: Option<PathBuf>,
    /// A tenth of all seconds, requests and objects, in one round: does everything work?
    #[arg(long)]
    pub quick: bool,
    /// Say nothing while it runs
    #[arg(short = 'q', long)]
    pub quiet: bool,
}

/// In which order numbered objects are asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pick {
    /// One after the other, from the first again after the last.
    Seq,
    /// Each equally often.
    Uniform,
    /// The k-th with a weight of k to the minus exponent.
    Zipf(f64),
}

impl<'de> serde::Deserialize<'de> for Pick {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

impl std::str::FromStr for Pick {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "seq" => Ok(Self::Seq),
            "uniform" => Ok(Self::Uniform),
            "zipf" => Ok(Self::Zipf(1.0)),
            _ => text
                .strip_prefix("zipf:")
                .and_then(|exponent| exponent.parse().ok())
                .filter(|exponent: &f64| exponent.is_finite() && *exponent > 0.0)
                .map(Self::Zipf)
                .ok_or_else(|| "write seq, uniform, zipf or zipf:EXPONENT, e.g. zipf:0.9".to_owned()),
        }
    }
}
