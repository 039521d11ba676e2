//! Running a load: against one server, or against two that take turns, A B B A, so that
//! what drifts on the machine hits both alike.

use crate::args::StressArgs;
use crate::load::load;
use crate::plan::{Plan, StressError};
use crate::report::{Report, Side};
use crate::tally::Tally;

/// Runs what the arguments say, in this thread, to its bound.
///
/// # Errors
/// [`StressError`] when the arguments are wrong, the target is not ours, or nothing
/// but faults came back. Single faults are in the report ([`Report::is_clean`]).
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
