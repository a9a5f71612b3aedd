//! Families of facts: enums whose variants have ids that stay the same for ever.

/// A family of facts, made by [`facts!`](macro@crate::facts).
pub trait Family {
    /// The ids of all its facts, in their order.
    const IDS: &'static [&'static str];
}

/// Declares an enum of facts and the id of each. Files and JSON name a fact by its id; words are made where it is shown.
///
/// ```
/// use whyslow_profile::Family;
///
/// whyslow_profile::facts! {
///     /// What can be said of a day.
///     #[derive(Debug)]
///     pub enum Weather {
///         /// It rains, so much.
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
            /// A short name that stays the same for ever.
            $vis fn id(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => $id),+
                }
            }
        }
    };
}
