//! `whyslow view`: the viewer in the browser, served or as one file.

use std::env;
use std::fs::{self, File};
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::Args;
use whyslow_analyze::Quality;
use whyslow_analyze::diff::{Diff, Paths};
use whyslow_answers::Filters;
use whyslow_bench::stored::read_stored;
use whyslow_render::html::{BenchPage, Bundle, ChangesView, Content, Page, served_page, write_payload};
use whyslow_render::text::DiffView;

use crate::cli::Volume;
use crate::exit::Exit;
use crate::failure::{Failure, Result, warn};
use crate::metric::MetricArgs;
use crate::output::{self, Output, note};
use crate::pages::{save, with_page};
use crate::serve::{self, Doorway, Editor, Progress, Server, Site};
use crate::sides::{Sides, file};
use crate::{open, profile_file, refusals};

/// Open a profile, a comparison or bench results in the browser
#[derive(Debug, Args)]
#[command(
    override_usage = "whyslow view [OPTIONS] FILE\n       whyslow view [OPTIONS] --diff BEFORE AFTER\n       \
        whyslow view [OPTIONS] --before FILE... --after FILE...",
    after_help = "\
The viewer is built into whyslow and needs no network. It is served on this
machine only (127.0.0.1), at an address with a secret in it, until Ctrl-C.

Examples:
  whyslow view app.whyslow                     open the browser
  whyslow view app.whyslow -o app.html         write one self-contained file
  whyslow view --diff old.whyslow new.whyslow  what changed
  whyslow view --before old*.whyslow --after new*.whyslow -o diff.html
  whyslow view result.json                     results of `whyslow bench`
  whyslow view app.whyslow --no-open           print the address only

Over ssh, it prints the `ssh -L` command to run on your machine; --port keeps
that command the same."
)]
pub(crate) struct ViewArgs {
    /// The profile, or the JSON of `whyslow bench`
    #[arg(value_name = "FILE", required_unless_present = "before")]
    file: Option<PathBuf>,
    /// Show the change since this profile; FILE is from after the change
    #[arg(long, value_name = "BEFORE", requires = "file")]
    diff: Option<PathBuf>,
    /// Compare several runs: profiles from before the change, one per run
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "after", conflicts_with_all = ["file", "diff"])]
    before: Vec<PathBuf>,
    /// Profiles from after the change, paired in order with --before
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "before")]
    after: Vec<PathBuf>,
    #[command(flatten)]
    metric: MetricArgs,
    /// Write one self-contained HTML file; - is stdout
    #[arg(short, long, value_name = "HTML", conflicts_with_all = ["no_open", "port"])]
    output: Option<PathBuf>,
    /// Print the address, do not open a browser
    #[arg(long)]
    no_open: bool,
    /// Port to serve on [default: a free one]
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    port: u16,
}

/// Writes the file, or serves the viewer until the process exits.
pub(crate) fn run(args: &ViewArgs, volume: Volume) -> Result<Exit> {
    let ready = match (&args.file, &args.diff) {
        (Some(after), Some(before)) => changes(args, [vec![before.clone()], vec![after.clone()]], volume)?,
        (Some(path), None) => match kind_of(path) {
            Kind::Bench => bench(args, path, volume)?,
            kind => profile(args, path, volume).map_err(|failure| match kind {
                Kind::OtherJson => not_a_result(path),
                _ => failure,
            })?,
        },
        (None, _) => changes(args, [args.before.clone(), args.after.clone()], volume)?,
    };
    match ready {
        Ready::Written => Ok(Exit::Success),
        Ready::Served { server, site } => serve(args, server, &site, volume),
    }
}

/// A page that is written to its file, or that a server holds. The profile is no longer needed.
enum Ready {
    Written,
    Served { server: Server, site: Arc<Site> },
}

/// What a file probably is, by its first bytes.
enum Kind {
    /// Results of `whyslow bench`.
    Bench,
    /// Other JSON; some of its formats are profiles.
    OtherJson,
    Other,
}

fn kind_of(path: &Path) -> Kind {
    /// The schema is the first field.
    const ENOUGH: u64 = 512;
    let mut start = Vec::new();
    // The code that reads the whole file reports errors.
    let _ = File::open(path).and_then(|file| file.take(ENOUGH).read_to_end(&mut start));
    let text = String::from_utf8_lossy(&start);
    match text.trim_start().starts_with('{') {
        true if text.contains("\"whyslow-bench/") => Kind::Bench,
        true => Kind::OtherJson,
        false => Kind::Other,
    }
}

fn not_a_result(path: &Path) -> Failure {
    Failure::new(format!(
        "{}: this JSON is neither a result of whyslow bench nor a profile that whyslow reads",
        path.display()
    ))
    .next("`whyslow bench --export-json FILE`, or `whyslow import --help` for the formats of other tools")
}

fn bench(args: &ViewArgs, path: &Path, volume: Volume) -> Result<Ready> {
    if args.metric.is_given() {
        return Err(Failure::new(
            "--metric and --live-at are for profiles, not for results of whyslow bench",
        )
        .next("the same command without them; the page lets you choose the metric"));
    }
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::new(format!("{}: cannot be read: {error}", path.display())))?;
    let stored = read_stored(&text).map_err(|error| {
        Failure::new(format!("{}: {error}", path.display()))
            .next("a complete file from `whyslow bench --export-json` or `--save`, or a newer whyslow")
    })?;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let page = Page::of(Content::Bench(BenchPage { stored: &stored, file: &name }));
    ready(args, &page, volume)
}

fn profile(args: &ViewArgs, path: &Path, volume: Volume) -> Result<Ready> {
    let mut profile = profile_file::open(path)?;
    let metric = args.metric.resolved().resolve(&mut profile, u64::MAX);
    let metric = metric.map_err(|error| refusals::of_filter(path, error))?;
    with_page(path, &profile, metric, |page| ready(args, page, volume))
}

fn changes(args: &ViewArgs, files: [Vec<PathBuf>; 2], volume: Volume) -> Result<Ready> {
    let sides = Sides::open(files, &Filters::of_metric(args.metric.resolved()))?;
    let [before, after] = sides.runs();
    let diff = Diff::of_runs(&before, &after, true);
    let paths = Paths::of_runs(&before, &after, true);
    let [before_names, after_names] = sides.names();
    let qualities =
        [&sides.before[0], &sides.after[0]].map(|run| Quality::of_metric(&run.profile, run.selection.metric));
    let diff = DiffView {
        diff: &diff,
        before: file(&before_names, &before.profile, &qualities[0]),
        after: file(&after_names, &after.profile, &qualities[1]),
        limit: None,
        paths: None,
        focus: None,
    };
    let page = Page::of(Content::Changes(ChangesView { diff, paths: &paths }));
    ready(args, &page, volume)
}

/// Writes the page to its file, or creates the server for it.
fn ready(args: &ViewArgs, page: &Page<'_>, volume: Volume) -> Result<Ready> {
    if let Some(file) = &args.output {
        save(page, &Output::from(file.clone()), volume)?;
        return Ok(Ready::Written);
    }
    let server = Server::bind(args.port).map_err(|error| {
        Failure::new(format!("cannot open port {} of 127.0.0.1: {error}", args.port))
            .next("another --port, or none for a free one; `-o FILE.html` needs no port")
    })?;
    let site = Arc::new(site(page, server.port())?);
    Ok(Ready::Served { server, site })
}

fn serve(args: &ViewArgs, server: Server, site: &Arc<Site>, volume: Volume) -> Result<Exit> {
    let address = site.address();
    let forward = env::var("SSH_CONNECTION")
        .ok()
        .map(|connection| forward(&connection, env::var("USER").ok().as_deref(), server.port()));
    if let Some(forward) = forward.as_ref().filter(|_| volume > Volume::Quiet) {
        note(&format!("whyslow: to see it on your machine, run there: {forward}\n"));
    }
    // A browser on this machine has nobody in front of it.
    let is_remote =
        forward.is_some() && env::var_os("DISPLAY").is_none() && env::var_os("WAYLAND_DISPLAY").is_none();
    if args.no_open || is_remote {
        output::print(&format!("{address}\n"))?;
        if volume > Volume::Quiet {
            note("whyslow: serving the viewer until Ctrl-C\n");
        }
        server.run(site)
    }
    if volume > Volume::Quiet {
        note(&format!("whyslow: viewer: {address}\nwhyslow: serving until Ctrl-C\n"));
    }
    let opening = Arc::clone(site);
    // If no thread starts, the user opens the address.
    let _ = thread::Builder::new().spawn(move || open(&opening));
    server.run(site)
}

/// The command that brings a port to the other end of an ssh connection. `connection` is `SSH_CONNECTION`:
/// the client's address and port, then this machine's.
fn forward(connection: &str, user: Option<&str>, port: u16) -> String {
    let words = connection.split_ascii_whitespace().collect::<Vec<_>>();
    let here = match words.as_slice() {
        [_, _, here, at] => here.parse::<IpAddr>().ok().zip(at.parse::<u16>().ok()),
        _ => None,
    };
    let is_plain = |name: &&str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    let user = user.filter(is_plain).map_or(String::new(), |user| format!("{user}@"));
    let forward = format!("ssh -L {port}:127.0.0.1:{port}");
    match here {
        Some((here, 22)) => format!("{forward} {user}{here}"),
        Some((here, at)) => format!("{forward} -p {at} {user}{here}"),
        None => format!("{forward} {user}HOST"),
    }
}

/// Opens the site in a browser, and watches for a second use of its ticket.
fn open(site: &Site) {
    /// A browser that works asks much sooner.
    const PATIENCE: Duration = Duration::from_secs(20);
    let address = || site.address();
    let doorway = match Doorway::to(&site.address_with_ticket()) {
        Ok(doorway) => doorway,
        Err(error) => {
            let why = format!("cannot create a private file for the browser: {error}");
            return warn(&format!("{why}; try: open {} in a browser", address()));
        }
    };
    if let Err(why) = open::page_in_browser(&doorway.page()) {
        return warn(&format!("{why}; try: open {} in a browser", address()));
    }
    if !site.wait_for(Progress::Opened, PATIENCE) {
        let page = doorway.page();
        warn(&format!(
            "no browser has connected yet; a browser in a sandbox or on another machine cannot read {}; try: open {} in it",
            page.display(),
            address()
        ));
        site.wait_for(Progress::Opened, Duration::MAX);
    }
    // The file would let others use the ticket again.
    drop(doorway);
    site.wait_for(Progress::Revoked, Duration::MAX);
    warn(&format!(
        "the one-time link for the browser was used twice: another user may have seen the profile; \
         the old address no longer works; try: open {} in a browser",
        address()
    ));
}

fn site(page: &Page<'_>, port: u16) -> Result<Site> {
    let mut payload = Vec::new();
    write_payload(page, &mut payload)
        .map_err(|error| Failure::new(format!("cannot build the page: {error}")))?;
    let content = |query: &str| serve::Content {
        page: served_page(page, query),
        script: Bundle::EMBEDDED.script,
        style: Bundle::EMBEDDED.style,
        payload,
    };
    Site::new(port, Editor::of_user(), content).map_err(|error| {
        Failure::new(format!("/dev/urandom: cannot read a secret for the address: {error}"))
            .next("-o FILE.html, which needs no secret")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_for_the_other_end_of_ssh() {
        let forward = |connection, user| forward(connection, user, 8080);
        assert_eq!(
            forward("10.0.0.2 50122 10.0.0.9 22", Some("ann")),
            "ssh -L 8080:127.0.0.1:8080 ann@10.0.0.9"
        );
        assert_eq!(
            forward("::1 50122 ::1 2222", Some("an;n")),
            "ssh -L 8080:127.0.0.1:8080 -p 2222 ::1",
            "an odd name is left out"
        );
        assert_eq!(forward("unknown", None), "ssh -L 8080:127.0.0.1:8080 HOST");
    }
}
