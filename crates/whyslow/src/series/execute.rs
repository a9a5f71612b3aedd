//! Runs the commands and their hooks.

use std::time::Duration;

use whyslow_bench::document::Surroundings;
use whyslow_bench::note::words;
use whyslow_bench::padding;
use whyslow_bench::rounds::{Execute, Plan, Round, Series};
use whyslow_bench::{BenchNote, Run};
use whyslow_capture::{Command, RunEnd, Stopwatch, TimedCommand, TimedRun, WantedEvent};
use whyslow_events::Machine;
use whyslow_profile::{ExitStatus, Host};

use super::progress::Progress;
use super::runnable::hook;
use super::watched::Watched;
use super::{How, Runnable};
use crate::cli::Volume;
use crate::failure::{Failure, Result};
use crate::recording::explain;

/// CPU events that every run counts, if the machine has them.
const EVENTS: [&str; 4] = ["cycles", "instructions", "branch-misses", "cache-misses"];

/// Runs the commands.
pub(crate) struct Runner<'a> {
    stopwatch: Stopwatch,
    runnables: &'a [Runnable],
    commands: Vec<TimedCommand>,
    how: &'a How,
    progress: Progress<'a>,
    watched: Watched,
    last_stderr: String,
    /// What starting the shell takes: wall, user and system time.
    shell: [u64; 3],
}

impl<'a> Runner<'a> {
    pub(crate) fn new(
        runnables: &'a [Runnable],
        how: &'a How,
        plan: &'a Plan,
        volume: Volume,
    ) -> Result<Self> {
        let command = |runnable: &Runnable| TimedCommand {
            command: runnable.command(),
            file: None,
            input: how.input.clone(),
            output: how.output.clone(),
            timeout: how.timeout,
            keep_stderr: false,
        };
        let machine = Machine::this();
        let events = EVENTS.iter().filter_map(|name| machine.event(name));
        let events = events.map(WantedEvent::from).collect::<Vec<_>>();
        Ok(Self {
            stopwatch: Stopwatch::new(&events).map_err(explain)?,
            runnables,
            commands: runnables.iter().map(command).collect(),
            how,
            progress: Progress::new(runnables, plan, volume),
            watched: Watched::new(),
            last_stderr: String::new(),
            shell: [0; 3],
        })
    }

    /// Measures what the shell takes for an empty command. It is subtracted from every run from now on.
    pub(crate) fn calibrate(&mut self, shell: &[String]) -> Result<Option<BenchNote>> {
        const RUNS: usize = 20;
        let runnable = Runnable { words: shell.to_vec(), folder: None, ..self.runnables[0].clone() };
        let timed = TimedCommand { command: runnable.command(), ..TimedCommand::default() };
        let mut times = [const { Vec::new() }; 3];
        for _ in 0..RUNS {
            let run = self.stopwatch.run(&timed).map_err(explain)?;
            if run.end != RunEnd::ByItself(ExitStatus::Code(0)) {
                return Ok(None);
            }
            let of_run = self.row(&run, ExitStatus::Code(0));
            for (times, time) in times.iter_mut().zip([of_run.wall_ns, of_run.user_ns, of_run.system_ns]) {
                times.push(time as f64);
            }
        }
        self.shell = times.map(|times| whyslow_stats::median(&times) as u64);
        Ok(Some(BenchNote::ShellSubtracted { shell: shell[0].clone(), wall_ns: self.shell[0] }))
    }

    /// Runs `--setup` once before all runs.
    pub(crate) fn set_up(&self) -> Result {
        self.once("--setup", self.how.setup.as_ref())
    }

    /// Runs `--cleanup` once after all runs.
    pub(crate) fn clean_up(&self) -> Result {
        self.progress.clear();
        self.once("--cleanup", self.how.cleanup.as_ref())
    }

    fn once(&self, option: &str, command: Option<&String>) -> Result {
        for runnable in self.runnables {
            if let Some(command) = command.and_then(|command| hook(std::slice::from_ref(command), runnable)) {
                self.hook(option, &command, runnable)?;
            }
        }
        Ok(())
    }

    /// Runs a shell command that must succeed. Returns false if the user interrupts it.
    fn hook(&self, option: &str, command: &str, runnable: &Runnable) -> Result<bool> {
        let shell = Command {
            program: "sh".into(),
            args: vec!["-c".into(), command.into()],
            folder: runnable.folder.clone(),
            ..Command::default()
        };
        let timed = TimedCommand { command: shell, keep_stderr: true, ..TimedCommand::default() };
        let run = self.stopwatch.run(&timed).map_err(explain)?;
        match run.end {
            RunEnd::ByItself(ExitStatus::Code(0)) => Ok(true),
            RunEnd::Interrupted => Ok(false),
            RunEnd::ByItself(exit) => Err(Failure::new(format!(
                "{option} `{command}` ended with {}{}",
                words(exit),
                stderr_tail(&run.stderr)
            ))),
            RunEnd::TimedOut => Err(Failure::new(format!("{option} `{command}` timed out"))),
        }
    }

    /// This machine.
    pub(crate) fn host(&self) -> Host {
        whyslow_capture::this_host()
    }

    /// How busy the machine was since the start.
    pub(crate) fn surroundings(&self) -> Surroundings {
        self.watched.surroundings()
    }

    fn row(&self, run: &TimedRun, exit: ExitStatus) -> Run {
        let events = self.stopwatch.events().iter().zip(&run.counts);
        let counts =
            events.filter_map(|(event, count)| Some((event.event.name.clone(), count.as_ref()?.estimate()?)));
        let usage = &run.usage;
        let [wall, user, system] = self.shell;
        Run {
            place: 0,
            wall_ns: (run.wall.as_nanos() as u64).saturating_sub(wall),
            user_ns: usage.user_ns.unwrap_or(0).saturating_sub(user),
            system_ns: usage.system_ns.unwrap_or(0).saturating_sub(system),
            first_thread_ns: run.first_thread.map(|[ran, _]| ran.as_nanos() as u64),
            queued_ns: run.first_thread.map(|[_, queued]| queued.as_nanos() as u64),
            max_resident_bytes: usage.max_resident_bytes,
            minor_faults: usage.minor_faults.unwrap_or(0),
            major_faults: usage.major_faults.unwrap_or(0),
            voluntary_switches: usage.voluntary_switches.unwrap_or(0),
            involuntary_switches: usage.involuntary_switches.unwrap_or(0),
            counts: counts.collect(),
            exit,
        }
    }
}

/// The last lines that a command wrote to stderr, on one line.
pub(crate) fn stderr_tail(stderr: &str) -> String {
    const LINES: usize = 3;
    let lines = stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>();
    let last = &lines[lines.len().saturating_sub(LINES)..];
    if last.is_empty() {
        return String::new();
    }
    format!(": {}", whyslow_render::sanitize::clean(&last.join(" / ")))
}

impl Execute for Runner<'_> {
    type Error = Failure;

    fn run(&mut self, command: usize, of: Round, padding: usize) -> Result<Option<Run>> {
        let runnable = &self.runnables[command];
        self.progress.running(command, of, self.watched.elapsed());
        if let Some(prepare) = hook(&self.how.prepare, runnable)
            && !self.hook("--prepare", &prepare, runnable)?
        {
            return Ok(None);
        }
        let timed = &mut self.commands[command];
        // Commands that fail mostly fail at once, so the warm-up keeps stderr to show why.
        timed.keep_stderr = matches!(of, Round::Warmup(_));
        timed.command.env = vec![padding::variable(padding)];
        // Not before the first run: --setup and --prepare may create the program.
        if timed.file.is_none() {
            let is_name = !timed.command.program.as_encoded_bytes().contains(&b'/');
            timed.file = timed.command.file().filter(|file| is_name && file.is_absolute());
        }
        let run = self.stopwatch.run(timed).map_err(explain)?;
        let name = &runnable.contender.name;
        let exit = match run.end {
            RunEnd::ByItself(exit) => exit,
            RunEnd::Interrupted => return Ok(None),
            RunEnd::TimedOut => {
                self.progress.clear();
                let limit =
                    whyslow_render::units::duration(self.how.timeout.unwrap_or_default().as_nanos() as u64);
                return Err(Failure::new(format!("`{name}` took longer than {limit} and was killed"))
                    .next("a longer --timeout"));
            }
        };
        if !run.left_behind.is_empty() && !self.how.failures_count {
            self.progress.clear();
            return Err(Failure::new(format!(
                "`{name}` left {} running when it exited: their time is missing from its measurement and would disturb others; \
                 they were killed",
                run.left_behind.join(", ")
            ))
            .next("a command that waits for all it starts, or --ignore-failure"));
        }
        self.last_stderr.clone_from(&run.stderr);
        if let Some(conclude) = hook(&self.how.conclude, runnable)
            && !self.hook("--conclude", &conclude, runnable)?
        {
            return Ok(None);
        }
        Ok(Some(self.row(&run, exit)))
    }

    fn elapsed(&self) -> Duration {
        self.watched.elapsed()
    }

    fn round_is_over(&mut self, series: &Series) {
        self.progress.round_is_over(series);
    }

    fn failed(&mut self, command: usize, exit: ExitStatus) -> Failure {
        self.progress.clear();
        let name = &self.runnables[command].contender.name;
        Failure::new(format!("`{name}` ended with {}{}", words(exit), stderr_tail(&self.last_stderr)))
            .next("running it by hand, or --ignore-failure if this is expected")
    }
}
