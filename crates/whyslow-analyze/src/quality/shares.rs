//! Shares of samples by what their stacks lack or contain.

use whyslow_profile::{CodeKind, LocationId, ModuleId, ModuleKind, Profile, StackId};

use super::modules::{self, Owner};
use crate::labels::{self, Label, Labels, is_named};
use crate::selection::Weights;
use crate::units::share;

/// Shares of the samples by what is missing from their stacks.
pub(super) struct StackShares {
    pub(super) truncated: f64,
    /// A part of a deep recursion is left out.
    pub(super) left_out: f64,
    pub(super) unresolved: f64,
    pub(super) nameless: f64,
    /// The innermost frame is in no known module and has no name.
    pub(super) no_module: f64,
    /// The innermost frame is in the kernel.
    pub(super) kernel: f64,
    /// whyslow's own code in the program, or the kernel called by it.
    pub(super) agent: f64,
    /// Time without samples; the other shares are of the rest.
    pub(super) not_sampled: f64,
}

impl StackShares {
    pub(super) fn of(profile: &Profile, weights: &Weights) -> Self {
        let stacks = &profile.stacks;
        // There are far more stacks than locations.
        let places = Place::of_locations(profile);
        let mut paths: Vec<Path> = vec![Path::default(); stacks.len()];
        let (mut truncated, mut unresolved, mut nameless, mut no_module, mut kernel) = (0, 0, 0, 0, 0);
        let (mut agent, mut not_sampled, mut left_out) = (0, 0, 0);
        for (stack, &value) in weights.value.iter().enumerate() {
            let id = StackId::from(stack);
            let place = &places[stacks.location(id).index()];
            if place.is_not_sampled {
                not_sampled += value;
                continue;
            }
            let parent = stacks.parent(id).map(|parent| paths[parent.index()]);
            let outer = parent.unwrap_or_default();
            let path = Path {
                truncated: parent.map_or(place.is_truncation, |outer| outer.truncated),
                left_out: place.is_left_out || outer.left_out,
                named: place.is_named || outer.named,
                agent: match place.owner {
                    Some(Owner::Agent) => true,
                    Some(Owner::Kernel) => outer.agent,
                    _ => false,
                },
            };
            paths[stack] = path;
            let add = |sum: &mut u64, counts: bool| *sum = sum.saturating_add(if counts { value } else { 0 });
            add(&mut truncated, path.truncated);
            add(&mut left_out, path.left_out);
            add(&mut nameless, !path.named);
            add(&mut unresolved, !place.is_named);
            add(&mut no_module, place.has_no_module);
            add(&mut agent, path.agent);
            add(&mut kernel, place.is_kernel);
        }
        let of_all = |part| share(part, weights.total_value - not_sampled);
        Self {
            truncated: of_all(truncated),
            left_out: of_all(left_out),
            unresolved: of_all(unresolved),
            nameless: of_all(nameless),
            no_module: of_all(no_module),
            kernel: of_all(kernel),
            agent: of_all(agent),
            not_sampled: share(not_sampled, weights.total_value),
        }
    }
}

/// What a location says about a stack that ends there.
struct Place {
    is_not_sampled: bool,
    is_truncation: bool,
    is_left_out: bool,
    is_named: bool,
    has_no_module: bool,
    is_kernel: bool,
    owner: Option<Owner>,
}

impl Place {
    fn of_locations(profile: &Profile) -> Vec<Self> {
        let labels = Labels::new(profile);
        let owners: Vec<Owner> = modules::owners(profile);
        let is_not_sampled = |module: ModuleId| {
            let module = profile.modules.get(module.index());
            module.is_some_and(|module| module.kind == ModuleKind::NotSampled)
        };
        let place = |location: LocationId| {
            let module = profile.locations.module[location.index()];
            let leaf = labels.label(labels.innermost(profile, location, true));
            Self {
                is_not_sampled: module.is_some_and(is_not_sampled),
                is_truncation: location == LocationId::TRUNCATED,
                is_left_out: profile.is_left_out(location),
                is_named: is_named(profile, location),
                has_no_module: leaf == Label::Unknown,
                is_kernel: labels::kind(profile, leaf) == CodeKind::Kernel,
                owner: module.and_then(|row| owners.get(row.index()).copied()),
            }
        };
        (0..profile.locations.len()).map(LocationId::from).map(place).collect()
    }
}

/// What a stack's frames say together.
#[derive(Debug, Default, Clone, Copy)]
struct Path {
    truncated: bool,
    left_out: bool,
    named: bool,
    agent: bool,
}
