//! Instructions as text, in Arm's own syntax.

use yaxpeax_arch::{Decoder as _, U8Reader};
use yaxpeax_arm::armv8::a64::InstDecoder;

use crate::processor::TextWriter;

/// Writes instructions.
pub(crate) struct Writer;

impl TextWriter for Writer {
    fn text(&mut self, bytes: &[u8], _address: u64) -> String {
        if bytes.len() < 4 {
            return "(cut off)".to_owned();
        }
        match InstDecoder::default().decode(&mut U8Reader::new(bytes)) {
            Ok(instruction) => instruction.to_string(),
            Err(_) => "(bad)".to_owned(),
        }
    }

    fn before_target(&mut self, bytes: &[u8], address: u64) -> String {
        // The target is the last operand, written as a distance: `cbz x1, $+0x14`.
        let mut text = self.text(bytes, address);
        text.truncate(text.rfind('$').unwrap_or(text.len()));
        text
    }
}
