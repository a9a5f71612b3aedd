//! `-o` of a recording that names another kind of file than a profile: `-o x.svg` is the flame graph.

use std::ffi::OsString;
use std::path::Path;

use crate::cli::{self, Volume};
use crate::commands::report;
use crate::failure::Result;
use crate::output::{Output, note};

/// A kind of file that a recording can be written as, in addition to its profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OtherKind {
    /// What another command writes: its words, FILE and OUT to be filled in.
    Written(&'static [&'static str]),
    /// What `report --format json` prints.
    Json,
}

const FLAME: OtherKind = OtherKind::Written(&["flame", "FILE", "-o", "OUT"]);
const VIEW: OtherKind = OtherKind::Written(&["view", "FILE", "-o", "OUT"]);
const FOLDED: OtherKind = OtherKind::Written(&["export", "FILE", "--to", "folded", "-o", "OUT"]);
const PPROF: OtherKind = OtherKind::Written(&["export", "FILE", "--to", "pprof", "-o", "OUT"]);
const KINDS: [(&str, OtherKind); 6] = [
    (".svg", FLAME),
    (".html", VIEW),
    (".json", OtherKind::Json),
    (".folded", FOLDED),
    (".pb.gz", PPROF),
    (".pprof", PPROF),
];

impl OtherKind {
    /// The kind by the end of the name; `None` for a profile.
    pub(crate) fn of(file: &Path) -> Option<Self> {
        let name = file.file_name()?.to_str()?;
        KINDS.iter().find(|(end, _)| name.len() > end.len() && name.ends_with(end)).map(|(_, kind)| *kind)
    }

    /// Writes the profile as this kind.
    pub(crate) fn write(self, profile: &Path, file: &Path, volume: Volume) -> Result {
        match self {
            Self::Written(words) => {
                let word = |word: &&str| match *word {
                    "FILE" => profile.as_os_str().to_owned(),
                    "OUT" => file.as_os_str().to_owned(),
                    word => OsString::from(word),
                };
                let front = if volume == Volume::Quiet { &["whyslow", "-q"][..] } else { &["whyslow"] };
                let words = front.iter().map(OsString::from).chain(words.iter().map(word)).collect();
                cli::run(cli::parse(words)?)?;
            }
            Self::Json => {
                let text = report::json_of(profile)?;
                Output::from(file.to_owned()).write(|out| out.write_all(text.as_bytes()))?;
                if volume > Volume::Quiet {
                    note(&format!("whyslow: wrote {}\n", file.display()));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_name_tells_the_kind() {
        for (name, kind) in [
            ("x.svg", Some(FLAME)),
            ("a/b.html", Some(VIEW)),
            ("x.json", Some(OtherKind::Json)),
            ("x.folded", Some(FOLDED)),
            ("cpu.pb.gz", Some(PPROF)),
            ("x.whyslow", None),
            ("profile", None),
            (".svg", None),
        ] {
            assert_eq!(OtherKind::of(Path::new(name)), kind, "{name}");
        }
    }
}
