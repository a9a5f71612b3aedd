//! Builds a search table for `.eh_frame` for static programs that were linked without one. The agent needs it
//! to find unwind rules.

use gimli::{BaseAddresses, CieOrFde, EhFrame, EndianSlice, LittleEndian, UnwindSection};

/// The pointer encoding of the table: absolute, eight bytes.
const ABSOLUTE: u8 = gimli::constants::DW_EH_PE_udata8.0;

/// Builds an `.eh_frame_hdr` with absolute addresses for an `.eh_frame` at this address in the process. Empty
/// if the section has no entries.
pub(crate) fn build(section: &[u8], address: u64) -> Vec<u8> {
    let mut eh_frame = EhFrame::new(section, LittleEndian);
    eh_frame.set_address_size(8);
    let bases = BaseAddresses::default().set_eh_frame(address);
    let mut rows = rows(&eh_frame, &bases, address);
    if rows.is_empty() {
        return Vec::new();
    }
    rows.sort_unstable();
    let mut table = vec![1, ABSOLUTE, ABSOLUTE, ABSOLUTE];
    table.extend(address.to_le_bytes());
    table.extend((rows.len() as u64).to_le_bytes());
    for (function, entry) in rows {
        table.extend(function.to_le_bytes());
        table.extend(entry.to_le_bytes());
    }
    table
}

/// The start of each function and the address of its entry. Entries after a malformed one cannot be found.
fn rows(
    section: &EhFrame<EndianSlice<'_, LittleEndian>>,
    bases: &BaseAddresses,
    address: u64,
) -> Vec<(u64, u64)> {
    let mut rows = Vec::new();
    let mut entries = section.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        if let CieOrFde::Fde(partial) = entry
            && let Ok(fde) = partial.parse(EhFrame::cie_from_offset)
        {
            rows.push((fde.initial_address(), address + fde.offset() as u64));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_without_entries_has_no_table() {
        assert!(build(&[0; 4], 0x1000).is_empty());
        assert!(build(&[], 0x1000).is_empty());
    }

    #[test]
    fn every_function_of_a_real_program_is_found() {
        use object::{Object, ObjectSection};
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let section = file.section_by_name(".eh_frame").unwrap();
        let (address, data) = (section.address(), section.data().unwrap());
        let table = build(data, address);
        let bases = BaseAddresses::default().set_eh_frame(address).set_eh_frame_hdr(0x7000_0000);
        let header = gimli::EhFrameHdr::new(&table, LittleEndian).parse(&bases, 8).unwrap();
        assert_eq!(header.eh_frame_ptr(), gimli::Pointer::Direct(address));
        let mut eh_frame = EhFrame::new(data, LittleEndian);
        eh_frame.set_address_size(8);
        let all = rows(&eh_frame, &bases, address);
        assert!(all.len() > 100);
        for (function, entry) in all {
            let found = header.table().unwrap().lookup(function, &bases).unwrap();
            assert_eq!(found, gimli::Pointer::Direct(entry), "{function:#x}");
        }
    }
}
