//! From bytes to instructions in Intel syntax.

use std::fmt::Write as _;

use iced_x86::{Decoder, DecoderError, DecoderOptions, Formatter, IntelFormatter, Mnemonic, OpKind};
use whyslow_profile::Code;

/// One instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// Where it starts, relative to the module like the code it is from.
    pub address: u64,
    /// Its bytes.
    pub length: u8,
    /// What it does.
    pub text: String,
}

/// A direct call or jump that leaves the code it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Branch {
    /// Where the instruction starts.
    pub address: u64,
    /// Where the next one starts: the return address of a call.
    pub next: u64,
    /// Where it goes.
    pub target: u64,
    /// Whether it comes back.
    pub is_call: bool,
}

/// Whether code of a machine of this kind can be disassembled; the names are those of `std::env::consts::ARCH`.
pub fn knows_architecture(arch: &str) -> bool {
    arch == "x86_64"
}

/// The instructions of x86-64 code, one after the other and without gaps.
///
/// A branch inside of the code shows the address and its distance from the start, `jne 0x1a40 <+0x2a>`; one that leaves
/// it shows the name that `resolve` knows, else the address. Bytes that are no instruction are shown as `(bad)`, an
/// instruction whose end is missing as `(cut off)`.
pub fn disassemble(code: &Code, resolve: impl Fn(Branch) -> Option<String>) -> Vec<Instruction> {
    let start = code.start.0;
    let mut formatter = formatter();
    let mut decoder = Decoder::with_ip(64, &code.bytes, start, DecoderOptions::NONE);
    // Instructions are four bytes long on average.
    let mut instructions = Vec::with_capacity(code.bytes.len() / 4);
    let mut decoded = iced_x86::Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut decoded);
        let mut text = String::new();
        // An instruction has at most 15 bytes.
        let (address, mut length) = (decoded.ip(), decoded.len() as u8);
        if decoded.is_invalid() && decoder.last_error() == DecoderError::NoMoreBytes {
            text.push_str("(cut off)");
        } else if decoded.is_invalid() {
            text.push_str("(bad)");
            // The next byte may be the start of an instruction, however many the decoder has looked at.
            let skipped = usize::from(length).saturating_sub(1);
            if decoder.set_position(decoder.position() - skipped).is_ok() {
                decoder.set_ip(address.wrapping_add(1));
                length = 1;
            }
        } else if is_direct_branch(&decoded) {
            formatter.format_mnemonic(&decoded, &mut text);
            text.push(' ');
            push_target(&mut text, code, &decoded, &resolve);
        } else {
            formatter.format(&decoded, &mut text);
        }
        instructions.push(Instruction { address, length, text });
    }
    instructions
}

fn formatter() -> IntelFormatter {
    let mut formatter = IntelFormatter::new();
    let options = formatter.options_mut();
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_space_after_operand_separator(true);
    options.set_rip_relative_addresses(true);
    formatter
}

fn is_direct_branch(instruction: &iced_x86::Instruction) -> bool {
    let near =
        matches!(instruction.op0_kind(), OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64);
    // `xbegin` and `loop` have targets too; they are never elsewhere.
    instruction.op_count() == 1 && near
}

fn push_target(
    text: &mut String,
    code: &Code,
    instruction: &iced_x86::Instruction,
    resolve: &impl Fn(Branch) -> Option<String>,
) {
    let target = instruction.near_branch_target();
    let offset = target.wrapping_sub(code.start.0);
    let named = if offset < code.bytes.len() as u64 {
        let _ = write!(text, "{target:#x} <+{offset:#x}>");
        return;
    } else {
        resolve(Branch {
            address: instruction.ip(),
            next: instruction.next_ip(),
            target,
            is_call: instruction.mnemonic() == Mnemonic::Call,
        })
    };
    match named {
        Some(name) => text.push_str(&name),
        None => {
            let _ = write!(text, "{target:#x}");
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use whyslow_profile::{ModuleId, RelativeAddress};

    use super::*;

    fn code(start: u64, bytes: &[u8]) -> Code {
        Code { module: ModuleId(0), start: RelativeAddress(start), bytes: bytes.to_vec() }
    }

    fn texts(start: u64, bytes: &[u8]) -> Vec<String> {
        let named = |branch: Branch| (branch.target == 0x2000).then(|| "app::parse".to_owned());
        disassemble(&code(start, bytes), named).into_iter().map(|row| row.text).collect()
    }

    #[test]
    fn intel_syntax_with_the_usual_numbers() {
        assert_eq!(texts(0, &[0x48, 0x8b, 0x44, 0xcb, 0x18]), ["mov rax, [rbx+rcx*8+0x18]"]);
        assert_eq!(texts(0, &[0x48, 0x83, 0xec, 0x28]), ["sub rsp, 0x28"]);
        assert_eq!(texts(0, &[0x8b, 0x05, 0x10, 0, 0, 0]), ["mov eax, [rip+0x10]"]);
        assert_eq!(texts(0, &[0x83, 0x00, 0x05]), ["add dword ptr [rax], 5"]);
        assert_eq!(texts(0, &[0xf3, 0x48, 0xa5]), ["rep movsq [rdi], [rsi]"]);
    }

    #[test]
    fn branches_show_where_they_go() {
        // jne to the first byte; call 0x2000; call 0x3000; jmp 0x2000.
        let bytes =
            [0x75, 0xfe, 0xe8, 0xf9, 0x0f, 0, 0, 0xe8, 0xf4, 0x1f, 0, 0, 0xe9, 0xef, 0x0f, 0, 0, 0xff, 0xd0];
        assert_eq!(
            texts(0x1000, &bytes),
            ["jne 0x1000 <+0x0>", "call app::parse", "call 0x3000", "jmp app::parse", "call rax"]
        );
    }

    #[test]
    fn bad_and_missing_bytes_are_shown() {
        assert_eq!(texts(0, &[0x06, 0x90]), ["(bad)", "nop"]);
        assert_eq!(texts(0, &[0x90, 0x48, 0x8b]), ["nop", "(cut off)"]);
        assert_eq!(texts(0, &[]), [""; 0]);
    }

    #[test]
    fn only_the_architecture_that_is_decoded_is_known() {
        assert!(knows_architecture("x86_64"));
        assert!(!knows_architecture("aarch64") && !knows_architecture(""));
    }

    proptest! {
        #[test]
        fn any_bytes_become_instructions_without_gaps(
            start in any::<u64>(),
            bytes in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let rows = disassemble(&code(start, &bytes), |_| None);
            let mut at = start;
            for row in &rows {
                prop_assert_eq!(row.address, at);
                prop_assert!((1..=15).contains(&row.length) && !row.text.is_empty());
                at = at.wrapping_add(row.length.into());
            }
            prop_assert_eq!(at, start.wrapping_add(bytes.len() as u64));
        }
    }
}
