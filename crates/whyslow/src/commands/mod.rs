//! One file or folder per command, and the one list of them.

pub(crate) mod cargo;

use crate::cli::Volume;
use crate::exit::Exit;
use crate::failure::Result;

/// Declares the commands in the order of the help: module, name, arguments. Each module has `run(&arguments, volume)`.
macro_rules! commands {
    ($($module:ident: $name:ident($arguments:ident)),+ $(,)?) => {
        $(pub(crate) mod $module;)+

        /// A command and its arguments.
        #[derive(Debug, clap::Subcommand)]
        pub(crate) enum Command {
            $($name(Box<$module::$arguments>)),+
        }

        impl Command {
            /// Does what was asked.
            pub(crate) fn run(&self, volume: Volume) -> Result<Exit> {
                match self {
                    $(Self::$name(arguments) => $module::run(arguments, volume)),+
                }
            }
        }
    };
}

commands! {
    record: Record(RecordArgs),
    heap: Heap(HeapArgs),
    locks: Locks(LocksArgs),
    stat: Stat(StatArgs),
    list: List(ListArgs),
    report: Report(ReportArgs),
    explain: Explain(ExplainArgs),
    asm: Asm(AsmArgs),
    bench: Bench(BenchArgs),
    scale: Scale(ScaleArgs),
    gate: Gate(GateArgs),
    diff: Diff(DiffArgs),
    verify: Verify(VerifyArgs),
    merge: Merge(MergeArgs),
    flame: Flame(FlameArgs),
    view: View(ViewArgs),
    export: Export(ExportArgs),
    import: Import(ImportArgs),
    doctor: Doctor(DoctorArgs),
    lab: Lab(LabArgs),
}
