//! How much content there may be: bytes and pieces, in all and of one site, what is on its way in included.
//! Pure.

use std::collections::HashMap;
use std::sync::Arc;

use crate::entry::Entry;

/// The most pieces.
pub const ENTRIES_MAX: u64 = 65_536;
/// The most uploads at a time.
pub const UPLOADS_MAX: u32 = 24;
/// Those of callers that are for some sites alone: the others always find a place.
const UPLOADS_OF_SOME_MAX: u32 = 16;
/// Those of one site among these.
const UPLOADS_OF_SITE_MAX: u32 = 2;
/// A piece counts in such steps, and one more for its file.
const STEP_BYTES: u64 = 4096;

/// How much of the room a caller may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// All of it.
    Whole,
    /// Of each site an equal part, by the number of sites.
    OneOf(usize),
}

/// Pieces and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stock {
    /// Pieces.
    pub objects: u64,
    /// Bytes of their contents.
    pub bytes: u64,
}

/// How much there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// What is laid.
    pub laid: Stock,
    /// What is used of the room in bytes, what is on its way in included. Each piece counts in steps of 4
    /// KiB, and 4 KiB for its file.
    pub used_bytes: u64,
    /// The room in bytes.
    pub size_bytes: u64,
    /// Uploads under way.
    pub uploads: u32,
}

/// Why there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// For so many bytes there would not be in an empty folder either.
    TooLarge(u64),
    /// So many bytes are left.
    Full(u64),
    /// There are too many pieces.
    Entries,
    /// Too many uploads are under way.
    Uploads,
}

#[derive(Clone, Copy, Debug, Default)]
struct Of {
    stock: Stock,
    charged_bytes: u64,
    coming: u64,
    uploads_of_some: u32,
}

#[derive(Debug)]
pub(crate) struct Room {
    size_bytes: u64,
    all: Of,
    uploads: u32,
    by_site: HashMap<Arc<str>, Of>,
}

/// What an upload has of the room. It is given back to [`Room::give_back`].
#[derive(Debug)]
pub(crate) struct Reservation {
    site: Arc<str>,
    share: Share,
    bytes: u64,
}

/// What a piece of so many bytes costs.
fn charge(body_bytes: u64) -> u64 {
    body_bytes.div_ceil(STEP_BYTES).saturating_add(1).saturating_mul(STEP_BYTES)
}

impl Room {
    pub(crate) fn new(size_bytes: u64) -> Room {
        Room { size_bytes, all: Of::default(), uploads: 0, by_site: HashMap::new() }
    }

    pub(crate) fn limit(&mut self, size_bytes: u64) {
        self.size_bytes = size_bytes;
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage {
            laid: self.all.stock,
            used_bytes: self.all.charged_bytes,
            size_bytes: self.size_bytes,
            uploads: self.uploads,
        }
    }

    pub(crate) fn stocks(&self) -> Vec<(Arc<str>, Stock)> {
        self.by_site.iter().map(|(site, of)| (Arc::clone(site), of.stock)).collect()
    }

    /// Begins an upload that will have `body_bytes`, or more.
    pub(crate) fn begin(
        &mut self,
        site: &Arc<str>,
        body_bytes: u64,
        share: Share,
    ) -> Result<Reservation, NoRoom> {
        let of = self.by_site.get(site).copied().unwrap_or_default();
        let of_some: u32 = self.by_site.values().map(|of| of.uploads_of_some).sum();
        let is_some = matches!(share, Share::OneOf(_));
        if self.uploads >= UPLOADS_MAX
            || (is_some && (of_some >= UPLOADS_OF_SOME_MAX || of.uploads_of_some >= UPLOADS_OF_SITE_MAX))
        {
            return Err(NoRoom::Uploads);
        }
        let (_, entries_max) = self.bounds(share);
        let entries = |of: &Of| of.stock.objects + of.coming;
        if entries(&self.all) >= ENTRIES_MAX || (is_some && entries(&of) >= entries_max) {
            return Err(NoRoom::Entries);
        }
        let bytes = charge(body_bytes);
        self.check(&of, bytes, share, bytes)?;
        let own = self.by_site.entry(Arc::clone(site)).or_default();
        own.uploads_of_some += u32::from(is_some);
        self.uploads += 1;
        for of in [own, &mut self.all] {
            of.coming += 1;
            of.charged_bytes += bytes;
        }
        Ok(Reservation { site: Arc::clone(site), share, bytes })
    }

    /// Makes a reservation large enough for `body_bytes`.
    pub(crate) fn grow(&mut self, reservation: &mut Reservation, body_bytes: u64) -> Result<(), NoRoom> {
        let wanted = charge(body_bytes);
        let Some(more) = wanted.checked_sub(reservation.bytes).filter(|more| *more > 0) else {
            return Ok(());
        };
        let of = self.by_site.get(&reservation.site).copied().unwrap_or_default();
        self.check(&of, more, reservation.share, wanted)?;
        reservation.bytes = wanted;
        let own = self.by_site.entry(Arc::clone(&reservation.site)).or_default();
        for of in [own, &mut self.all] {
            of.charged_bytes += more;
        }
        Ok(())
    }

    /// Ends an upload.
    pub(crate) fn give_back(&mut self, reservation: &Reservation) {
        self.uploads -= 1;
        if let Some(own) = self.by_site.get_mut(&reservation.site) {
            own.uploads_of_some -= u32::from(reservation.share != Share::Whole);
            for of in [own, &mut self.all] {
                of.coming -= 1;
                of.charged_bytes -= reservation.bytes;
            }
        }
        self.forget(&reservation.site);
    }

    /// Counts a piece, whatever the bounds say.
    pub(crate) fn add(&mut self, entry: &Entry) {
        let own = self.by_site.entry(Arc::clone(&entry.site)).or_default();
        for of in [own, &mut self.all] {
            of.stock.objects += 1;
            of.stock.bytes += entry.body_bytes;
            of.charged_bytes += charge(entry.body_bytes);
        }
    }

    /// Counts a piece no more.
    pub(crate) fn remove(&mut self, entry: &Entry) {
        if let Some(own) = self.by_site.get_mut(&entry.site) {
            for of in [own, &mut self.all] {
                of.stock.objects -= 1;
                of.stock.bytes -= entry.body_bytes;
                of.charged_bytes -= charge(entry.body_bytes);
            }
        }
        self.forget(&entry.site);
    }

    fn forget(&mut self, site: &Arc<str>) {
        if self.by_site.get(site).is_some_and(|of| of.stock.objects == 0 && of.coming == 0) {
            self.by_site.remove(site);
        }
    }

    /// The most bytes and pieces that a caller may use, in all or of one site.
    fn bounds(&self, share: Share) -> (u64, u64) {
        match share {
            Share::Whole => (self.size_bytes, ENTRIES_MAX),
            Share::OneOf(sites) => {
                let sites = u64::try_from(sites.max(1)).unwrap_or(u64::MAX);
                (self.size_bytes / sites, (ENTRIES_MAX / sites).max(1))
            }
        }
    }

    /// Whether `more` bytes fit, for a piece that takes `piece` in all.
    fn check(&self, of: &Of, more: u64, share: Share, piece: u64) -> Result<(), NoRoom> {
        let (bytes_max, _) = self.bounds(share);
        if piece > bytes_max {
            return Err(NoRoom::TooLarge(bytes_max.saturating_sub(STEP_BYTES)));
        }
        let left = self.size_bytes.saturating_sub(self.all.charged_bytes);
        let left = match share {
            Share::Whole => left,
            Share::OneOf(_) => left.min(bytes_max.saturating_sub(of.charged_bytes)),
        };
        if more > left { Err(NoRoom::Full(left.saturating_sub(STEP_BYTES))) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
