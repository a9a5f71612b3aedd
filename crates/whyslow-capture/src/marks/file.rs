//! Marker files, samply's convention: a program maps a file `marker-PID.txt` or `marker-PID-TID.txt`, in any
//! folder, and appends lines `START END NAME` to it, with both times in nanoseconds of `CLOCK_MONOTONIC`. The
//! spans belong to the thread that maps the file.
//!
//! The mapping provides the path. The file is read only while it is a regular file owned by the user of the
//! process that mapped it, so that another user's file cannot be substituted.

use std::fs::File;
use std::io::{Read, Seek as _, SeekFrom};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use rustix::fs::OFlags;

use whyslow_numbers::ClockNs;
use whyslow_profile::ThreadId;

/// Longer lines are skipped.
const LINE_MAX: usize = 64 << 10;

/// Whether a mapped file has the name of a marker file.
pub(crate) fn is_marker_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    path.starts_with('/') && name.starts_with("marker-") && name.ends_with(".txt")
}

/// The thread in a file's name.
pub(crate) fn thread_in_name(path: &str) -> Option<u32> {
    let name = path.rsplit('/').next()?.strip_prefix("marker-")?.strip_suffix(".txt")?;
    name.split_once('-')?.1.parse().ok()
}

/// A file that a recorded process has mapped.
#[derive(Debug)]
pub(super) struct MarkerFile {
    path: PathBuf,
    pub(super) thread: Option<ThreadId>,
    /// The user who must own it.
    owner: u32,
    /// Device and inode of the file at the last read.
    identity: Option<(u64, u64)>,
    read: u64,
    /// An incomplete last line.
    partial: Vec<u8>,
    /// Whether the line in `partial` is too long.
    skipping: bool,
}

impl MarkerFile {
    pub(super) fn new(path: &str, thread: Option<ThreadId>, owner: u32) -> Self {
        let path = PathBuf::from(path);
        Self { path, thread, owner, identity: None, read: 0, partial: Vec::new(), skipping: false }
    }

    pub(super) fn is_at(&self, path: &str) -> bool {
        self.path.as_os_str() == path
    }

    /// Takes new lines as start, end and name.
    pub(super) fn read(&mut self, take: impl FnMut(ClockNs, ClockNs, &str)) {
        let Some(mut file) = self.open() else { return };
        if file.seek(SeekFrom::Start(self.read)).is_ok() {
            self.read_from(&mut file, take);
        }
    }

    /// Takes the lines of what was appended.
    pub(super) fn read_from(
        &mut self,
        appended: &mut impl Read,
        mut take: impl FnMut(ClockNs, ClockNs, &str),
    ) {
        let mut buffer = [0; 32 << 10];
        while let Ok(length @ 1..) = appended.read(&mut buffer) {
            self.read += length as u64;
            let mut rest = &buffer[..length];
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                self.extend(&rest[..end]);
                if let Some((start, end, name)) = parse(&self.partial) {
                    take(start, end, &name);
                }
                self.partial.clear();
                self.skipping = false;
                rest = &rest[end + 1..];
            }
            self.extend(rest);
        }
    }

    fn extend(&mut self, bytes: &[u8]) {
        if self.skipping || self.partial.len() + bytes.len() > LINE_MAX {
            self.skipping = true;
            self.partial.clear();
        } else {
            self.partial.extend_from_slice(bytes);
        }
    }

    fn open(&mut self) -> Option<File> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let file = File::options().read(true).custom_flags(flags).open(&self.path).ok()?;
        let about = file.metadata().ok()?;
        let identity = (about.dev(), about.ino());
        let good = about.is_file()
            && about.uid() == self.owner
            && *self.identity.get_or_insert(identity) == identity
            && about.len() > self.read;
        good.then_some(file)
    }
}

fn parse(line: &[u8]) -> Option<(ClockNs, ClockNs, String)> {
    let line = String::from_utf8_lossy(line);
    let mut fields = line.splitn(3, ' ');
    let start = ClockNs::new(fields.next()?.parse().ok()?);
    let end = ClockNs::new(fields.next()?.parse().ok()?);
    let name = fields.next().filter(|name| !name.is_empty())?;
    (start <= end).then(|| (start, end, name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write as _;

    fn lines(file: &mut MarkerFile) -> Vec<(u64, u64, String)> {
        let mut lines = Vec::new();
        file.read(|start, end, name| lines.push((start.raw(), end.raw(), name.to_owned())));
        lines
    }

    fn owner(path: &std::path::Path) -> u32 {
        fs::metadata(path).unwrap().uid()
    }

    #[test]
    fn recognises_marker_files_by_name() {
        for path in ["/tmp/marker-42.txt", "/a/marker-42-43.txt", "/marker-x.txt"] {
            assert!(is_marker_file(path), "{path}");
        }
        for path in
            ["/tmp/marker-42.txt (deleted)", "/tmp/marker.txt", "marker-42.txt", "/tmp/my-marker-1.txt"]
        {
            assert!(!is_marker_file(path), "{path}");
        }
        assert_eq!(thread_in_name("/a/marker-42-43.txt"), Some(43));
        assert_eq!(thread_in_name("/a/marker-42.txt"), None);
    }

    #[test]
    fn reads_lines_as_they_are_appended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("marker-1.txt");
        let mut written = File::create(&path).unwrap();
        let mut file = MarkerFile::new(path.to_str().unwrap(), None, owner(&path));
        assert!(lines(&mut file).is_empty());
        written.write_all(b"10 20 load a file\ngarbage\n30 25 backwards\n5 6 \n40 50 pa").unwrap();
        assert_eq!(lines(&mut file), [(10, 20, "load a file".to_owned())]);
        written.write_all(b"rse\r\n").unwrap();
        assert_eq!(lines(&mut file), [(40, 50, "parse\r".to_owned())]);
        written.write_all(&[b'x'; 3 * LINE_MAX]).unwrap();
        written.write_all(b"\n60 70 after\n").unwrap();
        assert_eq!(lines(&mut file), [(60, 70, "after".to_owned())]);
        assert!(lines(&mut file).is_empty());
    }

    #[test]
    fn does_not_read_links_or_files_of_other_users() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("marker-1.txt");
        fs::write(&path, "1 2 secret\n").unwrap();
        let owner = owner(&path);
        let text = path.to_str().unwrap();
        assert!(lines(&mut MarkerFile::new(text, None, owner + 1)).is_empty());
        let link = folder.path().join("marker-2.txt");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(lines(&mut MarkerFile::new(link.to_str().unwrap(), None, owner)).is_empty());

        let mut file = MarkerFile::new(text, None, owner);
        assert_eq!(lines(&mut file).len(), 1);
        let other = folder.path().join("other");
        fs::write(&other, "1 2 secret\n3 4 another file under the same name\n").unwrap();
        fs::rename(&other, &path).unwrap();
        assert!(lines(&mut file).is_empty());
    }
}
