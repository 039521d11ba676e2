//! The words of a line.

use proptest::prelude::*;

use crate::health::agent::line::{LINE_BYTES_MAX, Reading, Words, read};
use crate::health::agent::said::Said;
use crate::health::standing::{Marks, Naming, Order, Standing};

fn words(line: &str) -> Words {
    match read(format!("{line}\n").as_bytes(), false) {
        Reading::Line(words) => words,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn words_in_any_order_and_case() {
    let said = words("Ready,75%\tUP maxconn:30 # all is  well ");
    assert_eq!((said.percent, said.connections), (Some(75), Some(30)));
    assert_eq!((said.order, said.is_up), (Some(Order::Ready), Some(true)));
    assert_eq!((&*said.reason, &*said.unknown), ("all is  well", ""));
    for (word, order) in [("ready", Order::Ready), ("DRAIN", Order::Drain), ("maint", Order::Maintenance)] {
        assert_eq!(words(word).order, Some(order));
    }
    for word in ["down", "fail", "Stopped"] {
        assert_eq!(words(word).is_up, Some(false));
    }
    assert_eq!(words("up down 5% 6%").is_up, Some(false), "the last word of a kind counts");
    assert_eq!(words("up down 5% 6%").percent, Some(6));
    assert_eq!(words("down#full").unknown, "down#full");
    assert_eq!(words("0% maxconn:0").percent, Some(0));
}

#[test]
fn garbage_changes_nothing_and_is_seen() {
    let before = Said { percent: 40, connections: Some(9), is_down: true, order: Order::Drain };
    for line in [
        "",
        "# a reason alone",
        "junk",
        "-5%",
        "%",
        "5",
        "5%%",
        "7x%",
        "maxconn:",
        "maxconn:-1",
        "maxconn:1x",
        "maxconn",
        "up!",
        "upp",
        "\u{e9}\u{7f}",
        "http/1.1 400",
        "{\"state\":\"up\"}",
    ] {
        let said = words(line);
        assert_eq!(before.after(&said), before, "{line}");
        assert_eq!(said.unknown.is_empty(), line.is_empty() || line.starts_with('#'), "{line}");
    }
    assert_eq!(words("99999999999999999999%").percent, Some(25_600));
    assert_eq!(words("maxconn:99999999999999999999").connections, Some(65_535));
    assert_eq!(words("50% 7x%").percent, None, "the last word of a kind counts, also one without sense");
}

#[test]
fn lines_that_never_end() {
    assert_eq!(read(b"up", false), Reading::More);
    assert_eq!(read(b"up", true), Reading::Broken);
    assert_eq!(read(b"", true), Reading::Broken);
    assert_eq!(read(b"up\0\n", false), Reading::Broken);
    let endless = vec![b'a'; LINE_BYTES_MAX + 1];
    assert_eq!(read(&endless[1..], false), Reading::More);
    assert_eq!(read(&endless, false), Reading::Broken);
    assert!(matches!(read(b"\r\n", false), Reading::Line(_)));
}

/// One word, and what it changes.
fn any_word() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec!["up", "down", "fail", "stopped", "ready", "drain", "maint", "junk", "%"])
            .prop_map(str::to_owned),
        (0..400_u32).prop_map(|percent| format!("{percent}%")),
        (-3..90_i32).prop_map(|count| format!("maxconn:{count}")),
    ]
}

proptest! {
    /// What holds after some lines is the last word of each kind in them, said without a state.
    #[test]
    fn what_holds_is_the_last_word_of_each_kind(
        lines in prop::collection::vec(prop::collection::vec(any_word(), 0..4), 0..8),
    ) {
        let said = lines.iter().fold(Said::default(), |said, line| said.after(&words(&line.join(" "))));
        let all = || lines.iter().flatten().rev();
        let order = all().find_map(|word| match word.as_str() {
            "ready" => Some(Order::Ready),
            "drain" => Some(Order::Drain),
            "maint" => Some(Order::Maintenance),
            _ => None,
        });
        prop_assert_eq!(said.order, order.unwrap_or_default());
        let is_down = all().find(|word| ["up", "down", "fail", "stopped"].contains(&word.as_str()));
        prop_assert_eq!(said.is_down, is_down.is_some_and(|word| word != "up"));
        // Of one line only the last word of a kind counts, whether it makes sense or not.
        let last = |of: &dyn Fn(&str) -> Option<Option<u32>>| {
            lines.iter().rev().find_map(|line| line.iter().rev().find_map(|word| of(word)).flatten())
        };
        let percent = |word: &str| {
            let digits = word.strip_suffix('%').filter(|digits| !digits.is_empty())?;
            Some(digits.parse().ok())
        };
        prop_assert_eq!(said.percent, last(&percent).unwrap_or(100));
        let connections = |word: &str| Some(word.strip_prefix("maxconn:")?.parse().ok());
        prop_assert_eq!(said.connections, last(&connections).filter(|count| *count > 0));
    }

    /// The stricter of operator, agent and checks holds.
    #[test]
    fn the_stricter_holds(
        (operator, agent) in (0..3_usize, 0..3_usize),
        is_down: bool,
        agent_down: bool,
        percent in 0..3_u32,
    ) {
        let orders = [Order::Ready, Order::Drain, Order::Maintenance];
        let agent_said = Said { order: orders[agent], is_down: agent_down, percent, connections: None };
        let marks = Marks { order: orders[operator], is_down, dns: Naming::Named, agent: agent_said };
        let standing = marks.standing(true);
        let expected = match operator.max(agent) {
            2 => Standing::Maintenance,
            1 => Standing::Draining,
            _ if is_down || agent_down => Standing::Down,
            _ if percent == 0 => Standing::Draining,
            _ => Standing::Ready,
        };
        prop_assert_eq!(standing, expected);
    }
}
