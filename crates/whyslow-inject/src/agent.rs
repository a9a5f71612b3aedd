//! Parses the agent's ELF file and lays it out for an address.

use crate::arch::relocation;
use object::{Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, RelocationFlags, RelocationTarget};
use whyslow_elf::Elf;
use whyslow_processor::PAGE;

use crate::inject::InjectError;

/// The symbol of the agent's entry point.
pub(crate) const ENTER: &str = "whyslow_agent_enter";

/// Maximum size of an agent in memory.
const LARGEST: u64 = 64 << 20;

/// The agent before it has an address.
pub(crate) struct Agent<'d> {
    elf: Elf<'d>,
    /// Bytes from its first to its last page.
    pub(crate) len: u64,
    /// Its entry point, relative to its address.
    pub(crate) enter: u64,
}

/// A segment of the agent and its memory protection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Start, relative to the agent's address.
    pub(crate) start: u64,
    /// Length in bytes, in whole pages.
    pub(crate) len: u64,
    /// `PROT_*`
    pub(crate) protection: i32,
}

impl<'d> Agent<'d> {
    /// Parses the agent's file.
    pub(crate) fn parse(data: &'d [u8]) -> Result<Self, InjectError> {
        let bad = |why: &str| InjectError::Agent(why.to_owned());
        let elf = Elf::parse(data).map_err(|error| InjectError::Agent(error.to_string()))?;
        let enter = elf
            .object()
            .dynamic_symbols()
            .find(|symbol| symbol.name() == Ok(ENTER) && symbol.is_definition())
            .ok_or_else(|| bad("it has no entry point"))?
            .address();
        if elf.object().section_by_name(".relr.dyn").is_some_and(|section| section.size() > 0) {
            return Err(bad("its relocations are packed (.relr.dyn)"));
        }
        let mut agent = Self { elf, len: 0, enter };
        agent.len = agent.parts().iter().map(|part| part.start + part.len).max().unwrap_or(0);
        if agent.len == 0 || agent.len > LARGEST || enter >= agent.len {
            return Err(bad("its size is out of range"));
        }
        Ok(agent)
    }

    /// The loadable segments.
    pub(crate) fn parts(&self) -> Vec<Part> {
        self.elf
            .segments()
            .map(|load| {
                let (address, len) = (load.address.0, load.memory_len);
                let start = address & !(PAGE - 1);
                let mut protection = libc::PROT_READ;
                if load.writable {
                    protection |= libc::PROT_WRITE;
                }
                if load.executable {
                    protection |= libc::PROT_EXEC;
                }
                let end = address.saturating_add(len).min(LARGEST * 2).next_multiple_of(PAGE);
                Part { start, len: end.saturating_sub(start), protection }
            })
            .collect()
    }

    /// The agent's bytes, relocated to an address.
    pub(crate) fn laid_out(&self, base: u64) -> Result<Vec<u8>, InjectError> {
        let mut bytes = vec![0; self.len as usize];
        for load in self.elf.segments() {
            let from = load
                .bytes(self.elf.bytes())
                .ok_or_else(|| InjectError::Agent("the file is truncated".into()))?;
            let start = load.address.0 as usize;
            let to = bytes.get_mut(start..start + from.len());
            to.ok_or_else(|| InjectError::Agent("a segment is out of bounds".into()))?.copy_from_slice(from);
        }
        for (at, relocation) in self.elf.object().dynamic_relocations().into_iter().flatten() {
            let RelocationFlags::Elf { r_type } = relocation.flags() else { continue };
            let addend = relocation.addend() as u64;
            let value = match r_type {
                relocation::RELATIVE => base.wrapping_add(addend),
                // The program's thread-local storage does not exist yet, and the agent works without it.
                relocation::THREAD_OFFSET => 0,
                relocation::SYMBOL | relocation::FUNCTION => self.symbol(relocation.target(), base)?,
                relocation::ADDRESS => match self.symbol(relocation.target(), base)? {
                    0 => 0,
                    address => address.wrapping_add(addend),
                },
                other => {
                    return Err(InjectError::Agent(format!("it has an unsupported relocation: {other:?}")));
                }
            };
            let word = usize::try_from(at).ok().and_then(|at| bytes.get_mut(at..at + 8));
            word.ok_or_else(|| InjectError::Agent("a relocation is out of bounds".into()))?
                .copy_from_slice(&value.to_le_bytes());
        }
        Ok(bytes)
    }

    /// The address of a symbol; 0 for a weak symbol that is not defined.
    fn symbol(&self, target: RelocationTarget, base: u64) -> Result<u64, InjectError> {
        let symbol = match target {
            RelocationTarget::Symbol(index) => {
                self.elf.object().dynamic_symbol_table().and_then(|table| table.symbol_by_index(index).ok())
            }
            _ => None,
        };
        let symbol = symbol.ok_or_else(|| InjectError::Agent("a relocation has no symbol".into()))?;
        if symbol.is_definition() {
            Ok(base.wrapping_add(symbol.address()))
        } else if symbol.is_weak() {
            Ok(0)
        } else {
            let name = symbol.name().unwrap_or("?");
            Err(InjectError::Agent(format!("it needs {name}, which a static program does not provide")))
        }
    }
}
