//! `whyslow explain`: finds known performance patterns in a profile.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use whyslow_analyze::heap::Sites;
use whyslow_analyze::{Quality, Selection};
use whyslow_explain::{ALL, Change, Cost, Explanation, Question, Rule, RuleId};
use whyslow_profile::Profile;
use whyslow_render::json::{self, Context};
use whyslow_render::text::{self, Page};

use crate::cli::Volume;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::filters::Filters;
use crate::source_paths::relative;
use crate::{allowed, output, profile_file, shell, terminal, values};

/// Find known performance patterns, with line, fix and possible gain
#[derive(Debug, Args)]
#[command(
    override_usage = "whyslow explain [OPTIONS] FILE\n       whyslow explain [OPTIONS] BEFORE AFTER\n       whyslow explain --rule ID",
    after_help = "\
A comment `whyslow: allow(ID)` on a line, or on the line before it, hides a
finding. So does whyslow.toml:
  [explain] allow = [\"ID\", \"ID:src/parse.rs\", \"ID:src/parse.rs:12\"]

Examples:
  whyslow explain app.whyslow
  whyslow explain before.whyslow after.whyslow   what changed
  whyslow explain app.whyslow --thread worker --format json
  whyslow explain app.whyslow --fail-on regex-in-loop --fail-on clone-heavy=10%
  whyslow explain --rule vec-growth              a rule, with an example

Exit codes: 0; 2 if --fail-on finds something; 125 if whyslow fails."
)]
pub(crate) struct ExplainArgs {
    /// The profile; two profiles to explain a difference
    #[arg(value_name = "FILE", num_args = 1..=2, required_unless_present_any = ["rule", "rules"])]
    files: Vec<PathBuf>,
    /// Show at most this many findings; 0 shows all [default: 10 in text]
    #[arg(short = 'n', long, value_name = "ROWS")]
    limit: Option<usize>,
    /// Exit with 2 if this rule finds something, or at least SHARE (repeatable)
    #[arg(long, value_name = "ID[=SHARE]", value_parser = fail_on)]
    fail_on: Vec<(&'static Rule, f64)>,
    /// File with allowed findings [default: whyslow.toml, here or above]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Explain a rule instead of a profile
    #[arg(long, value_name = "ID", conflicts_with_all = ["files", "fail_on"], value_parser = known)]
    rule: Option<&'static Rule>,
    /// List all rules
    #[arg(long, conflicts_with_all = ["files", "fail_on", "rule"])]
    rules: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: ExplainFormat,
    #[command(flatten)]
    filters: Filters,
}

/// How to print the answer.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExplainFormat {
    #[default]
    Text,
    Json,
    Sarif,
    Github,
}

/// Default number of findings in text.
const DEFAULT_LIMIT: usize = 10;

fn known(id: &str) -> std::result::Result<&'static Rule, String> {
    let known = id.parse().map(RuleId::rule);
    known.map_err(|_| "no rule has this id; whyslow explain --rules lists all".to_owned())
}

fn fail_on(text: &str) -> std::result::Result<(&'static Rule, f64), String> {
    match text.split_once('=') {
        Some((id, share)) => Ok((known(id)?, values::share(share)?)),
        None => Ok((known(text)?, 0.0)),
    }
}

/// A profile and the samples to explain.
struct Subject {
    path: PathBuf,
    profile: Profile,
    selection: Selection,
}

impl Subject {
    fn open(path: &Path, filters: &Filters) -> Result<Self> {
        let mut profile = profile_file::open(path)?;
        let selection = filters.select(path, &mut profile)?;
        Ok(Self { path: path.to_owned(), profile, selection })
    }

    fn explain(&self, args: &ExplainArgs) -> Result<Explanation> {
        let allowed = allowed::read(args.config.as_deref(), &self.profile)?;
        Ok(whyslow_explain::explain(&Question {
            profile: &self.profile,
            selection: &self.selection,
            only_metric: args.filters.resolved().metric.in_file().is_some(),
            allowed: &allowed,
            file: &self.name(),
        }))
    }

    /// Its name in commands.
    fn name(&self) -> String {
        shell::file(&self.path)
    }
}

/// Prints the findings.
pub(crate) fn run(args: &ExplainArgs, _volume: Volume) -> Result<Exit> {
    if let Some(rule) = args.rule {
        output::print(rule.id.page())?;
        return Ok(Exit::Success);
    }
    if args.rules {
        let width = ALL.iter().map(|rule| rule.id.as_str().len()).max().unwrap_or(0);
        let lines = ALL.iter().map(|rule| format!("{:<width$}  {}\n", rule.id, rule.title));
        output::print(&lines.collect::<String>())?;
        return Ok(Exit::Success);
    }
    if args.filters.no_inline {
        return Err(Failure::new("--no-inline hides the patterns that explain looks for")
            .next("the same command without --no-inline"));
    }
    let subjects =
        args.files.iter().map(|path| Subject::open(path, &args.filters)).collect::<Result<Vec<_>>>()?;
    let explanations = subjects.iter().map(|subject| subject.explain(args)).collect::<Result<Vec<_>>>()?;
    let answer = match (&subjects[..], &explanations[..]) {
        ([before, after], [old, new]) => change(args, [before, after], [old, new])?,
        _ => one(args, &subjects[0], &explanations[0])?,
    };
    output::print(&answer)?;
    let last = explanations.last().map_or(&[][..], |explanation| &explanation.findings[..]);
    let is_wanted = |(rule, share): &(&'static Rule, f64)| {
        last.iter().any(|finding| finding.rule == *rule && finding.share >= *share)
    };
    Ok(if args.fail_on.iter().any(is_wanted) { Exit::Found } else { Exit::Success })
}

fn one(args: &ExplainArgs, subject: &Subject, explanation: &Explanation) -> Result<String> {
    let Subject { profile, selection, .. } = subject;
    let quality = Quality::of_metric(profile, selection.metric);
    let failed = |error: serde_json::Error| Failure::new(format!("{}: {error}", subject.name()));
    match args.format {
        ExplainFormat::Text => {
            let page = Page::new(profile, selection.metric, terminal::width(std::io::stdout()));
            let limit = match args.limit {
                None => DEFAULT_LIMIT,
                Some(0) => usize::MAX,
                Some(limit) => limit,
            };
            let findings = text::explain(profile, explanation, limit, &subject.name(), page);
            Ok(format!("{}\n{findings}", text::verdict_lines(&quality, page)))
        }
        ExplainFormat::Json => {
            let weights = selection.weigh(profile);
            let context = Context {
                profile,
                metric: selection.metric,
                quality: &quality,
                sites: Some(&Sites::build(profile)),
                site_limit: 0,
            };
            let json = json::explain(
                &context,
                weights.total_count,
                weights.total_value,
                explanation,
                &subject.name(),
            );
            json::to_string(&json).map_err(failed)
        }
        ExplainFormat::Sarif => {
            json::to_string(&json::sarif(profile, explanation, ALL, relative)).map_err(failed)
        }
        ExplainFormat::Github => Ok(text::annotations(profile, explanation, relative)),
    }
}

fn change(args: &ExplainArgs, subjects: [&Subject; 2], explanations: [&Explanation; 2]) -> Result<String> {
    let total = |subject: &Subject, cost: Cost| {
        let named = cost.metric().and_then(|name| Selection::metric_named(&subject.profile, name).ok());
        let metric = named.unwrap_or(subject.selection.metric);
        Selection { metric, ..subject.selection.clone() }.weigh(&subject.profile).total_value
    };
    let totals = |cost: Cost| subjects.map(|subject| total(subject, cost));
    let changes = Change::all(explanations[0], explanations[1], totals);
    let profiles = subjects.map(|subject| &subject.profile);
    match args.format {
        ExplainFormat::Text => {
            let page =
                Page::new(profiles[1], subjects[1].selection.metric, terminal::width(std::io::stdout()));
            Ok(text::explained_change(profiles, &changes, page))
        }
        ExplainFormat::Json => json::to_string(&json::explained_change(profiles, &changes))
            .map_err(|error| Failure::new(error.to_string())),
        ExplainFormat::Sarif | ExplainFormat::Github => {
            Err(Failure::new("--format sarif and github are for one profile")
                .next("the profile from after the change alone"))
        }
    }
}
