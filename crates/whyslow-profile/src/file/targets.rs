//! The chunk with the names of functions that stored code calls.

use super::column::{ColumnReader, ColumnWriter, Malformed};
use super::tables::row;
use crate::{BranchTarget, ModuleId, Profile, RelativeAddress, StringId};

pub(super) fn write(rows: &[BranchTarget]) -> Vec<u8> {
    let mut columns = ColumnWriter::default();
    columns
        .numbers("module", rows.iter().map(|row| u64::from(row.module.0)))
        .numbers("address", rows.iter().map(|row| row.address.0))
        .numbers("is_slot", rows.iter().map(|row| u64::from(row.is_slot)))
        .numbers("name", rows.iter().map(|row| u64::from(row.name.0)))
        .numbers("size", rows.iter().map(|row| row.size));
    columns.into_bytes()
}

pub(super) fn read(columns: &ColumnReader<'_>, profile: &mut Profile) -> Result<(), Malformed> {
    let (module, address) = (columns.numbers("module")?, columns.numbers("address")?);
    let (is_slot, name) = (columns.numbers("is_slot")?, columns.numbers("name")?);
    let size = columns.numbers_or_zeros("size")?;
    for at in 0..columns.rows() {
        profile.targets.push(BranchTarget {
            module: ModuleId(row(module[at], profile.modules.len())?),
            address: RelativeAddress(address[at]),
            is_slot: is_slot[at] != 0,
            name: StringId(row(name[at], profile.strings.len())?),
            size: size[at],
        });
    }
    Ok(())
}
