//! What volumes hold, and what was done with them.

use serde::{Deserialize, Serialize};

/// What a verification of the volume found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Verified {
    /// Objects whose every byte is what was stored.
    pub objects: u64,
    /// Those of them that are parts.
    pub parts: u64,
    /// The bytes of their bodies.
    pub body_bytes: u64,
    /// Objects dropped because their checksum did not match.
    pub damaged: u64,
    /// Objects that left or moved while they were looked for.
    pub moved: u64,
    /// Sites whose counts of what is held were wrong, and were corrected.
    #[serde(default)]
    pub counts_corrected: u64,
    /// Rows that the catalogue lacked, and that were added.
    #[serde(default)]
    pub rows_added: u64,
    /// Rows of the catalogue that were useless, and were removed.
    #[serde(default)]
    pub rows_removed: u64,
}

/// Whether a volume stores and serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum VolumeStanding {
    /// It does both.
    Up,
    /// It serves and stores nothing.
    Full,
    /// It serves what it has.
    ReadOnly,
    /// No request waits for it.
    Slow,
    /// It is not used.
    Ejected,
    /// It is being opened.
    #[default]
    Probing,
}

impl VolumeStanding {
    /// All of them.
    pub const ALL: [VolumeStanding; 6] = [
        VolumeStanding::Up,
        VolumeStanding::Full,
        VolumeStanding::ReadOnly,
        VolumeStanding::Slow,
        VolumeStanding::Ejected,
        VolumeStanding::Probing,
    ];

    /// Its word, as in the JSON.
    pub fn word(self) -> &'static str {
        match self {
            VolumeStanding::Up => "up",
            VolumeStanding::Full => "full",
            VolumeStanding::ReadOnly => "read-only",
            VolumeStanding::Slow => "slow",
            VolumeStanding::Ejected => "ejected",
            VolumeStanding::Probing => "probing",
        }
    }
}

/// What a volume holds, and what was done with it since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct VolumeUse {
    /// Its folder.
    pub path: String,
    /// Its number in hexadecimal digits; empty where the volume has not been opened yet.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Whether it stores and serves.
    pub state: VolumeStanding,
    /// Why, where it is not up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// In how many seconds Weir tries it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_s: Option<u64>,
    /// Whether it is being emptied: `draining`, and `drained` once it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<String>,
    /// Whether what it held when it came back is revalidated before it is used.
    #[serde(default)]
    pub suspect: bool,
    /// Its share of the keys, relative to the other volumes' weights.
    #[serde(default)]
    pub weight: u64,
    /// Objects, each variant counted.
    pub objects: u64,
    /// Bytes that its files use.
    pub used_bytes: u64,
    /// The ceiling of its files.
    pub size_bytes: u64,
    /// Files that hold objects.
    pub segments: u64,
    /// Bytes of memory that its index takes, beyond the cache's.
    pub index_bytes: u64,
    /// Bytes of bodies written.
    pub written_body_bytes: u64,
    /// Bytes written other than bodies: heads, checksums, journal, checkpoints.
    pub written_overhead_bytes: u64,
    /// The most bytes written to it in a day of UTC, if there is a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_budget_bytes: Option<u64>,
    /// Bytes written since the day began, by the catalogue as well.
    #[serde(default)]
    pub written_today_bytes: u64,
    /// Nothing is stored before midnight, UTC: the budget is used up.
    #[serde(default)]
    pub write_budget_used_up: bool,
    /// Objects that were not stored because the budget was used up.
    #[serde(default)]
    pub budget_refused: u64,
    /// Objects that were written while they arrived.
    #[serde(default)]
    pub admitted: u64,
    /// Objects that were written later, from memory.
    #[serde(default)]
    pub written_later: u64,
    /// Objects evicted for room.
    pub evicted: u64,
    /// Objects that were removed because a purge had made them dead.
    #[serde(default)]
    pub swept: u64,
    /// Segments that were removed because nothing in them was alive.
    #[serde(default)]
    pub segments_freed: u64,
    /// Bytes of removed segments that are kept for clients who read them.
    #[serde(default)]
    pub kept_bytes: u64,
    /// Clients' bodies for which something removed was kept no longer before it was read.
    #[serde(default)]
    pub kept_no_longer: u64,
    /// Objects of a dropped segment that were written again because they were used.
    #[serde(default)]
    pub reinserted: u64,
    /// Objects that were removed because their site was at its quota.
    #[serde(default)]
    pub over_quota: u64,
    /// Sweeps that ended with marks dropped.
    #[serde(default)]
    pub sweeps: u64,
    /// Sweeps that failed; the volume begins them again.
    #[serde(default)]
    pub sweeps_failed: u64,
    /// The catalogue; absent where searches read through the volume instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalogue: Option<CatalogueUse>,
    /// Objects dropped because their checksum did not match.
    pub damaged: u64,
    /// Objects that were not stored because the write queue was full.
    pub queue_full: u64,
    /// Failed reads.
    pub read_errors: u64,
    /// Failed writes.
    pub write_errors: u64,
}

/// What a volume's catalogue uses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct CatalogueUse {
    /// Bytes on the drive, which count as the volume's.
    pub disk_bytes: u64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Bytes written, compactions included.
    pub written_bytes: u64,
    /// Records of the log that the catalogue has read.
    pub records: u64,
    /// Bytes of the log that the catalogue has not read yet.
    pub behind_bytes: u64,
    /// Whether it failed, and is not used until a restart.
    pub broken: bool,
}
