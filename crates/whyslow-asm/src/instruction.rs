//! What an instruction does, in processor-independent terms.

/// A set of registers. General registers are 0 to 31, vector registers 32 to 63, the flags 64.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Registers(pub u128);

impl Registers {
    /// The number of the first vector register.
    pub const FIRST_VECTOR: u8 = 32;
    /// The flags that conditional branches test.
    pub const FLAGS: u8 = 64;

    /// The set with one more register.
    #[must_use]
    pub const fn with(self, register: u8) -> Self {
        Self(self.0 | 1 << register)
    }

    /// Whether a register is in the set.
    pub const fn has(self, register: u8) -> bool {
        self.0 & (1 << register) != 0
    }

    /// The registers in both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The general registers of the set.
    #[must_use]
    pub const fn general(self) -> Self {
        Self(self.0 & 0xffff_ffff)
    }

    /// The vector registers of the set.
    #[must_use]
    pub const fn vector(self) -> Self {
        Self(self.0 & 0xffff_ffff_0000_0000)
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The registers, lowest first.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            // At most 128 registers.
            let next = (left != 0).then(|| left.trailing_zeros() as u8)?;
            left &= left - 1;
            Some(next)
        })
    }
}

/// Where a branch goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// To this address.
    Code(u64),
    /// To the address stored here: a slot of the GOT.
    Slot(u64),
    /// To the address in a register.
    Register(u8),
    /// To an address in memory computed from registers: a jump table, a vtable.
    Memory,
}

/// What executes after an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// The next one.
    Next,
    /// Another one.
    Jump(Destination),
    /// Another one or the next.
    Branch(u64),
    /// A function, then the next one.
    Call(Destination),
    /// The caller.
    Return,
    /// Nothing: it traps.
    Stop,
    /// The bytes are not an instruction.
    Bad,
}

/// What an instruction computes, as far as hints need it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Operation {
    /// Something else.
    #[default]
    Other,
    /// It copies a register, a constant or memory.
    Copy,
    /// It adds or subtracts.
    Add,
    /// It multiplies.
    Multiply,
    /// It multiplies and adds, rounding once.
    MultiplyAdd,
    /// It divides.
    Divide,
    /// It takes a square root.
    SquareRoot,
    /// It converts between integers and floating-point numbers.
    Convert,
    /// It compares and sets flags.
    Compare,
    /// Minimum, maximum, bits, shifts.
    Bits,
    /// It loads from addresses that a vector register holds.
    Gather,
    /// It copies or fills memory byte by byte.
    RepeatedString,
    /// It pauses the processor for a moment: a hint that the loop waits for another thread.
    Pause,
    /// A step of a cipher, a hash or a checksum, of one fixed width.
    Cipher,
}

/// What an instruction computes with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Lanes {
    /// Integers in general registers, or no arithmetic at all.
    #[default]
    General,
    /// One number in a vector register.
    ScalarFloat,
    /// Several floating-point numbers in registers of this many bytes.
    PackedFloat(u8),
    /// Several integers in registers of this many bytes.
    PackedInteger(u8),
}

impl Lanes {
    /// The size of the vectors in bytes, if it uses any.
    pub fn vector_bytes(self) -> Option<u8> {
        match self {
            Self::PackedFloat(bytes) | Self::PackedInteger(bytes) => Some(bytes),
            Self::General | Self::ScalarFloat => None,
        }
    }
}

/// Memory that an instruction reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// The base register.
    pub base: Option<u8>,
    /// The index register, which is scaled.
    pub index: Option<u8>,
    /// The factor of the index.
    pub scale: u8,
    /// The constant offset.
    pub displacement: i64,
    /// The number of bytes.
    pub size: u32,
    /// Whether they are read.
    pub is_read: bool,
    /// Whether they are written.
    pub is_written: bool,
    /// By how many bytes the access moves the base register, on processors with such accesses.
    pub moves_base: Option<i64>,
}

/// A known value of a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// This number.
    Constant(u64),
    /// This address.
    Address(u64),
    /// The value in memory at this address.
    LoadedFrom(u64),
}

/// How far an instruction moves the register that it writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// By this constant.
    By(i64),
    /// By the value of another register.
    ByRegister(u8),
}

/// One instruction and what it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// Where it starts, relative to the module like the code it is from.
    pub address: u64,
    /// Its length in bytes.
    pub length: u8,
    /// What executes next.
    pub flow: Flow,
    /// What it computes.
    pub operation: Operation,
    /// What it computes with.
    pub lanes: Lanes,
    /// Whether it is atomic: a lock prefix, or an exchange with memory.
    pub is_locked: bool,
    /// The memory that it accesses; none for pushes and pops.
    pub memory: Option<Memory>,
    /// Registers whose values it uses.
    pub reads: Registers,
    /// Registers that it changes.
    pub writes: Registers,
    /// The value of the written register afterwards, if known.
    pub sets: Option<Value>,
    /// How far it moves that register, if it adds to it.
    pub step: Option<Step>,
}

impl Instruction {
    /// An instruction of which only the place is known.
    pub(crate) fn unknown(address: u64, length: u8, flow: Flow) -> Self {
        Self {
            address,
            length,
            flow,
            operation: Operation::Other,
            lanes: Lanes::General,
            is_locked: false,
            memory: None,
            reads: Registers::default(),
            writes: Registers::default(),
            sets: None,
            step: None,
        }
    }

    /// Where the next instruction starts.
    pub fn next(&self) -> u64 {
        self.address.wrapping_add(self.length.into())
    }

    /// Whether it is a call.
    pub fn is_call(&self) -> bool {
        matches!(self.flow, Flow::Call(_))
    }
}
