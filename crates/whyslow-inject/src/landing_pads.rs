//! Where exceptions land in a function: code that unwinding jumps to, from the function's call-site table.
//!
//! ```text
//! table   lpstart encoding, lpstart?   ttype encoding, ttype offset?   call-site encoding, length
//!         call sites × { start, length, landing pad, action }          offsets from the function, or from lpstart
//! ```

use gimli::{BaseAddresses, CieOrFde, EhFrame, EndianSlice, LittleEndian, Reader, UnwindSection, constants};

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// The landing pads of all functions with code in `range`, by their addresses in the file. `frames` is `.eh_frame` and
/// its address; `bytes` gives the file's bytes from an address on. `None` if they cannot be known.
pub(crate) fn of<'d>(
    frames: (&[u8], u64),
    range: &std::ops::Range<u64>,
    bytes: impl Fn(u64) -> Option<&'d [u8]>,
) -> Option<Vec<u64>> {
    let (section, address) = frames;
    let mut eh_frame = EhFrame::new(section, LittleEndian);
    eh_frame.set_address_size(8);
    let bases = BaseAddresses::default().set_eh_frame(address);
    let mut entries = eh_frame.entries(&bases);
    let (mut landings, mut is_known) = (Vec::new(), false);
    while let Some(entry) = entries.next().ok()? {
        let CieOrFde::Fde(partial) = entry else { continue };
        let fde = partial.parse(EhFrame::cie_from_offset).ok()?;
        let start = fde.initial_address();
        if start >= range.end || start + fde.len() <= range.start {
            continue;
        }
        is_known = true;
        match fde.lsda() {
            None => {}
            Some(gimli::Pointer::Direct(at)) => pads(bytes(at)?, start, &mut landings)?,
            Some(gimli::Pointer::Indirect(_)) => return None,
        }
    }
    is_known.then_some(landings)
}

/// Adds the landing pads of one table. `None` if it is not understood.
fn pads(table: &[u8], function: u64, landings: &mut Vec<u64>) -> Option<()> {
    let mut table = Slice::new(table, LittleEndian);
    // Another start of landing pads than the function does not occur in practice.
    if table.read_u8().ok()? != constants::DW_EH_PE_omit.0 {
        return None;
    }
    if table.read_u8().ok()? != constants::DW_EH_PE_omit.0 {
        table.read_uleb128().ok()?;
    }
    let encoding = table.read_u8().ok()?;
    let len = usize::try_from(table.read_uleb128().ok()?).ok()?;
    let mut sites = table.split(len).ok()?;
    while !sites.is_empty() {
        let _start = offset(&mut sites, encoding)?;
        let _len = offset(&mut sites, encoding)?;
        let pad = offset(&mut sites, encoding)?;
        let _action = sites.read_uleb128().ok()?;
        if pad != 0 {
            landings.push(function.wrapping_add(pad));
        }
    }
    Some(())
}

fn offset(from: &mut Slice<'_>, encoding: u8) -> Option<u64> {
    match gimli::DwEhPe(encoding) {
        constants::DW_EH_PE_uleb128 => from.read_uleb128().ok(),
        constants::DW_EH_PE_udata2 | constants::DW_EH_PE_sdata2 => from.read_u16().ok().map(u64::from),
        constants::DW_EH_PE_udata4 | constants::DW_EH_PE_sdata4 => from.read_u32().ok().map(u64::from),
        constants::DW_EH_PE_udata8 | constants::DW_EH_PE_sdata8 | constants::DW_EH_PE_absptr => {
            from.read_u64().ok()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use object::{Object, ObjectSection, ObjectSymbol};

    use super::*;

    #[test]
    fn the_pads_of_a_table_are_relative_to_the_function() {
        // No lpstart, no types, uleb128; two sites of 4 bytes: the second one has no pad.
        let table = [0xff, 0xff, 0x01, 8, 0, 5, 0x20, 0, 5, 5, 0, 0];
        let mut landings = Vec::new();
        assert_eq!(pads(&table, 0x1000, &mut landings), Some(()));
        assert_eq!(landings, [0x1020]);
        assert_eq!(pads(&table[..6], 0x1000, &mut landings), None, "cut");
        assert_eq!(pads(&[0x1b, 0, 0, 0, 0], 0x1000, &mut landings), None, "another start");
    }

    struct Noisy(u64);

    impl Drop for Noisy {
        fn drop(&mut self) {
            std::hint::black_box(self.0);
        }
    }

    #[inline(never)]
    fn cleans_up_unmistakably(number: u64, call: &dyn Fn(u64)) {
        let noisy = Noisy(number);
        call(number);
        drop(noisy);
    }

    #[test]
    fn a_function_that_cleans_up_has_landing_pads_in_its_code() {
        cleans_up_unmistakably(1, &|number| assert_eq!(std::hint::black_box(number), 1));
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let is_it = |name: &str| name.contains("cleans_up_unmistakably");
        let symbol =
            file.symbols().find(|symbol| symbol.size() > 0 && symbol.name().is_ok_and(is_it)).unwrap();
        let section = file.section_by_name(".eh_frame").unwrap();
        let range = symbol.address()..symbol.address() + symbol.size();
        let from = |at: u64| {
            let section = file
                .sections()
                .find(|section| (section.address()..section.address() + section.size()).contains(&at))?;
            section.data().ok()?.get((at - section.address()) as usize..)
        };
        let landings = of((section.data().unwrap(), section.address()), &range, from).unwrap();
        assert!(!landings.is_empty() && landings.iter().all(|pad| range.contains(pad)), "{landings:x?}");
        assert_eq!(of((section.data().unwrap(), section.address()), &(1..2), from), None);
    }
}
