//! A function's machine code as JSON; `docs/asm-json.md` describes it.

use serde::Serialize;
use whyslow_asm::{Destination, Flow, Listing, Obstacle, SourceFrame, Syntax};

/// The name and version of the schema.
pub const ASM_SCHEMA: &str = "whyslow-asm/1";

#[derive(Serialize)]
struct Asm<'a> {
    schema: &'static str,
    function: &'a str,
    module: &'a str,
    file: Option<&'a str>,
    line: Option<u32>,
    start: u64,
    bytes: u64,
    metric: Option<&'a str>,
    unit: Option<&'static str>,
    all: Option<u64>,
    own: u64,
    total: u64,
    skid: Option<&'static str>,
    notes: &'a [String],
    loops: Vec<LoopJson<'a>>,
    hints: Vec<HintJson<'a>>,
    instructions: Vec<InstructionJson<'a>>,
}

#[derive(Serialize)]
struct LoopJson<'a> {
    depth: u32,
    parent: Option<usize>,
    is_innermost: bool,
    start: u64,
    last: u64,
    weight: u64,
    vectorised: Option<bool>,
    vector_bytes: Option<u8>,
    processor_vector_bytes: Option<u8>,
    scalar_reason: Option<&'static str>,
    file: Option<&'a str>,
    line: Option<u32>,
}

#[derive(Serialize)]
struct HintJson<'a> {
    id: &'static str,
    #[serde(rename = "loop")]
    in_loop: Option<usize>,
    loop_weight: u64,
    weight: u64,
    addresses: &'a [u64],
    sentence: &'a str,
    advice: &'a str,
    file: Option<&'a str>,
    line: Option<u32>,
}

#[derive(Serialize)]
struct InstructionJson<'a> {
    address: u64,
    bytes: String,
    text: String,
    own: u64,
    called: u64,
    #[serde(rename = "loop")]
    in_loop: Option<usize>,
    block: Option<usize>,
    /// The target of a branch within the function.
    target: Option<u64>,
    callee: Option<&'a str>,
    file: Option<&'a str>,
    line: Option<u32>,
    /// Functions inlined here, outermost first.
    inlined: Vec<&'a str>,
}

/// The whole listing.
pub fn asm(listing: &Listing, syntax: Syntax) -> impl Serialize {
    let body = &listing.body;
    let weights = listing.weights.of_loops(body);
    let extents = body.loop_extents();
    let line_at = |index: usize| listing.line_of(index);
    let own_line_at = |index: usize| listing.own_line_of(index);
    let loops = body.loops.iter().zip(extents).zip(weights).enumerate();
    let loops = loops.map(|(at, ((found, (first, last)), weight))| {
        let vectors = listing.vectors(at);
        let line = own_line_at(body.blocks[found.head].instructions.start);
        LoopJson {
            depth: found.depth,
            parent: found.parent,
            is_innermost: found.is_innermost,
            start: body.instructions[first].address,
            last: body.instructions[last].address,
            weight,
            vectorised: vectors.map(|vectors| vectors.bytes.is_some()),
            vector_bytes: vectors.and_then(|vectors| vectors.bytes),
            processor_vector_bytes: vectors.and_then(|vectors| vectors.available),
            scalar_reason: vectors.and_then(|vectors| vectors.obstacle).map(Obstacle::id),
            file: line.map(|(file, _)| file),
            line: line.map(|(_, line)| line),
        }
    });
    let hints = listing.hints.iter().map(|hint| {
        let line =
            hint.addresses.first().and_then(|&address| body.instruction_at(address)).and_then(own_line_at);
        HintJson {
            id: hint.kind.id(),
            in_loop: hint.in_loop,
            loop_weight: hint.loop_weight,
            weight: hint.weight,
            addresses: &hint.addresses,
            sentence: &hint.sentence,
            advice: listing.advice(hint),
            file: line.map(|(file, _)| file),
            line: line.map(|(_, line)| line),
        }
    });
    let rows = body.instructions.iter().zip(body.texts(syntax)).enumerate().map(|(index, (row, text))| {
        let line = line_at(index);
        let target = match row.flow {
            Flow::Branch(target) | Flow::Jump(Destination::Code(target)) => Some(target),
            _ => None,
        };
        let frames = listing.frames.get(index).map_or(&[][..], Vec::as_slice);
        InstructionJson {
            address: row.address,
            bytes: body.bytes_of(index).iter().map(|byte| format!("{byte:02x}")).collect(),
            text,
            own: listing.weights.own_at(index),
            called: listing.weights.called.get(index).copied().unwrap_or(0),
            in_loop: body.loop_of(index),
            block: body.block_of(index),
            target: target.filter(|&target| body.instruction_at(target).is_some()),
            callee: body.call_at(index).and_then(whyslow_asm::Call::name),
            file: line.map(|(file, _)| file),
            line: line.map(|(_, line)| line),
            inlined: frames.iter().skip(1).map(name).collect(),
        }
    });
    let place = listing.place();
    Asm {
        schema: ASM_SCHEMA,
        function: &listing.function,
        module: &listing.module,
        file: place.map(|(file, _)| file),
        line: place.map(|(_, line)| line),
        start: body.start,
        bytes: body.end().wrapping_sub(body.start),
        metric: listing.measure.as_ref().map(|measure| measure.metric.as_str()),
        unit: listing.measure.as_ref().map(|measure| measure.unit.label()),
        all: listing.measure.as_ref().map(|measure| measure.whole),
        own: listing.own(),
        total: listing.weights.total(),
        skid: listing.skid(),
        notes: &listing.notes,
        loops: loops.collect(),
        hints: hints.collect(),
        instructions: rows.collect(),
    }
}

fn name(frame: &SourceFrame) -> &str {
    &frame.function
}
