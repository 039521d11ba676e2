//! Changes of origins as a table: what they leave, and what is refused.

use super::*;

fn file() -> Vec<OriginSettings> {
    let origin = |text: &str| OriginSettings::new(text.parse().unwrap());
    vec![origin("http://a:80"), OriginSettings { role: Role::Backup, ..origin("http://b:80") }]
}

struct Case {
    file: Vec<OriginSettings>,
    adjustments: Adjustments,
    finds: Finds,
}

impl Case {
    fn new() -> Case {
        Case { file: file(), adjustments: Adjustments::new(), finds: Finds::new() }
    }

    fn try_change(&mut self, origin: &str, change: Change) -> Result<(), ChangeError> {
        let Case { file, adjustments, finds } = &*self;
        let after = Before { upstream: "main", file, adjustments, finds }.changed(origin, change)?;
        self.adjustments = after;
        Ok(())
    }

    fn refused(&mut self, origin: &str, change: Change) -> String {
        let before = self.adjustments.clone();
        let why = self.try_change(origin, change).unwrap_err().to_string();
        assert_eq!(self.adjustments, before);
        why
    }

    /// `name weight role order`, a line each.
    fn all(&self) -> Vec<String> {
        let all = wanted(&self.file, &self.adjustments, &self.finds);
        let line = |wanted: &Wanted| {
            let OriginSettings { weight, role, .. } = wanted.settings;
            format!("{} {weight} {role:?} {:?}", wanted.settings.name(), wanted.order)
        };
        all.iter().map(line).collect()
    }
}

const ADD: Change = Change::Add { weight: None, role: None };

#[test]
fn changes_are_laid_over_the_file() {
    let mut case = Case::new();
    assert_eq!(case.all(), ["http://a:80 1 Primary Ready", "http://b:80 1 Backup Ready"]);
    case.try_change("http://c", Change::Add { weight: Some(3), role: Some(Role::Backup) }).unwrap();
    case.try_change("http://a", Change::Weight(5)).unwrap();
    case.try_change("http://b:80", Change::Order(Order::Drain)).unwrap();
    let expect = ["http://a:80 5 Primary Ready", "http://b:80 1 Backup Drain", "http://c:80 3 Backup Ready"];
    assert_eq!(case.all(), expect);
    // Another file has the same changes over it.
    case.file.remove(1);
    assert_eq!(case.all(), [expect[0], expect[2]]);
    // What the file says now counts for what it did not have.
    case.file.push(OriginSettings { weight: 7, ..OriginSettings::new("http://c:80".parse().unwrap()) });
    assert_eq!(case.all()[1], "http://c:80 3 Primary Ready");
    case.try_change("http://c", Change::Weight(7)).unwrap();
    assert!(!case.adjustments.contains_key("http://c:80"), "what the file says is no difference");
}

#[test]
fn what_is_undone_leaves_nothing() {
    let mut case = Case::new();
    case.try_change("http://c", ADD).unwrap();
    case.try_change("http://c", Change::Remove).unwrap();
    case.try_change("http://a", Change::Weight(5)).unwrap();
    case.try_change("http://a", Change::Weight(1)).unwrap();
    case.try_change("http://a", Change::Order(Order::Maintenance)).unwrap();
    case.try_change("http://a", Change::Order(Order::Ready)).unwrap();
    case.try_change("http://b", Change::Remove).unwrap();
    assert_eq!(case.all(), ["http://a:80 1 Primary Ready"]);
    case.try_change("http://b", ADD).unwrap();
    assert_eq!(case.adjustments, Adjustments::new());
}

#[test]
fn what_makes_no_sense_changes_nothing() {
    let mut case = Case::new();
    assert!(case.refused("http://a", ADD).contains("has http://a:80 already"));
    assert!(case.refused("http://a", Change::Weight(0)).contains("1 to 1000"));
    assert!(case.refused("http://x", Change::Add { weight: Some(1001), role: None }).contains("1 to 1000"));
    assert!(case.refused("ftp://x", ADD).contains("scheme must be"));
    assert_eq!(case.refused("http://x", Change::Weight(2)), "main has no origin http://x:80");
    case.try_change("http://b", Change::Remove).unwrap();
    assert!(case.refused("http://b", Change::Remove).contains("removed already"));
    assert!(case.refused("http://b", Change::Order(Order::Drain)).contains("`add` brings it back"));
    assert!(case.refused("http://a", Change::Remove).contains("last origin of main"));
    let primary = Change::Add { weight: None, role: Some(Role::Primary) };
    assert!(case.refused("http://b", primary).contains("the file says that http://b:80 is a backup"));
}

#[test]
fn each_address_of_a_name_is_an_origin_that_can_be_changed_alone_or_with_its_name() {
    let mut case = Case::new();
    let found = |at: &str, is_gone: bool| {
        let gone = is_gone.then(crate::clock::now);
        Found { gone, ..Found::of(at.parse().unwrap(), None, None) }
    };
    case.finds
        .insert("http://a:80".to_owned(), vec![found("10.0.0.1:80", false), found("10.0.0.2:80", true)]);
    let all = case.all();
    assert_eq!(all[..2], ["http://a@10.0.0.1:80 1 Primary Ready", "http://a@10.0.0.2:80 1 Primary Ready"]);
    case.try_change("http://a", Change::Weight(4)).unwrap();
    case.try_change("http://a@10.0.0.2:80", Change::Order(Order::Drain)).unwrap();
    case.try_change("http://a@10.0.0.2:80", Change::Weight(9)).unwrap();
    let all = case.all();
    assert_eq!(all[..2], ["http://a@10.0.0.1:80 4 Primary Ready", "http://a@10.0.0.2:80 9 Primary Drain"]);
    case.try_change("http://b", Change::Remove).unwrap();
    assert!(case.refused("http://a@10.0.0.1:80", Change::Remove).contains("last"), "the other one is gone");
    assert!(case.refused("http://a", Change::Remove).contains("last"));
}

#[test]
fn differences_are_said_in_words() {
    let mut case = Case::new();
    case.try_change("http://c", ADD).unwrap();
    case.try_change("http://c", Change::Order(Order::Drain)).unwrap();
    case.try_change("http://a", Change::Weight(5)).unwrap();
    case.try_change("http://b", Change::Order(Order::Maintenance)).unwrap();
    let all = wanted(&case.file, &case.adjustments, &case.finds);
    let said: Vec<_> =
        all.iter().map(|wanted| differences(&wanted.settings, &case.file, &case.adjustments)).collect();
    let expect: [&[&str]; 3] =
        [&["weight 5 (file: 1)"], &["in maintenance by the operator"], &["added", "drained by the operator"]];
    assert_eq!(said, expect);
}
