//! Addresses, by what they count from.
//!
//! ```text
//! run-time    in the memory of a process
//! file        in the file's own address space: in its headers, symbols and debug info
//! relative    from the file's image base: the same in every run; the addresses of profiles
//!
//! relative = file - image base        run-time = file + bias
//! ```
//! Only [`ImageBase`] and [`Bias`] compute them. Sums and differences wrap: addresses come from files and programs, and any
//! number is possible.

use serde::{Deserialize, Serialize};

/// Declares kinds of addresses.
macro_rules! addresses {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[repr(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The address this many bytes later.
            #[inline]
            #[must_use]
            pub const fn plus(self, bytes: u64) -> Self {
                Self(self.0.wrapping_add(bytes))
            }

            /// The address this many bytes earlier.
            #[inline]
            #[must_use]
            pub const fn minus(self, bytes: u64) -> Self {
                Self(self.0.wrapping_sub(bytes))
            }

            /// How many bytes it is behind another address.
            #[inline]
            pub const fn behind(self, start: Self) -> u64 {
                self.0.wrapping_sub(start.0)
            }
        }
    )+};
}

addresses! {
    /// An address in the memory of a process.
    RunTimeAddress,
    /// An address in a file's own address space.
    FileAddress,
    /// An offset from a module's image base: the same in every run of the same file.
    RelativeAddress,
}

/// The address that a file's relative addresses count from.
///
/// ```
/// use whyslow_numbers::{FileAddress, ImageBase, RelativeAddress};
///
/// let base = ImageBase(FileAddress(0x40_0000));
/// assert_eq!(base.relative(FileAddress(0x40_1234)), RelativeAddress(0x1234));
/// assert_eq!(base.file(RelativeAddress(0x1234)), FileAddress(0x40_1234));
/// ```
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct ImageBase(pub FileAddress);

impl ImageBase {
    /// The relative address of an address of the file.
    #[inline]
    pub const fn relative(self, address: FileAddress) -> RelativeAddress {
        RelativeAddress(address.behind(self.0))
    }

    /// The same; 0 for an address before the base, which only a damaged file has.
    #[inline]
    pub const fn relative_or_zero(self, address: FileAddress) -> RelativeAddress {
        RelativeAddress(address.0.saturating_sub(self.0.0))
    }

    /// The file's own address for a relative one.
    #[inline]
    pub const fn file(self, address: RelativeAddress) -> FileAddress {
        self.0.plus(address.0)
    }

    /// The same; `None` if no file can have that address.
    #[inline]
    pub const fn checked_file(self, address: RelativeAddress) -> Option<FileAddress> {
        match self.0.0.checked_add(address.0) {
            Some(address) => Some(FileAddress(address)),
            None => None,
        }
    }
}

/// How far a loaded file is from its own addresses.
///
/// ```
/// use whyslow_numbers::{Bias, FileAddress, RunTimeAddress};
///
/// let bias = Bias::between(RunTimeAddress(0x7f00_0000_1000), FileAddress(0x1000));
/// assert_eq!(bias.run_time(FileAddress(0x1234)), RunTimeAddress(0x7f00_0000_1234));
/// assert_eq!(bias.file(RunTimeAddress(0x7f00_0000_1234)), FileAddress(0x1234));
/// ```
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Bias(u64);

impl Bias {
    /// The bias of a file that is loaded at its own addresses.
    pub const NONE: Self = Self(0);

    /// The bias of a file that has this address here.
    #[inline]
    pub const fn between(here: RunTimeAddress, address: FileAddress) -> Self {
        Self(here.0.wrapping_sub(address.0))
    }

    /// The number, for the protocol with the agent.
    #[inline]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// Where an address of the file is in the process.
    #[inline]
    pub const fn run_time(self, address: FileAddress) -> RunTimeAddress {
        RunTimeAddress(address.0.wrapping_add(self.0))
    }

    /// The file's own address of an address in the process.
    #[inline]
    pub const fn file(self, address: RunTimeAddress) -> FileAddress {
        FileAddress(address.0.wrapping_sub(self.0))
    }
}
