//! Checks that the answers of calls fit one order: linearizability, element by element, as the
//! calls end.
//!
//! For each element the history keeps all states that fit the calls and answers so far: whether the
//! element is there, which of the calls under way have taken effect, and the answer of each. An
//! answered call leaves the states in which it took effect with that answer. No state left: no
//! order explains the answers.

/// A set of elements, by their bits.
pub(crate) type ElementSet = u8;

/// The most processes that call.
pub(crate) const PROCESSES_MAX: usize = 8;

/// A call, as far as one element is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Call {
    Add,
    Remove,
    Contains,
    Delete,
}

/// Whether the element is there, and, for each process, two bits: 0 no call, 1 under way, 2 answers
/// no, 3 answers yes.
type State = u32;

const THERE: State = 1;

const fn shift(process: usize) -> usize {
    1 + 2 * process
}

/// The calls on one element, and the states that fit them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Known {
    calls: [Option<Call>; PROCESSES_MAX],
    /// In order, none twice.
    states: Vec<State>,
}

/// The history of every element of a collection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CallHistory {
    elements: Vec<Known>,
}

impl CallHistory {
    /// Returns the history of a collection of `count` possible elements, which holds the elements
    /// of `there`.
    pub(crate) fn new(count: u8, there: ElementSet) -> Self {
        let elements = (0..count).map(|element| Known {
            calls: [None; PROCESSES_MAX],
            states: vec![State::from(there >> element & 1)],
        });
        Self {
            elements: elements.collect(),
        }
    }

    /// A process begins a call on an element.
    pub(crate) fn begin(&mut self, process: usize, element: u8, call: Call) {
        let known = &mut self.elements[usize::from(element)];
        known.calls[process] = Some(call);
        for state in &mut known.states {
            *state |= 1 << shift(process);
        }
        known.close();
    }

    /// Its call was answered; `None`: with nothing. False if nothing explains the answer.
    pub(crate) fn end(&mut self, process: usize, element: u8, answer: Option<bool>) -> bool {
        let known = &mut self.elements[usize::from(element)];
        known.calls[process] = None;
        known
            .states
            .retain(|state| match (state >> shift(process) & 3, answer) {
                (2 | 3, None) => true,
                (bits, Some(answer)) => bits == if answer { 3 } else { 2 },
                _ => false,
            });
        for state in &mut known.states {
            *state &= !(3 << shift(process));
        }
        known.states.sort_unstable();
        known.states.dedup();
        !known.states.is_empty()
    }

    /// Whether a process has a call on an element under way.
    pub(crate) fn calls(&self, process: usize, element: u8) -> bool {
        self.elements[usize::from(element)].calls[process].is_some()
    }

    /// How many elements there may be.
    pub(crate) fn count(&self) -> u8 {
        self.elements.len() as u8
    }
}

impl Known {
    /// Adds the states that calls under way lead to.
    fn close(&mut self) {
        let mut next = 0;
        while let Some(state) = self.states.get(next).copied() {
            next += 1;
            for (process, call) in self.calls.iter().enumerate() {
                let (Some(call), 1) = (call, state >> shift(process) & 3) else {
                    continue;
                };
                let there = state & THERE == THERE;
                let (after, answer) = match call {
                    Call::Add => (true, !there),
                    Call::Remove => (false, there),
                    Call::Contains => (there, there),
                    Call::Delete => (false, true),
                };
                let answered: State = if answer { 3 } else { 2 };
                let others = state & !THERE & !(3 << shift(process));
                let state = others | State::from(after) | answered << shift(process);
                if !self.states.contains(&state) {
                    self.states.push(state);
                }
            }
        }
        self.states.sort_unstable();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_no_order_explains_is_found_out() {
        let mut history = CallHistory::new(1, 0);
        history.begin(0, 0, Call::Add);
        history.begin(1, 0, Call::Contains);
        // The add is under way: it may be seen, but then it has happened.
        assert!(history.end(1, 0, Some(true)));
        history.begin(1, 0, Call::Contains);
        assert!(!history.end(1, 0, Some(false)));
    }

    #[test]
    fn calls_under_way_may_take_effect_in_any_order() {
        for answer in [true, false] {
            let mut history = CallHistory::new(1, 1);
            history.begin(0, 0, Call::Remove);
            history.begin(1, 0, Call::Add);
            assert!(history.end(0, 0, Some(true)));
            assert!(history.end(1, 0, Some(answer)));
            history.begin(0, 0, Call::Contains);
            assert!(history.end(0, 0, Some(answer)));
        }
    }
}
