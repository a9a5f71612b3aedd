//! Reads the files of other tools: adds names to their addresses, and explains broken files.

use std::io;
use std::path::Path;

use whyslow_formats::import::{self, Format, ImportError, ImportOptions, Imported};
use whyslow_profile::{LocationId, Profile};

use crate::failure::{Failure, Result};
use crate::{profile_file, shell};

/// Imports a file in the given format, or in the format that its content shows. Looks for the files of its
/// modules in the folder `copies` first.
pub(crate) fn import(
    path: &Path,
    format: Option<Format>,
    copies: Option<&Path>,
) -> Result<(Format, Imported)> {
    let options = ImportOptions { copies: copies.map(Path::to_owned), ..ImportOptions::default() };
    let (format, mut imported) =
        import::import(path, format, &options).map_err(|error| explain(path, error))?;
    // In other formats, addresses are not relative to the file's image base, so symbols would be wrong.
    let is_relative = matches!(format, Format::Firefox | Format::PerfData);
    if is_relative && has_unknown_addresses(&imported.profile) {
        let copies = options.copies.as_deref();
        let files = copies.map_or_else(Vec::new, |folder| whyslow_symbols::copies(&imported.profile, folder));
        profile_file::symbolize(&mut imported.profile, true, true, files);
    } else if imported.profile.sources.rows.is_empty() {
        whyslow_symbols::keep_sources(&mut imported.profile);
    }
    Ok((format, imported))
}

/// Whether symbols on this machine might name addresses that have no name yet.
fn has_unknown_addresses(profile: &Profile) -> bool {
    (1..profile.locations.len()).any(|row| {
        profile.locations.module[row].is_some() && profile.frames.of(LocationId::from(row)).is_empty()
    })
}

fn explain(path: &Path, error: ImportError) -> Failure {
    let stdin = path == Path::new(import::STDIN);
    let name = if stdin { "standard input".to_owned() } else { path.display().to_string() };
    match error {
        ImportError::Io(error) if error.kind() == io::ErrorKind::NotFound => {
            Failure::new(format!("{name}: no such file"))
                .next("the path of the file that the other tool wrote, such as perf.data")
        }
        ImportError::Io(error) if error.kind() == io::ErrorKind::IsADirectory => {
            Failure::new(format!("{name}: this is a folder")).next("a file in it")
        }
        ImportError::Io(error) => {
            Failure::new(format!("{name}: cannot be read: {error}")).next("a file that you may read")
        }
        ImportError::UnknownFormat if profile_file::is_profile(path) => {
            Failure::new(format!("{name}: this is already a whyslow profile"))
                .next(format!("whyslow report {}", shell::file(path)))
        }
        ImportError::UnknownFormat => Failure::new(format!("{name}: {error}"))
            .next("`whyslow import --help` for the formats, and --format to choose one"),
        ImportError::TooLarge { .. } => Failure::new(format!("{name}: {error}")).next("a shorter recording"),
        ImportError::NotRead { next, .. } => Failure::new(format!("{name}: {error}")).next(next),
        ImportError::Packed { .. } => Failure::new(format!("{name}: {error}")).next("copying the file again"),
        ImportError::AtByte { .. } | ImportError::AtLine { .. } => Failure::new(format!("{name}: {error}"))
            .next("copying the file again if it is truncated, or --format if it is another format"),
        ImportError::Unusable { .. } => Failure::new(format!("{name}: {error}"))
            .next("recording again with the other tool, or --format if it is another format"),
    }
}
