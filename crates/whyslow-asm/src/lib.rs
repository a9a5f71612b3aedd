//! Analyses the machine code that ran: decodes the code of hot functions in a profile into instructions, blocks, loops
//! and calls ([`Body`]), assigns samples to each instruction ([`Weights`]), and finds avoidable costs in hot loops ([`hints`]).
//!
//! ```
//! use whyslow_asm::{Body, Callee, Processor, Syntax, Target};
//! use whyslow_profile::{Code, ModuleId, RelativeAddress};
//!
//! let code = Code { module: ModuleId(0), start: RelativeAddress(0x1000), bytes: vec![0xe8, 0xfb, 0x0f, 0, 0, 0xc3] };
//! let body = Body::new(Processor::X86_64, &code, |branch| {
//!     (branch.target == Target::Code(0x2000)).then(|| Callee { name: "app::parse".to_owned(), size: None })
//! });
//! assert_eq!(body.texts(Syntax::Intel), ["call app::parse", "ret"]);
//! assert_eq!(body.instructions[1].address, 0x1005);
//! ```
//!
//! Each [`Processor`] has its own folder, which decodes and writes its instructions. Everything else sees only what they do
//! ([`Instruction`]).

mod aarch64;
mod align;
mod body;
mod callee;
mod graph;
mod hints;
mod instruction;
mod known;
mod language;
mod listing;
mod loops;
mod names;
mod processor;
mod vectors;
mod weights;
mod x86_64;

pub use align::{Aligned, align};
pub use body::{Body, Branch, Call, Callee, Target};
pub use callee::{Purpose, never_returns, purpose};
pub use graph::Block;
pub use hints::{Advice, Cause, Hint, Kind, LATE, Machine, hints};
pub use instruction::{Destination, Flow, Instruction, Lanes, Memory, Operation, Registers, Step, Value};
pub use language::Language;
pub use listing::{Listing, Measure, SourceFrame, skid};
pub use loops::Loop;
pub use names::Names;
pub use processor::Syntax;
pub use vectors::{Obstacle, Vectors};
pub use weights::Weights;
pub use whyslow_processor::Processor;
pub use x86_64::Avx512;
