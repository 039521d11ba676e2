//! Reports of origins: all forms, and what is none.

use super::*;
use crate::clock;
use crate::gauges::Gauge;
use std::time::Duration;

/// A message with cpu 0.3, memory 0.8, rps 9 (old), eps 1.5, named `queue` 7, application 0.6.
fn message() -> Vec<u8> {
    let double = |tag: u8, value: f64| [&[tag][..], &value.to_le_bytes()].concat();
    let entry = [&[0x0a, 5][..], b"queue", &double(0x11, 7.0)].concat();
    [
        double(0x09, 0.3),
        double(0x11, 0.8),
        vec![0x18, 9],
        double(0x39, 1.5),
        [&[0x42, entry.len() as u8][..], &entry].concat(),
        double(0x49, 0.6),
    ]
    .concat()
}

fn taken(field: &'static str, value: &str) -> Vec<(String, f64)> {
    let mut headers = HeaderMap::new();
    headers.insert(field, value.parse().unwrap());
    headers.insert("x", "y".parse().unwrap());
    let (gauges, now) = (Gauges::default(), clock::now());
    let settings = ReportSettings { source: "r".into(), stale_after: Duration::from_secs(2) };
    take(&mut headers, &gauges, &settings, now);
    assert_eq!(headers.len(), 1, "{value}");
    assert!(gauges.all(now + Duration::from_secs(2)).iter().all(|reading| !reading.is_fresh));
    gauges.all(now).into_iter().map(|reading| (reading.name.to_string(), reading.value)).collect()
}

#[test]
fn all_forms_say_the_same() {
    let bin = BASE64.encode(message());
    let bare = bin.trim_end_matches('=');
    let json = "{\"cpu_utilization\":0.3,\"memUtilization\":\"0.8\",\"rps\":\"9\",\"eps\":1.5,\
                \"applicationUtilization\":0.6,\"namedMetrics\":{\"queue\":7}}";
    let text = "cpu_utilization=0.3, mem_utilization=0.8,eps=1.5,application_utilization=0.6,\
                named_metrics.queue=7";
    let expect =
        [("application_utilization", 0.6), ("cpu", 0.3), ("eps", 1.5), ("memory", 0.8), ("queue", 7.0)]
            .map(|(name, value)| (name.to_owned(), value));
    for value in
        [format!("TEXT {text}"), format!("JSON {json}"), format!("BIN {bin}"), format!("bin  {bare}")]
    {
        assert_eq!(taken("endpoint-load-metrics", &value), expect, "{value}");
    }
    assert_eq!(taken("endpoint-load-metrics-bin", &bin), expect);
    assert_eq!(taken("endpoint-load-metrics-bin", bare), expect);
}

#[test]
fn what_is_no_report_is_removed_and_changes_nothing() {
    let long = format!("TEXT {}", "a=1,".repeat(BYTES_MAX));
    let rows = [
        "",
        "TEXT",
        "TEXT cpu",
        "TEXT cpu=x",
        "JSON []",
        "JSON {",
        "BIN !",
        "BIN AAAA",
        "XML <a/>",
        "TEXT a b=1",
        "TEXT cpu_utilization=NaN",
        &long,
    ];
    for value in rows {
        assert_eq!(taken("endpoint-load-metrics", value), [], "{value}");
    }
    let cut = BASE64.encode(&message()[..15]);
    assert_eq!(taken("endpoint-load-metrics-bin", &cut), []);
    let many: Vec<String> = (0..1000).map(|at| format!("m{at}=1")).collect();
    assert_eq!(taken("endpoint-load-metrics", &format!("TEXT {}", many.join(","))).len(), VALUES_MAX);
}

#[test]
fn new_names_in_each_response_are_few_a_second() {
    let gauges = Gauges::default();
    let settings = ReportSettings { source: "r".into(), stale_after: Duration::from_secs(60) };
    let now = clock::now();
    let hear = |number: u64, now| {
        let names: Vec<String> = (0..VALUES_MAX).map(|at| format!("n{number}x{at}=1")).collect();
        let mut headers = HeaderMap::new();
        headers.insert(REPORT, format!("TEXT cpu=0.{number},{}", names.join(",")).parse().unwrap());
        take(&mut headers, &gauges, &settings, now);
        gauges.all(now).len()
    };
    assert_eq!([0, 1, 2, 3].map(|number| hear(number, now)), [VALUES_MAX; 4]);
    // What was there is told all the same.
    assert_eq!(gauges.get("cpu", now), Gauge::Fresh(0.3));
    let seconds = |count| now + Duration::from_secs(count);
    assert_eq!([hear(4, seconds(1)), hear(5, seconds(1))], [VALUES_MAX + 4; 2]);
    assert_eq!([hear(6, seconds(50)), hear(7, seconds(50))], [2 * VALUES_MAX + 3, 2 * VALUES_MAX + 4]);
}

#[test]
fn a_response_without_a_report_is_as_it_was() {
    let mut headers = HeaderMap::new();
    headers.insert("endpoint-load", "TEXT cpu=1".parse().unwrap());
    let gauges = Gauges::default();
    let settings = ReportSettings { source: "r".into(), stale_after: Duration::from_secs(2) };
    take(&mut headers, &gauges, &settings, clock::now());
    assert_eq!((headers.len(), gauges.get("cpu", clock::now())), (1, Gauge::Missing));
    weir_testkit::fuzz("orca", &[b"TEXT ", b"JSON ", b"BIN ", b"=", b",", b"{", b"1e999"], fuzzing::orca);
    for bytes in [&message()[..], b"TEXT a=1", b"", b"JSON {\"a\":{}}"] {
        fuzzing::orca(bytes);
    }
}
