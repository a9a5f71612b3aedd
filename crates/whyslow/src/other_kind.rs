//! `-o` of a recording that names another kind of file than a profile: `-o x.svg` is the flame graph.

use std::path::Path;

use crate::cli::Volume;
use crate::exports::{self, Kind};
use crate::failure::Result;
use crate::output::{Output, note};
use crate::{answers, pages, pictures, profile_file};

/// A kind of file that a recording can be written as, in addition to its profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OtherKind {
    /// The flame graph.
    Flame,
    /// The viewer in one file.
    Page,
    /// What `report --format json` prints.
    Json,
    /// A format of other tools.
    Exported(Kind),
}

const KINDS: [(&str, OtherKind); 6] = [
    (".svg", OtherKind::Flame),
    (".html", OtherKind::Page),
    (".json", OtherKind::Json),
    (".folded", OtherKind::Exported(Kind::Folded)),
    (".pb.gz", OtherKind::Exported(Kind::Pprof)),
    (".pprof", OtherKind::Exported(Kind::Pprof)),
];

impl OtherKind {
    /// The kind by the end of the name; `None` for a profile.
    pub(crate) fn of(file: &Path) -> Option<Self> {
        let name = file.file_name()?.to_str()?;
        KINDS.iter().find(|(end, _)| name.len() > end.len() && name.ends_with(end)).map(|(_, kind)| *kind)
    }

    /// Writes the profile as this kind.
    pub(crate) fn write(self, path: &Path, file: &Path, volume: Volume) -> Result {
        let (profile, output) = (profile_file::open(path)?, Output::from(file.to_owned()));
        match self {
            Self::Flame => pictures::draw(&profile, &output, false, volume),
            Self::Page => pages::save_whole(path, &profile, &output, volume),
            Self::Exported(kind) => exports::save_whole(path, &profile, kind, &output, volume),
            Self::Json => {
                let text = answers::functions_as_json(path, &profile)?;
                output.write(|out| out.write_all(text.as_bytes()))?;
                if volume > Volume::Quiet {
                    note(&format!("whyslow: wrote {}\n", file.display()));
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_name_tells_the_kind() {
        for (name, kind) in [
            ("x.svg", Some(OtherKind::Flame)),
            ("a/b.html", Some(OtherKind::Page)),
            ("x.json", Some(OtherKind::Json)),
            ("x.folded", Some(OtherKind::Exported(Kind::Folded))),
            ("cpu.pb.gz", Some(OtherKind::Exported(Kind::Pprof))),
            ("x.whyslow", None),
            ("profile", None),
            (".svg", None),
        ] {
            assert_eq!(OtherKind::of(Path::new(name)), kind, "{name}");
        }
    }
}
