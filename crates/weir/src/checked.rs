//! What the checks and the agents of origins have said, for the control API.

use weir_control::{AgentState, CheckState, TookUpTo};
use weir_upstream::{AgentSnapshot, CheckSnapshot};

/// The checks of an origin.
pub(crate) fn check(check: CheckSnapshot) -> CheckState {
    let last = check.last.as_ref();
    CheckState {
        state: check.state.to_owned(),
        passed: check.passed,
        failed: check.failed,
        took_s: check.took.as_secs_f64(),
        took_up_to: check
            .took_up_to
            .iter()
            .map(|(bound, checks)| TookUpTo { s: bound.as_secs_f64(), checks: *checks })
            .collect(),
        last_ago_s: last.map(|last| last.ago.as_secs_f64()),
        last_took_s: last.map(|last| last.took.as_secs_f64()),
        last_failure: last.and_then(|last| last.why.clone()),
    }
}

/// The agent of an origin.
pub(crate) fn agent(agent: AgentSnapshot) -> AgentState {
    AgentState {
        line: agent.line,
        last_ago_s: agent.ago.map(|ago| ago.as_secs_f64()),
        percent: agent.percent,
        connections: agent.connections,
        reachable: !agent.is_gone,
        understood: agent.understood,
        partly: agent.partly,
        broken: agent.broken,
        unreachable: agent.unreachable,
    }
}
