//! Text, JSON and pictures from analyses. Nothing here reads a profile's file or prints.

pub mod bench;
pub mod flame;
pub mod html;
pub mod json;
mod names;
pub mod sanitize;
pub mod scale;
mod svg;
pub mod text;
pub mod units;
