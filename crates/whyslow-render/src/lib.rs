//! Renders analyses as text, JSON, SVG and HTML. Nothing here reads profile files or prints.

pub mod bench;
pub mod causal;
pub mod flame;
pub mod html;
pub mod json;
mod names;
pub mod sanitize;
pub mod scale;
mod svg;
mod table;
pub mod text;
pub mod treemap;
pub mod units;

pub use table::Table;
