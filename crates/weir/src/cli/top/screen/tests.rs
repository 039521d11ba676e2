//! The screen on a terminal of a test: what is drawn at each size, which key does what, and what is said when
//! Weir goes and comes back.

use std::collections::BTreeMap;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::KeyEvent;
use weir_control::{JobShown, JobState, OutcomeRate, TopShown, TrafficShown, VolumeStanding, VolumeUse};

use super::*;

fn row(name: &str, count: u64) -> TopShown {
    TopShown { name: name.to_owned(), count, error: 7, share: 0.25, ..TopShown::default() }
}

fn traffic() -> TrafficShown {
    let of = |count, per_s| OutcomeRate {
        count,
        per_s,
        first_byte_ms_p50: Some(0.32),
        first_byte_ms_p99: Some(1.5),
    };
    TrafficShown {
        span_s: 58.0,
        requests_per_s: 100.0,
        outcomes: BTreeMap::from([("hit".to_owned(), of(900, 90.0)), ("miss".to_owned(), of(100, 10.0))]),
        from_cache: Some(0.9),
        offload: Some(-0.5),
        ..TrafficShown::default()
    }
}

fn answer(pid: u32, rows: usize) -> Top {
    Top {
        at: "2026-11-26T20:00:00Z".to_owned(),
        pid,
        by: "url".to_owned(),
        order: "asked".to_owned(),
        window: "minute".to_owned(),
        window_s: 58.0,
        rows: (0..rows).map(|number| row(&format!("http://a/{number}"), 100 - number as u64)).collect(),
        now: Some(traffic()),
        traffic: Some(traffic()),
        ..Top::default()
    }
}

fn screen(top: Top) -> Screen {
    Screen { wanted: TopWanted::default(), top, notice: Notice::None, view: View::List, first: 0 }
}

/// The lines of a terminal of this size, without blanks at their ends.
fn drawn(screen: &Screen, (width, height): (u16, u16)) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen.draw(frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y: u16| {
        let line: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
        line.trim_end().to_owned()
    };
    (0..height).map(line).collect()
}

/// What is asked for after these keys, where it has changed.
fn press(screen: &mut Screen, keys: &[KeyCode]) -> Option<TopWanted> {
    let mut wanted = None;
    for key in keys {
        assert_eq!(screen.key(KeyEvent::from(*key), |other| wanted = Some(other.clone())), Goes::Changed);
    }
    wanted
}

#[test]
fn the_table_stands_above_the_list() {
    let volume = VolumeUse { path: "/srv/one".to_owned(), state: VolumeStanding::Up, ..VolumeUse::default() };
    let job = JobShown {
        id: "61d2".to_owned(),
        kind: "verify".to_owned(),
        state: JobState::Running,
        actor: String::new(),
        started: String::new(),
        done: 5,
        total: Some(9),
        unit: "objects".to_owned(),
        rate: 2.5,
        waits_for: None,
        result: None,
        error: None,
    };
    let screen = screen(Top { volumes: vec![volume], jobs: vec![job], lost: 3, ..answer(7, 3) });
    let lines = drawn(&screen, (120, 20));
    assert_eq!(lines[0], "weir top  pid 7  2026-11-26T20:00:00Z  the last 58 s");
    assert!(lines[1].starts_with("outcome") && lines[1].contains("minute/s"), "{lines:#?}");
    assert!(lines[2].starts_with("hit ") && lines[2].contains("90.0 %") && lines[2].contains("0.32 ms"));
    assert!(lines[3].starts_with("miss ") && lines[4].starts_with("all "));
    assert_eq!(lines[5], "from the cache 90.0 %, origin offload -50.0 %");
    assert_eq!(lines[6], "0 B/s to clients, 0 B/s and 0.0 requests/s from origins");
    assert!(
        lines[7].starts_with("volume /srv/one: up")
            && lines[8].starts_with("job verify 61d2: running, 5 of 9")
    );
    assert_eq!(lines[9], "3 requests are not in the lists: there was no room for them");
    assert_eq!(lines[10], "the most requests by url, of the last 58 s");
    assert!(lines[11].ends_with("share  url"), "{lines:#?}");
    assert_eq!(lines[12], "         100           7   25.0 %  http://a/0");
    assert_eq!((lines[14].ends_with("http://a/2"), lines[15].as_str()), (true, ""));
    assert!(lines[19].starts_with("u c s o: list"));
}

/// A terminal may become as small as it likes. Some of the list is shown before all of the table.
#[test]
fn every_size_is_drawn() {
    let screen = screen(answer(7, 100));
    for width in [1, 2, 20, 79, 80, 300] {
        for height in 1..60 {
            let lines = drawn(&screen, (width, height));
            if height >= 9 && width >= 80 {
                let rows = lines.iter().filter(|line| line.contains("http://a/")).count();
                assert!(rows >= 5, "{height}: {lines:#?}");
            }
            assert!(height < 2 || width < 79 || lines.last().unwrap().starts_with("u c s o"), "{lines:#?}");
        }
    }
}

#[test]
fn texts_of_strangers_do_nothing() {
    let hostile = "http://a/\u{1b}[2J\u{202e}\u{9b}31m\r\nnext\u{200b}";
    let mut top = answer(7, 0);
    top.rows = vec![TopShown { why: Some(hostile.to_owned()), ..row(hostile, 1) }];
    for order in ["asked", "not-stored"] {
        top.order = order.to_owned();
        let mut screen = screen(top.clone());
        let lines = drawn(&screen, (160, 20));
        let line = lines.iter().find(|line| line.contains("http://a/")).unwrap();
        assert!(line.contains(r"\u001b[2J\u202e\u009b31m\u000d\nnext\u200b"), "{line}");
        screen.told(Told::Silence(hostile.to_owned()));
        let first = &drawn(&screen, (160, 20))[0];
        assert!(
            first.starts_with(r"asking again: http://a/\u001b[2J") && first.contains(r"\u000d next"),
            "{first}"
        );
    }
}

#[test]
fn keys_choose_the_list_the_order_and_the_span() {
    use KeyCode::{Char, Tab};
    for (keys, by, order, window) in [
        (&[Char('c')][..], TopBy::Client, TopOrder::Asked, TopWindow::Minute),
        (&[Char('s'), Char('m')], TopBy::Site, TopOrder::Missed, TopWindow::Minute),
        (&[Char('o'), Char('b'), Char('w')], TopBy::Origin, TopOrder::Bytes, TopWindow::Hour),
        (&[Char('n'), Char('w'), Char('w')], TopBy::Url, TopOrder::NotStored, TopWindow::Minute),
        (&[Tab, Tab], TopBy::Site, TopOrder::Asked, TopWindow::Minute),
        (
            &[Tab, Tab, Tab, Tab, Char('m'), Char('a'), Char('u'), Char('w')],
            TopBy::Url,
            TopOrder::Asked,
            TopWindow::Hour,
        ),
    ] {
        let wanted = press(&mut screen(answer(7, 3)), keys).unwrap();
        assert_eq!((wanted.by, wanted.order, wanted.window), (by, order, window), "{keys:?}");
    }
    let mut same = screen(answer(7, 3));
    assert_eq!(
        press(&mut same, &[Char('u'), Char('a'), Char('x'), KeyCode::Enter]),
        None,
        "nothing has changed"
    );
}

#[test]
fn keys_move_help_and_quit() {
    use KeyCode::{Char, Down, Esc, Home, PageDown, PageUp, Up};
    let mut screen = screen(answer(7, 40));
    for (keys, first) in [
        (&[Up][..], 0),
        (&[Down, Down], 2),
        (&[PageDown], 12),
        (&[PageUp, Up], 1),
        (&[PageDown, PageDown, PageDown, PageDown, PageDown], 39),
        (&[Down], 39),
        (&[Home], 0),
    ] {
        press(&mut screen, keys);
        assert_eq!(screen.first, first, "{keys:?}");
    }
    press(&mut screen, &[PageDown]);
    assert!(drawn(&screen, (100, 30)).iter().any(|line| line.ends_with("http://a/10")));
    press(&mut screen, &[Char('?')]);
    let help = drawn(&screen, (100, 30));
    assert!(help.iter().any(|line| line.starts_with("up, down, Page Up")) && help[0].starts_with("weir top"));
    assert!(!help.iter().any(|line| line.contains("http://a/")));
    press(&mut screen, &[Char('?')]);
    assert!(screen.view == View::List);
    press(&mut screen, &[Char('?')]);
    assert!(press(&mut screen, &[Char('m')]).is_some());
    assert!(screen.view == View::List && screen.first == 0, "another list begins at its top");
    let control = KeyEvent::new(Char('c'), KeyModifiers::CONTROL);
    for key in [KeyEvent::from(Char('q')), KeyEvent::from(Esc), control] {
        assert_eq!(screen.key(key, |_| panic!("nothing is asked")), Goes::Out);
    }
}

#[test]
fn the_list_stays_in_sight_when_it_becomes_shorter() {
    let mut screen = screen(answer(7, 40));
    press(&mut screen, &[KeyCode::PageDown, KeyCode::PageDown]);
    screen.told(Told::Top(Box::new(answer(7, 3))));
    assert!(drawn(&screen, (100, 30)).iter().any(|line| line.ends_with("http://a/2")));
    screen.told(Told::Top(Box::new(answer(7, 0))));
    assert!(drawn(&screen, (100, 30)).contains(&"nothing in the last 58 s".to_owned()));
}

#[test]
fn it_says_that_weir_is_silent_and_that_another_process_answers() {
    let mut screen = screen(answer(7, 3));
    let first = |screen: &Screen| drawn(screen, (100, 30))[0].clone();
    screen.told(Told::Silence("no Weir runs".to_owned()));
    assert_eq!(first(&screen), "asking again: no Weir runs");
    screen.told(Told::Top(Box::new(answer(7, 3))));
    assert!(first(&screen).starts_with("weir top  pid 7"));
    screen.told(Told::Silence("no Weir runs".to_owned()));
    screen.told(Told::Top(Box::new(answer(8, 1))));
    for _ in 0..CHANGED_FOR {
        assert_eq!(first(&screen), "process 8 has taken over from 7; its lists are new");
        screen.told(Told::Top(Box::new(answer(8, 1))));
    }
    assert!(first(&screen).starts_with("weir top  pid 8"), "it is said for a while");
    assert_eq!(screen.told(Told::End), Goes::Out);
}
