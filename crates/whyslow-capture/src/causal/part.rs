//! The end of a recording with experiments: its rows and notes.

use std::sync::PoisonError;

use whyslow_agent_host::{AgentHost, Experiments, Finished};

use super::{Conditions, Controller, SharedDirector};
use crate::agent_source::AgentPart;
use crate::source::{Ending, LiveConverter};

/// Carries out experiments while the program runs.
#[derive(Debug)]
pub(crate) struct CausalPart {
    controller: Controller,
    director: SharedDirector,
    conditions: Conditions,
}

impl CausalPart {
    /// The part with a running controller.
    pub(crate) fn new(controller: Controller, director: SharedDirector) -> Self {
        Self { controller, director, conditions: Conditions::default() }
    }

    fn look(&mut self, experiments: &Experiments) {
        let Some(subject) = experiments.subject() else { return };
        let Conditions { has_begun, confined, exit, .. } = self.conditions;
        self.conditions = Conditions {
            has_begun: has_begun || subject.has_begun(),
            unsampled: subject.unsampled(),
            unwatched: subject.unwatched(),
            forks: subject.forks(),
            others: experiments.others(),
            looks: subject.looks(),
            confined: confined || subject.is_confined(),
            exit,
        };
    }
}

impl AgentPart for CausalPart {
    fn drain(&mut self, host: &AgentHost, _converter: &mut LiveConverter) {
        host.with(|experiments: &mut Experiments, _| self.look(experiments));
    }

    fn finish(mut self: Box<Self>, finished: &Finished, ending: &mut Ending<'_>) {
        self.controller.stop();
        finished.with(|experiments: &mut Experiments, _| self.look(experiments));
        self.conditions.exit = ending.meta.exit;
        let mut director = self.director.lock().unwrap_or_else(PoisonError::into_inner);
        let start = ending.converter.start();
        let notes = director.finish(&self.conditions, start, ending.converter.rows_mut());
        ending.note(notes);
    }
}
