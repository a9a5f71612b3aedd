//! Instructions as text.

use iced_x86::{Decoder, DecoderError, DecoderOptions, Formatter, GasFormatter, IntelFormatter};

use crate::processor::{Syntax, TextWriter};

/// Writes instructions in one of the two syntaxes.
pub(crate) struct Writer(Box<dyn Formatter>);

impl Writer {
    pub(crate) fn new(syntax: Syntax) -> Self {
        let mut formatter: Box<dyn Formatter> = match syntax {
            Syntax::Intel => Box::new(IntelFormatter::new()),
            Syntax::Att => Box::new(GasFormatter::new()),
        };
        let options = formatter.options_mut();
        options.set_hex_prefix("0x");
        options.set_hex_suffix("");
        options.set_uppercase_hex(false);
        options.set_space_after_operand_separator(true);
        options.set_rip_relative_addresses(true);
        options.set_branch_leading_zeros(false);
        Self(formatter)
    }

    fn write(
        &mut self,
        bytes: &[u8],
        address: u64,
        write: impl Fn(&mut dyn Formatter, &iced_x86::Instruction, &mut String),
    ) -> String {
        let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            let cut_off = decoder.last_error() == DecoderError::NoMoreBytes;
            return if cut_off { "(cut off)" } else { "(bad)" }.to_owned();
        }
        let mut text = String::new();
        write(&mut *self.0, &instruction, &mut text);
        text
    }
}

impl TextWriter for Writer {
    fn text(&mut self, bytes: &[u8], address: u64) -> String {
        self.write(bytes, address, |formatter, instruction, text| formatter.format(instruction, text))
    }

    fn before_target(&mut self, bytes: &[u8], address: u64) -> String {
        self.write(bytes, address, |formatter, instruction, text| {
            formatter.format_mnemonic(instruction, text);
            text.push(' ');
        })
    }
}
