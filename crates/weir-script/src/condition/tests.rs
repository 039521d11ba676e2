//! Conditions hold, measures are numbers, and mistakes have their places.

use super::*;

struct Origin(&'static [(&'static str, f64)]);

impl Facts for Origin {
    fn metric(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(own, _)| *own == name).map(|(_, value)| *value)
    }
    fn age(&self, name: &str) -> Option<f64> {
        self.metric(name).map(|_| 7.0)
    }
    fn number(&self, of: Number) -> f64 {
        match of {
            Number::InFlight => 3.0,
            Number::Latency => 12.5,
            Number::Weight => 2.0,
        }
    }
    fn text(&self, of: Text) -> &str {
        match of {
            Text::Name => "http://a.example:80",
            Text::Id => "",
            Text::Standing => "up",
        }
    }
    fn flag(&self, of: Flag) -> bool {
        of == Flag::Up
    }
}

const ORIGIN: Origin = Origin(&[("cpu", 0.4), ("gpu.load", 0.9)]);

#[test]
fn a_condition_holds_or_not() {
    for (text, expected) in [
        ("cpu < 0.5", true),
        ("cpu<0.4", false),
        ("cpu <= 0.4 and in_flight == 3", true),
        ("not cpu < 0.5", false),
        ("!(cpu < 0.5) || up", true),
        ("cpu < 0.5 and not backup", true),
        ("gpu.load > 0.8 && latency > 12 && weight = 2", true),
        ("cpu + gpu.load * 2 > 2.1", true),
        ("(cpu + gpu.load) * 2 > 2.7", false),
        ("-cpu < 0", true),
        ("1 - cpu >= 0.6", true),
        ("cpu / 2 == 0.2", true),
        ("name == 'http://a.example:80'", true),
        ("name != \"http://a.example:80\"", false),
        ("standing = 'up'", true),
        ("age(cpu) < 10", true),
        ("known(cpu)", true),
        ("known(nothing)", false),
        ("not known(nothing)", true),
        // What is missing does not hold, nor does its contrary.
        ("nothing < 1", false),
        ("not nothing < 1", false),
        ("nothing < 1 or up", true),
        ("up or nothing < 1", true),
        ("nothing < 1 and up", false),
        ("not (nothing < 1 and backup)", true),
        ("id == 'a'", false),
        ("id != 'a'", true),
        ("name begins 'http://a.'", true),
        ("not name begins 'https'", true),
        ("`gpu.load` > 0.8", true),
        ("`a-b/c` > 0.8", false),
    ] {
        assert_eq!(Condition::parse(text).map(|parsed| parsed.holds(&ORIGIN)), Ok(expected), "{text}");
    }
}

#[test]
fn a_measure_is_a_number_or_missing() {
    for (text, expected) in [
        ("cpu", Some(0.4)),
        ("in_flight / weight", Some(1.5)),
        ("1e2", Some(100.0)),
        ("nothing", None),
        ("cpu + nothing", None),
        ("cpu / 0", None),
    ] {
        assert_eq!(Measure::parse(text).map(|parsed| parsed.of(&ORIGIN)), Ok(expected), "{text}");
    }
}

#[test]
fn a_mistake_has_its_place() {
    for (text, at, why) in [
        ("", 0, "ends where a name"),
        ("cpu", 0, "compare it"),
        ("cpu <", 5, "ends where"),
        ("cpu < 0.5 memory", 10, "should end here"),
        ("cpu < < 1", 6, "missing here"),
        ("cpu < 'a'", 6, "a number is wanted"),
        ("name < 'a'", 5, "`==`, `!=` and"),
        ("cpu begins 3", 4, "between texts"),
        ("`a", 0, "no end"),
        ("name == 3", 8, "a text is wanted"),
        ("up < 3", 0, "a number is wanted"),
        ("cpu < 0.5.5", 6, "no number"),
        ("cpu < 1e999", 6, "no number"),
        ("(cpu < 1", 8, "`)`"),
        ("name == 'a", 8, "no end"),
        ("cpu & memory", 4, "no meaning"),
        ("max(cpu) < 1", 0, "no `max(…)`"),
        ("age(3) < 1", 4, "name of a metric"),
        ("and < 1", 0, "missing before `and`"),
        ("ü < 1", 0, "no meaning"),
    ] {
        let fault = Condition::parse(text).expect_err(text);
        assert!(fault.why.contains(why), "{text}: {fault}");
        assert_eq!(fault.at, at, "{text}: {fault}");
    }
    assert!(Measure::parse("cpu < 1").is_err());
}

#[test]
fn depth_and_length_are_bounded() {
    for text in [
        format!("{}up", "(".repeat(DEPTH_MAX + 1)),
        format!("{}up", "!".repeat(DEPTH_MAX + 1)),
        format!("{}1 < 2", "-".repeat(DEPTH_MAX + 1)),
        format!("up{}", " or up".repeat(DEPTH_MAX + 1)),
        format!("up{}", " and up".repeat(DEPTH_MAX + 1)),
        format!("1{} < 1", "+1".repeat(DEPTH_MAX + 1)),
        format!("1{} < 1", "*1".repeat(DEPTH_MAX + 1)),
        format!("up{}", " ".repeat(TEXT_BYTES_MAX)),
    ] {
        assert!(Condition::parse(&text).is_err(), "{text}");
    }
    assert!(Condition::parse(&format!("{}up{}", "(".repeat(30), ")".repeat(30))).is_ok());
}
