//! Runs a load: against one server, or against two that take turns, A B B A, so that the machine's drift hits
//! both alike.

use crate::args::StressArgs;
use crate::plan::{Plan, Protocol, StressError};
use crate::report::{Report, Side};
use crate::tally::Tally;

fn load(plan: &Plan, seed: u64) -> Result<Tally, StressError> {
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
    let first = Plan::new(args, &args.url)?;
    let Some(other) = &args.vs else {
        let tally = load(&first, first.seed)?;
        return Ok(Report::new(args.users, vec![Side::new(&args.url, &[tally])]));
    };
    let second = Plan::new(args, other)?;
    let (mut a, mut b): (Vec<Tally>, Vec<Tally>) = (Vec::new(), Vec::new());
    for round in 0..args.rounds as u64 {
        let seed = |turn: u64| first.seed.wrapping_add(2 * round + turn);
        a.push(load(&first, seed(0))?);
        b.push(load(&second, seed(0))?);
        b.push(load(&second, seed(1))?);
        a.push(load(&first, seed(1))?);
    }
    Ok(Report::new(args.users, vec![Side::new(&args.url, &a), Side::new(other, &b)]))
}
