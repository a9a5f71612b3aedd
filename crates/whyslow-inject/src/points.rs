//! Code that is a progress point: a patch tells the agent that it runs, or else a hardware breakpoint.

use std::io;
use std::path::{Path, PathBuf};

use whyslow_agent_wire::handshake::{PATCH_LEN, Patch, Real, hook};
use whyslow_numbers::{Bias, FileAddress, RunTimeAddress};

use crate::arch::{Page, Prologue, patched};
use crate::image::{Files, Image, Symbols};
use crate::plan::PatchPage;

/// Code of a progress point. A point may have several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PointPlace {
    /// The file that has it: the program or a library, as the kernel names it.
    pub module: PathBuf,
    /// Its address in that file.
    pub address: FileAddress,
    /// What is there.
    pub spot: Spot,
    /// The number of the point.
    pub point: u32,
}

/// What is at the address of a progress point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spot {
    /// The start of a function.
    Entry,
    /// Any instruction.
    Instruction,
    /// An instruction with which a function returns.
    Return,
}

/// What tells the agent that code runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// A patch: tens of nanoseconds per visit.
    Patch,
    /// One of the few hardware breakpoints: many microseconds per visit.
    Breakpoint,
    /// Nothing does: another point's patch is in the way.
    Nothing,
}

/// What each of these places of a file needs.
pub fn means(module: &Path, places: &[PointPlace]) -> io::Result<Vec<Means>> {
    let files = Files::open(module, module, Symbols::All)?;
    let image = image(&files)?;
    // Any address within reach of a jump: nothing is written.
    let mut watch = Watch::new(&image, Some(image.range.end.0), 0);
    let mut patches = Vec::new();
    Ok(places.iter().map(|place| watch.add(place, &mut patches)).collect())
}

/// Where the function that starts at an address returns. `None` if that is not certain.
pub fn exits(module: &Path, function: FileAddress) -> io::Result<Option<Vec<FileAddress>>> {
    let files = Files::open(module, module, Symbols::All)?;
    let image = image(&files)?;
    let exits = image.body_at(function).and_then(|body| body.exits());
    let in_file = |address: u64| image.bias.file(RunTimeAddress(address));
    Ok(exits.map(|exits| exits.into_iter().map(in_file).collect()))
}

fn image(files: &Files) -> io::Result<Image<'_>> {
    Image::at(files, Bias::NONE)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it is no program for this processor"))
}

/// What watches places of one module.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    pub(crate) page: Option<PatchPage>,
    pub(crate) breakpoints: Vec<Real>,
}

/// Plans what watches places of a module. `at` is where a page may be mapped, `visited` the agent's hook.
pub(crate) fn watch(
    image: &Image<'_>,
    places: &[&PointPlace],
    at: Option<u64>,
    visited: u64,
    patches: &mut Vec<Patch>,
) -> Watched {
    let mut watch = Watch::new(image, at, visited);
    let breakpoint = |place: &&&PointPlace| Real {
        hook: hook::BREAKPOINT as u32,
        point: place.point,
        address: image.bias.run_time(place.address).0,
    };
    let breakpoints: Vec<Real> = places
        .iter()
        .filter(|place| watch.add(place, patches) == Means::Breakpoint)
        .map(|place| breakpoint(&place))
        .collect();
    let page = watch.page.filter(|page| !page.bytes.is_empty());
    Watched { page: page.map(|page| PatchPage { at: page.at, bytes: page.bytes }), breakpoints }
}

/// Places of a module.
struct Watch<'i, 'd> {
    image: &'i Image<'d>,
    page: Option<Page>,
    visited: u64,
    /// The addresses of breakpoints so far.
    breakpoints: Vec<u64>,
}

impl<'i, 'd> Watch<'i, 'd> {
    fn new(image: &'i Image<'d>, page: Option<u64>, visited: u64) -> Self {
        Self { image, page: page.map(Page::new), visited, breakpoints: Vec::new() }
    }

    /// Adds a patch if one is possible.
    fn add(&mut self, place: &PointPlace, patches: &mut Vec<Patch>) -> Means {
        let means = self.patch(place, patches);
        if means == Means::Breakpoint {
            self.breakpoints.push(self.image.bias.run_time(place.address).0);
        }
        means
    }

    fn patch(&mut self, place: &PointPlace, patches: &mut Vec<Patch>) -> Means {
        let at = self.image.bias.run_time(place.address).0;
        let is_entry = place.spot == Spot::Entry;
        let covers = |patch: &&mut Patch| (patch.address..patch.address + u64::from(patch.len)).contains(&at);
        if let Some(there) = patches.iter_mut().find(covers) {
            // The code runs elsewhere. Whoever runs it comes by the patch.
            let leads =
                || self.image.body_at(place.address).is_some_and(|body| body.leads(there.address, at));
            let added = (there.address == at || leads())
                .then(|| patched(there).and_then(|prologue| self.visit(&prologue, is_entry, place.point)));
            return match added {
                Some(Some(patch)) => {
                    *there = patch;
                    Means::Patch
                }
                _ => Means::Nothing,
            };
        }
        let Some(prologue) = self.prologue(place) else { return Means::Breakpoint };
        if let Some(there) = patches.iter_mut().find(|patch| patch.address == prologue.at) {
            if let Some(patch) =
                patched(there).and_then(|prologue| self.visit(&prologue, is_entry, place.point))
            {
                *there = patch;
                return Means::Patch;
            }
            return Means::Nothing;
        }
        let is_free = patches.iter().all(|patch| {
            prologue.at >= patch.address + u64::from(patch.len)
                || prologue.at + PATCH_LEN as u64 <= patch.address
        });
        // A breakpoint behind the first covered byte would never be reached.
        let covered = prologue.at + 1..prologue.at + PATCH_LEN as u64;
        let is_free = is_free && !self.breakpoints.iter().any(|at| covered.contains(at));
        match self.visit(&prologue, is_entry, place.point).filter(|_| is_free) {
            Some(patch) => {
                patches.push(patch);
                Means::Patch
            }
            None => Means::Breakpoint,
        }
    }

    fn visit(&mut self, prologue: &Prologue, is_entry: bool, point: u32) -> Option<Patch> {
        self.page.as_mut()?.add_visit(prologue, is_entry, point, self.visited).ok()
    }

    /// The instructions that a patch would cover. `None` if there can be no patch.
    fn prologue(&self, place: &PointPlace) -> Option<Prologue> {
        let at = self.image.bias.run_time(place.address).0;
        match place.spot {
            Spot::Entry => {
                let function = self.image.functions_at(place.address).next()?;
                self.image.place(function).prologue.ok()?.keeping_returns().ok()
            }
            Spot::Instruction => self.image.body_at(place.address)?.at(at).ok(),
            Spot::Return => self.image.body_at(place.address)?.before(at).ok(),
        }
    }
}
