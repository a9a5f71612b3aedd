//! One name for all instances of a generic function.

use whyslow_profile::AsyncForm;

use super::short::split_at_top;

const ARGUMENTS: &str = "<…>";

/// `app::Map<K,V>::get::<u32>` → `app::Map<…>::get`; `None` if the name has no arguments or another form.
pub(crate) fn generic_name(name: &str) -> Option<String> {
    if !name.contains('<') {
        return None;
    }
    if let (Some(form), path) = AsyncForm::split(name) {
        return generic_name(path).map(|generic| format!("{}{generic}", form.prefix()));
    }
    let mut parts = Vec::new();
    for (at, part) in split_at_top(name, "::")?.into_iter().enumerate() {
        match part.strip_prefix('<') {
            // What follows `::<` are arguments, not a name.
            Some(_) if at > 0 => {}
            Some(inside) if inside.ends_with('>') => {
                let inside = &inside[..inside.len() - 1];
                parts.push(match inside.split_once(" as ") {
                    Some((own, of)) => {
                        format!("<{} as {}>", without_arguments(own), without_arguments(of))
                    }
                    None => format!("<{}>", without_arguments(inside)),
                });
            }
            _ => parts.push(without_arguments(part)),
        }
    }
    Some(parts.join("::")).filter(|generic| generic != name)
}

/// `Map<K,V>` → `Map<…>`.
fn without_arguments(text: &str) -> String {
    let (mut out, mut depth, mut before) = (String::new(), 0_u32, ' ');
    for c in text.chars() {
        match c {
            '<' => {
                if depth == 0 {
                    out.push_str(ARGUMENTS);
                }
                depth += 1;
            }
            '>' if before != '-' => depth = depth.saturating_sub(1),
            c if depth == 0 => out.push(c),
            _ => {}
        }
        before = c;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::generic_name;

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
            assert_eq!(generic_name(name).as_deref(), generic, "{name}");
        }
    }

    #[test]
    fn hostile_names_do_no_harm() {
        let deep = format!("{}x{}", "<".repeat(50_000), ">".repeat(50_000));
        for name in ["<<<<", ">>>", "::::<", "a::<b", "<a as b", "\u{202e}::é<名>::名", "<>::<>", &deep] {
            let _ = generic_name(name);
        }
    }
}
