//! The patch page near a module: for every patched function, a stub that leads to its hook, and its moved
//! first instructions.
//!
//! ```text
//! stub   [arguments into the hook's order]   jmp [rip+0]   the hook's address
//! real   [arguments back]                    the moved instructions            jmp to the rest of the function
//! ```

use whyslow_agent_wire::handshake::{PATCH_LEN, Patch, Real};

use super::prologue::{JUMP_LEN, Prologue, Refusal};
use crate::allocators::Order;

/// An upper bound for the bytes that one function needs.
pub(crate) const MOST_PER_FUNCTION: usize = 192;
const ALIGNMENT: usize = 16;

/// A page in progress.
#[derive(Debug)]
pub(crate) struct Page {
    /// Where it will be mapped.
    pub(crate) at: u64,
    /// Its content so far.
    pub(crate) bytes: Vec<u8>,
}

impl Page {
    pub(crate) fn new(at: u64) -> Self {
        Self { at, bytes: Vec::new() }
    }

    /// Adds a function. On an error, nothing is added.
    pub(crate) fn add(
        &mut self,
        prologue: &Prologue,
        order: Order,
        hook: usize,
        hook_address: u64,
    ) -> Result<(Real, Patch), Refusal> {
        let stub = self.end();
        let back = back(order);
        // The stub's length does not depend on the distance: the first call only measures the length.
        let real = align(stub + stub_code(order, hook_address, 0).len() as u64);
        let moved = real + back.len() as u64;
        let code = prologue.moved_to(moved)?;
        let patch = patch(prologue, stub)?;
        let forwards = moved.wrapping_sub(stub) as u32;
        self.bytes.resize((stub - self.at) as usize, TRAP);
        self.bytes.extend(stub_code(order, hook_address, forwards));
        self.bytes.resize((real - self.at) as usize, TRAP);
        self.bytes.extend(back);
        self.bytes.extend(code);
        Ok((Real { hook: hook as u32, point: 0, address: real }, patch))
    }

    /// Adds code that calls `visited` with a number before it runs. On an error, nothing is added.
    ///
    /// ```text
    /// stub   [leave the red zone, push flags]   push rax   mov eax, number   call [rip+…]   pop rax   [undo both]
    ///        the moved instructions   jmp to the rest
    ///        the address of `visited`
    /// ```
    /// At the entry of a function there is no red zone, and the flags mean nothing.
    pub(crate) fn add_visit(
        &mut self,
        prologue: &Prologue,
        is_entry: bool,
        number: u32,
        visited: u64,
    ) -> Result<Patch, Refusal> {
        // lea rsp, [rsp-128]; pushfq
        const LEAVE: &[u8] = &[0x48, 0x8d, 0x64, 0x24, 0x80, 0x9c];
        // popfq; lea rsp, [rsp+128]
        const RETURN: &[u8] = &[0x9d, 0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0];
        let (leave, back): (&[u8], &[u8]) = if is_entry { (&[], &[]) } else { (LEAVE, RETURN) };
        let stub = self.end();
        let call_end = stub + leave.len() as u64 + 12;
        let moved = call_end + 1 + back.len() as u64;
        let code = prologue.moved_to(moved)?;
        let patch = patch(prologue, stub)?;
        let word = align(moved + code.len() as u64);
        self.bytes.resize((stub - self.at) as usize, TRAP);
        self.bytes.extend(leave);
        self.bytes.push(0x50);
        self.bytes.push(0xb8);
        self.bytes.extend(number.to_le_bytes());
        self.bytes.extend([0xff, 0x15]);
        self.bytes.extend((word.wrapping_sub(call_end) as u32).to_le_bytes());
        self.bytes.push(0x58);
        self.bytes.extend(back);
        self.bytes.extend(code);
        self.bytes.resize((word - self.at) as usize, TRAP);
        self.bytes.extend(visited.to_le_bytes());
        Ok(patch)
    }

    fn end(&self) -> u64 {
        align(self.at + self.bytes.len() as u64)
    }
}

/// The bytes that a patch overwrites, so that another one can lead to it.
pub(crate) fn patched(patch: &Patch) -> Option<Prologue> {
    let [_, distance @ ..]: [u8; JUMP_LEN] = patch.bytes[..JUMP_LEN].try_into().ok()?;
    let covered = patch.expected[..JUMP_LEN].try_into().ok()?;
    let end = patch.address + JUMP_LEN as u64;
    let target = end.wrapping_add_signed(i64::from(i32::from_le_bytes(distance)));
    Prologue::of_jump(patch.address, covered, target).ok()
}

/// `int3`
const TRAP: u8 = 0xcc;

fn align(address: u64) -> u64 {
    address.next_multiple_of(ALIGNMENT as u64)
}

/// `jmp rel32` to the stub, over the covered instructions.
fn patch(prologue: &Prologue, stub: u64) -> Result<Patch, Refusal> {
    let distance = stub.wrapping_sub(prologue.at + JUMP_LEN as u64) as i64;
    let distance = i32::try_from(distance).map_err(|_| Refusal::NotMovable)?;
    let (mut bytes, mut expected) = ([0; PATCH_LEN], [0; PATCH_LEN]);
    bytes[0] = 0xe9;
    bytes[1..JUMP_LEN].copy_from_slice(&distance.to_le_bytes());
    expected[..JUMP_LEN].copy_from_slice(&prologue.covered);
    Ok(Patch { address: prologue.at, len: JUMP_LEN as u32, reserved: 0, bytes, expected })
}

/// The stub. If a product overflows, it jumps to the moved instructions, `moved` bytes from the stub's start:
/// the function itself rejects such a size.
fn stub_code(order: Order, hook: u64, moved: u32) -> Vec<u8> {
    let mut code: Vec<u8> = match order {
        Order::Same => Vec::new(),
        // xchg rdi, rsi
        Order::SizeSecond => vec![0x48, 0x87, 0xf7],
        // mov rax, rdi; mov rdi, rsi; mov rsi, rdx; mov rdx, rax
        Order::OldSecond => vec![0x48, 0x89, 0xf8, 0x48, 0x89, 0xf7, 0x48, 0x89, 0xd6, 0x48, 0x89, 0xc2],
        // mov rax, rdi; imul rax, rsi; jo moved; mov rdi, rax; mov rsi, rdx
        Order::CountSize => {
            product(&[0x48, 0x89, 0xf8, 0x48, 0x0f, 0xaf, 0xc6], moved, &[0x48, 0x89, 0xc7, 0x48, 0x89, 0xd6])
        }
        // mov rax, rsi; imul rax, rdx; jo moved; mov rsi, rdi; mov rdi, rax
        Order::CountSizeSecond => {
            product(&[0x48, 0x89, 0xf0, 0x48, 0x0f, 0xaf, 0xc2], moved, &[0x48, 0x89, 0xfe, 0x48, 0x89, 0xc7])
        }
    };
    // jmp [rip+0]
    code.extend([0xff, 0x25, 0, 0, 0, 0]);
    code.extend(hook.to_le_bytes());
    code
}

fn product(multiply: &[u8], moved: u32, arrange: &[u8]) -> Vec<u8> {
    let jump_end = multiply.len() as u32 + 6;
    let mut code = multiply.to_vec();
    code.extend([0x0f, 0x80]);
    code.extend(moved.wrapping_sub(jump_end).to_le_bytes());
    code.extend(arrange);
    code
}

/// Code that restores the original argument order.
fn back(order: Order) -> &'static [u8] {
    match order {
        Order::Same => &[],
        // xchg rdi, rsi
        Order::SizeSecond => &[0x48, 0x87, 0xf7],
        // mov rax, rdx; mov rdx, rsi; mov rsi, rdi; mov rdi, rax
        Order::OldSecond => &[0x48, 0x89, 0xd0, 0x48, 0x89, 0xf2, 0x48, 0x89, 0xfe, 0x48, 0x89, 0xc7],
        // mov rdx, rsi; mov rsi, rdi; mov edi, 1
        Order::CountSize => &[0x48, 0x89, 0xf2, 0x48, 0x89, 0xfe, 0xbf, 1, 0, 0, 0],
        // mov rdx, rdi; mov rdi, rsi; mov esi, 1
        Order::CountSizeSecond => &[0x48, 0x89, 0xfa, 0x48, 0x89, 0xf7, 0xbe, 1, 0, 0, 0],
    }
}
