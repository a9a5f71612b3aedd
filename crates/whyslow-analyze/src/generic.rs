//! One name for all instances of a generic function.

use whyslow_names::generic_path;
use whyslow_profile::AsyncForm;

/// `app::Map<K,V>::get::<u32>` → `app::Map<…>::get`; `None` if the name has no arguments or another form.
pub fn generic_name(name: &str) -> Option<String> {
    match AsyncForm::split(name) {
        (Some(form), path) => generic_path(path).map(|generic| format!("{}{generic}", form.prefix())),
        (None, _) => generic_path(name),
    }
}

#[cfg(test)]
mod tests {
    use super::generic_name;

    #[test]
    fn state_machines_of_async_functions_have_one_name() {
        assert_eq!(generic_name("async fn app::f::<u8>").as_deref(), Some("async fn app::f"));
        assert_eq!(generic_name("async fn app::f"), None);
    }
}
