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
    let profile = profile_file::open(path)?;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    match &args.output {
        Some(file) => save(&Page::new(&profile, &name), &Output::from(file.clone()), volume),
        None => serve(args, profile, path, &name, volume),
    }
}

fn save(page: &Page<'_>, output: &Output, volume: Volume) -> Result<Exit> {
    output.write(|out| write_page(page, out))?;
    if let Output::File(path) = output
        && volume > Volume::Quiet
    {
        note(&format!("whyslow: wrote {}\n", path.display()));
    }
    Ok(Exit::Success)
}

fn serve(args: &ViewArgs, profile: Profile, path: &Path, name: &str, volume: Volume) -> Result<Exit> {
    let server = Server::bind(args.port).map_err(|error| {
        Failure::new(format!("port {} of 127.0.0.1 cannot be opened: {error}", args.port))
            .next("another --port, or none for a free one; `-o FILE.html` needs no port")
    })?;
    let site = Arc::new(site(&profile, path, name, server.port())?);
    // The site holds all that is served.
    drop(profile);
    let address = site.address();
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
        if let Err(why) = open::address_in_browser(&opening.address_with_ticket()) {
            warn(&format!("{why}; try: open {} in a browser", opening.address()));
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
