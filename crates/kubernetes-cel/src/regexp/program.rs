//! Programs of patterns ([`Program`]), and the machine that runs them: Pike's VM, which follows all alternatives at the
//! same time, one character at a time.

use std::collections::HashMap;
use std::sync::Arc;

use super::Exhausted;
use super::class::Class;
use super::parse::{Kind, Look};

type Address = u32;

#[derive(Clone, Copy, Debug)]
enum Instruction {
    Char(char),
    Class(u32),
    AnyButNewline,
    Any,
    /// Continues at both addresses; the first one is preferred.
    Split(Address, Address),
    Jump(Address),
    Look(Look),
    Never,
    Match,
}

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Program {
    code: Vec<Instruction>,
    classes: Vec<Arc<Class>>,
    /// True if matches start only at the start of the text.
    is_anchored: bool,
}

#[derive(Default)]
struct Compiler {
    code: Vec<Instruction>,
    classes: Vec<Arc<Class>>,
    known: HashMap<Arc<Class>, u32>,
}

impl Compiler {
    fn here(&self) -> Address {
        Address::try_from(self.code.len()).unwrap_or(Address::MAX)
    }

    fn emit(&mut self, instruction: Instruction) -> usize {
        self.code.push(instruction);
        self.code.len() - 1
    }

    fn set(&mut self, at: usize, instruction: Instruction) {
        if let Some(slot) = self.code.get_mut(at) {
            *slot = instruction;
        }
    }

    /// Sets a split between the next instruction and another address.
    fn split(&mut self, at: usize, other: Address, greedy: bool) {
        let next = Address::try_from(at + 1).unwrap_or(Address::MAX);
        self.set(
            at,
            if greedy {
                Instruction::Split(next, other)
            } else {
                Instruction::Split(other, next)
            },
        );
    }

    fn class(&mut self, class: &Arc<Class>) -> u32 {
        if let Some(known) = self.known.get(class) {
            return *known;
        }
        let index = u32::try_from(self.classes.len()).unwrap_or(u32::MAX);
        self.classes.push(class.clone());
        self.known.insert(class.clone(), index);
        index
    }

    /// Compiles a tree. The height of the tree is limited, and therefore the recursion.
    fn tree(&mut self, tree: &Kind) {
        match tree {
            Kind::Empty => {}
            Kind::Never => drop(self.emit(Instruction::Never)),
            Kind::Char(c) => drop(self.emit(Instruction::Char(*c))),
            Kind::Class(class) => {
                let class = self.class(class);
                self.emit(Instruction::Class(class));
            }
            Kind::Any { newline: true } => drop(self.emit(Instruction::Any)),
            Kind::Any { newline: false } => drop(self.emit(Instruction::AnyButNewline)),
            Kind::Look(look) => drop(self.emit(Instruction::Look(*look))),
            Kind::Concat(parts) => parts.iter().for_each(|part| self.tree(&part.kind)),
            Kind::Alternate(branches) => self.alternate(branches.iter().map(|branch| &branch.kind)),
            Kind::Group(inner) => self.tree(&inner.kind),
            Kind::Repeat {
                inner,
                min,
                max,
                greedy,
            } => self.repeat(&inner.kind, *min, *max, *greedy),
        }
    }

    fn alternate<'t>(&mut self, branches: impl ExactSizeIterator<Item = &'t Kind>) {
        let mut ends = Vec::new();
        let last = branches.len().saturating_sub(1);
        for (index, branch) in branches.enumerate() {
            if index == last {
                self.tree(branch);
                break;
            }
            let split = self.emit(Instruction::Never);
            self.tree(branch);
            ends.push(self.emit(Instruction::Never));
            let next = self.here();
            self.split(split, next, true);
        }
        let end = self.here();
        ends.into_iter()
            .for_each(|at| self.set(at, Instruction::Jump(end)));
    }

    fn repeat(&mut self, inner: &Kind, min: usize, max: Option<usize>, greedy: bool) {
        for _ in 0..min {
            self.tree(inner);
        }
        match max {
            None => {
                let split = self.emit(Instruction::Never);
                self.tree(inner);
                let start = Address::try_from(split).unwrap_or(Address::MAX);
                self.emit(Instruction::Jump(start));
                let end = self.here();
                self.split(split, end, greedy);
            }
            Some(max) => {
                let mut splits = Vec::new();
                for _ in min..max {
                    splits.push(self.emit(Instruction::Never));
                    self.tree(inner);
                }
                let end = self.here();
                splits.into_iter().for_each(|at| self.split(at, end, greedy));
            }
        }
    }
}

/// The instructions to try at one position, in the order of preference.
struct Threads {
    /// The address of each instruction, and the start of its match.
    list: Vec<(Address, usize)>,
    /// The index of each address in the list, if it is present.
    places: Vec<u32>,
}

impl Threads {
    fn new(size: usize) -> Self {
        Self {
            list: Vec::new(),
            places: vec![0; size],
        }
    }

    /// Adds an address; returns true if it was new.
    fn insert(&mut self, address: Address, start: usize) -> bool {
        let Some(place) = self.places.get_mut(address as usize) else {
            return false;
        };
        if self
            .list
            .get(*place as usize)
            .is_some_and(|(known, _)| *known == address)
        {
            return false;
        }
        *place = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        self.list.push((address, start));
        true
    }
}

/// A position in a text with the adjacent characters.
#[derive(Clone, Copy)]
struct Position {
    at: usize,
    before: Option<char>,
    after: Option<char>,
}

impl Position {
    fn holds(self, look: Look) -> bool {
        let is_word = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
        let at_boundary = is_word(self.before) != is_word(self.after);
        match look {
            Look::TextStart => self.before.is_none(),
            Look::TextEnd => self.after.is_none(),
            Look::LineStart => self.before.is_none_or(|c| c == '\n'),
            Look::LineEnd => self.after.is_none_or(|c| c == '\n'),
            Look::Boundary => at_boundary,
            Look::NoBoundary => !at_boundary,
        }
    }
}

impl Program {
    /// Compiles a tree.
    pub(super) fn of(tree: &Kind) -> Self {
        let mut compiler = Compiler::default();
        compiler.tree(tree);
        compiler.emit(Instruction::Match);
        let is_anchored = matches!(compiler.code.first(), Some(Instruction::Look(Look::TextStart)));
        Self {
            is_anchored,
            code: compiler.code,
            classes: compiler.classes,
        }
    }

    /// Returns the first match at or after a position. Among matches with the same start, the preferred one is
    /// returned.
    pub(super) fn search(
        &self,
        text: &str,
        start: usize,
        any: bool,
        steps: &mut u64,
    ) -> Result<Option<(usize, usize)>, Exhausted> {
        spend(steps, 1 + self.code.len() / 16)?;
        let (mut now, mut next) = (Threads::new(self.code.len()), Threads::new(self.code.len()));
        let mut stack = Vec::new();
        let mut found = None;
        let (head, tail) = text.split_at_checked(start).unwrap_or((text, ""));
        let mut position = Position {
            at: head.len(),
            before: head.chars().next_back(),
            after: None,
        };
        let mut rest = tail.chars();
        position.after = rest.next();
        loop {
            if found.is_none() && !(self.is_anchored && position.before.is_some()) {
                self.follow(&mut now, &mut stack, 0, position.at, position);
            }
            if now.list.is_empty() {
                return Ok(found);
            }
            spend(steps, now.list.len())?;
            let after = Position {
                at: position.at + position.after.map_or(0, char::len_utf8),
                before: position.after,
                after: rest.next(),
            };
            for place in 0..now.list.len() {
                let Some((address, begin)) = now.list.get(place).copied() else {
                    break;
                };
                let goes_on = match (self.code.get(address as usize), position.after) {
                    (Some(Instruction::Match), _) => {
                        found = Some((begin, position.at));
                        if any {
                            return Ok(found);
                        }
                        break;
                    }
                    (Some(Instruction::Char(wanted)), Some(c)) => *wanted == c,
                    (Some(Instruction::Class(class)), Some(c)) => self
                        .classes
                        .get(*class as usize)
                        .is_some_and(|class| class.contains(c)),
                    (Some(Instruction::Any), Some(_)) => true,
                    (Some(Instruction::AnyButNewline), Some(c)) => c != '\n',
                    _ => false,
                };
                if goes_on {
                    self.follow(&mut next, &mut stack, address + 1, begin, after);
                }
            }
            if position.after.is_none() {
                return Ok(found);
            }
            std::mem::swap(&mut now, &mut next);
            next.list.clear();
            position = after;
        }
    }

    /// Adds an address, and all addresses that are reached from it without reading a character.
    fn follow(
        &self,
        threads: &mut Threads,
        stack: &mut Vec<Address>,
        address: Address,
        begin: usize,
        position: Position,
    ) {
        stack.push(address);
        while let Some(address) = stack.pop() {
            if !threads.insert(address, begin) {
                continue;
            }
            match self.code.get(address as usize) {
                Some(Instruction::Jump(target)) => stack.push(*target),
                Some(Instruction::Split(first, second)) => {
                    stack.push(*second);
                    stack.push(*first);
                }
                Some(Instruction::Look(look)) if position.holds(*look) => stack.push(address + 1),
                _ => {}
            }
        }
    }
}

fn spend(steps: &mut u64, count: usize) -> Result<(), Exhausted> {
    *steps = steps.checked_sub(count as u64).ok_or(Exhausted)?;
    Ok(())
}
