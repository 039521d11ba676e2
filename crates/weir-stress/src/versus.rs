//! Runs a load: against one server, or against several that take turns, A B C C B A, so that the machine's
//! drift hits all alike.

use crate::args::StressArgs;
use crate::plan::{Plan, Protocol, StressError};
use crate::report::{Report, Side};
use crate::tally::Tally;

pub(crate) fn load(plan: &Plan, seed: u64) -> Result<Tally, StressError> {
    match plan.protocol {
        Protocol::Http1 => crate::load::load(plan, seed),
        Protocol::Http2 { .. } => crate::streams::load(plan, seed),
    }
}

/// Runs the load that the arguments describe, in this thread, to its bound.
///
/// # Errors
/// [`StressError`] if the arguments are wrong, if the target is not on this machine, or if all requests
/// failed. Single faults are in the report ([`Report::is_clean`]).
pub fn run(args: &StressArgs) -> Result<Report, StressError> {
    let urls: Vec<&String> = std::iter::once(&args.url).chain(&args.vs).collect();
    let plans: Vec<Plan> = urls.iter().map(|url| Plan::new(args, url)).collect::<Result<_, _>>()?;
    let mut turns: Vec<Vec<Tally>> = vec![Vec::new(); plans.len()];
    let rounds = if plans.len() == 1 { 1 } else { 2 * args.rounds as u64 };
    for round in 0..rounds {
        for at in in_turn(plans.len(), round) {
            turns[at].push(load(&plans[at], plans[at].seed.wrapping_add(round))?);
        }
    }
    let sides = urls.iter().zip(&turns).map(|(url, turns)| Side::new(url, turns)).collect();
    Ok(Report::new(args.users, sides))
}

/// The order of a round: A B C, and back in the next.
pub(crate) fn in_turn(servers: usize, round: u64) -> Vec<usize> {
    match round % 2 {
        0 => (0..servers).collect(),
        _ => (0..servers).rev().collect(),
    }
}
