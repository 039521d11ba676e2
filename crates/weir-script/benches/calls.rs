//! What a call costs: ns of CPU, for usual scripts with 3 and with 100 origins, and for hostile ones.
//! `cargo bench -p weir-script`.

#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use weir_script::{MadeOrigin, MadeRow, Program, Source, State, trial};

/// What is measured: words, and the body of `pick`.
const BODIES: [(&str, &str); 10] = [
    ("nothing", ""),
    ("an origin", "origins[0]"),
    ("least", "origins.least(\"cpu\")"),
    ("where, least", "origins.where(\"memory < 0.9\").least(\"cpu\")"),
    ("drawn", "origins.drawn(\"1 - cpu\")"),
    ("hashed by cookie", "origins.hashed(request.cookie(\"session\"))"),
    (
        "count, least",
        "if state.count(client.address, 10) > 1000000000 { return deny(429, 10); } origins.least(\"cpu\")",
    ),
    ("a loop", "let best = (); for origin in origins { if origin.in_flight < 5 { best = origin; } } best"),
    ("endless", "loop { }"),
    ("endless work", "let n = 0; loop { n += 1; }"),
];

fn main() {
    // `cargo test` runs it once, without measuring.
    let rounds = if std::env::args().any(|arg| arg == "--bench") { 5_000 } else { 1 };
    let mut request = trial::request("GET https://shop.example/cart?id=7").unwrap();
    for (name, value) in [("cookie", "a=b; session=0123456789"), ("user-agent", "Bench/1"), ("accept", "*/*")]
    {
        trial::field(&mut request, name, value).unwrap();
    }
    println!("{:<20} {:>12} {:>12} {:>12}", "ns a call", "3 origins", "100 origins", "operations");
    for (words, body) in BODIES {
        let text = format!("fn pick(request, client, origins, state) {{ {body} }}");
        let source = Source { file: "bench".into(), text: text.into() };
        let program = Program::compile(source, &[]).unwrap_or_else(|mistake| panic!("{mistake}"));
        let mut operations = 0;
        let took = [3, 100].map(|count| {
            let row = MadeRow((0..count).map(origin).collect());
            let state = State::new(Instant::now());
            let rounds = if words.starts_with("endless") { rounds.min(500) } else { rounds };
            let (begun, before) = (Instant::now(), computed());
            for round in 0..rounds {
                let tried = request.ask(&program, &row, &state, (begun, round));
                operations = black_box(tried).operations;
            }
            (computed() - before).as_nanos() / u128::from(rounds)
        });
        println!("{words:<20} {:>12} {:>12} {operations:>12}", took[0], took[1]);
    }
}

/// What this thread has computed: the machine may do other things as well.
fn computed() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

fn origin(number: usize) -> MadeOrigin {
    let name = format!("http://10.0.0.{number}:8080");
    let load = (number * 37 % 100) as f64 / 100.0;
    MadeOrigin::new(name).with("memory", 0.5).with("cpu", load)
}
