//! Promises of the reader of an agent's line that hold for any bytes. For fuzz targets and tests.

use super::line::{LINE_BYTES_MAX, PERCENT_MAX, Reading, read};
use super::said::Said;

/// Reads any bytes as what an agent sends: no panic; later bytes never change what earlier ones have decided;
/// a line that says nothing changes nothing; limits are kept.
pub fn agent_line(data: &[u8]) {
    let all = read(data, true);
    assert_ne!(all, Reading::More, "nothing comes after the end");
    for end in 0..data.len() {
        match read(&data[..end], false) {
            Reading::More => assert!(end <= LINE_BYTES_MAX, "more is held than a line may have"),
            early => {
                assert_eq!(early, all, "more bytes change what {end} bytes said");
                break;
            }
        }
    }
    let Reading::Line(words) = all else { return };
    let before = Said { percent: 7, connections: Some(3), ..Said::default() };
    let after = before.after(&words);
    assert!(after.percent <= PERCENT_MAX);
    assert!(after.connections.is_none_or(|connections| (1..=65_535).contains(&connections)));
    assert_eq!(after.after(&words), after, "the same line twice says nothing new");
    let texts = [&words.line, &words.reason, &words.unknown];
    assert!(
        texts.iter().all(|text| text.len() <= 120 && text.bytes().all(|byte| matches!(byte, b' '..=b'~')))
    );
    if words.percent.is_none()
        && words.connections.is_none()
        && words.order.is_none()
        && words.is_up.is_none()
    {
        assert_eq!(after, before);
    }
}

#[cfg(test)]
mod tests {
    use weir_testkit::fuzz;

    const WORDS: &[&[u8]] = &[
        b"up",
        b"down",
        b"fail",
        b"stopped",
        b"ready",
        b"drain",
        b"maint",
        b"75%",
        b"%",
        b"maxconn:30",
        b"maxconn:",
        b"#",
        b" ",
        b",",
        b"\t",
        b"\r\n",
        b"\n",
        b"\0",
        b"-1%",
        b"99999999999999999999%",
        b"+",
        b"UP",
    ];

    #[test]
    fn agent_lines() {
        fuzz("agent_line", WORDS, super::agent_line);
    }
}
