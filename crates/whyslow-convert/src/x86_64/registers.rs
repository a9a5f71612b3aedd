//! Registers as the kernel's samples contain them.

use linux_perf_event_reader::SampleRecord;
use whyslow_unwind::{Register, Registers};

/// The general registers: the kernel's number of each in its mask, and the DWARF number.
pub const USER_REGISTERS: [(u64, Register); 17] = [
    (0, Register(0)),
    (1, Register(3)),
    (2, Register(2)),
    (3, Register(1)),
    (4, Register(4)),
    (5, Register(5)),
    (6, Register(6)),
    (7, Register(7)),
    (8, Register(16)),
    (16, Register(8)),
    (17, Register(9)),
    (18, Register(10)),
    (19, Register(11)),
    (20, Register(12)),
    (21, Register(13)),
    (22, Register(14)),
    (23, Register(15)),
];

/// The general registers in the order of the kernel's `ucontext`, and the instruction pointer, by their DWARF numbers.
const OF_CONTEXT: [u8; 17] = [8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16];

/// The registers that the kernel has saved for a signal handler.
pub fn context_registers(values: &[u64; 17]) -> Registers {
    let mut registers = Registers::new(values[16], values[15], values[10]);
    for (number, value) in OF_CONTEXT.into_iter().zip(values) {
        registers.set(Register(number), *value);
    }
    registers
}

/// The first argument of the system call that a thread is in; `None` if it is in none.
pub(crate) fn system_call_argument(registers: &Registers) -> Option<u64> {
    const RAX: Register = Register(0);
    const RDI: Register = Register(5);
    // The kernel's placeholder for the result until there is one.
    const NO_RESULT_YET: u64 = (-38_i64).cast_unsigned();
    (registers.get(RAX)? == NO_RESULT_YET).then_some(registers.get(RDI)?)
}

/// The registers of a sample; `None` for kernel threads and tasks that are exiting.
pub(crate) fn user_registers(sample: &SampleRecord<'_>) -> Option<Registers> {
    let values = sample.user_regs.as_ref()?;
    let mut registers = Registers::new(values.get(8)?, values.get(7)?, values.get(6)?);
    for (bit, name) in USER_REGISTERS {
        if let Some(value) = values.get(bit) {
            registers.set(name, value);
        }
    }
    (registers.get(Register::RIP)? != 0).then_some(registers)
}
