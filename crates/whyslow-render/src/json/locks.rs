//! Locks and the critical path as JSON.

use std::borrow::Cow;

use serde::Serialize;
use whyslow_analyze::{CallTree, CriticalPath, Did, LockSite, LockTable, Share, Site};
use whyslow_profile::{Profile, ThreadId};

use super::{Context, Head};

#[derive(Serialize)]
struct SiteJson<'a> {
    function: Cow<'a, str>,
    file: Option<&'a str>,
    line: Option<u32>,
}

fn site_json(profile: &Profile, site: Site) -> SiteJson<'_> {
    SiteJson {
        function: CallTree::name(profile, site.label),
        file: site.file.map(|file| profile.text(file)),
        line: (site.line > 0).then_some(site.line),
    }
}

#[derive(Serialize)]
struct ThreadJson<'a> {
    tid: u32,
    name: &'a str,
}

fn thread_json(profile: &Profile, thread: ThreadId) -> ThreadJson<'_> {
    let row = &profile.threads[thread.index()];
    ThreadJson { tid: row.tid, name: profile.text(row.name) }
}

/// Locks that threads waited for, at most `limit`.
pub fn locks<'a>(context: &Context<'a>, table: &'a LockTable, limit: usize) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct LockSiteJson<'a> {
        #[serde(flatten)]
        site: SiteJson<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        thread: Option<ThreadJson<'a>>,
        count: u64,
        total_ns: u64,
    }
    #[derive(Serialize)]
    struct LockJson<'a> {
        kind: &'static str,
        name: Option<&'a str>,
        name_offset: Option<u64>,
        address: Option<String>,
        pid: u32,
        first_waited_for: SiteJson<'a>,
        count: u64,
        total_ns: u64,
        share: f64,
        mean_ns: u64,
        p50_ns: u64,
        p99_ns: u64,
        max_ns: u64,
        waiters: Vec<LockSiteJson<'a>>,
        holders: Vec<LockSiteJson<'a>>,
    }
    #[derive(Serialize)]
    struct EdgeJson<'a> {
        waiter: ThreadJson<'a>,
        holder: ThreadJson<'a>,
        count: u64,
        total_ns: u64,
    }
    #[derive(Serialize)]
    struct Body<'a> {
        #[serde(flatten)]
        head: Head<'a>,
        locks: Vec<LockJson<'a>>,
        locks_left_out: usize,
        wait_graph: Vec<EdgeJson<'a>>,
    }
    let profile = context.profile;
    let sites = |rows: &[LockSite]| {
        let site = |row: &LockSite| LockSiteJson {
            site: site_json(profile, row.site),
            thread: row.thread.map(|thread| thread_json(profile, thread)),
            count: row.count,
            total_ns: row.total_ns,
        };
        rows.iter().map(site).collect()
    };
    let rows = table.rows.iter().take(limit).map(|row| LockJson {
        kind: row.kind,
        name: row.name.map(|name| profile.text(name.name)),
        name_offset: row.name.map(|name| name.offset),
        address: row.address.map(|address| format!("{address:#x}")),
        pid: profile.processes[row.process.index()].pid,
        first_waited_for: site_json(profile, row.site),
        count: row.count,
        total_ns: row.total_ns,
        share: Share::new(row.total_ns, table.total_ns, 0).value,
        mean_ns: row.mean_ns(),
        p50_ns: row.p50_ns,
        p99_ns: row.p99_ns,
        max_ns: row.max_ns,
        waiters: sites(&row.waiters),
        holders: sites(&row.holders),
    });
    let edges = table.graph.iter().map(|edge| EdgeJson {
        waiter: thread_json(profile, edge.waiter),
        holder: thread_json(profile, edge.holder),
        count: edge.count,
        total_ns: edge.total_ns,
    });
    Body {
        head: context.head("locks", table.count, table.total_ns),
        locks: rows.collect(),
        locks_left_out: table.rows.len().saturating_sub(limit),
        wait_graph: edges.collect(),
    }
}

/// The critical path: at most `limit` lines of code, and every step.
pub fn critical_path<'a>(
    context: &Context<'a>,
    path: &'a CriticalPath,
    limit: usize,
) -> impl Serialize + use<'a> {
    #[derive(Serialize)]
    struct RowJson<'a> {
        did: &'static str,
        thread: ThreadJson<'a>,
        #[serde(flatten)]
        site: Option<SiteJson<'a>>,
        total_ns: u64,
        share: f64,
    }
    #[derive(Serialize)]
    struct StepJson<'a> {
        did: &'static str,
        thread: ThreadJson<'a>,
        start_ns: u64,
        end_ns: u64,
    }
    #[derive(Serialize)]
    struct Body<'a> {
        #[serde(flatten)]
        head: Head<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        ends_in: Option<ThreadJson<'a>>,
        total_ns: u64,
        ran_ns: u64,
        unknown_ns: u64,
        critical_path: Vec<RowJson<'a>>,
        rows_left_out: usize,
        steps: Vec<StepJson<'a>>,
    }
    let profile = context.profile;
    let word = |did| match did {
        Did::Ran => "ran",
        Did::Waited(reason) => reason.label(),
    };
    let rows = path.rows.iter().take(limit).map(|row| RowJson {
        did: word(row.did),
        thread: thread_json(profile, row.thread),
        site: row.site.map(|site| site_json(profile, site)),
        total_ns: row.total_ns,
        share: Share::new(row.total_ns, path.total_ns, 0).value,
    });
    let steps = path.steps.iter().map(|step| StepJson {
        did: word(step.did),
        thread: thread_json(profile, step.thread),
        start_ns: step.start_ns,
        end_ns: step.end_ns,
    });
    Body {
        head: context.head("critical-path", path.steps.len() as u64, path.total_ns),
        ends_in: path.ends_in.map(|thread| thread_json(profile, thread)),
        total_ns: path.total_ns,
        ran_ns: path.ran_ns,
        unknown_ns: path.unknown_ns,
        critical_path: rows.collect(),
        rows_left_out: path.rows.len().saturating_sub(limit),
        steps: steps.collect(),
    }
}
