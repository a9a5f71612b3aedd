//! `whyslow view`: the browser viewer, served or as one file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::Args;
use whyslow_profile::Profile;
use whyslow_render::html::{Bundle, Page, served_page, write_page, write_payload};

use crate::cli::{ProfileArg, Volume};
use crate::exit::Exit;
use crate::failure::{Failure, Result, warn};
use crate::metric::MetricArgs;
use crate::output::{self, Output, note};
use crate::serve::{Content, Doorway, Progress, Server, Site};
use crate::{open, profile_file};

/// Look at a profile in the browser: timeline, flame graph, functions, source, machine code
#[derive(Debug, Args)]
#[command(after_help = "\
The viewer is inside of whyslow and needs no network. It is served on this machine only
(127.0.0.1), at an address with a secret in it, until Ctrl-C.

Examples:
  whyslow view app.whyslow                  opens the browser
  whyslow view app.whyslow -o app.html      one file with everything in it, to keep or to send
  whyslow view app.whyslow --no-open        prints the address only; for another machine:
                                            ssh -L 8080:127.0.0.1:8080, and --port 8080")]
pub(crate) struct ViewArgs {
    #[command(flatten)]
    profile: ProfileArg,
    #[command(flatten)]
    metric: MetricArgs,
    /// Write one self-contained HTML file instead; - is stdout
    #[arg(short, long, value_name = "HTML", conflicts_with_all = ["no_open", "port"])]
    output: Option<PathBuf>,
    /// Print the address and open nothing
    #[arg(long)]
    no_open: bool,
    /// Serve on this port of 127.0.0.1; 0 takes a free one
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    port: u16,
}

/// Writes the file, or serves the viewer until the process is ended.
pub(crate) fn run(args: &ViewArgs, volume: Volume) -> Result<Exit> {
    let path = &args.profile.file;
    let mut profile = profile_file::open(path)?;
    let metric = args.metric.resolve(path, &mut profile, u64::MAX)?;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    match &args.output {
        Some(file) => save(&Page::new(&profile, &name), &Output::from(file.clone()), metric, volume),
        None => serve(args, profile, metric, path, &name, volume),
    }
}

fn save(page: &Page<'_>, output: &Output, metric: usize, volume: Volume) -> Result<Exit> {
    output.write(|out| write_page(page, out))?;
    if let Output::File(path) = output
        && volume > Volume::Quiet
    {
        note(&format!("whyslow: wrote {}\n", path.display()));
        if metric > 0 {
            note(&format!("whyslow: the metric is in its address: {}{}\n", path.display(), fragment(metric)));
        }
    }
    Ok(Exit::Success)
}

/// The end of an address that shows a metric; the viewer keeps what it shows behind `#`.
fn fragment(metric: usize) -> String {
    if metric == 0 { String::new() } else { format!("#m={metric}") }
}

fn serve(
    args: &ViewArgs,
    profile: Profile,
    metric: usize,
    path: &Path,
    name: &str,
    volume: Volume,
) -> Result<Exit> {
    let server = Server::bind(args.port).map_err(|error| {
        Failure::new(format!("port {} of 127.0.0.1 cannot be opened: {error}", args.port))
            .next("another --port, or none for a free one; `-o FILE.html` needs no port")
    })?;
    let site = Arc::new(site(&profile, path, name, server.port())?);
    // The site holds all that is served.
    drop(profile);
    let fragment = fragment(metric);
    let address = format!("{}{fragment}", site.address());
    if args.no_open {
        output::print(&format!("{address}\n"))?;
        if volume > Volume::Quiet {
            note("whyslow: serving the viewer; Ctrl-C ends it\n");
        }
        server.run(&site)
    }
    if volume > Volume::Quiet {
        note(&format!("whyslow: viewer: {address}\nwhyslow: serving it until Ctrl-C\n"));
    }
    let opening = Arc::clone(&site);
    thread::spawn(move || open(&opening, &fragment));
    server.run(&site)
}

/// Sends a browser to the site, and watches over the ticket it gets.
fn open(site: &Site, fragment: &str) {
    /// Only a browser that does not come takes so long.
    const PATIENCE: Duration = Duration::from_secs(20);
    let address = || format!("{}{fragment}", site.address());
    let doorway = match Doorway::to(&format!("{}{fragment}", site.address_with_ticket())) {
        Ok(doorway) => doorway,
        Err(error) => {
            let why = format!("no file that only you can read could be made for the browser: {error}");
            return warn(&format!("{why}; try: open {} in a browser", address()));
        }
    };
    if let Err(why) = open::page_in_browser(&doorway.page()) {
        return warn(&format!("{why}; try: open {} in a browser", address()));
    }
    if !site.wait_for(Progress::Opened, PATIENCE) {
        let page = doorway.page();
        warn(&format!(
            "no browser has come yet; one in a sandbox or on another machine may not read {}; try: open {} in it",
            page.display(),
            address()
        ));
        site.wait_for(Progress::Opened, Duration::MAX);
    }
    // A file that stays would open the ticket again.
    drop(doorway);
    site.wait_for(Progress::Revoked, Duration::MAX);
    warn(&format!(
        "the link for the browser was used twice, and it is for one use: somebody else may have seen the profile; \
         the old address is void; try: open {} in a browser",
        address()
    ));
}

fn site(profile: &Profile, path: &Path, name: &str, port: u16) -> Result<Site> {
    let mut payload = Vec::new();
    write_payload(profile, name, &mut payload)
        .map_err(|error| Failure::new(format!("{}: cannot be shown: {error}", path.display())))?;
    let content = |query: &str| Content {
        page: served_page(&Page::new(profile, name), query),
        script: Bundle::EMBEDDED.script,
        style: Bundle::EMBEDDED.style,
        payload,
    };
    Site::new(port, content).map_err(|error| {
        Failure::new(format!("/dev/urandom: no secret for the address could be had: {error}"))
            .next("-o FILE.html, which needs none")
    })
}
