//! Promises of what reads sessions, for any target and any Cookie fields. For fuzz targets and tests.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};

use super::{Affinity, Asked, By, Key, OriginId, OwnCookie, Place, Reading, Secure, Session, sealed};
use super::{suffix, without};

const OWN: &str = "place";
const UPSTREAM: &str = "main";

/// Reads a line with a target, and Cookie fields, a line each. In these `@` stands for a cookie that Weir has
/// sealed. No panic; a session of Weir's own cookie is one that it has sealed, and origins do not see it; a
/// session by an id is at the origin that some id names.
pub fn sessions(data: &[u8]) {
    let Some(key) = Key::of(b"0123456789abcdef0123456789abcdef") else { return };
    let now = UNIX_EPOCH + Duration::from_secs(2_000_000_000);
    let origin = OriginId::of_node("n1");
    let Some(text) = sealed::seal(&key, UPSTREAM, origin, now) else { return };
    let mut lines = data.split(|byte| *byte == b'\n');
    let target = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let mut received = HeaderMap::new();
    for line in lines.take(20) {
        let pieces: Vec<&[u8]> = line.split(|byte| *byte == b'@').collect();
        if let Ok(value) = HeaderValue::from_bytes(pieces.join(text.as_bytes()).trim_ascii()) {
            received.append(COOKIE, value);
        }
    }
    let left = left(&received, &text);
    let asked = Asked { received: &received, left: &left, target: &target };
    own(key, (origin, &text), &asked, now);
    by_suffix(&asked, now);
}

/// The fields without Weir's own cookie.
fn left(received: &HeaderMap, text: &str) -> HeaderMap {
    let names = [OWN.to_owned()];
    let mut left = received.clone();
    if let Some(lines) = without(received, &names) {
        left.remove(COOKIE);
        lines.into_iter().for_each(|line| _ = left.append(COOKIE, line));
    }
    assert_eq!(without(&left, &names), None, "{left:?}");
    let others = |headers: &HeaderMap| -> Vec<Vec<u8>> {
        pairs(headers)
            .into_iter()
            .filter(|(name, pair)| name != OWN.as_bytes() && !pair.is_empty())
            .map(|of| of.1)
            .collect()
    };
    assert_eq!(others(received), others(&left), "other cookies stay as they are");
    let own = format!("{OWN}={text}");
    assert!(pairs(&left).iter().all(|(_, pair)| pair != own.as_bytes()), "{left:?}");
    left
}

/// Names and whole pairs of all cookies.
fn pairs(headers: &HeaderMap) -> Vec<(Vec<u8>, Vec<u8>)> {
    let all = headers.get_all(COOKIE).iter().flat_map(|line| line.as_bytes().split(|byte| *byte == b';'));
    all.map(|pair| {
        let name = pair.split(|byte| *byte == b'=').next().unwrap_or_default();
        (name.trim_ascii().to_vec(), pair.trim_ascii().to_vec())
    })
    .collect()
}

fn own(key: Key, (origin, text): (OriginId, &str), asked: &Asked<'_>, now: SystemTime) {
    let own = OwnCookie {
        name: OWN.to_owned(),
        keys: vec![key],
        attributes: String::new(),
        secure: Secure::AsSet,
        lifetime: None,
    };
    let affinity = Affinity { by: By::Own(own), bypass: false };
    let reading = affinity.read(UPSTREAM, asked, now);
    if let Some(session) = reading.session() {
        assert_eq!(session, Session::At(origin), "nothing else was sealed");
        let values = pairs(asked.received);
        assert!(
            values.iter().any(|(name, pair)| name == OWN.as_bytes() && pair.ends_with(text.as_bytes())),
            "{asked:?}"
        );
    }
    assert_eq!(affinity.read("other", asked, now).session(), None, "it is of no use with another upstream");
}

fn by_suffix(asked: &Asked<'_>, now: SystemTime) {
    let by = By::Suffix { cookie: "sid".to_owned(), parameter: "sid".to_owned() };
    let affinity = Affinity { by, bypass: false };
    let reading = affinity.read(UPSTREAM, asked, now);
    let in_path = suffix::parameter(asked.target, "sid");
    match reading {
        Reading::Session { session: Session::At(id), place } => {
            assert_eq!(place == Place::Path, in_path.is_some(), "what is in the path is one session's alone");
            let cookies = pairs(asked.left).into_iter().filter(|(name, _)| name == b"sid");
            let ids = cookies
                .map(|(_, pair)| pair.splitn(2, |byte| *byte == b'=').nth(1).unwrap_or_default().to_vec());
            let ids: Vec<Vec<u8>> = ids.chain(in_path.map(<[u8]>::to_vec)).collect();
            let is_named = ids.iter().any(|text| {
                suffix::node(text.trim_ascii()).is_some_and(|node| OriginId::of_node(node) == id)
            });
            assert!(is_named || id == OriginId(0), "{asked:?}");
            assert!(affinity.bypasses(&reading) == (place == Place::Path));
            assert!(place != Place::Path || affinity.may_bypass(asked.target));
        }
        Reading::Session { .. } => panic!("an id names an origin"),
        Reading::Refused | Reading::Nothing => assert_eq!(in_path, None),
    }
}

#[cfg(test)]
mod tests {
    use weir_testkit::fuzz;

    const WORDS: &[&[u8]] = &[
        b"place=@",
        b"place=",
        b"@",
        b"sid=",
        b"sid=a.n1",
        b".n2",
        b"; ",
        b";",
        b"=",
        b"\"",
        b"\n",
        b"/a;sid=x.n3",
        b"/;sid=",
        b"?",
        b"#",
        b" ",
        b"\t",
        b"%3B",
        b",",
        b"Place=@",
    ];

    #[test]
    fn any_cookies() {
        fuzz("sessions", WORDS, super::sessions);
    }
}
