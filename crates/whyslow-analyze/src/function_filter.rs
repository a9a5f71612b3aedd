//! Selects functions by a text of the user: a regular expression, or a name as whyslow prints it.

use regex::Regex;
use whyslow_names::{Fit, Wanted};
use whyslow_profile::Profile;

use crate::find::fit;
use crate::labels::{self, Label};

/// What `--function` selects.
///
/// Names contain characters that mean something else in regular expressions: `app::Set::get() const`,
/// `operator*`. So a text that is a part of some name stands for itself. Otherwise it is a regular expression
/// or, if that matches nothing, a name as views print it: `Config::clone` for
/// `<app::Config as core::clone::Clone>::clone`.
#[derive(Debug, Clone)]
pub struct FunctionFilter {
    text: String,
    regex: Result<Regex, regex::Error>,
}

impl FunctionFilter {
    /// Creates it from the user's text.
    pub fn new(text: &str) -> Self {
        Self { text: text.to_owned(), regex: Regex::new(text) }
    }

    /// The user's text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Why the text is not a regular expression. It can be a name nevertheless.
    pub fn error(&self) -> Option<&regex::Error> {
        self.regex.as_ref().err()
    }

    /// Whether each of these labels is selected.
    pub(crate) fn selected(&self, profile: &Profile, labels: impl Iterator<Item = Label>) -> Vec<bool> {
        let labels: Vec<Label> = labels.collect();
        let by_name = |test: &dyn Fn(&str) -> bool| -> Vec<bool> {
            labels.iter().map(|&label| test(&labels::name(profile, label))).collect()
        };
        let is_plain = regex::escape(&self.text) == self.text || !self.text.contains(char::is_alphanumeric);
        if !is_plain {
            let found = by_name(&|name| name.contains(&self.text));
            if found.contains(&true) {
                return found;
            }
        }
        if let Ok(regex) = &self.regex {
            let found = by_name(&|name| regex.is_match(name));
            if found.contains(&true) {
                return found;
            }
        }
        let wanted = Wanted::new(&self.text);
        labels.iter().map(|&label| fit(profile, &wanted, label).is_some_and(Fit::is_name)).collect()
    }

    /// Whether a function of the profile is selected.
    pub fn selects_any(&self, profile: &Profile) -> bool {
        let labels = crate::labels::Labels::new(profile);
        let all = (0..labels.len() as u32).map(|code| labels.label(code));
        self.selected(profile, all).contains(&true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn selected(text: &str) -> Vec<String> {
        let profile = testing::profile(
            "app::Set::get() const;app::Set::get();app::operator* 1\n\
             <app::Config as core::clone::Clone>::clone;app::operator+;std::vector<int>::push(int) 1",
        );
        let labels: Vec<Label> = (0..profile.functions.len()).map(|id| Label::Function(id.into())).collect();
        let found = FunctionFilter::new(text).selected(&profile, labels.iter().copied());
        let names = labels.iter().zip(found).filter(|(_, selected)| *selected);
        names.map(|(label, _)| labels::name(&profile, *label).into_owned()).collect()
    }

    #[test]
    fn a_name_with_special_characters_stands_for_itself() {
        assert_eq!(selected("app::Set::get() const"), ["app::Set::get() const"]);
        assert_eq!(selected("operator*"), ["app::operator*"]);
        assert_eq!(selected("get() const"), ["app::Set::get() const"]);
        assert_eq!(selected("vector<int>::push(int"), ["std::vector<int>::push(int)"]);
    }

    #[test]
    fn other_texts_are_regular_expressions() {
        assert_eq!(selected("operator[*+]").len(), 2);
        assert_eq!(selected("^std::"), ["std::vector<int>::push(int)"]);
        assert_eq!(selected("const"), ["app::Set::get() const"]);
        assert_eq!(selected("(nothing").len(), 0);
    }

    #[test]
    fn a_printed_name_is_found() {
        assert_eq!(selected("Config::clone"), ["<app::Config as core::clone::Clone>::clone"]);
        assert_eq!(selected("std::vector<…>::push"), ["std::vector<int>::push(int)"]);
    }
}
