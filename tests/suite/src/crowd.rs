//! How many pieces run at a time: as many as there are cores and one more, and further ones while the
//! processor idles. So what waits leaves room for what computes, and what computes is not crowded: scenarios
//! have deadlines.

use std::time::{Duration, Instant};

/// The share of the processor that idles while another piece has room, in percent.
const IDLE_PERCENT: u64 = 10;

/// What the processor has done since it started, in ticks of all cores.
#[derive(Clone, Copy)]
struct Ticks {
    idle: u64,
    all: u64,
}

/// The pieces that run.
pub(crate) struct Crowd {
    least: usize,
    most: usize,
    last: Option<Ticks>,
    looked: Instant,
}

impl Crowd {
    /// How long one looks at what the processor does.
    pub(crate) const LOOK: Duration = Duration::from_millis(200);

    /// At most so many at a time.
    pub(crate) fn new(most: usize) -> Crowd {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Crowd { least: (cores + 1).min(most.max(1)), most, last: ticks(), looked: Instant::now() }
    }

    /// Whether one more may begin beside those that run.
    pub(crate) fn admits(&mut self, running: usize) -> bool {
        if running < self.least {
            return true;
        }
        if running >= self.most || self.looked.elapsed() < Crowd::LOOK {
            return false;
        }
        let (last, now) = (self.last, ticks());
        (self.last, self.looked) = (now, Instant::now());
        last.zip(now).is_some_and(|(last, now)| idles(last, now))
    }
}

/// Whether there was room for another piece between two looks.
fn idles(last: Ticks, now: Ticks) -> bool {
    let (idle, all) = (now.idle.saturating_sub(last.idle), now.all.saturating_sub(last.all));
    idle * 100 > all * IDLE_PERCENT
}

/// Now; `None` where the kernel does not say.
fn ticks() -> Option<Ticks> {
    parse(&std::fs::read_to_string("/proc/stat").ok()?)
}

fn parse(stat: &str) -> Option<Ticks> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let fields: Vec<u64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
    // user, nice, system, idle, waiting for drives; what a guest takes is in the first two as well.
    Some(Ticks { idle: fields.get(3)? + fields.get(4)?, all: fields.iter().take(8).sum() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_that_idles_has_room_for_one_more() {
        let at = |idle, all| {
            parse(&format!("cpu  {} 0 0 {idle} 0 0 0 0 0 0\ncpu0 1 2 3 4\n", all - idle)).unwrap()
        };
        assert!(idles(at(100, 1000), at(111, 1100)));
        assert!(!idles(at(100, 1000), at(110, 1100)));
        assert!(!idles(at(100, 1000), at(100, 1000)));
        assert!(parse("cpu0 1 2 3 4\n").is_none());
    }

    #[test]
    fn at_most_so_many_run() {
        let mut crowd =
            Crowd { least: 2, most: 4, last: Some(Ticks { idle: 0, all: 0 }), looked: Instant::now() };
        assert!(crowd.admits(0) && crowd.admits(1));
        // It has not looked for long enough.
        assert!(!crowd.admits(2));
        assert!(!crowd.admits(4));
    }
}
