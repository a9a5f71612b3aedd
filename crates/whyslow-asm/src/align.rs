//! Aligns the same function in two builds by what its instructions do.
//!
//! Two instructions are the same if they have the same mnemonic and kinds of operands and call the same
//! function. Registers, addresses, branch targets and stack slots differ between builds and do not count.

use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

use crate::body::{Body, Call};
use crate::instruction::Value;
use crate::processor::Syntax;

/// A row of a comparison, by instruction indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aligned {
    /// In both.
    Both(usize, usize),
    /// In the first only.
    Removed(usize),
    /// In the second only.
    Added(usize),
}

/// Aligns two bodies. For very different ones, the search stops early and aligns less than it could.
pub fn align(before: &Body, after: &Body) -> Vec<Aligned> {
    const PATIENCE: Duration = Duration::from_millis(500);
    let (old, new) = (keys(before), keys(after));
    let deadline = Instant::now().checked_add(PATIENCE);
    let mut rows = Vec::new();
    for part in capture_diff_slices_deadline(Algorithm::Myers, &old, &new, deadline) {
        match part {
            DiffOp::Equal { old_index, new_index, len } => {
                rows.extend((0..len).map(|at| Aligned::Both(old_index + at, new_index + at)));
            }
            DiffOp::Delete { old_index, old_len, .. } => {
                rows.extend((old_index..old_index + old_len).map(Aligned::Removed));
            }
            DiffOp::Insert { new_index, new_len, .. } => {
                rows.extend((new_index..new_index + new_len).map(Aligned::Added));
            }
            DiffOp::Replace { old_index, old_len, new_index, new_len } => {
                rows.extend((old_index..old_index + old_len).map(Aligned::Removed));
                rows.extend((new_index..new_index + new_len).map(Aligned::Added));
            }
        }
    }
    rows
}

/// A key for what each instruction does, without details that differ between builds.
fn keys(body: &Body) -> Vec<String> {
    let mut keys = Vec::with_capacity(body.instructions.len());
    for (index, (row, text)) in body.instructions.iter().zip(body.texts(Syntax::Intel)).enumerate() {
        let mut words = text.split(' ');
        let mut key = words.next().unwrap_or_default().to_owned();
        // A prefix is a separate word.
        if matches!(key.as_str(), "lock" | "rep" | "repe" | "repne" | "notrack" | "bnd") {
            key.push_str(words.next().unwrap_or_default());
        }
        if let Some(memory) = row.memory {
            let access = match (memory.is_read, memory.is_written) {
                (true, true) => "rw",
                (true, false) => "r",
                _ => "w",
            };
            let scale = memory.index.map_or(0, |_| memory.scale);
            key.push_str(&format!(" {access}{}x{scale}", memory.size));
        }
        if let Some(Value::Constant(number)) = row.sets {
            key.push_str(&format!(" {number}"));
        }
        if let Some(name) = body.call_at(index).and_then(Call::name) {
            key.push_str(&format!(" {name}"));
        }
        if let Some(bytes) = row.lanes.vector_bytes() {
            key.push_str(&format!(" v{bytes}"));
        }
        keys.push(key);
    }
    keys
}

#[cfg(test)]
mod tests {
    use whyslow_profile::{Code, ModuleId, RelativeAddress};

    use super::*;
    use crate::Processor;

    fn body(start: u64, bytes: &[u8]) -> Body {
        let code = Code { module: ModuleId(0), start: RelativeAddress(start), bytes: bytes.to_vec() };
        Body::new(Processor::X86_64, &code, |_| None)
    }

    #[test]
    fn registers_addresses_and_stack_offsets_do_not_count() {
        // mov rax, [rsp+8]; add rax, rbx; jne start; ret
        let before = body(0x1000, &[0x48, 0x8b, 0x44, 0x24, 0x08, 0x48, 0x01, 0xd8, 0x75, 0xf6, 0xc3]);
        // mov rcx, [rsp+0x18]; imul rcx, rdx; add rcx, rdx; jne start; ret
        let after = body(
            0x5000,
            &[0x48, 0x8b, 0x4c, 0x24, 0x18, 0x48, 0x0f, 0xaf, 0xca, 0x48, 0x01, 0xd1, 0x75, 0xf2, 0xc3],
        );
        let rows = align(&before, &after);
        let expected = [
            Aligned::Both(0, 0),
            Aligned::Added(1),
            Aligned::Both(1, 2),
            Aligned::Both(2, 3),
            Aligned::Both(3, 4),
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn the_kind_of_an_operand_counts() {
        // add eax, [rbx] and add [rbx], eax
        let rows = align(&body(0, &[0x03, 0x03]), &body(0, &[0x01, 0x03]));
        assert_eq!(rows, [Aligned::Removed(0), Aligned::Added(0)]);
    }
}
