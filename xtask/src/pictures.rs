//! `cargo xtask pictures`: draws the pictures in docs/images, from a recording of a real program.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::process::{self, cargo, target_folder};
use crate::real_programs::{dependency_sources, install_with_debug_info};

/// The recorded program: tokei counts lines of code. Its version is fixed, so that the pictures show the same code again.
const PROGRAM: (&str, &str) = ("tokei", "15.0.0");
/// A page with larger pictures loads slowly.
const LARGEST: u64 = 200_000;

pub(crate) fn run() -> Result<bool> {
    let chromium = process::find("chromium").context("Chromium is missing; try: cargo xtask setup")?;
    process::must(cargo().args(["build", "--quiet", "--release", "--package", "whyslow"]))?;
    let whyslow = target_folder().join("release/whyslow");
    let folder = target_folder().join("pictures");
    std::fs::create_dir_all(&folder)?;
    record(&whyslow, &folder)?;

    let whyslow =
        |arguments: &[&str]| process::must(process::command(&whyslow).current_dir(&folder).args(arguments));
    whyslow(&["view", "tokei.whyslow", "-o", "viewer.html"])?;
    whyslow(&["flame", "tokei.whyslow", "-o", "flame.svg", "--function", "parse_lines", "--min-width", "3"])?;
    let images = process::root().join("docs/images");
    std::fs::create_dir_all(&images)?;
    let flame = folder.join("flame.svg");
    shoot(&chromium, &folder.join("viewer.html"), (1280, 720), &images.join("viewer.png"))?;
    shoot(&chromium, &flame, size_of(&flame)?, &images.join("flame.png"))?;
    println!("The answer for the README:\n{}", std::fs::read_to_string(folder.join("answer.txt"))?);
    Ok(true)
}

/// Records the program on the sources of this project's dependencies, and keeps the printed answer.
fn record(whyslow: &Path, folder: &Path) -> Result<()> {
    let sources = folder.join("sources");
    if !sources.exists() {
        std::os::unix::fs::symlink(dependency_sources()?, &sources)?;
    }
    // Started by its bare name, the program shows no path of this machine in the pictures.
    let (name, version) = PROGRAM;
    let program = install_with_debug_info(name, name, Some(version))?;
    let paths = program.parent().map(Path::to_owned).into_iter();
    let usual = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(paths.chain(std::env::split_paths(&usual)))?;
    let profile = folder.join("tokei.whyslow");
    if profile.exists() {
        std::fs::remove_file(&profile)?;
    }
    let mut record = process::command(whyslow);
    record.current_dir(folder).env("PATH", path);
    record.args(["-o", "tokei.whyslow", "tokei", "sources/", "sources/", "sources/"]);
    let output = record.output().context("cannot run whyslow")?;
    let answer = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "the recording failed:\n{answer}");
    std::fs::write(folder.join("answer.txt"), answer)?;
    Ok(())
}

/// The size that an SVG file states for itself.
fn size_of(svg: &Path) -> Result<(u32, u32)> {
    let text = std::fs::read_to_string(svg)?;
    let number = |name: &str| -> Option<u32> {
        text.split_once(&format!(" {name}=\""))?.1.split_once('"')?.0.parse().ok()
    };
    number("width").zip(number("height")).with_context(|| format!("{} has no size", svg.display()))
}

/// Takes a screenshot of a page.
fn shoot(chromium: &Path, page: &Path, (width, height): (u32, u32), picture: &Path) -> Result<()> {
    let user_data = tempfile::tempdir()?;
    // A headless window includes space for a toolbar, so the page would be laid out for less height than the picture has. A
    // frame has exactly the picture's size.
    let frame = tempfile::Builder::new().suffix(".html").tempfile()?;
    let body = format!(
        "<body style='margin:0'><iframe src='file://{}' style='border:0;width:{width}px;height:{height}px'></iframe>",
        page.display()
    );
    std::fs::write(frame.path(), body)?;
    let mut browser = process::command(chromium);
    browser.args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]);
    browser.args([
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-quic",
    ]);
    browser.arg(format!("--user-data-dir={}", user_data.path().display()));
    browser.arg(format!("--window-size={width},{height}"));
    // The page draws after its script has unpacked the profile.
    browser.arg("--virtual-time-budget=5000");
    browser.arg(format!("--screenshot={}", picture.display()));
    browser.arg(format!("file://{}", frame.path().display()));
    browser.stderr(std::process::Stdio::null());
    process::must(&mut browser)?;
    let bytes =
        std::fs::metadata(picture).with_context(|| format!("{} was not written", picture.display()))?.len();
    ensure!(bytes <= LARGEST, "{} has {bytes} bytes; at most {LARGEST} are allowed", picture.display());
    println!("{}: {width} x {height}, {bytes} bytes", picture.display());
    Ok(())
}
