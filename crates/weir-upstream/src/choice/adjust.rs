//! What operators change of an upstream's origins while Weir runs, laid over what the file says. Pure: the
//! upstream makes and drops origins accordingly.
//!
//! An [`Adjustment`] says how one origin differs from the file. It outlives reloads: another file gets the
//! same adjustments.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::time::Instant;

use crate::health::standing::Order;
use crate::sessions::affinity::suffix;
use crate::sessions::node;
use crate::settings::{OriginAddress, OriginSettings, Role};

/// The most origins of an upstream that operators have added.
pub const ADDED_MAX: usize = 10_000;
/// The longest id of an origin.
const ID_BYTES_MAX: usize = 64;
/// What a weight may be.
const WEIGHTS: std::ops::RangeInclusive<u32> = 1..=1000;

/// How an origin differs from the file. The default: not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Adjustment {
    /// The file did not have it when it was added. Where the file has it now, the file's role counts.
    pub added: Option<Role>,
    /// Its name in session ids, where it was added with one.
    pub id: Option<String>,
    /// It gets nothing, as if the file did not have it.
    pub is_removed: bool,
    /// Its weight in place of the file's.
    pub weight: Option<u32>,
    /// What an operator wants of it.
    pub order: Order,
}

/// The adjustments of an upstream by the origin's name.
pub type Adjustments = BTreeMap<String, Adjustment>;

/// What an operator orders for one origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It takes part from now on. One that was removed comes back as it was.
    Add {
        /// Its weight; absent: 1.
        weight: Option<u32>,
        /// Whether it is a backup; absent: what it was, else a primary.
        role: Option<Role>,
        /// Its name in session ids; absent: what it was.
        id: Option<String>,
    },
    /// It gets nothing more. Requests under way finish.
    Remove,
    /// Its share relative to the others.
    Weight(u32),
    /// Whether it takes its share.
    Order(Order),
    /// It is what the file says; one that the file does not have leaves.
    Forget,
}

/// Why a change is refused. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// The upstream has no such origin.
    #[error("{upstream} has no origin {origin}")]
    Unknown {
        /// The upstream.
        upstream: String,
        /// What was named.
        origin: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// What was named is no origin's address.
    #[error("{0}")]
    Address(String),
    /// The change contradicts what is.
    #[error("{0}")]
    Contradiction(String),
}

/// An address of a name, found by DNS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) at: SocketAddr,
    /// Of an SRV record; without one those of the name count.
    pub(crate) weight: Option<u32>,
    pub(crate) role: Option<Role>,
    /// Since when DNS does not name it any more.
    pub(crate) gone: Option<Instant>,
}

/// The addresses found of names, by the name of the origin that the file has.
pub(crate) type Finds = BTreeMap<String, Vec<Found>>;

/// An origin that there is to be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wanted {
    pub(crate) settings: OriginSettings,
    pub(crate) order: Order,
    pub(crate) is_gone: bool,
}

/// The name of an origin in the form that origins have; the text itself where it is no address.
pub fn name_of(text: &str) -> String {
    text.parse::<OriginAddress>().map_or_else(|_| text.to_owned(), |address| address.to_string())
}

/// The origins that there are to be: those of the file and those added, without those removed. Where nothing
/// would be left but what DNS no longer names, those come back that were removed: the file wants them.
pub(crate) fn wanted(file: &[OriginSettings], adjustments: &Adjustments, finds: &Finds) -> Vec<Wanted> {
    let laid = laid_over(file, adjustments, finds);
    if has_origin(&laid) || removed(adjustments).next().is_none() {
        return laid;
    }
    let mut less = adjustments.clone();
    less.retain(|_, adjustment| !adjustment.is_removed);
    laid_over(file, &less, finds)
}

/// Whether so much was removed that nothing would be left, and it is used all the same.
pub(crate) fn is_overruled(file: &[OriginSettings], adjustments: &Adjustments, finds: &Finds) -> bool {
    removed(adjustments).next().is_some() && !has_origin(&laid_over(file, adjustments, finds))
}

/// Whether there is one that is not gone.
fn has_origin(all: &[Wanted]) -> bool {
    all.iter().any(|wanted| !wanted.is_gone)
}

/// The origins as adjustments have them.
fn laid_over(file: &[OriginSettings], adjustments: &Adjustments, finds: &Finds) -> Vec<Wanted> {
    let mut all = Vec::with_capacity(file.len());
    for settings in file.iter().cloned().chain(added(file, adjustments)) {
        let name = settings.name();
        let Some(whole) = adjusted(settings, Order::Ready, adjustments) else { continue };
        let Some(finds) = finds.get(&name).filter(|finds| !finds.is_empty()) else {
            all.push(Wanted { settings: whole.0, order: whole.1, is_gone: false });
            continue;
        };
        for found in finds {
            let each = OriginSettings {
                at: Some(found.at),
                weight: found.weight.unwrap_or(whole.0.weight),
                role: found.role.unwrap_or(whole.0.role),
                ..whole.0.clone()
            };
            if let Some((settings, order)) = adjusted(each, whole.1, adjustments) {
                all.push(Wanted { settings, order, is_gone: found.gone.is_some() });
            }
        }
    }
    all
}

/// Those that the file does not have.
fn added(file: &[OriginSettings], adjustments: &Adjustments) -> Vec<OriginSettings> {
    let is_in_file = |name: &String| file.iter().any(|origin| origin.name() == *name);
    let added = adjustments.iter().filter(|(name, _)| !is_in_file(name)).filter_map(|(name, adjustment)| {
        let (role, address) = (adjustment.added?, name.parse().ok()?);
        Some(OriginSettings { role, node: adjustment.id.clone(), ..OriginSettings::new(address) })
    });
    added.collect()
}

fn adjusted(
    settings: OriginSettings,
    order: Order,
    adjustments: &Adjustments,
) -> Option<(OriginSettings, Order)> {
    match adjustments.get(&settings.name()) {
        None => Some((settings, order)),
        Some(adjustment) if adjustment.is_removed => None,
        Some(adjustment) => {
            let weight = adjustment.weight.unwrap_or(settings.weight);
            let order = if adjustment.order == Order::Ready { order } else { adjustment.order };
            Some((OriginSettings { weight, ..settings }, order))
        }
    }
}

/// An upstream before a change.
pub(crate) struct Before<'u> {
    pub(crate) upstream: &'u str,
    pub(crate) file: &'u [OriginSettings],
    /// Whether session ids name its origins, so that each needs a name for them.
    pub(crate) is_named: bool,
    pub(crate) adjustments: &'u Adjustments,
    pub(crate) finds: &'u Finds,
}

impl Before<'_> {
    /// The adjustments after a change.
    ///
    /// # Errors
    /// The change makes no sense; nothing is changed.
    pub(crate) fn changed(&self, origin: &str, change: Change) -> Result<Adjustments, ChangeError> {
        let name = self.meant(origin);
        let weight = match &change {
            Change::Add { weight, .. } => *weight,
            Change::Weight(weight) => Some(*weight),
            Change::Remove | Change::Order(_) | Change::Forget => None,
        };
        if let Some(weight) = weight.filter(|weight| !WEIGHTS.contains(weight)) {
            let why =
                format!("the weight {weight} is none: it is 1 to 1000; `drain` or `maint` takes the share");
            return Err(ChangeError::Contradiction(why));
        }
        let mut after = self.adjustments.clone();
        match change {
            Change::Add { weight, role, id } => {
                self.check_id(&name, id.as_deref())?;
                self.add(&mut after, &name, (weight, role, id))?;
            }
            Change::Remove => self.remove(&mut after, &name)?,
            Change::Weight(weight) => self.known(&mut after, &name)?.weight = Some(weight),
            Change::Order(order) => self.order(&mut after, &name, order)?,
            Change::Forget => self.forget(&mut after, &name)?,
        }
        // What the file says already is no difference.
        after.retain(|name, adjustment| {
            let of_file = self.file.iter().find(|origin| origin.name() == *name);
            if let Some(of_file) = of_file {
                (adjustment.added, adjustment.id) = (None, None);
                adjustment.weight = adjustment.weight.filter(|weight| *weight != of_file.weight);
            }
            *adjustment != Adjustment::default()
        });
        Ok(after)
    }

    fn add(
        &self,
        after: &mut Adjustments,
        name: &str,
        (weight, role, id): (Option<u32>, Option<Role>, Option<String>),
    ) -> Result<(), ChangeError> {
        let refused = |why: String| Err(ChangeError::Contradiction(why));
        let of_file = self.file.iter().find(|origin| origin.name() == name);
        let before = after.get(name).cloned();
        let is_removed = before.as_ref().is_some_and(|before| before.is_removed);
        if !is_removed && self.names().any(|known| known == name) {
            return refused(format!(
                "{} has {name} already; `weight` changes its weight, `ready` ends a drain",
                self.upstream
            ));
        }
        if let (Some(of_file), Some(role)) = (of_file, role)
            && of_file.role != role
        {
            let is = if of_file.role == Role::Backup { "a backup" } else { "no backup" };
            return refused(format!("the file says that {name} is {is}; change the file and reload"));
        }
        if of_file.is_none() && name.parse::<OriginAddress>().is_err() && !is_removed {
            let error = name.parse::<OriginAddress>().err().map(|error| error.to_string());
            return Err(ChangeError::Address(error.unwrap_or_default()));
        }
        let count = after.values().filter(|adjustment| adjustment.added.is_some()).count();
        if count >= ADDED_MAX {
            return refused(format!("{ADDED_MAX} origins were added already; remove some first"));
        }
        let before = before.unwrap_or_default();
        let is_own = of_file.is_some() || (is_removed && before.added.is_none());
        let added = if is_own { None } else { Some(role.or(before.added).unwrap_or_default()) };
        let (weight, id) = (weight.or(before.weight), id.or(before.id));
        if self.is_named && added.is_some() && id.is_none() {
            let why = "session ids name the origins of this upstream; say the id of this one (`--id node3`)";
            return refused(why.to_owned());
        }
        after.insert(name.to_owned(), Adjustment { added, weight, id, ..Adjustment::default() });
        Ok(())
    }

    /// Refuses an id that is none, that another origin has, or that the file contradicts.
    fn check_id(&self, name: &str, id: Option<&str>) -> Result<(), ChangeError> {
        let Some(id) = id else { return Ok(()) };
        let refused = |why: String| Err(ChangeError::Contradiction(why));
        if id.len() > ID_BYTES_MAX || !suffix::is_node(id) {
            return refused(format!("`{id}` is no id: 1 to {ID_BYTES_MAX} letters, digits, `-` and `_`"));
        }
        let whole = self.file.iter().cloned().chain(added(self.file, self.adjustments));
        let each = wanted(self.file, self.adjustments, self.finds).into_iter();
        for other in whole.chain(each.map(|wanted| wanted.settings)) {
            if other.name() == name && other.node.as_deref() != Some(id) {
                let is = other.node.as_ref().map_or("none".to_owned(), |node| format!("`{node}`"));
                return refused(format!("the id of {name} is {is}; remove it first to change that"));
            }
            if other.name() != name && node::of(&other).as_deref() == Some(id) {
                return refused(format!("{} has the id `{id}` already", other.name()));
            }
        }
        Ok(())
    }

    fn remove(&self, after: &mut Adjustments, name: &str) -> Result<(), ChangeError> {
        let is_in_file = self.file.iter().any(|origin| origin.name() == name);
        let adjustment = self.known(after, name)?;
        if adjustment.is_removed {
            return Err(ChangeError::Contradiction(format!("{name} is removed already")));
        }
        if adjustment.added.is_some() && !is_in_file {
            after.remove(name);
        } else {
            *adjustment = Adjustment { is_removed: true, ..Adjustment::default() };
        }
        if !has_origin(&laid_over(self.file, after, self.finds)) {
            let why = format!(
                "{name} is the last origin of {}; add another one first, or use `maint`, after which it gets \
                 nothing and stays known",
                self.upstream
            );
            return Err(ChangeError::Contradiction(why));
        }
        Ok(())
    }

    fn forget(&self, after: &mut Adjustments, name: &str) -> Result<(), ChangeError> {
        self.known(after, name)?;
        after.remove(name);
        if wanted(self.file, after, self.finds).iter().all(|wanted| wanted.is_gone) {
            let why = format!("{name} is the last origin of {}; add another one first", self.upstream);
            return Err(ChangeError::Contradiction(why));
        }
        Ok(())
    }

    /// The name of the origin that is meant by its name or by its name in session ids.
    pub(crate) fn meant(&self, origin: &str) -> String {
        let name = name_of(origin);
        if self.adjustments.contains_key(&name) || self.names().any(|known| known == name) {
            return name;
        }
        let each = wanted(self.file, self.adjustments, self.finds).into_iter();
        let of_id = |wanted: &Wanted| node::of(&wanted.settings).as_deref() == Some(origin);
        let mut found = each.filter(of_id).map(|wanted| wanted.settings.name());
        found.next().unwrap_or(name)
    }

    fn order(&self, after: &mut Adjustments, name: &str, order: Order) -> Result<(), ChangeError> {
        let adjustment = self.known(after, name)?;
        if adjustment.is_removed {
            let why = format!("{name} is removed; `add` brings it back");
            return Err(ChangeError::Contradiction(why));
        }
        adjustment.order = order;
        Ok(())
    }

    /// The adjustment of an origin that there is or was.
    fn known<'a>(&self, after: &'a mut Adjustments, name: &str) -> Result<&'a mut Adjustment, ChangeError> {
        if after.contains_key(name) || self.names().any(|known| known == name) {
            return Ok(after.entry(name.to_owned()).or_default());
        }
        Err(ChangeError::Unknown {
            upstream: self.upstream.to_owned(),
            origin: name.to_owned(),
            known: self.names().collect(),
        })
    }

    /// All names that mean something: those of the file, added ones, and those of single addresses.
    fn names(&self) -> impl Iterator<Item = String> {
        let mut names: Vec<String> = self.file.iter().map(OriginSettings::name).collect();
        let all = wanted(self.file, self.adjustments, self.finds);
        names.extend(all.iter().map(|wanted| wanted.settings.name()));
        names.extend(added(self.file, self.adjustments).iter().map(OriginSettings::name));
        let mut seen = HashSet::new();
        names.retain(|name| seen.insert(name.clone()));
        names.into_iter()
    }
}

/// How an origin differs from the file, in words.
pub(crate) fn differences(
    settings: &OriginSettings,
    file: &[OriginSettings],
    adjustments: &Adjustments,
) -> Vec<String> {
    let name = settings.name();
    // An address of a name has what is said of it and what is said of its name.
    let whole = OriginSettings { at: None, ..settings.clone() }.name();
    let of_file = file.iter().find(|origin| origin.name() == whole);
    let mut said = Vec::new();
    if of_file.is_none() {
        said.push("added".to_owned());
    }
    let mut seen = vec![&name];
    if whole != name {
        seen.push(&whole);
    }
    for adjustment in seen.into_iter().filter_map(|name| adjustments.get(name)) {
        if adjustment.is_removed {
            said.push("removed, but no other origin is left".to_owned());
        }
        match (adjustment.weight, of_file) {
            (Some(weight), Some(of_file)) if weight != of_file.weight => {
                said.push(format!("weight {weight} (file: {})", of_file.weight));
            }
            _ => {}
        }
        match adjustment.order {
            Order::Ready => {}
            Order::Drain => said.push("drained by the operator".to_owned()),
            Order::Maintenance => said.push("in maintenance by the operator".to_owned()),
        }
    }
    said
}

/// The origins that operators have removed, as the file has them, or by their names.
pub(crate) fn removed(adjustments: &Adjustments) -> impl Iterator<Item = &String> {
    adjustments.iter().filter(|(_, adjustment)| adjustment.is_removed).map(|(name, _)| name)
}

#[cfg(test)]
mod tests;
