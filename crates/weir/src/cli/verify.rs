//! `weir verify`: checks all that the running Weir's volumes hold.

use std::process::ExitCode;

use clap::Args;
use weir_control::Verified;

use super::find::Find;
use super::jobs;
use crate::print::size;

/// The command line of `weir verify`.
#[derive(Debug, Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    find: Find,
}

impl Verify {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let asked = jobs::carry_out(&self.find, "/v1/verify", Vec::new())?;
        let code = self.find.answer(&asked, show)?;
        // Bills depend on what is held.
        let is_miscounted =
            serde_json::from_slice(&asked.body).is_ok_and(|found: Verified| found.counts_corrected > 0);
        Ok(if is_miscounted { ExitCode::FAILURE } else { code })
    }
}

fn show(verified: &Verified) -> String {
    let Verified { objects, parts, body_bytes, damaged, moved, counts_corrected, rows_added, rows_removed } =
        verified;
    let mut text = format!("sound: {objects} objects, {} of bodies", size(*body_bytes));
    for (count, what) in [(parts, "held in part"), (moved, "gone meanwhile")] {
        if *count > 0 {
            text += &format!(", {count} {what}");
        }
    }
    text += &format!("\ndropped because a checksum did not match: {damaged}\n");
    if *counts_corrected > 0 {
        text += &format!("the counts of {counts_corrected} sites were wrong, and are corrected now\n");
    }
    if rows_added + rows_removed > 0 {
        text += &format!(
            "the catalogue lacked {rows_added} rows and had {rows_removed} too many; it is corrected now\n"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_was_found() {
        let verified = Verified { objects: 3, parts: 1, body_bytes: 2048, damaged: 2, ..Verified::default() };
        let expect = "sound: 3 objects, 2.0 KiB of bodies, 1 held in part\ndropped because \
                      a checksum did not match: 2\n";
        assert_eq!(show(&verified), expect);
        let verified = Verified { rows_added: 1, rows_removed: 4, ..Verified::default() };
        let expect = "the catalogue lacked 1 rows and had 4 too many; it is corrected now\n";
        assert!(show(&verified).ends_with(expect));
        let verified = Verified { counts_corrected: 2, ..Verified::default() };
        let expect = "the counts of 2 sites were wrong, and are corrected now\n";
        assert!(show(&verified).ends_with(expect));
    }
}
