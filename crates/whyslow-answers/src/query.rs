//! A resolved question.

use whyslow_analyze::{Charges, Selection, TreeOptions, Weights, wait_metric};
use whyslow_explain::{Allowed, Finding, Question, Topic, findings_about};
use whyslow_profile::Profile;

use crate::answer::Answer;
use crate::filters::{Filters, Narrowing};
use crate::refusal::Refusal;
use crate::views::{Needs, View};

/// What to answer, resolved for one profile: the view, the samples, and how much to show.
#[derive(Debug, Clone)]
pub struct Query {
    /// The view.
    pub view: &'static View,
    /// Whether a person or a program reads the answer.
    pub detail: Detail,
    /// The samples that count.
    pub selection: Selection,
    /// How much of the recording they are.
    pub narrowing: Narrowing,
    /// The function that the view is about.
    pub function: Option<String>,
    /// What functions and lines are ranked by.
    pub ranking: Ranking,
    /// Whether inlined functions are functions of their own.
    pub inline: bool,
    /// Whether trees start at the innermost functions.
    pub inverted: bool,
    /// Whether trees have every frame, also start-up and runtime frames.
    pub unfolded: bool,
    /// Rows to show; `None` is what fits.
    pub limit: Option<usize>,
    /// Leave out rows below this share.
    pub min_share: Option<f64>,
    /// Leave out shorter waits.
    pub shortest_wait_ns: u64,
    /// Whether to show the sizes, lifetimes and threads of heap blocks.
    pub histograms: bool,
    /// The findings that the user allows.
    pub allowed: Allowed,
    /// The file of the profile, quoted for the shell: an answer after a recording ends with the next commands.
    pub file: Option<String>,
}

/// Who reads an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// A person: plumbing is folded away.
    Screen,
    /// A program: every frame, and the heap of a recording that has one in every view.
    Complete,
}

/// What functions and lines are ranked by.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Ranking {
    /// Your code plus the libraries it calls.
    #[default]
    Own,
    /// Self time.
    SelfTime,
    /// Total time.
    Total,
}

/// The smallest share of a branch in trees.
const MIN_BRANCH: f64 = 0.01;

impl Query {
    /// Resolves filters for a view of a profile. A computed metric is added to the profile.
    pub fn new(
        view: &'static View,
        detail: Detail,
        filters: &Filters,
        profile: &mut Profile,
    ) -> Result<Self, Refusal> {
        let narrowing = filters.narrowing();
        if let Some(refusal) = (view.refusal)(profile, detail, narrowing) {
            return Err(refusal);
        }
        let selection = match view.of_samples {
            true => filters.resolve(profile)?,
            false => filters.resolve_names(profile)?,
        };
        Ok(Self::of(view, detail, selection, narrowing))
    }

    /// The view of everything that was recorded.
    pub fn whole(view: &'static View, detail: Detail, profile: &Profile) -> Self {
        let selection = Selection { metric: profile.main_metric(), ..Selection::default() };
        Self::of(view, detail, selection, Narrowing::None)
    }

    fn of(view: &'static View, detail: Detail, selection: Selection, narrowing: Narrowing) -> Self {
        Self {
            view,
            detail,
            selection,
            narrowing,
            function: None,
            ranking: Ranking::default(),
            inline: true,
            inverted: false,
            unfolded: false,
            limit: None,
            min_share: None,
            shortest_wait_ns: 0,
            histograms: false,
            allowed: Allowed::default(),
            file: None,
        }
    }

    /// The same, about a function.
    #[must_use]
    pub fn about(mut self, function: impl Into<String>) -> Self {
        self.function = Some(function.into());
        self
    }

    /// Computes the answer.
    pub fn answer<'a>(&'a self, profile: &'a Profile) -> Result<Answer<'a>, Refusal> {
        self.view.check_function(self.function.as_deref())?;
        if let Some(refusal) = (self.view.refusal)(profile, self.detail, self.narrowing) {
            return Err(refusal);
        }
        Answer::new(profile, self, (self.view.body)(self, profile)?)
    }

    /// The smallest share of a branch that trees show.
    pub fn min_branch(&self) -> f64 {
        self.min_share.unwrap_or(MIN_BRANCH)
    }

    /// Whether trees leave out plumbing.
    pub(crate) fn folds(&self) -> bool {
        self.detail == Detail::Screen && !self.unfolded
    }

    pub(crate) fn weights(&self, profile: &Profile) -> Weights {
        self.selection.weigh(profile)
    }

    /// The frame that each stack is charged to, for the selected metric.
    pub(crate) fn charges(&self, profile: &Profile) -> Charges {
        Charges::of_metric(profile, self.inline, self.selection.metric)
    }

    /// The same for CPU time.
    pub(crate) fn cpu_charges(&self, profile: &Profile) -> Charges {
        Charges::new(profile, self.inline)
    }

    /// The selected waits, whatever metric was requested, and the frames that they are charged to.
    pub(crate) fn waits(&self, profile: &Profile) -> (Selection, Charges) {
        let metric = wait_metric(profile).unwrap_or(self.selection.metric);
        let charges = Charges::of_metric(profile, self.inline, metric);
        (Selection { metric, ..self.selection.clone() }, charges)
    }

    pub(crate) fn tree_options(&self) -> TreeOptions {
        TreeOptions { inline: self.inline, inverted: self.inverted, ..TreeOptions::default() }
    }

    /// The findings of the selected samples about a topic.
    pub(crate) fn findings_about(&self, topic: Topic, profile: &Profile) -> Vec<Finding> {
        let Self { selection, allowed, .. } = self;
        let file = self.file.as_deref().unwrap_or("FILE");
        findings_about(topic, &Question { profile, selection, only_metric: false, allowed, file })
    }

    /// The smallest value that tables show, of this total.
    pub(crate) fn min_value(&self, total: u64) -> u64 {
        self.min_share.map_or(0, |min| (total as f64 * min).ceil() as u64)
    }
}

impl View {
    /// Whether a function is named exactly if the view takes one.
    pub fn check_function(&self, function: Option<&str>) -> Result<(), Refusal> {
        match (function, self.function) {
            (None, Needs::One) => Err(Refusal::NeedsFunction { view: self.name }),
            (Some(function), Needs::Nothing) => {
                Err(Refusal::TakesNoFunction { function: function.to_owned() })
            }
            _ => Ok(()),
        }
    }
}
