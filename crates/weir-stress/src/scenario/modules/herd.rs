//! `herd`: many clients at once for something that nobody has asked for before. What counts is how often and
//! for how many bytes the origin is asked, and when the first byte arrives.

use std::rc::Rc;

use serde::Deserialize;
use tokio::sync::Barrier;

use crate::plan::StressError;
use crate::scenario::catalogue::Part;
use crate::scenario::client::Ask;
use crate::scenario::module::{Module, check_time, check_users};
use crate::scenario::sizes::{Bytes, Sizes};
use crate::scenario::stage::{Measured, Stage};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Herd {
    #[serde(default = "hundred")]
    users: usize,
    #[serde(default = "five")]
    objects: u64,
    #[serde(default = "megabyte")]
    size: Bytes,
    /// Seconds before the origin's first byte.
    #[serde(default = "tenth")]
    delay: f64,
    /// Bytes a second of the origin.
    #[serde(default)]
    rate: Option<Bytes>,
    #[serde(default = "sixty")]
    timeout: f64,
}

fn hundred() -> usize {
    100
}

fn five() -> u64 {
    5
}

fn megabyte() -> Bytes {
    Bytes(1_000_000)
}

fn tenth() -> f64 {
    0.1
}

fn sixty() -> f64 {
    60.0
}

impl Module for Herd {
    fn check(&self) -> Result<(), String> {
        check_users(self.users)?;
        check_time("timeout", self.timeout)?;
        match self.objects > 0 && (0.0..=3600.0).contains(&self.delay) && self.rate != Some(Bytes(0)) {
            true => Ok(()),
            false => Err("`objects` and `rate` are above 0, and `delay` is a number of seconds".to_owned()),
        }
    }

    fn run(&self, stage: &Stage) -> Result<Measured, StressError> {
        let prefix = stage.cold("herd");
        let mut part = Part::new(&prefix, Sizes::One(self.size.0));
        part.delay_ms = (self.delay * 1000.0).round() as u64;
        part.rate = self.rate.map(|rate| rate.0);
        let part = stage.catalogue.add(part);
        let paths: Vec<String> = (0..self.objects).map(|at| format!("{prefix}{at}")).collect();
        let start = Rc::new(Barrier::new(self.users));
        let mut measured = stage.measure(self.users, |_, sheet| {
            let (stage, paths, start, timeout) = (stage.clone(), paths.clone(), start.clone(), self.timeout);
            async move {
                let mut client = stage.client(timeout);
                for path in &paths {
                    // All are connected before the first asks, so that they ask at once.
                    let opened = client.open().await;
                    start.wait().await;
                    if stage.is_stopped() {
                        continue;
                    }
                    let got = match opened {
                        Ok(()) => client.ask(&Ask::get(path.clone()), stage.expect(path)).await,
                        Err(failure) => Err(failure),
                    };
                    let mut sheet = sheet.borrow_mut();
                    let judged = got.and_then(|response| {
                        sheet.response(&response);
                        stage.judge(path, &response)
                    });
                    if let Err(failure) = judged {
                        sheet.fault(&failure);
                    }
                }
            }
        })?;
        let asked: Vec<u64> = paths.iter().map(|path| stage.catalogue.asked(path)).collect();
        let (all, most) = (asked.iter().sum::<u64>(), asked.iter().copied().max().unwrap_or(0));
        let sent = part.bytes.load(std::sync::atomic::Ordering::Relaxed);
        measured.figure("origin_requests_per_object", all as f64 / self.objects as f64);
        measured.figure("origin_requests_most", most as f64);
        measured.figure("origin_bodies_per_object", sent as f64 / (self.objects * self.size.0.max(1)) as f64);
        Ok(measured)
    }
}
