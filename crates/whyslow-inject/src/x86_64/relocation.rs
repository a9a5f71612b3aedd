//! Relocation types in the agent's file.

pub(crate) use object::elf::R_X86_64_64 as ADDRESS;
pub(crate) use object::elf::R_X86_64_GLOB_DAT as SYMBOL;
pub(crate) use object::elf::R_X86_64_JUMP_SLOT as FUNCTION;
pub(crate) use object::elf::R_X86_64_RELATIVE as RELATIVE;
pub(crate) use object::elf::R_X86_64_TPOFF64 as THREAD_OFFSET;
