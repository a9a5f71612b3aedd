//! From the arguments to the commands to compare.

use whyslow_bench::contender::{contenders, scan};

use super::saved::Baseline;
use super::{BenchArgs, HowArgs};
use crate::cli::Volume;
use crate::failure::{Failure, Result};
use crate::series::{Runnable, Trees, words};

/// All commands to compare.
pub(super) struct Contenders {
    pub(super) runnables: Vec<Runnable>,
    pub(super) reference: usize,
    pub(super) trees: Option<Trees>,
    /// The shell that runs the commands, as words.
    pub(super) shell: Option<Vec<String>>,
}

/// Shells that people name after `-S` or `--shell`, as hyperfine takes them.
const SHELLS: [&str; 10] = ["sh", "bash", "zsh", "fish", "dash", "ksh", "nu", "pwsh", "default", "none"];

/// The shell to use, and the commands without its name. An option without `=` is followed by a shell or by a command.
fn shell_and_commands(shell: Option<&str>, commands: &[String]) -> Result<(Option<String>, Vec<String>)> {
    let is_shell = |command: &String| SHELLS.contains(&command.rsplit('/').next().unwrap_or_default());
    let (shell, commands) = match (shell, commands) {
        (Some(""), [first, rest @ ..]) if is_shell(first) && !rest.is_empty() => (Some(first.as_str()), rest),
        (Some(""), commands) => {
            if let Some(other) = commands.iter().find(|command| is_shell(command)) {
                return Err(Failure::new(format!("`{other}` alone is a command to measure here"))
                    .next(format!("--shell={other} to run the commands in it")));
            }
            (Some("default"), commands)
        }
        (shell, commands) => (shell, commands),
    };
    let shell = match shell {
        Some("none") | None => None,
        Some("default") => Some("sh".to_owned()),
        Some(shell) => Some(shell.to_owned()),
    };
    Ok((shell, commands.to_vec()))
}

impl Contenders {
    pub(super) fn of(args: &BenchArgs, baseline: Option<&Baseline>, volume: Volume) -> Result<Self> {
        let how = &args.how;
        let (shell, given) = shell_and_commands(how.shell.as_deref(), &args.commands)?;
        let mut commands = how.reference.iter().cloned().collect::<Vec<_>>();
        commands.extend(given);
        if commands.is_empty() {
            return Err(Failure::new("no command to run").next("whyslow bench './old input' './new input'"));
        }
        let parameters = parameters(how)?;
        let all = contenders(&commands, &how.names, &parameters).map_err(|count| {
            Failure::new(format!("there are {} names for {count} commands", how.names.len()))
                .next("-n once per command")
        })?;
        let mut runnables = Vec::new();
        let each = all.len() / commands.len();
        for (at, contender) in all.into_iter().enumerate() {
            let words = words(&contender.command, shell.as_deref())?;
            let parameters = contender.parameters.clone();
            runnables.push(Runnable { contender, words, folder: None, parameters, given: at / each });
        }
        for (option, hooks) in [("--prepare", &how.prepare), ("--conclude", &how.conclude)] {
            if hooks.len() > 1 && hooks.len() != commands.len() {
                return Err(Failure::new(format!(
                    "{option} is given {} times for {} commands",
                    hooks.len(),
                    commands.len()
                ))
                .next(format!("{option} once, or once per command")));
            }
        }
        let mut trees = None;
        let alone = |option: &str, runnables: &[Runnable]| match runnables {
            [one] => Ok(one.clone()),
            _ => Err(Failure::new(format!(
                "{option} needs exactly one command, and there are {}",
                runnables.len()
            ))),
        };
        if args.aa {
            let mut again = alone("--aa", &runnables)?;
            again.contender.name.push_str(" (again)");
            runnables.push(again);
        }
        if let [first, more @ ..] = &args.git[..] {
            let one = alone("--git", &runnables)?;
            // Two revisions are a range.
            let revisions = match more {
                [] => first.clone(),
                [second] if !first.contains("..") && !second.contains("..") => format!("{first}..{second}"),
                _ => return Err(Failure::new("--git takes one or two revisions").next("--git A..B")),
            };
            let built = Trees::build(&revisions, &args.build, volume)?;
            runnables = built.runnables(&one);
            trees = Some(built);
        }
        if let Some(baseline) = baseline {
            let one = alone("--baseline", &runnables)?;
            if let Some(kept) = baseline.kept(&one) {
                runnables.insert(0, kept);
            }
        }
        let shell = shell.map(|shell| words("", Some(&shell))).transpose()?;
        Ok(Self { runnables, reference: 0, trees, shell })
    }
}

fn parameters(how: &HowArgs) -> Result<Vec<(String, Vec<String>)>> {
    let mut all = Vec::new();
    for scanned in how.parameter_scan.chunks(3) {
        let [name, from, to] = scanned else { continue };
        let values = scan(from, to, &how.parameter_step_size).ok_or_else(|| {
            Failure::new(format!(
                "--parameter-scan {name} {from} {to}: these numbers are not reached in steps of {}",
                how.parameter_step_size
            ))
            .next("-P threads 1 8, or -P delay 0.1 0.5 -D 0.1")
        })?;
        all.push((name.clone(), values));
    }
    for listed in how.parameter_list.chunks(2) {
        let [name, values] = listed else { continue };
        all.push((name.clone(), values.split(',').map(str::to_owned).collect()));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(
        shell: Option<&str>,
        commands: &[&str],
    ) -> std::result::Result<(Option<String>, Vec<String>), String> {
        let commands = commands.iter().map(|command| (*command).to_owned()).collect::<Vec<_>>();
        shell_and_commands(shell, &commands).map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_shell_after_the_option_is_not_measured() {
        let of = |shell: Option<&str>, commands: &[&str]| {
            Ok((shell.map(str::to_owned), commands.iter().map(|command| (*command).to_owned()).collect()))
        };
        assert_eq!(chosen(Some(""), &["bash", "a | b"]), of(Some("bash"), &["a | b"]));
        assert_eq!(chosen(Some(""), &["/bin/zsh", "a", "b"]), of(Some("/bin/zsh"), &["a", "b"]));
        assert_eq!(chosen(Some(""), &["a | b"]), of(Some("sh"), &["a | b"]));
        assert_eq!(chosen(Some(""), &["none", "a"]), of(None, &["a"]));
        assert_eq!(chosen(Some("fish -N"), &["a"]), of(Some("fish -N"), &["a"]));
        assert_eq!(chosen(None, &["bash", "sh"]), of(None, &["bash", "sh"]));
        assert!(chosen(Some(""), &["a", "bash"]).unwrap_err().contains("--shell=bash"));
    }
}
