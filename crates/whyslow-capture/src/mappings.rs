//! Feeds mappings from /proc to the converter.

use whyslow_convert::{Converter, Input, Mapped, World};
use whyslow_numbers::{ClockNs, RunTimeAddress};
use whyslow_proc::Mapping;

/// Feeds all mappings of a process to the converter.
pub(crate) fn take_mappings<W: World>(
    pid: u32,
    time_ns: ClockNs,
    mappings: &[Mapping],
    converter: &mut Converter<W>,
) {
    for mapping in mappings {
        converter.take(&Input::Mapped(Mapped {
            pid,
            tid: None,
            time_ns,
            path: mapping.name.as_str().into(),
            device: mapping.device,
            inode: mapping.inode,
            generation: 0,
            build_id: None,
            start: RunTimeAddress(mapping.start),
            end: RunTimeAddress(mapping.end),
            offset: mapping.offset,
            executable: mapping.executable,
        }));
    }
}
