//! The origins of an upstream as operators see them: how each stands, its share, and how it differs from the
//! file.

use std::collections::HashSet;
use std::time::Duration;

use crate::choice::adjust::{self, Adjustments};
use crate::choice::roster::Roster;
use crate::clock;
use crate::health::standing::Standing;
use crate::settings::{OriginSettings, Role};
use crate::snapshot::OriginSnapshot;

/// An upstream with its origins.
#[derive(Clone, Debug)]
pub struct UpstreamListed {
    /// Its name.
    pub name: String,
    /// Whether more origins are ejected than may be, so that all are used.
    pub is_panicking: bool,
    /// Its origins: those of the file in its order, those that were added, those that were removed.
    pub origins: Vec<OriginListed>,
}

/// An origin in a list.
#[derive(Clone, Debug)]
pub struct OriginListed {
    /// Its name.
    pub name: String,
    /// The name that it is one address of.
    pub of: Option<String>,
    /// Its name in session ids, if it has one.
    pub id: Option<String>,
    /// Its weight; 0 of one that was removed.
    pub weight: u32,
    /// Whether it is a backup.
    pub role: Role,
    /// Its share of the requests now, as its weight says, 0 to 1.
    pub share: f64,
    /// Whether nothing is under way there.
    pub is_empty: bool,
    /// How it differs from the file, a phrase each.
    pub differences: Vec<String>,
    /// Why it stands as it does; empty where it takes its share.
    pub reason: String,
    /// The error that it gives since it was last well; `None` where it is well, or was never asked.
    pub failing: Option<String>,
    /// For how long no session's request was sent there; `None` where none ever was.
    pub unfollowed: Option<Duration>,
    /// What it does and has done; `None` of one that was removed.
    pub snapshot: Option<OriginSnapshot>,
}

pub(crate) fn listed(
    name: &str,
    roster: &Roster,
    file: &[OriginSettings],
    (adjustments, told): (&Adjustments, (bool, bool)),
) -> UpstreamListed {
    let now = clock::now();
    let mut origins: Vec<OriginListed> = roster
        .members
        .iter()
        .enumerate()
        .map(|(at, member)| {
            let origin = &member.origin;
            let share = roster.share(at);
            let snapshot = origin.snapshot(now, told);
            let (address, at) = (origin.address().clone(), origin.at());
            let settings =
                OriginSettings { address, at, weight: member.weight, role: member.role, node: None };
            let differences = adjust::differences(&settings, file, adjustments);
            OriginListed {
                name: origin.name().to_owned(),
                of: origin.at().map(|_| origin.address().to_string()),
                id: member.node.clone(),
                weight: member.weight,
                role: member.role,
                share,
                is_empty: origin.is_empty(),
                reason: reason(&snapshot, (origin.is_unnamed(), share > 0.0), &differences),
                failing: origin.failing(),
                unfollowed: origin.unfollowed_for(now),
                differences,
                snapshot: Some(snapshot),
            }
        })
        .collect();
    // One that is used all the same stands above.
    let is_used: HashSet<String> = origins.iter().map(|origin| origin.name.clone()).collect();
    let others = adjust::removed(adjustments).filter(|name| !is_used.contains(*name));
    origins.extend(others.map(|name| removed(name)));
    UpstreamListed { name: name.to_owned(), is_panicking: roster.is_panicking, origins }
}

fn removed(name: &str) -> OriginListed {
    OriginListed {
        name: name.to_owned(),
        of: None,
        id: None,
        weight: 0,
        role: Role::Primary,
        share: 0.0,
        is_empty: true,
        differences: vec!["removed".to_owned()],
        reason: "removed by the operator".to_owned(),
        failing: None,
        unfollowed: None,
        snapshot: None,
    }
}

/// Why an origin stands as it does.
fn reason(snapshot: &OriginSnapshot, (is_unnamed, is_used): (bool, bool), differences: &[String]) -> String {
    match snapshot.standing {
        Standing::Ready => String::new(),
        Standing::Ejected => {
            let cause = snapshot.ejected_as.unwrap_or("ejected");
            match snapshot.ejected_for {
                _ if is_used => format!("{cause}; used all the same"),
                Some(left) if left.is_zero() => format!("{cause}; the next request tries it"),
                Some(left) => format!("{cause}; tried again in {} s", left.as_secs_f64().ceil()),
                None => cause.to_owned(),
            }
        }
        Standing::Down => snapshot.why.clone(),
        Standing::Draining if is_unnamed => "DNS does not name it any more".to_owned(),
        Standing::Draining | Standing::Maintenance => {
            let by_operator = differences.iter().find(|said| said.ends_with("by the operator"));
            by_operator.unwrap_or(&snapshot.why).clone()
        }
    }
}
