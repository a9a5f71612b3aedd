//! Finds the functions that a function calls.

use iced_x86::{FlowControl, OpKind};
use whyslow_numbers::RunTimeAddress;

use super::prologue::{Code64, instructions};
use crate::image::{Image, Slot};

/// The targets of a function's calls and jumps, as far as the file determines them. An entry of the procedure linkage table is replaced by its target.
pub(crate) fn targets<'d>(image: &Image<'d>, code: Code64<'d>) -> Vec<Slot<'d>> {
    let end = code.address + code.bytes.len() as u64;
    instructions(code)
        .filter_map(|instruction| match instruction.flow_control() {
            FlowControl::Call | FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
                let target = instruction.near_branch_target();
                let inside = (code.address..end).contains(&target);
                (!inside).then(|| {
                    let target = RunTimeAddress(target);
                    through_plt(image, target).unwrap_or(Slot::Here(image.bias.file(target)))
                })
            }
            FlowControl::IndirectCall | FlowControl::IndirectBranch
                if instruction.op0_kind() == OpKind::Memory && instruction.is_ip_rel_memory_operand() =>
            {
                image.slot(RunTimeAddress(instruction.ip_rel_memory_address()))
            }
            _ => None,
        })
        .collect()
}

/// The function behind an entry of the procedure linkage table: code without a symbol that jumps through a
/// known word.
fn through_plt<'d>(image: &Image<'d>, target: RunTimeAddress) -> Option<Slot<'d>> {
    let code = image.code_at(image.bias.file(target), 16)?;
    let jump = instructions(code)
        .take(2)
        .find(|instruction| instruction.flow_control() == FlowControl::IndirectBranch)?;
    let word = RunTimeAddress(jump.ip_rel_memory_address());
    jump.is_ip_rel_memory_operand().then(|| image.slot(word)).flatten()
}
