//! One file or folder per command, and the one list of them.

pub(crate) mod asm;
pub(crate) mod bench;
pub(crate) mod cache;
pub(crate) mod cargo;
pub(crate) mod causal;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod flame;
pub(crate) mod gate;
pub(crate) mod heap;
pub(crate) mod import;
pub(crate) mod lab;
pub(crate) mod list;
pub(crate) mod locks;
pub(crate) mod memcheck;
pub(crate) mod merge;
pub(crate) mod record;
pub(crate) mod report;
pub(crate) mod scale;
pub(crate) mod size;
pub(crate) mod stat;
pub(crate) mod verify;
pub(crate) mod view;

use crate::cli::Volume;
use crate::exit::Exit;
use crate::failure::Result;

/// Lists the commands in the order of the help, in groups: module, name, arguments. Each module has
/// `run(&arguments, volume)`. The modules are declared above, outside the macro, so that rustfmt finds their files.
macro_rules! commands {
    ($($group:literal { $($module:ident: $name:ident($arguments:ident)),+ $(,)? })+) => {
        /// The headings of the help, each with the names of its commands.
        pub(crate) const GROUPS: &[(&str, &[&str])] = &[$(($group, &[$(stringify!($module)),+])),+];

        /// A command and its arguments.
        #[derive(Debug, clap::Subcommand)]
        pub(crate) enum Command {
            $($($name(Box<$module::$arguments>),)+)+
        }

        impl Command {
            /// Runs the command.
            pub(crate) fn run(&self, volume: Volume) -> Result<Exit> {
                match self {
                    $($(Self::$name(arguments) => $module::run(arguments, volume),)+)+
                }
            }
        }
    };
}

commands! {
    "Record" {
        record: Record(RecordArgs),
        heap: Heap(HeapArgs),
        cache: Cache(CacheArgs),
        memcheck: Memcheck(MemcheckArgs),
        locks: Locks(LocksArgs),
        causal: Causal(CausalArgs),
        stat: Stat(StatArgs),
    }
    "Look" {
        report: Report(ReportArgs),
        explain: Explain(ExplainArgs),
        asm: Asm(AsmArgs),
        flame: Flame(FlameArgs),
        view: View(ViewArgs),
        size: Size(SizeArgs),
    }
    "Compare" {
        bench: Bench(BenchArgs),
        diff: Diff(DiffArgs),
        verify: Verify(VerifyArgs),
        scale: Scale(ScaleArgs),
        gate: Gate(GateArgs),
    }
    "Other" {
        list: List(ListArgs),
        merge: Merge(MergeArgs),
        export: Export(ExportArgs),
        import: Import(ImportArgs),
        doctor: Doctor(DoctorArgs),
        lab: Lab(LabArgs),
    }
}
