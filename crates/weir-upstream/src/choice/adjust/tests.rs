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
    is_named: bool,
}

impl Case {
    fn new() -> Case {
        Case { file: file(), adjustments: Adjustments::new(), finds: Finds::new(), is_named: false }
    }

    fn try_change(&mut self, origin: &str, change: Change) -> Result<(), ChangeError> {
        let Case { file, adjustments, finds, is_named } = &*self;
        let before = Before { upstream: "main", file, is_named: *is_named, adjustments, finds };
        let after = before.changed(origin, change)?;
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

const ADD: Change = Change::Add { weight: None, role: None, id: None };

#[test]
fn changes_are_laid_over_the_file() {
    let mut case = Case::new();
    assert_eq!(case.all(), ["http://a:80 1 Primary Ready", "http://b:80 1 Backup Ready"]);
    case.try_change("http://c", Change::Add { weight: Some(3), role: Some(Role::Backup), id: None }).unwrap();
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
    let heavy = Change::Add { weight: Some(1001), role: None, id: None };
    assert!(case.refused("http://x", heavy).contains("1 to 1000"));
    assert!(case.refused("ftp://x", ADD).contains("scheme must be"));
    assert_eq!(case.refused("http://x", Change::Weight(2)), "main has no origin http://x:80");
    case.try_change("http://b", Change::Remove).unwrap();
    assert!(case.refused("http://b", Change::Remove).contains("removed already"));
    assert!(case.refused("http://b", Change::Order(Order::Drain)).contains("`add` brings it back"));
    assert!(case.refused("http://a", Change::Remove).contains("last origin of main"));
    let primary = Change::Add { weight: None, role: Some(Role::Primary), id: None };
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
fn where_nothing_is_left_the_file_counts() {
    let mut case = Case::new();
    case.try_change("http://a", Change::Remove).unwrap();
    let is_overruled = |case: &Case| is_overruled(&case.file, &case.adjustments, &case.finds);
    assert!(!is_overruled(&case));
    // Another file has only the one that was removed.
    case.file.truncate(1);
    assert_eq!(case.all(), ["http://a:80 1 Primary Ready"]);
    assert!(is_overruled(&case));
    // One that is added is enough, and the removed one stays out again.
    case.try_change("http://c", ADD).unwrap();
    assert_eq!(case.all(), ["http://c:80 1 Primary Ready"]);
    assert!(!is_overruled(&case) && case.refused("http://c", Change::Remove).contains("last"));
    // An address that was removed is all that DNS still names.
    let mut case = Case::new();
    case.file.truncate(1);
    let found = |at: &str| Found::of(at.parse().unwrap(), None, None);
    case.finds.insert("http://a:80".to_owned(), vec![found("10.0.0.1:80"), found("10.0.0.2:80")]);
    case.try_change("http://a@10.0.0.1:80", Change::Remove).unwrap();
    assert_eq!(case.all(), ["http://a@10.0.0.2:80 1 Primary Ready"]);
    case.finds.get_mut("http://a:80").unwrap()[1].gone = Some(crate::clock::now());
    assert_eq!(case.all().len(), 2);
    assert!(is_overruled(&case));
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

#[test]
fn an_added_origin_has_an_id_that_no_other_has() {
    let mut case = Case::new();
    case.file[0].node = Some("node1".to_owned());
    case.file[1].node = Some("node2".to_owned());
    case.is_named = true;
    let add = |id: &str| Change::Add { weight: None, role: None, id: Some(id.to_owned()) };
    let node = |case: &Case, name: &str| {
        let all = wanted(&case.file, &case.adjustments, &case.finds);
        all.into_iter().find(|wanted| wanted.settings.name() == name).and_then(|wanted| wanted.settings.node)
    };
    assert!(case.refused("http://c", ADD).contains("say the id of this one"));
    assert!(case.refused("http://c", add("node1")).contains("http://a:80 has the id `node1` already"));
    assert!(case.refused("http://c", add("node.3")).contains("is no id"));
    case.try_change("http://c", add("node3")).unwrap();
    case.try_change("http://c", Change::Weight(5)).unwrap();
    assert_eq!(node(&case, "http://c:80").as_deref(), Some("node3"), "another change leaves it");
    assert!(case.refused("http://d", add("node3")).contains("already"));
    // One of the file comes back with its own.
    case.try_change("http://a", Change::Remove).unwrap();
    assert!(case.refused("http://a", add("node9")).contains("the id of http://a:80 is `node1`"));
    case.try_change("http://a", ADD).unwrap();
    assert_eq!(node(&case, "http://a:80").as_deref(), Some("node1"));
    // What the file says of it counts from then on.
    let named =
        OriginSettings { node: Some("n3".to_owned()), ..OriginSettings::new("http://c".parse().unwrap()) };
    case.file.push(named);
    assert_eq!(node(&case, "http://c:80").as_deref(), Some("n3"));
    // The addresses of a name have names made of its own.
    let at = Found::of("10.0.0.7:80".parse().unwrap(), None, None);
    case.finds.insert("http://a:80".to_owned(), vec![at]);
    assert!(case.refused("http://d", add("node1-10-0-0-7")).contains("already"));
}

#[test]
fn what_is_forgotten_is_as_the_file_says() {
    let mut case = Case::new();
    let as_in_file = case.all();
    case.try_change("http://a", Change::Weight(5)).unwrap();
    case.try_change("http://a", Change::Order(Order::Drain)).unwrap();
    case.try_change("http://b", Change::Remove).unwrap();
    case.try_change("http://c", ADD).unwrap();
    for name in ["http://a", "http://b", "http://c"] {
        case.try_change(name, Change::Forget).unwrap();
    }
    assert_eq!((case.all(), case.adjustments.is_empty()), (as_in_file, true));
    assert!(case.refused("http://d", Change::Forget).contains("has no origin"));
    // Also what means nothing any more.
    case.try_change("http://b", Change::Weight(5)).unwrap();
    case.file.remove(1);
    case.try_change("http://b", Change::Forget).unwrap();
    assert!(case.adjustments.is_empty());
}

#[test]
fn an_origin_may_be_named_by_its_id() {
    let mut case = Case::new();
    case.file[0].node = Some("node1".to_owned());
    case.try_change("node1", Change::Weight(5)).unwrap();
    assert_eq!(case.all()[0], "http://a:80 5 Primary Ready");
    assert!(case.refused("node2", Change::Weight(5)).contains("has no origin node2"));
}
