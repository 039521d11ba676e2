//! What an agent has said so far: the state machine of its words. Pure.

use super::line::Words;
use crate::health::standing::Order;

/// What holds until the agent says something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    /// Its `ready`, `drain` or `maint`.
    pub(crate) order: Order,
    /// Whether it said `down`, `fail` or `stopped`, and not `up` since.
    pub(crate) is_down: bool,
    /// The factor on the weight, in percent.
    pub(crate) percent: u32,
    /// In place of the configured `connections`.
    pub(crate) connections: Option<u32>,
}

impl Default for Said {
    fn default() -> Said {
        Said { order: Order::Ready, is_down: false, percent: 100, connections: None }
    }
}

impl Said {
    /// What holds after a line.
    pub(crate) fn after(self, words: &Words) -> Said {
        Said {
            order: words.order.unwrap_or(self.order),
            is_down: words.is_up.map_or(self.is_down, |is_up| !is_up),
            percent: words.percent.unwrap_or(self.percent),
            connections: match words.connections {
                None => self.connections,
                Some(0) => None,
                some => some,
            },
        }
    }

    /// Whether an origin stands in another way for it than for `before`: at 0 % it drains.
    pub(crate) fn stands_other_than(self, before: Said) -> bool {
        let of = |said: Said| (said.order, said.is_down, said.percent == 0);
        of(self) != of(before)
    }
}
