//! The register's text: `docs/format/register.md`. It does no I/O.

use std::fmt::Write as _;

use xxhash_rust::xxh3::xxh3_64;

use super::{Entry, Reached, State};

const FIRST_LINE: &str = "weir volumes 3";
/// The version before, which knows nothing of the ledger.
const FIRST_LINE_2: &str = "weir volumes 2";

impl State {
    pub(super) fn to_text(&self) -> String {
        let announced: String = self.announced.iter().map(|with| format!(" {with:016x}")).collect();
        let State { numbers, ledger, .. } = self;
        let mut text = format!("{FIRST_LINE}\nnumbers {numbers}\nledger {ledger}\nannounced{announced}\n");
        for (id, entry) in &self.volumes {
            let flag = |is: bool, yes: &'static str, no: &'static str| if is { yes } else { no };
            let presence = flag(entry.is_present, "present", "away");
            let expected = flag(entry.is_expected, "expected", "gone");
            let drive = flag(entry.is_mount, "mount", "root");
            let Entry {
                reached: Reached { epoch, end }, opening, ledger, suspect_before, dead_before, ..
            } = entry;
            let path: String = entry.path.escape_default().collect();
            let _ = writeln!(
                text,
                "volume {id:032x} {presence} {expected} epoch {epoch} end {end} opening {opening:016x} \
                ledger {ledger:032x} trusted {suspect_before} dead {dead_before} {drive} {path}"
            );
        }
        let _ = writeln!(text, "sum {:016x}", xxh3_64(text.as_bytes()));
        text
    }

    /// `None` for a text that was not written here.
    pub(super) fn read(bytes: &[u8]) -> Option<State> {
        let text = std::str::from_utf8(bytes).ok()?;
        let at = text.trim_end_matches('\n').rfind('\n')? + 1;
        let sum = text[at..].strip_prefix("sum ")?.strip_suffix('\n')?;
        if sum != format!("{:016x}", xxh3_64(&bytes[..at])) {
            return None;
        }
        let mut lines = text[..at].lines();
        let has_ledger = match lines.next() {
            Some(FIRST_LINE) => true,
            Some(FIRST_LINE_2) => false,
            _ => return None,
        };
        let numbers = lines.next()?.strip_prefix("numbers ")?.parse().ok()?;
        let ledger = if has_ledger { lines.next()?.strip_prefix("ledger ")?.parse().ok()? } else { 0 };
        let announced = if has_ledger { announced(lines.next()?)? } else { Vec::new() };
        let volumes = lines.map(|line| entry(line, has_ledger)).collect::<Option<_>>()?;
        Some(State { numbers, ledger, announced, volumes })
    }
}

fn announced(line: &str) -> Option<Vec<u64>> {
    line.strip_prefix("announced")?
        .split_terminator(' ')
        .skip(1)
        .map(|with| u64::from_str_radix(with, 16).ok())
        .collect()
}

fn entry(line: &str, has_ledger: bool) -> Option<(u128, Entry)> {
    let mut words = line.splitn(if has_ledger { 18 } else { 16 }, ' ');
    let mut word = || words.next();
    let is = |word: &str, yes: &str, no: &str| (word == yes || word == no).then_some(word == yes);
    if word()? != "volume" {
        return None;
    }
    let id = u128::from_str_radix(word()?, 16).ok()?;
    let is_present = is(word()?, "present", "away")?;
    let is_expected = is(word()?, "expected", "gone")?;
    let mut after = |name: &str| word().filter(|word| *word == name).and_then(|_| word());
    let reached = Reached { epoch: after("epoch")?.parse().ok()?, end: after("end")?.parse().ok()? };
    let opening = u64::from_str_radix(after("opening")?, 16).ok()?;
    let ledger = if has_ledger { u128::from_str_radix(after("ledger")?, 16).ok()? } else { 0 };
    let (suspect_before, dead_before) = (after("trusted")?.parse().ok()?, after("dead")?.parse().ok()?);
    let is_mount = is(word()?, "mount", "root")?;
    let path = unescaped(word()?)?;
    let (is_here, was_here) = (false, false);
    Some((
        id,
        Entry {
            reached,
            opening,
            ledger,
            is_present,
            is_here,
            was_here,
            is_expected,
            suspect_before,
            dead_before,
            is_mount,
            path,
        },
    ))
}

/// Undoes `escape_default`.
fn unescaped(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        if char != '\\' {
            out.push(char);
            continue;
        }
        out.push(match chars.next()? {
            't' => '\t',
            'r' => '\r',
            'n' => '\n',
            'u' => {
                let rest = chars.as_str();
                let (digits, after) = rest.strip_prefix('{')?.split_once('}')?;
                chars = after.chars();
                char::from_u32(u32::from_str_radix(digits, 16).ok()?)?
            }
            other => other,
        });
    }
    Some(out)
}
