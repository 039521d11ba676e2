//! What expressions over metrics may be, and where mistakes in them are.

use super::*;

fn shown(term: &Term) -> String {
    match term {
        Term::Number(number) => number.to_string(),
        Term::Series(selector) => selector.to_string(),
        Term::Rate(selector) => format!("rate({selector})"),
        Term::Of(of, inner) => format!("{of:?}({})", shown(inner)),
        Term::Both(operator, left, right) => format!("[{operator:?} {} {}]", shown(left), shown(right)),
    }
}

#[test]
fn an_expression_is_read_as_it_is_written() {
    let rows = [
        ("node_load1", "node_load1"),
        ("1 - rate(cpu{mode=\"idle\"})", "[Subtract 1 rate(cpu{mode=\"idle\"})]"),
        ("a + b * c - d", "[Subtract [Add a [Multiply b c]] d]"),
        ("(a + b) / 2.5e3", "[Divide [Add a b] 2500]"),
        ("a / b / c", "[Divide [Divide a b] c]"),
        ("--a", "a"),
        ("-a", "[Subtract 0 a]"),
        ("max ( a { x != 'y' , z=~\"e.*\", } )", "Max(a{x!=\"y\",z=~\"^(?:e.*)$\"})"),
        ("sum(rate(n:t)) / mean(u.v)", "[Divide Sum(rate(n:t)) Mean(u.v)]"),
        ("'disk-free' - 1", "[Subtract disk-free 1]"),
        ("rate", "rate"),
        ("a{b=\"c\\\"d\"}", "a{b=\"c\\\"d\"}"),
        ("1e", ""),
    ];
    for (text, expect) in rows {
        match MetricExpression::parse(text) {
            Ok(expression) => assert_eq!(shown(&expression.term), expect, "{text}"),
            Err(_) => assert_eq!("", expect, "{text}"),
        }
    }
}

#[test]
fn a_mistake_has_its_place() {
    let rows = [
        ("", 0..0, "the expression ends where"),
        ("a +", 3..3, "the expression ends where"),
        ("a b", 2..3, "`b` stands where an operator"),
        ("avg(a)", 0..3, "did you mean `mean`?"),
        ("summ(a)", 0..4, "did you mean `sum`?"),
        ("1 - rate(sum(a))", 9..12, "`rate` is of a metric"),
        ("rate(a[5m])", 6..10, "leave the brackets out"),
        ("a{b}", 3..4, "`=`, `!=`, `=~` or `!~`"),
        ("a{b=~\"(\"}", 5..8, "no pattern"),
        ("a{b=\"c}", 4..7, "does not end"),
        ("a{b=\"c\" d=\"e\"}", 8..9, "`,` or `}`"),
        ("(a", 2..2, "`)`"),
        ("1.2.3", 0..5, "is no number"),
        ("ä", 0..2, "`ä` stands where"),
        ("''", 0..2, "has a name"),
    ];
    for (text, place, expect) in rows {
        let (at, sentence) = MetricExpression::parse(text).unwrap_err();
        assert_eq!(at, place, "{text}: {sentence}");
        assert!(sentence.contains(expect), "{text}: {sentence}");
    }
    let deep = "(".repeat(1000);
    assert!(MetricExpression::parse(&deep).unwrap_err().1.contains("in each other"));
    assert!(MetricExpression::parse(&"-".repeat(1999)).is_err());
    assert!(MetricExpression::parse(&"a".repeat(2001)).is_err());
}
