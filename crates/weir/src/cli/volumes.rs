//! `weir volumes`: the state of each volume of the running Weir.

use std::process::ExitCode;

use clap::Args;
use http::Method;
use weir_control::VolumeUse;

use super::find::Find;
use crate::print::size;

/// The command line of `weir volumes`.
#[derive(Debug, Args)]
pub(crate) struct Volumes {
    #[command(flatten)]
    find: Find,
}

impl Volumes {
    pub(super) fn run(self) -> anyhow::Result<ExitCode> {
        let asked = self.find.ask(Method::GET, "/v1/volumes", Vec::new())?;
        self.find.answer(&asked, |volumes: &Vec<VolumeUse>| show(volumes))
    }
}

fn show(volumes: &[VolumeUse]) -> String {
    if volumes.is_empty() {
        return "there are no volumes: everything is in memory\n".to_owned();
    }
    let total: u64 = volumes.iter().map(|volume| volume.weight).sum();
    let width = volumes.iter().map(|volume| volume.path.chars().count()).max().unwrap_or(0);
    volumes.iter().map(|volume| line(volume, total, width)).collect()
}

fn line(volume: &VolumeUse, total: u64, width: usize) -> String {
    let VolumeUse { path, state, objects, used_bytes, size_bytes, weight, .. } = volume;
    let share = 100.0 * *weight as f64 / total.max(1) as f64;
    let mut text = format!(
        "{path:<width$}  {:<9}  {objects:>10} objects  {:>10} of {:<10}  {share:.0} % of the keys",
        state.word(),
        size(*used_bytes),
        size(*size_bytes)
    );
    for said in [volume.drain.as_deref(), volume.suspect.then_some("suspect: revalidated before use")]
        .into_iter()
        .flatten()
    {
        text += &format!(", {said}");
    }
    if let Some(reason) = &volume.reason {
        text += &format!("\n{:width$}  {reason}", "");
    }
    if let Some(retry_s) = volume.retry_s {
        text += &format!("{} tried again in {retry_s} s", if volume.reason.is_some() { ";" } else { "," });
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use weir_control::VolumeStanding;

    use super::*;

    #[test]
    fn a_line_each_and_why_one_is_not_up() {
        let up = VolumeUse {
            path: "/drives/1".to_owned(),
            state: VolumeStanding::Up,
            objects: 12,
            used_bytes: 2048,
            size_bytes: 1 << 30,
            weight: 3,
            ..VolumeUse::default()
        };
        let out = VolumeUse {
            path: "/2".to_owned(),
            state: VolumeStanding::Ejected,
            weight: 1,
            reason: Some("32 reads failed".to_owned()),
            retry_s: Some(5),
            ..VolumeUse::default()
        };
        let expect = "/drives/1  up                 12 objects     2.0 KiB of 1.0 GiB     75 % of the keys\n\
            /2         ejected             0 objects         0 B of 0 B         25 % of the keys\n\
            \x20          32 reads failed; tried again in 5 s\n";
        assert_eq!(show(&[up, out]), expect);
        assert_eq!(show(&[]), "there are no volumes: everything is in memory\n");
    }
}
