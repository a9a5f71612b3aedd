//! Stacks merged by call path.

use whyslow_profile::{FunctionId, ModuleId};

/// What a node of a [`CallTree`] stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Label {
    /// Everything: node 0.
    Root,
    /// A function.
    Function(FunctionId),
    /// Code in this module for which no name is known.
    Module(ModuleId),
    /// Code in no known module.
    Unknown,
    /// The place of outer frames that could not be had.
    Truncated,
}

/// Stacks merged by call path: a tree as columns. A parent's row comes before its children's; node 0 is the root.
#[derive(Debug, Clone, PartialEq)]
pub struct CallTree {
    /// The caller's node; 0 for the root itself.
    pub parent: Vec<u32>,
    /// What the node stands for.
    pub label: Vec<Label>,
    /// Whether the compiler inlined this function into its parent node.
    pub inlined: Vec<bool>,
    /// Value of the samples whose innermost frame is this node.
    pub self_value: Vec<u64>,
    /// Value of all samples at or below this node.
    pub total_value: Vec<u64>,
}
