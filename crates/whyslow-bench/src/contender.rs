//! The commands that are compared.

use serde::{Deserialize, Serialize};

/// A command to compare.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contender {
    /// Its display name.
    pub name: String,
    /// The command as the user gave it, with its parameters filled in.
    pub command: String,
    /// The value of each parameter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<Parameter>,
}

/// A parameter and its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameter {
    /// Its name: commands contain it as `{name}`.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// Replaces each `{name}` in a text by the value of that parameter.
pub fn filled(text: &str, parameters: &[Parameter]) -> String {
    let fill = |text: String, parameter: &Parameter| {
        text.replace(&format!("{{{}}}", parameter.name), &parameter.value)
    };
    parameters.iter().fold(text.to_owned(), fill)
}

/// Every combination of parameter values; the last parameter changes fastest. Without parameters there is one
/// empty combination.
pub fn combinations(parameters: &[(String, Vec<String>)]) -> Vec<Vec<Parameter>> {
    let mut all = vec![Vec::new()];
    for (name, values) in parameters {
        let with = |before: &Vec<Parameter>| {
            let values = values.iter().map(|value| Parameter { name: name.clone(), value: value.clone() });
            values.map(|parameter| [before.as_slice(), &[parameter]].concat()).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(with).collect();
    }
    all
}

/// The numbers from `from` to `to`, formatted; `None` if the step never reaches the end. Steps of tenths keep
/// one decimal.
pub fn scan(from: &str, to: &str, step: &str) -> Option<Vec<String>> {
    const MAX: usize = 10_000;
    let decimals = |text: &str| text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let places = [from, to, step].map(decimals).into_iter().max().unwrap_or(0);
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
    let (from, to, step) = (number(from)?, number(to)?, number(step)?);
    let steps = (to - from) / step;
    if step == 0.0 || !(0.0..=MAX as f64).contains(&steps) {
        return None;
    }
    let count = (steps + 1e-9).floor() as usize;
    // Not a negative zero.
    Some((0..=count).map(|at| format!("{:.places$}", from + at as f64 * step + 0.0)).collect())
}

/// Commands for each combination of parameters, with the given names; more names than commands are an error.
pub fn contenders(
    commands: &[String],
    names: &[String],
    parameters: &[(String, Vec<String>)],
) -> Result<Vec<Contender>, usize> {
    let mut all = Vec::new();
    for command in commands {
        for values in combinations(parameters) {
            let filled_in = filled(command, &values);
            all.push(Contender { name: filled_in.clone(), command: filled_in, parameters: values });
        }
    }
    if names.len() > all.len() {
        return Err(all.len());
    }
    match names {
        // A single name with parameters in it applies to all.
        [name] if all.len() > 1 && name.contains('{') => {
            for contender in &mut all {
                contender.name = filled(name, &contender.parameters);
            }
        }
        _ => {
            for (contender, name) in all.iter_mut().zip(names) {
                contender.name = filled(name, &contender.parameters);
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(name: &str, values: &[&str]) -> (String, Vec<String>) {
        (name.to_owned(), values.iter().map(|value| (*value).to_owned()).collect())
    }

    #[test]
    fn each_command_gets_each_value() {
        let all = contenders(
            &["sort -S {size} {file}".to_owned()],
            &[],
            &[values("size", &["1M", "2M"]), values("file", &["a", "b"])],
        )
        .unwrap();
        let commands = all.iter().map(|contender| contender.command.as_str()).collect::<Vec<_>>();
        assert_eq!(commands, ["sort -S 1M a", "sort -S 1M b", "sort -S 2M a", "sort -S 2M b"]);
        let named =
            contenders(&["x {n}".to_owned()], &["n = {n}".to_owned()], &[values("n", &["1", "2"])]).unwrap();
        assert_eq!(named[1].name, "n = 2");
        assert_eq!(contenders(&["x".to_owned()], &["a".to_owned(), "b".to_owned()], &[]), Err(1));
    }

    #[test]
    fn scan_includes_the_end() {
        assert_eq!(scan("1", "4", "1").unwrap(), ["1", "2", "3", "4"]);
        assert_eq!(scan("0.1", "0.3", "0.1").unwrap(), ["0.1", "0.2", "0.3"]);
        assert_eq!(scan("1", "2", "0.4").unwrap(), ["1.0", "1.4", "1.8"]);
        assert_eq!(scan("-2", "1", "1").unwrap(), ["-2", "-1", "0", "1"]);
        assert_eq!(scan("4", "0", "-2").unwrap(), ["4", "2", "0"]);
        for (from, to, step) in [("1", "0", "1"), ("1", "2", "0"), ("a", "2", "1"), ("0", "1e9", "1")] {
            assert_eq!(scan(from, to, step), None, "{from} {to} {step}");
        }
    }
}
