//! What a misspelled word may mean.

/// Longer words are cut: the distance takes quadratic time.
const COMPARED: usize = 64;
/// How many names are offered.
const MOST: usize = 3;

/// The names that a word may misspell, best first, at most three. Of names with a path, such as `app::parse`, the last
/// part is compared.
///
/// One letter in three may be wrong, missing, too many or swapped with the next one. Names that contain the word come
/// after those.
///
/// ```
/// use whyslow_words::nearest;
///
/// let commands = ["report", "record", "flame"].map(String::from);
/// assert_eq!(nearest("reprot", commands.into_iter()), ["report"]);
/// ```
pub fn nearest(word: &str, names: impl Iterator<Item = String>) -> Vec<String> {
    let wanted = last_part(word);
    let letters = wanted.chars().count();
    let allowed = letters.div_ceil(3);
    let mut close: Vec<(usize, String)> = names
        .filter_map(|name| {
            let part = last_part(&name);
            let distance = strsim::osa_distance(&wanted, &part);
            let contains = letters > 2 && part.contains(&wanted);
            let rank = if distance <= allowed { Some(distance) } else { contains.then_some(allowed + 1) };
            rank.map(|rank| (rank, name))
        })
        .collect();
    close.sort();
    close.dedup();
    close.truncate(MOST);
    close.into_iter().map(|(_, name)| name).collect()
}

fn last_part(name: &str) -> String {
    name.rsplit("::").next().unwrap_or(name).to_lowercase().chars().take(COMPARED).collect()
}

#[cfg(test)]
mod tests {
    use super::nearest;

    fn of(word: &str, names: &[&str]) -> Vec<String> {
        nearest(word, names.iter().map(|&name| name.to_owned()))
    }

    #[test]
    fn misspelled_words_lead_to_their_names() {
        assert_eq!(of("cylces", &["cycles", "cpu-clock"]), ["cycles"], "swapped letters");
        assert_eq!(of("prase", &["app::parse", "app::main"]), ["app::parse"], "the last part");
        assert_eq!(of("flames", &["flame", "frames"]), ["flame", "frames"]);
        assert_eq!(of("ripgrep", &["report", "record"]), [] as [&str; 0]);
        assert_eq!(of("", &["report"]), [] as [&str; 0]);
    }

    #[test]
    fn names_that_contain_the_word_come_last() {
        let names = ["L1-dcache-load-misses", "cache-misses", "page-faults"];
        assert_eq!(of("cache-miss", &names), ["cache-misses"]);
        assert_eq!(of("misses", &names), ["L1-dcache-load-misses", "cache-misses"]);
    }

    #[test]
    fn at_most_three_names_are_offered_each_once() {
        assert_eq!(of("aaa", &["aab", "aab", "aac", "aad", "aae"]), ["aab", "aac", "aad"]);
    }
}
