//! Disassembly of the machine code that really ran: the bytes that a profile keeps of its hot functions, as text.
//!
//! ```
//! use whyslow_asm::disassemble;
//! use whyslow_profile::{Code, ModuleId, RelativeAddress};
//!
//! let code = Code { module: ModuleId(0), start: RelativeAddress(0x1000), bytes: vec![0xe8, 0xfb, 0x0f, 0, 0, 0xc3] };
//! let text = disassemble(&code, |branch| (branch.target == 0x2000).then(|| "app::parse".to_owned()));
//! assert_eq!(text[0].text, "call app::parse");
//! assert_eq!((text[1].address, text[1].text.as_str()), (0x1005, "ret"));
//! ```

mod disassemble;
mod names;

pub use disassemble::{Branch, Instruction, disassemble, knows_architecture};
pub use names::Names;
