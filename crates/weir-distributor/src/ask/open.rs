//! The open questions of one worker, by their numbers. Pure: time is an argument, and nothing waits.
//!
//! Waiting → Answered, or Waiting → Silent → (asked once more) Waiting, until the asker closes the question.
//! Of those that are closed only number and end are remembered, to tell late answers from second ones.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::task::Waker;
use std::time::Instant;

use crate::counts::Count;
use crate::format::Answer;

/// The most open questions of a worker.
pub(crate) const OPEN_MAX: usize = 65_536;
/// Closed questions that are remembered.
const CLOSED: usize = 8192;

/// The open questions.
#[derive(Debug)]
pub(crate) struct Open {
    questions: HashMap<u64, Asked, BuildHasherDefault<IsHash>>,
    /// When tries end, in the order of time: all tries last equally long.
    ends: VecDeque<(Instant, u64, u8)>,
    closed: Box<[(u64, End)]>,
    /// Wakes what watches the ends.
    pub(crate) watch: Option<Waker>,
}

#[derive(Debug)]
struct Asked {
    /// The distributors that were asked, a bit each.
    of: u32,
    tries: u8,
    state: State,
}

#[derive(Debug)]
enum State {
    Waiting(Option<Waker>),
    Answered(Answer, usize),
    Silent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    None,
    Answered,
    GivenUp,
}

/// What is known of a question.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// Nothing yet; its waker is kept.
    Waiting,
    /// It was answered by the distributor of this number.
    Answered(Answer, usize),
    /// The last try has not been answered.
    Silent,
}

impl Default for Open {
    fn default() -> Open {
        Open {
            questions: HashMap::default(),
            ends: VecDeque::new(),
            closed: vec![(0, End::None); CLOSED].into(),
            watch: None,
        }
    }
}

impl Open {
    /// A question is asked, or once more. Whether what watches the ends must be woken.
    ///
    /// # Errors
    /// Too many are open.
    pub(crate) fn ask(&mut self, id: u64, distributor: usize, end: Instant) -> Result<Option<Waker>, Full> {
        if self.questions.len() >= OPEN_MAX && !self.questions.contains_key(&id) {
            return Err(Full);
        }
        let fresh = || Asked { of: 0, tries: 0, state: State::Silent };
        let asked = self.questions.entry(id).or_insert_with(fresh);
        asked.of |= 1 << distributor;
        asked.tries += 1;
        asked.state = State::Waiting(None);
        let tries = asked.tries;
        self.ends.push_back((end, id, tries));
        Ok(if self.ends.len() == 1 { self.watch.take() } else { None })
    }

    /// What is known of a question.
    pub(crate) fn known(&mut self, id: u64, waker: &Waker) -> Known {
        let Some(asked) = self.questions.get_mut(&id) else { return Known::Silent };
        match &mut asked.state {
            State::Answered(answer, by) => Known::Answered(*answer, *by),
            State::Silent => Known::Silent,
            State::Waiting(kept) => {
                match kept {
                    Some(kept) => kept.clone_from(waker),
                    None => *kept = Some(waker.clone()),
                }
                Known::Waiting
            }
        }
    }

    /// Whether an answer to this question from this distributor is waited for.
    ///
    /// # Errors
    /// As what it counts otherwise.
    pub(crate) fn expects(&self, id: u64, distributor: Option<usize>) -> Result<(), Count> {
        match (self.questions.get(&id), distributor) {
            (Some(asked), Some(from)) if asked.of >> from & 1 == 1 => match asked.state {
                State::Answered(..) => Err(Count::Duplicate),
                _ => Ok(()),
            },
            (_, None) | (Some(_), _) => Err(Count::Foreign),
            (None, Some(_)) => Err(match self.closed[id as usize % CLOSED] {
                (known, End::Answered) if known == id => Count::Duplicate,
                (known, End::GivenUp) if known == id => Count::Late,
                _ => Count::Unasked,
            }),
        }
    }

    /// A question that is expected is answered. Whom to wake.
    pub(crate) fn answer(&mut self, id: u64, answer: Answer, distributor: usize) -> Option<Waker> {
        let asked = self.questions.get_mut(&id)?;
        match std::mem::replace(&mut asked.state, State::Answered(answer, distributor)) {
            State::Waiting(waker) => waker,
            _ => None,
        }
    }

    /// The try under way has failed for good, so that nobody waits for its end. Whom to wake.
    pub(crate) fn fail(&mut self, id: u64) -> Option<Waker> {
        let asked = self.questions.get_mut(&id)?;
        match &mut asked.state {
            State::Waiting(waker) => {
                let waker = waker.take();
                asked.state = State::Silent;
                waker
            }
            _ => None,
        }
    }

    /// Ends tries whose time is over; gives whom to wake to `wake`, and when the next one ends.
    pub(crate) fn expire(&mut self, now: Instant, wake: &mut Vec<Waker>) -> Option<Instant> {
        while let Some((end, id, tries)) = self.ends.front().copied() {
            let is_open = self
                .questions
                .get(&id)
                .is_some_and(|asked| asked.tries == tries && matches!(asked.state, State::Waiting(_)));
            if is_open && now < end {
                return Some(end);
            }
            self.ends.pop_front();
            if is_open {
                wake.extend(self.fail(id));
            }
        }
        None
    }

    /// The asker is done with a question.
    pub(crate) fn close(&mut self, id: u64) {
        let Some(asked) = self.questions.remove(&id) else { return };
        let end = if matches!(asked.state, State::Answered(..)) { End::Answered } else { End::GivenUp };
        self.closed[id as usize % CLOSED] = (id, end);
    }

    /// Nothing is asked any more. Whom to wake.
    pub(crate) fn end(&mut self) -> Vec<Waker> {
        let ids: Vec<u64> = self.questions.keys().copied().collect();
        ids.into_iter().filter_map(|id| self.fail(id)).collect()
    }

    /// How many are open.
    pub(crate) fn count(&self) -> usize {
        self.questions.len()
    }
}

/// Too many questions are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// The numbers are random: they are their own hashes.
#[derive(Debug, Default)]
struct IsHash(u64);

impl Hasher for IsHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0 << 8 | u64::from(*byte));
    }

    fn write_u64(&mut self, id: u64) {
        self.0 = id;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn known(open: &mut Open, id: u64) -> Known {
        open.known(id, Waker::noop())
    }

    #[test]
    fn a_question_is_answered_once() {
        let (mut open, now) = (Open::default(), crate::clock::now());
        open.ask(7, 2, now + MS).unwrap();
        assert_eq!(known(&mut open, 7), Known::Waiting);
        assert_eq!(open.expects(7, Some(1)), Err(Count::Foreign));
        assert_eq!(open.expects(7, None), Err(Count::Foreign));
        assert_eq!(open.expects(8, Some(2)), Err(Count::Unasked));
        assert_eq!(open.expects(7, Some(2)), Ok(()));
        assert!(open.answer(7, Answer::Nothing, 2).is_some(), "somebody waits");
        assert_eq!(known(&mut open, 7), Known::Answered(Answer::Nothing, 2));
        assert_eq!(open.expects(7, Some(2)), Err(Count::Duplicate));
        open.close(7);
        assert_eq!(open.expects(7, Some(2)), Err(Count::Duplicate));
        assert_eq!(open.count(), 0);
    }

    #[test]
    fn a_question_that_is_asked_again_takes_an_answer_to_either_try() {
        let (mut open, now) = (Open::default(), crate::clock::now());
        open.ask(7, 0, now + MS).unwrap();
        assert_eq!(known(&mut open, 7), Known::Waiting);
        let mut woken = Vec::new();
        assert_eq!(open.expire(now, &mut woken), Some(now + MS));
        assert!(woken.is_empty());
        assert_eq!(open.expire(now + MS, &mut woken), None);
        assert_eq!(woken.len(), 1);
        assert_eq!(known(&mut open, 7), Known::Silent);
        open.ask(7, 1, now + 2 * MS).unwrap();
        assert_eq!(open.expects(7, Some(0)), Ok(()), "the first one answers late, but in time");
        assert_eq!(open.expects(7, Some(1)), Ok(()));
        open.close(7);
        assert_eq!(open.expects(7, Some(1)), Err(Count::Late));
        assert_eq!(open.expire(now + 9 * MS, &mut woken), None);
    }

    #[test]
    fn what_watches_is_woken_for_the_first_end_only() {
        let (mut open, now) = (Open::default(), crate::clock::now());
        open.watch = Some(Waker::noop().clone());
        assert!(open.ask(1, 0, now + MS).unwrap().is_some());
        open.watch = Some(Waker::noop().clone());
        assert!(open.ask(2, 0, now + MS).unwrap().is_none());
    }

    #[test]
    fn ends_of_answered_questions_do_not_pile_up() {
        let (mut open, now) = (Open::default(), crate::clock::now());
        for id in 0..1000 {
            open.ask(id, 0, now + MS).unwrap();
            open.answer(id, Answer::Nothing, 0);
            open.close(id);
        }
        assert_eq!(open.expire(now, &mut Vec::new()), None);
        assert!(open.ends.is_empty());
    }

    #[test]
    fn there_is_a_bound() {
        let (mut open, now) = (Open::default(), crate::clock::now());
        (0..OPEN_MAX as u64).for_each(|id| drop(open.ask(id, 0, now).unwrap()));
        assert_eq!(open.ask(u64::MAX, 0, now).err(), Some(Full));
        assert!(open.ask(5, 1, now).is_ok(), "one that is open is asked again");
    }
}
