//! Enums that are stored as small numbers.

/// Declares an enum that is stored as a small number. Unknown numbers read as the first variant.
macro_rules! coded_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $code:literal / $label:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// Every variant, in order of its code.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The number in the file.
            pub fn code(self) -> u8 {
                match self { $(Self::$variant => $code),+ }
            }

            /// The variant for a number from a file.
            pub fn from_code(code: u64) -> Self {
                match code { $($code => Self::$variant,)+ _ => Self::default() }
            }

            /// The word used in text, JSON and options.
            pub fn label(self) -> &'static str {
                match self { $(Self::$variant => $label),+ }
            }
        }
    };
}
