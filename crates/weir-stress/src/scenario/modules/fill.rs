//! `fill`: objects that nobody has asked for before, each once, as they are filled into the cache. Once the
//! server has settled, it is asked again, to see how many it has kept.

use std::time::Duration;

use serde::Deserialize;

use crate::args::{Pick, StressArgs};
use crate::plan::StressError;
use crate::scenario::catalogue::Part;
use crate::scenario::module::{Module, check_own, check_time, check_users};
use crate::scenario::server::Ending;
use crate::scenario::settings::ServerSettings;
use crate::scenario::sizes::Sizes;
use crate::scenario::stage::{Measured, Stage};

/// How many objects are asked for again at a time.
const USERS_AGAIN: usize = 4;
/// The most runs of neighbours that are asked for again.
const RUNS_MAX: u64 = 10;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Fill {
    objects: u64,
    size: Sizes,
    users: usize,
    timeout: f64,
    /// Seconds behind the last response that count as the fills' own: what was received is written then.
    settle: f64,
    /// How the server is ended, and started again, before it is asked what it has kept.
    restart: Option<Ending>,
    /// The most objects that are asked for again.
    sample: u64,
}

impl Default for Fill {
    fn default() -> Self {
        Self {
            objects: 1000,
            size: Sizes::One(10_000),
            users: 32,
            timeout: 60.0,
            settle: 1.0,
            restart: None,
            sample: 1000,
        }
    }
}

impl Module for Fill {
    fn check(&self) -> Result<(), String> {
        check_users(self.users)?;
        check_time("timeout", self.timeout)?;
        check_time("settle", self.settle)?;
        match self.objects > 0 && self.sample > 0 {
            true => Ok(()),
            false => Err("`objects` and `sample` are above 0".to_owned()),
        }
    }

    fn check_server(&self, server: &ServerSettings) -> Result<(), String> {
        self.restart.map_or(Ok(()), |_| check_own(server))
    }

    fn runs_alone(&self) -> bool {
        self.restart.is_some()
    }

    fn run(&self, stage: &Stage) -> Result<Measured, StressError> {
        let prefix = stage.cold("fill");
        stage.catalogue.add(Part::new(&prefix, self.size.clone()));
        let mut args = stage.load_args(&format!("{prefix}{{}}"));
        args.users = self.users;
        args.timeout = self.timeout;
        args.objects = self.objects;
        args.requests = Some(self.objects);
        let mut measured = Measured::new(stage);
        stage.begin_span();
        measured.tally = stage.load(&args)?;
        std::thread::sleep(Duration::from_secs_f64(self.settle));
        stage.end_span();
        self.ask_again(stage, args, &mut measured)?;
        Ok(measured)
    }
}

impl Fill {
    /// Asks for objects again, the first and the last among them, and counts those that the origin is not
    /// asked for.
    fn ask_again(
        &self,
        stage: &Stage,
        mut args: StressArgs,
        measured: &mut Measured,
    ) -> Result<(), StressError> {
        if let Some(ending) = self.restart {
            let took = stage.restart(ending)?;
            measured.figure("restart_ready_ms", took.as_secs_f64() * 1e3);
        }
        let (mut again, mut from_origin) = (0, 0);
        let runs = self.sample.min(RUNS_MAX).min(self.objects);
        for run in 0..runs {
            // Runs of neighbours, spread over all.
            args.first = run * self.objects / runs;
            let end = (run + 1) * self.objects / runs;
            args.objects = (end - args.first).min((self.sample / runs).max(1));
            args.requests = Some(args.objects);
            args.users = USERS_AGAIN;
            args.pick = Pick::Seq;
            let before = stage.catalogue.totals().0;
            let tally = stage.load_unseen(&args)?;
            from_origin += (stage.catalogue.totals().0 - before).min(args.objects);
            again += args.objects;
            measured.tally.add_faults(&tally);
        }
        measured.figure("kept_percent", 100.0 * (again - from_origin) as f64 / again.max(1) as f64);
        Ok(())
    }
}
