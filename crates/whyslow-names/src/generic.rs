//! One name for all instances of a generic function.

use crate::brackets::{mask, split_at_top};

const ARGUMENTS: &str = "<…>";

/// `app::Map<K,V>::get::<u32>` → `app::Map<…>::get`; `None` if the path has no arguments or another form.
pub fn generic_path(name: &str) -> Option<String> {
    if !name.contains('<') {
        return None;
    }
    let whole = mask(name);
    let mut parts = Vec::new();
    for (at, range) in split_at_top(&whole, b"::")?.into_iter().enumerate() {
        let (part, mask) = (&name[range.clone()], &whole[range]);
        match part.strip_prefix('<') {
            // What follows `::<` are arguments, not a name.
            Some(_) if at > 0 => {}
            Some(inside) if inside.ends_with('>') => {
                let (inside, mask) = (&inside[..inside.len() - 1], &mask[1..mask.len() - 1]);
                let halves = split_at_top(mask, b" as ").unwrap_or_default();
                let halves =
                    halves.into_iter().map(|half| without_arguments(&inside[half.clone()], &mask[half]));
                parts.push(format!("<{}>", halves.collect::<Vec<_>>().join(" as ")));
            }
            _ => parts.push(without_arguments(part, mask)),
        }
    }
    Some(parts.join("::")).filter(|generic| generic != name)
}

/// `Map<K,V>` → `Map<…>`.
fn without_arguments(text: &str, mask: &[u8]) -> String {
    let (mut out, mut depth) = (String::new(), 0_u32);
    for (at, c) in text.char_indices() {
        match mask[at] {
            b'<' => {
                if depth == 0 {
                    out.push_str(ARGUMENTS);
                }
                depth += 1;
            }
            b'>' => depth = depth.saturating_sub(1),
            _ if depth == 0 => out.push(c),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::generic_path;

    #[test]
    fn instances_have_one_name() {
        for (name, generic) in [
            ("app::Map<K,V>::get::<u32>", Some("app::Map<…>::get")),
            ("<alloc::vec::Vec<T> as Drop>::drop", Some("<alloc::vec::Vec<…> as Drop>::drop")),
            ("<A<B> as C<D>>::e", Some("<A<…> as C<…>>::e")),
            ("f::<fn(A) -> B>", Some("f")),
            ("app::run", None),
            ("<app::X as Drop>::drop", None),
            ("operator<", None),
            ("", None),
        ] {
            assert_eq!(generic_path(name).as_deref(), generic, "{name}");
        }
    }

    #[test]
    fn hostile_names_do_no_harm() {
        let deep = format!("{}x{}", "<".repeat(50_000), ">".repeat(50_000));
        for name in ["<<<<", ">>>", "::::<", "a::<b", "<a as b", "\u{202e}::é<名>::名", "<>::<>", &deep] {
            let _ = generic_path(name);
        }
    }
}
