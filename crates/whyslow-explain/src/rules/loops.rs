//! Rules over the machine code of hot loops.

use whyslow_asm::Kind;

use crate::rule::{InCode, Rule, Signal};
use crate::rules::RuleId;

macro_rules! rules {
    ($($name:ident $id:ident $signal:expr, $title:literal, $rust:literal, $native:expr;)+) => {
        $(pub(super) static $name: Rule = Rule {
            id: RuleId::$id,
            title: $title,
            rust: $rust,
            native: $native,
            signal: Signal::Code($signal),
        };)+
    };
}

rules! {
    NOT_VECTORISED NotVectorised InCode::of_loop(&[Kind::ScalarLoop]),
    "a hot loop is not vectorised: it processes one number at a time",
    "iterate over slices with iterators or chunks_exact, without early exits and calls; sums of floats need several accumulators",
    Some("-O3 (gcc vectorises little at -O2), restrict on pointers, no early exits and calls in the loop; sums of floats need several accumulators or -fassociative-math -fno-signed-zeros -fno-trapping-math");
    NARROW_VECTORS NarrowVectors InCode::of_loop(&[Kind::NarrowVectors]).least(0.20),
    "a hot loop uses narrower vectors than this CPU supports",
    "build for the CPU it runs on: RUSTFLAGS=\"-C target-cpu=native\" (or x86-64-v3), or choose at run time with is_x86_feature_detected! and #[target_feature]",
    Some("build for the CPU it runs on: -march=native (or x86-64-v3; in a build script by CFLAGS), or choose at run time with __attribute__((target_clones(...)))");
    NO_FMA NoFusedMultiplyAdd InCode::of_loop(&[Kind::NoFusedMultiplyAdd]).least(0.20),
    "a hot loop multiplies and adds in two steps, and this CPU has one instruction for both",
    "write a.mul_add(b, c), and build with -C target-feature=+fma or target-cpu=native; without these flags mul_add is a slow call",
    Some("build with -mfma or -march=native, and allow contraction (-ffp-contract=fast: gcc's default, but clang contracts only within statements), or write fma(a, b, c)");
    SERIAL_CHAIN SerialChain InCode::of_loop(&[Kind::SerialChain]).least(0.15),
    "each iteration of a hot loop waits for the result of the previous one",
    "use several accumulators and add them up at the end (chunks_exact, or a loop unrolled by hand): the compiler may not do this for floats",
    Some("use several accumulators and add them up at the end; for floats, -O3 -fassociative-math -fno-signed-zeros -fno-trapping-math lets the compiler do this");
    POINTER_CHASE PointerChase InCode::of_loop(&[Kind::PointerChase]).least(0.15),
    "a hot loop follows pointers and waits for memory at each one",
    "store the elements contiguously: a Vec instead of a linked list, indices instead of boxes",
    Some("store the elements contiguously: an array or std::vector instead of a list or a tree, indices instead of pointers; prefetch the next element if it is known early (__builtin_prefetch)");
    STRIDED StridedAccess InCode::of_loop(&[Kind::StridedAccess, Kind::Gather]),
    "a hot loop reads memory in large strides: a new cache line for each number",
    "reorder the loops so that the innermost one walks along memory, work in blocks, or store each field in its own Vec",
    Some("reorder the loops so that the innermost one walks along memory, work in blocks, or store each field in its own array");
    BOUNDS_CHECKS BoundsChecks InCode::of_weight(&[Kind::BoundsCheck]).least(0.10),
    "a hot loop checks an index against its bounds in every iteration",
    "iterate instead of indexing, take a slice of the known length before the loop (let part = &all[..n]), or assert!(n <= all.len()) once",
    Some("use operator[] instead of at() if the index is known to be valid, or check once before the loop");
    OVERFLOW_CHECKS OverflowChecks InCode::of_weight(&[Kind::OverflowCheck]).least(0.10),
    "a hot loop checks for integer overflow in every iteration",
    "use wrapping_add and similar methods if wrapping is intended, or turn overflow-checks off in the release profile",
    Some("use unsigned types if wrapping is intended, or build the release without -ftrapv and -fsanitize=signed-integer-overflow");
    DIVISION Division InCode::of_weight(&[Kind::Division, Kind::SquareRoot]).least(0.15),
    "divisions or square roots in a hot loop take tens of cycles each",
    "divide by constants or powers of two, multiply by the reciprocal, use u32 instead of u64, or move the division out of the loop",
    Some("divide by constants or powers of two, multiply by the reciprocal, use 32-bit types instead of 64-bit ones, or move the division out of the loop");
    FLOAT_CONVERSIONS FloatConversions InCode::of_weight(&[Kind::FloatConversion]).least(0.30),
    "a hot loop converts between integers and floating-point numbers",
    "use only one of the two inside the loop, and convert before or after it",
    None;
    DYN_CALLS DynCalls InCode::of_weight(&[Kind::IndirectCall]).least(0.05),
    "a hot loop makes indirect calls (dyn, fn pointers, virtual functions)",
    "use an enum or a generic function instead of dyn, or handle many items per call",
    Some("use a template or std::variant instead of virtual functions and std::function, mark the class final, or handle many items per call");
    SMALL_CALLEE SmallCallee InCode::of_weight(&[Kind::SmallCallee]).least(0.05),
    "a hot loop calls a small function that could be inlined",
    "mark the function #[inline] if it is in another crate, or set lto = \"thin\" or codegen-units = 1 in the release profile",
    Some("define it in the header (inline), or build with -flto");
    UNPREDICTABLE UnpredictableBranches InCode::of_weight(&[Kind::UnpredictableBranch]),
    "a hot loop has a branch that the CPU often mispredicts",
    "make it branchless (min, max, masks, arithmetic on bool), sort the input, or handle the common case first",
    Some("make it branchless (min, max, masks, arithmetic on bool), sort the input, or handle the common case first");
}
