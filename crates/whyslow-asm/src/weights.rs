//! The samples of each instruction.

use whyslow_profile::{ModuleId, Profile, Samples, StackId};

use crate::body::Body;

/// The samples of each instruction of a body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Weights {
    /// Samples taken at the instruction. Empty if there are no samples.
    pub own: Vec<u64>,
    /// Samples in the callees of the instruction, until they call this body again.
    pub called: Vec<u64>,
    /// Mispredicted branches, if they were recorded.
    pub missed_branches: Vec<u64>,
}

impl Weights {
    /// Weights without samples.
    pub fn unknown() -> Self {
        Self::default()
    }

    /// Sums up samples. Each counts once: where it was taken if that is in the body, else at the innermost
    /// call from the body.
    pub fn of(body: &Body, module: ModuleId, profile: &Profile, samples: &Samples) -> Self {
        let mut values = vec![0; profile.stacks.len()];
        for (stack, &value) in samples.stack.iter().zip(&samples.value) {
            if let Some(known) = values.get_mut(stack.index()) {
                *known = u64::saturating_add(*known, value);
            }
        }
        Self::of_stacks(body, module, profile, values)
    }

    /// The same from the value of each stack, for selected samples.
    pub fn of_stacks(body: &Body, module: ModuleId, profile: &Profile, mut values: Vec<u64>) -> Self {
        let count = body.instructions.len();
        let mut weights = Self { own: vec![0; count], called: vec![0; count], missed_branches: Vec::new() };
        let instruction = |stack: StackId| {
            let location = profile.stacks.location(stack).index();
            let of = profile.locations.module.get(location).copied().flatten()?;
            let address = profile.locations.address[location].0;
            (of == module).then(|| body.instruction_at(address)).flatten()
        };
        values.resize(profile.stacks.len(), 0);
        let mut from_callees = vec![0_u64; values.len()];
        // Parents come before their children, so one pass from the end carries every value outwards.
        for index in (0..values.len()).rev() {
            let stack = StackId::from(index);
            let (own, called) = (values[index], from_callees[index]);
            if own == 0 && called == 0 {
                continue;
            }
            if let Some(at) = instruction(stack) {
                weights.own[at] = weights.own[at].saturating_add(own);
                weights.called[at] = weights.called[at].saturating_add(called);
            } else if let Some(parent) = profile.stacks.parent(stack) {
                let sum = &mut from_callees[parent.index()];
                *sum = sum.saturating_add(own).saturating_add(called);
            }
        }
        weights
    }

    /// The same with mispredicted branches, if the profile has them. Hints need these.
    pub fn with_misses(body: &Body, module: ModuleId, profile: &Profile, values: Vec<u64>) -> Self {
        let mut weights = Self::of_stacks(body, module, profile, values);
        for (metric, samples) in profile.metrics.iter().zip(&profile.samples) {
            let name = profile.text(metric.name);
            if name == "branch-misses" || name.starts_with("branch-misses:") {
                weights.missed_branches = Self::of(body, module, profile, samples).own;
            }
        }
        weights
    }

    /// Whether there are samples.
    pub fn are_known(&self) -> bool {
        self.own.iter().chain(&self.called).any(|&weight| weight > 0)
    }

    /// Samples at an instruction.
    pub fn own_at(&self, instruction: usize) -> u64 {
        self.own.get(instruction).copied().unwrap_or(0)
    }

    /// Samples at an instruction and in its callees.
    pub fn at(&self, instruction: usize) -> u64 {
        let called = self.called.get(instruction).copied().unwrap_or(0);
        self.own_at(instruction).saturating_add(called)
    }

    /// All samples in the body and its callees.
    pub fn total(&self) -> u64 {
        self.own.iter().chain(&self.called).fold(0, |sum, &weight| sum.saturating_add(weight))
    }

    /// Samples of each loop, including inner loops and callees.
    pub fn of_loops(&self, body: &Body) -> Vec<u64> {
        let mut sums = vec![0_u64; body.loops.len()];
        for block in &body.blocks {
            let Some(found) = block.in_loop else { continue };
            let weight = block.instructions.clone().map(|index| self.at(index));
            sums[found] = weight.fold(sums[found], u64::saturating_add);
        }
        for index in (0..body.loops.len()).rev() {
            if let Some(parent) = body.loops[index].parent {
                sums[parent] = sums[parent].saturating_add(sums[index]);
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use whyslow_profile::{Code, RelativeAddress};

    use super::*;
    use crate::Processor;

    #[test]
    fn every_sample_counts_once_at_its_innermost_place_in_the_body() {
        // 0: call 0x100; 5: jmp 0
        let bytes = vec![0xe8, 0xfb, 0, 0, 0, 0xeb, 0xf9];
        let module = ModuleId(0);
        let code = Code { module, start: RelativeAddress(0), bytes };
        let body = Body::new(Processor::X86_64, &code, |_| None);
        let mut profile = Profile::default();
        let call = profile.locations.push(Some(module), RelativeAddress(4));
        let jump = profile.locations.push(Some(module), RelativeAddress(5));
        let other = profile.locations.push(Some(module), RelativeAddress(0x100));
        let elsewhere = profile.locations.push(Some(ModuleId(1)), RelativeAddress(5));
        let outer = profile.stacks.push(None, call);
        let callee = profile.stacks.push(Some(outer), other);
        // The callee calls the body again.
        let again = profile.stacks.push(Some(callee), call);
        let inner = profile.stacks.push(Some(again), elsewhere);
        let leaf = profile.stacks.push(Some(callee), jump);
        let alone = profile.stacks.push(None, elsewhere);
        let values = |rows: &[(StackId, u64)]| {
            let mut values = vec![0; profile.stacks.len()];
            rows.iter().for_each(|(stack, value)| values[stack.index()] = *value);
            values
        };
        let weights = Weights::of_stacks(
            &body,
            module,
            &profile,
            values(&[(callee, 1), (inner, 2), (leaf, 4), (outer, 8), (alone, 16)]),
        );
        assert_eq!((&*weights.own, &*weights.called), (&[8, 4][..], &[3, 0][..]));
        assert_eq!((weights.total(), weights.at(0)), (15, 11));
        assert_eq!(weights.of_loops(&body), [15]);
        assert!(weights.are_known() && !Weights::unknown().are_known());
    }
}
