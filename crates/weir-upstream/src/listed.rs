//! The origins of an upstream as operators see them: how each stands, its share, and how it differs from the
//! file.

use crate::adjust::{self, Adjustments};
use crate::clock;
use crate::roster::{Member, Roster};
use crate::settings::{OriginSettings, Role};
use crate::snapshot::OriginSnapshot;
use crate::standing::Standing;

/// An upstream with its origins.
#[derive(Clone, Debug)]
pub struct UpstreamListed {
    /// Its name.
    pub name: String,
    /// Its origins: those of the file in its order, those that were added, those that were removed.
    pub origins: Vec<OriginListed>,
}

/// An origin in a list.
#[derive(Clone, Debug)]
pub struct OriginListed {
    /// Its name.
    pub name: String,
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
    let takes = |member: &&Member| member.origin.standing().takes_share();
    let has_primary = roster.members.iter().any(|member| member.role == Role::Primary && takes(&member));
    let role_now = if has_primary { Role::Primary } else { Role::Backup };
    let in_use = |member: &&Member| member.role == role_now && takes(member);
    let total: u64 = roster.members.iter().filter(in_use).map(|member| u64::from(member.share())).sum();
    let mut origins: Vec<OriginListed> = roster
        .members
        .iter()
        .map(|member| {
            let origin = &member.origin;
            let share = if in_use(&member) { f64::from(member.share()) / total.max(1) as f64 } else { 0.0 };
            let snapshot = origin.snapshot(now, told);
            let (address, at) = (origin.address().clone(), origin.at());
            let settings =
                OriginSettings { address, at, weight: member.weight, role: member.role, node: None };
            let differences = adjust::differences(&settings, file, adjustments);
            OriginListed {
                name: origin.name().to_owned(),
                id: member.node.clone(),
                weight: member.weight,
                role: member.role,
                share,
                is_empty: origin.is_empty(),
                reason: reason(&snapshot, origin.is_unnamed(), &differences),
                differences,
                snapshot: Some(snapshot),
            }
        })
        .collect();
    origins.extend(adjust::removed(adjustments).map(|name| removed(name)));
    UpstreamListed { name: name.to_owned(), origins }
}

fn removed(name: &str) -> OriginListed {
    OriginListed {
        name: name.to_owned(),
        id: None,
        weight: 0,
        role: Role::Primary,
        share: 0.0,
        is_empty: true,
        differences: vec!["removed".to_owned()],
        reason: "removed by the operator".to_owned(),
        snapshot: None,
    }
}

/// Why an origin stands as it does.
fn reason(snapshot: &OriginSnapshot, is_unnamed: bool, differences: &[String]) -> String {
    match snapshot.standing {
        Standing::Ready => String::new(),
        Standing::Ejected => match snapshot.ejected_for {
            Some(left) => format!("failed too often; tried again in {} s", left.as_secs_f64().ceil()),
            None => "failed too often".to_owned(),
        },
        Standing::Down => snapshot.why.clone(),
        Standing::Draining if is_unnamed => "DNS does not name it any more".to_owned(),
        Standing::Draining | Standing::Maintenance => {
            let by_operator = differences.iter().find(|said| said.ends_with("by the operator"));
            by_operator.unwrap_or(&snapshot.why).clone()
        }
    }
}
