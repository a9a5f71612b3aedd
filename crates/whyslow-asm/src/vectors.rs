//! Whether the compiler vectorised a loop, how wide, and what was in the way.

use crate::body::Body;
use crate::hints::{Cause, Hint, Kind, Machine, computes, in_the_way, packed};
use crate::instruction::{Lanes, Operation};
use crate::weights::Weights;

/// Why a loop computes with one number at a time, wholly or in part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Obstacle {
    /// Each index is checked.
    IndexChecks,
    /// Each result is checked for overflow.
    OverflowChecks,
    /// The loop may end the program.
    EarlyExit,
    /// Floating-point numbers are added in the order of the source.
    OrderOfSums,
    /// It calls functions.
    Calls,
    /// Each step needs the result of the previous one.
    PreviousStep,
    /// It may stop at any step, as a search does.
    SeveralExits,
    /// It divides integers, for which processors have no vector form.
    IntegerDivision,
}

impl Obstacle {
    /// Its id in JSON.
    pub fn id(self) -> &'static str {
        match self {
            Self::IndexChecks => "index-checks",
            Self::OverflowChecks => "overflow-checks",
            Self::EarlyExit => "early-exit",
            Self::OrderOfSums => "order-of-sums",
            Self::Calls => "calls",
            Self::PreviousStep => "previous-step",
            Self::SeveralExits => "several-exits",
            Self::IntegerDivision => "integer-division",
        }
    }

    /// The same as a cause of a hint.
    pub(crate) fn of(cause: Cause) -> Option<Self> {
        match cause {
            Cause::IndexChecks => Some(Self::IndexChecks),
            Cause::OverflowChecks => Some(Self::OverflowChecks),
            Cause::EarlyExit => Some(Self::EarlyExit),
            Cause::OrderOfSums => Some(Self::OrderOfSums),
            _ => None,
        }
    }
}

/// The verdict on an innermost loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vectors {
    /// The size of the widest vectors that it computes with, in bytes; `None` if it is scalar.
    pub bytes: Option<u8>,
    /// The size of the processor's vectors; `None` if unknown.
    pub available: Option<u8>,
    /// Whether some of it is scalar although it has vectors.
    pub in_part: bool,
    /// Why it is scalar, wholly or in part, if known.
    pub obstacle: Option<Obstacle>,
}

impl Vectors {
    /// Judges an innermost loop; `None` for other loops, and for loops that compute nothing that has a vector form while
    /// nothing is in the way of one.
    pub(crate) fn of(
        body: &Body,
        at: usize,
        weights: &Weights,
        hints: &[Hint],
        machine: &Machine,
    ) -> Option<Self> {
        let found = body.loops.get(at).filter(|found| found.is_innermost)?;
        let rows: Vec<usize> =
            found.blocks.iter().flat_map(|&block| body.blocks[block].instructions.clone()).collect();
        let like =
            |is: &dyn Fn(usize) -> bool| rows.iter().copied().filter(|&row| is(row)).collect::<Vec<_>>();
        let row = |at: usize| &body.instructions[at];
        let packed = packed(&body.instructions, &rows);
        let numbers = like(&|at| row(at).lanes == Lanes::ScalarFloat && computes(row(at)));
        let are_integers = packed.iter().any(|&at| matches!(row(at).lanes, Lanes::PackedInteger(_)));
        let available = machine.vector_bytes(are_integers);
        if let Some(bytes) = packed.iter().filter_map(|&at| row(at).lanes.vector_bytes()).max() {
            let adds = numbers.iter().any(|&at| row(at).operation == Operation::Add);
            let obstacle = adds.then_some(Obstacle::OrderOfSums);
            return Some(Self { bytes: Some(bytes), available, in_part: !numbers.is_empty(), obstacle });
        }
        let hint = hints.iter().find(|hint| hint.kind == Kind::ScalarLoop && hint.in_loop == Some(at));
        let cause = hint.and_then(|hint| hint.cause);
        let obstacle = cause.and_then(Obstacle::of).or_else(|| in_the_way(body, weights, machine, at));
        if hint.is_none() && numbers.is_empty() && obstacle.is_none() {
            return None;
        }
        Some(Self { bytes: None, available, in_part: false, obstacle })
    }
}

#[cfg(test)]
mod tests {
    use whyslow_profile::{Code, ModuleId, RelativeAddress};

    use super::*;
    use crate::weights::Weights;
    use whyslow_processor::Processor;

    /// The verdict on a loop of these instructions and `add rdi, 8; cmp rdi, rsi; jne start`.
    fn verdict(bytes: &[u8], features: &[&str]) -> Option<Vectors> {
        let mut bytes = bytes.to_vec();
        bytes.extend([0x48, 0x83, 0xc7, 0x08, 0x48, 0x39, 0xf7, 0x75]);
        bytes.push((-(bytes.len() as i8) - 1).cast_unsigned());
        bytes.push(0xc3);
        let code = Code { module: ModuleId(0), start: RelativeAddress(0x1000), bytes };
        let body = Body::new(Processor::X86_64, &code, |_| None);
        let machine = Machine::new(features.iter().copied());
        let hints = crate::hints(&body, &Weights::unknown(), &machine);
        Vectors::of(&body, 0, &Weights::unknown(), &hints, &machine)
    }

    #[test]
    fn a_loop_has_its_width_and_the_processors() {
        let add = [0xc5, 0xfd, 0xfe, 0x07]; // vpaddd ymm0, ymm0, [rdi]
        let of = |features: &[&str]| verdict(&add, features).unwrap();
        let expected = Vectors { bytes: Some(32), available: Some(64), in_part: false, obstacle: None };
        assert_eq!(of(&["avx", "avx2", "avx512f"]), expected);
        assert_eq!(of(&["avx", "avx2"]).available, Some(32));
        assert_eq!(of(&[]).available, None, "an imported profile does not know its processor");
    }

    #[test]
    fn a_sum_in_order_is_scalar_and_a_product_before_it_is_vectorised_in_part() {
        let sum = [0xf2, 0x0f, 0x58, 0x07]; // addsd xmm0, [rdi]
        let expected = Vectors {
            bytes: None,
            available: Some(16),
            in_part: false,
            obstacle: Some(Obstacle::OrderOfSums),
        };
        assert_eq!(verdict(&sum, &["sse3"]), Some(expected));
        // mulpd xmm1, [rdi]; addsd xmm0, xmm1
        let product = [0x66, 0x0f, 0x59, 0x0f, 0xf2, 0x0f, 0x58, 0xc1];
        let found = verdict(&product, &["sse3"]).unwrap();
        assert_eq!(
            (found.bytes, found.in_part, found.obstacle),
            (Some(16), true, Some(Obstacle::OrderOfSums))
        );
    }

    #[test]
    fn a_cleared_sign_or_register_is_no_vector_code() {
        // movsd xmm1, [rdi]; andpd xmm1, xmm2; addsd xmm0, xmm1
        let absolute = [0xf2, 0x0f, 0x10, 0x0f, 0x66, 0x0f, 0x54, 0xca, 0xf2, 0x0f, 0x58, 0xc1];
        assert_eq!(verdict(&absolute, &[]).unwrap().bytes, None);
    }

    #[test]
    fn a_scalar_loop_of_integers_says_what_is_in_the_way() {
        let why = |bytes: &[u8]| verdict(bytes, &[]).map(|verdict| (verdict.bytes, verdict.obstacle));
        let scalar = |obstacle| Some((None, Some(obstacle)));
        // mov rax, rdx; shl rax, 13; xor rdx, rax
        let generator = [0x48, 0x89, 0xd0, 0x48, 0xc1, 0xe0, 0x0d, 0x48, 0x31, 0xc2];
        assert_eq!(why(&generator), scalar(Obstacle::PreviousStep));
        // mov rax, [rax]
        assert_eq!(why(&[0x48, 0x8b, 0x00]), scalar(Obstacle::PreviousStep));
        // cmp [rdi], rdx; je past the loop
        assert_eq!(why(&[0x48, 0x39, 0x17, 0x74, 0x09]), scalar(Obstacle::SeveralExits));
        // call rax
        assert_eq!(why(&[0xff, 0xd0]), scalar(Obstacle::Calls));
        // mov rax, [rdi]; xor edx, edx; div rcx; mov [rdi], rax
        let division = [0x48, 0x8b, 0x07, 0x31, 0xd2, 0x48, 0xf7, 0xf1, 0x48, 0x89, 0x07];
        assert_eq!(why(&division), scalar(Obstacle::IntegerDivision));
        // mov [rdi], rdx
        assert_eq!(why(&[0x48, 0x89, 0x17]), None, "nothing is computed");
    }
}
