//! Opens a picture or a page in a browser, if the machine has one.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::failure::warn;

/// A browser that has not failed within this time counts as started.
const PATIENCE: Duration = Duration::from_millis(400);

/// Opens a file in a browser. If that fails, a warning names the file.
pub(crate) fn in_browser(file: &Path) {
    let file = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    if let Err(why) = start(file.as_os_str()) {
        warn(&format!("--open: {why}; try: open file://{} in a browser", file.display()));
    }
}

/// Opens one of whyslow's own pages in a browser, or returns why it cannot.
pub(crate) fn page_in_browser(file: &Path) -> Result<(), &'static str> {
    start(file.as_os_str())
}

fn start(target: &OsStr) -> Result<(), &'static str> {
    let found = openers(&|name| env::var_os(name), &in_path);
    match found.as_slice() {
        [] => Err("$BROWSER is not set and there is no desktop"),
        programs if programs.iter().any(|program| starts(program, target)) => Ok(()),
        _ => Err("no browser starts"),
    }
}

/// Programs to try, best first. `xdg-open` needs a desktop: without one it may start a browser in the terminal.
fn openers(
    var: &dyn Fn(&str) -> Option<OsString>,
    in_path: &dyn Fn(&str) -> Option<PathBuf>,
) -> Vec<OsString> {
    let set = |name: &str| var(name).is_some_and(|value| !value.is_empty());
    let mut found = Vec::new();
    if let Some(browsers) = var("BROWSER") {
        // $BROWSER is a list separated by colons.
        let list = browsers.to_string_lossy().into_owned();
        found.extend(list.split(':').filter(|name| !name.is_empty()).map(OsString::from));
    }
    if set("WSL_DISTRO_NAME") {
        found.extend(in_path("wslview").map(PathBuf::into_os_string));
    }
    if set("DISPLAY") || set("WAYLAND_DISPLAY") {
        found.extend(in_path("xdg-open").map(PathBuf::into_os_string));
    }
    found
}

fn in_path(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(name)).find(|path| path.is_file())
}

fn starts(program: &OsStr, target: &OsStr) -> bool {
    let mut command = whyslow_capture::restored_command(program);
    command.arg(target).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else { return false };
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        if let Ok(Some(status)) = child.try_wait() {
            return status.success();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_desktop_opener_needs_a_desktop() {
        let has_xdg = |name: &str| (name == "xdg-open").then(|| PathBuf::from("/usr/bin/xdg-open"));
        assert!(openers(&|_| None, &has_xdg).is_empty());
        let desktop = |name: &str| (name == "DISPLAY").then(|| OsString::from(":0"));
        assert_eq!(openers(&desktop, &has_xdg), ["/usr/bin/xdg-open"]);
        let chosen = |name: &str| (name == "BROWSER").then(|| OsString::from("firefox:lynx"));
        assert_eq!(openers(&chosen, &has_xdg), ["firefox", "lynx"]);
    }
}
