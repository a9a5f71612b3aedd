//! Simulated caches as JSON.

use serde::Serialize;
use whyslow_analyze::{CacheAnswer, CacheLevel, Misses};
use whyslow_profile::simulation::Simulation;

use super::own::{HotLineJson, OwnJson};
use super::{Context, Head, MetricJson};

#[derive(Serialize)]
struct MissesJson {
    references: u64,
    misses: u64,
    rate: f64,
}

impl From<Misses> for MissesJson {
    fn from(of: Misses) -> Self {
        Self { references: of.references, misses: of.misses, rate: of.rate() }
    }
}

#[derive(Serialize)]
struct LevelJson {
    name: &'static str,
    references: u64,
    misses: u64,
    rate: f64,
    reads: Option<MissesJson>,
    writes: Option<MissesJson>,
    bytes: Option<u64>,
    line_bytes: Option<u64>,
    ways: Option<u64>,
}

impl From<&CacheLevel> for LevelJson {
    fn from(of: &CacheLevel) -> Self {
        let cache = of.cache.as_ref();
        Self {
            name: of.name,
            references: of.all.references,
            misses: of.all.misses,
            rate: of.rate(),
            reads: of.reads.map(MissesJson::from),
            writes: of.writes.map(MissesJson::from),
            bytes: cache.map(|cache| cache.bytes),
            line_bytes: cache.map(|cache| cache.line_bytes),
            ways: cache.map(|cache| cache.ways),
        }
    }
}

#[derive(Serialize)]
struct BranchesJson {
    conditional: MissesJson,
    indirect: MissesJson,
}

#[derive(Serialize)]
struct FunctionJson<'a> {
    #[serde(flatten)]
    own: OwnJson<'a>,
    beside: Vec<BesideJson<'a>>,
}

#[derive(Serialize)]
struct BesideJson<'a> {
    metric: MetricJson<'a>,
    own_share: f64,
}

/// The caches, and the functions and lines with the most misses: `limit` rows of each.
pub fn caches<'a>(
    context: &Context<'a>,
    of: &'a CacheAnswer,
    limit: Option<usize>,
) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct Body<'a> {
        #[serde(flatten)]
        head: Head<'a>,
        simulation: Option<&'a Simulation>,
        instructions: u64,
        caches: Vec<LevelJson>,
        branches: Option<BranchesJson>,
        functions: Vec<FunctionJson<'a>>,
        lines: Vec<HotLineJson<'a>>,
    }
    let (profile, rows) = (context.profile, limit.unwrap_or(usize::MAX));
    let functions = of.functions.rows.iter().zip(&of.shares).take(rows).map(|(row, shares)| FunctionJson {
        own: OwnJson::new(context, &of.functions, row),
        beside: of
            .beside
            .iter()
            .zip(shares)
            .map(|(metric, share)| BesideJson { metric: MetricJson::of(profile, *metric), own_share: *share })
            .collect(),
    });
    Body {
        head: context.head("cache", of.functions.total_samples, of.functions.total_value),
        simulation: profile.meta.simulation.as_ref(),
        instructions: of.caches.instructions,
        caches: of.caches.levels.iter().map(LevelJson::from).collect(),
        branches: of.caches.branches.map(|[conditional, indirect]| BranchesJson {
            conditional: conditional.into(),
            indirect: indirect.into(),
        }),
        functions: functions.collect(),
        lines: of.lines.rows.iter().take(rows).map(|row| HotLineJson::new(context, &of.lines, row)).collect(),
    }
}
