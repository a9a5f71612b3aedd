//! `whyslow verify`: whether a change helped, in one paragraph and one table.

use clap::{Args, ValueEnum};
use whyslow_analyze::Quality;
use whyslow_analyze::diff::{Diff, Focus, Verification};
use whyslow_answers::unless_regex;
use whyslow_render::json;
use whyslow_render::text::{self, DiffView, Page, VerifyView};

use crate::cli::Volume;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::filters::Filters;
use crate::sides::{Sides, SidesArgs, file};
use crate::{output, refusals, terminal};

/// Check whether a change helped: total, target function, regressions
#[derive(Debug, Args)]
#[command(
    override_usage = "whyslow verify [OPTIONS] BEFORE AFTER\n       whyslow verify [OPTIONS] --before FILE... --after FILE...\n       \
        whyslow verify [OPTIONS] --runs N 'COMMAND BEFORE' 'COMMAND AFTER'",
    after_help = "\
--function names the function that the change was meant to speed up. verify
judges it together with everything else. A single run per side cannot show
run-to-run noise; several runs can.

Examples:
  whyslow verify --runs 6 './old input' './new input' --function parse
  whyslow verify before.whyslow after.whyslow
  whyslow verify --before old*.whyslow --after new*.whyslow --format markdown"
)]
pub(crate) struct VerifyArgs {
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: VerifyFormat,
    #[command(flatten)]
    sides: SidesArgs,
    #[command(flatten)]
    filters: Filters,
}

/// How to print the answer.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum VerifyFormat {
    #[default]
    Text,
    Markdown,
    Json,
}

/// Prints the answer.
pub(crate) fn run(args: &VerifyArgs, volume: Volume) -> Result<Exit> {
    let (filters, aim) = args.filters.resolved().without_function();
    let sides = Sides::load(&args.sides, &filters, volume)?;
    let [before, after] = sides.runs();
    let inline = !args.filters.no_inline;
    let diff = Diff::of_runs(&before, &after, inline);
    let focus = match &aim {
        Some(aim) => Some(Focus::of_runs(&before, &after, inline, aim).ok_or_else(|| {
            let none = Failure::new(format!("no function matches '{}' on either side", aim.text()))
                .next("whyslow report FILE functions, to list them");
            match unless_regex(aim) {
                Err(error) => refusals::of_filter(&sides.before[0].path, error),
                Ok(()) => none,
            }
        })?),
        None => None,
    };
    let verification =
        Verification::of(&diff).ok_or_else(|| Failure::new("both sides are empty: nothing to compare"))?;
    let [before_names, after_names] = sides.names();
    let qualities =
        [&sides.before[0], &sides.after[0]].map(|run| Quality::of_metric(&run.profile, run.selection.metric));
    let view = VerifyView {
        diff: DiffView {
            diff: &diff,
            before: file(&before_names, &before.profile, &qualities[0]),
            after: file(&after_names, &after.profile, &qualities[1]),
            limit: None,
            paths: None,
            focus: None,
        },
        verification: &verification,
        aim: focus.as_ref(),
    };
    let answer = match args.format {
        VerifyFormat::Text => {
            let width = terminal::width(std::io::stdout());
            text::verify(&view, Page::new(&after.profile, sides.after[0].selection.metric, width))
        }
        VerifyFormat::Markdown => text::verify_markdown(&view),
        VerifyFormat::Json => {
            json::to_string(&json::verify(&view)).map_err(|error| Failure::new(error.to_string()))?
        }
    };
    output::print(&answer)?;
    Ok(Exit::Success)
}
