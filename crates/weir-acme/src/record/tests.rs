//! The form of the records, byte by byte: `docs/format/acme.md`.

use super::*;

const HOST: &str = r#"{
  "version": 1,
  "failures": 2,
  "not_before": 1800000300,
  "begun": [
    1800000000
  ],
  "spread": 417,
  "last_error": {
    "at": 1800000000,
    "what": "connection: refused"
  },
  "order": {
    "directory": "https://ca.example/dir",
    "url": "https://ca.example/order/1",
    "key": "-----BEGIN PRIVATE KEY-----\n",
    "proof": {
      "token": "t",
      "authorization": "t.k"
    },
    "challenge": "http-01"
  },
  "issued_by": "https://ca.example/dir",
  "renewal": {
    "window": [
      1805000000,
      1805100000
    ],
    "ask_at": 1800021600,
    "failures": 0
  }
}
"#;

const CA: &str = r#"{
  "version": 1,
  "directory": "https://ca.example/dir",
  "outages": 3,
  "limited": 0,
  "not_before": 1800000300,
  "registered": [
    1800000000
  ],
  "last_error": null
}
"#;

#[test]
fn records_are_written_as_they_are_drawn() {
    let record = Record::of_bytes(HOST.as_bytes()).unwrap();
    assert_eq!(String::from_utf8(record.to_bytes()).unwrap(), HOST);
    let record = AuthorityRecord::of_bytes(CA.as_bytes()).unwrap();
    assert_eq!(String::from_utf8(record.to_bytes()).unwrap(), CA);
}

#[test]
fn what_is_missing_has_its_default_and_later_versions_are_refused() {
    assert_eq!(Record::of_bytes(br#"{"version":1}"#).unwrap(), Record::default());
    let error = Record::of_bytes(br#"{"version":2}"#).unwrap_err();
    assert_eq!(error.to_string(), "it has version 2 of the form, and this Weir knows 1");
    for damaged in ["", "{", "{}", "[]", r#"{"version":1,"failures":-1}"#] {
        assert!(matches!(Record::of_bytes(damaged.as_bytes()), Err(FormError::Damaged(_))), "{damaged}");
    }
}
