//! Families of facts: enums whose variants have ids that never change.

/// A family of facts, declared with [`facts!`](macro@crate::facts).
pub trait Family {
    /// The ids of all its facts, in order.
    const IDS: &'static [&'static str];
}

/// Declares an enum of facts and the id of each. Files and JSON refer to a fact by its id; the text is
/// written where it is shown.
///
/// ```
/// use whyslow_profile::Family;
///
/// whyslow_profile::facts! {
///     /// A day's weather.
///     #[derive(Debug)]
///     pub enum Weather {
///         /// It rains this much.
///         "rain" => Rain { millimetres: u64 },
///         /// The sun shines.
///         "sun" => Sun,
///     }
/// }
/// assert_eq!(Weather::Rain { millimetres: 3 }.id(), "rain");
/// assert_eq!(Weather::IDS, ["rain", "sun"]);
/// ```
#[macro_export]
macro_rules! facts {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {
            $(
                $(#[$variant_meta:meta])*
                $id:literal => $variant:ident
                $({ $($(#[$field_meta:meta])* $field:ident: $type:ty),* $(,)? })?
                $(( $($tuple_type:ty),* $(,)? ))?
            ),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        $vis enum $name {
            $(
                $(#[$variant_meta])*
                $variant
                $({ $($(#[$field_meta])* $field: $type),* })?
                $(( $($tuple_type),* ))?
            ),+
        }

        impl $crate::Family for $name {
            const IDS: &'static [&'static str] = &[$($id),+];
        }

        impl $name {
            /// A short name that never changes.
            $vis fn id(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $id),+
                }
            }
        }
    };
}
