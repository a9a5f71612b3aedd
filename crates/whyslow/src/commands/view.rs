//! `whyslow view`: the browser viewer, served or as one file.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use clap::Args;
use whyslow_profile::Profile;
use whyslow_render::html::{Bundle, Page, served_page, write_page, write_payload};

use crate::cli::{ProfileArg, Volume};
use crate::exit::Exit;
use crate::failure::{Failure, Result, warn};
use crate::metric::MetricArgs;
use crate::output::{self, Output, note};
use crate::serve::{Server, Site, Token};
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
    thread::spawn(move || {
        if let Err(why) = open::address_in_browser(&format!("{}{fragment}", opening.address_with_ticket())) {
            warn(&format!("{why}; try: open {address} in a browser"));
        }
    });
    server.run(&site)
}

fn site(profile: &Profile, path: &Path, name: &str, port: u16) -> Result<Site> {
    let secret = || {
        Token::random().map_err(|error| {
            Failure::new(format!("/dev/urandom: no secret for the address could be had: {error}"))
                .next("-o FILE.html, which needs none")
        })
    };
    let token = secret()?;
    let mut payload = Vec::new();
    write_payload(profile, name, &mut payload)
        .map_err(|error| Failure::new(format!("{}: cannot be shown: {error}", path.display())))?;
    Ok(Site {
        page: served_page(&Page::new(profile, name), &format!("?token={}", token.text())),
        script: Bundle::EMBEDDED.script,
        style: Bundle::EMBEDDED.style,
        payload,
        token,
        ticket: Mutex::new(Some(secret()?)),
        port,
    })
}
