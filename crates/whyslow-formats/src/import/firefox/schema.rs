//! The tables of a processed profile, as far as whyslow reads them. Columns that a version lacks are empty.
//!
//! | version | what changed |
//! |---|---|
//! | 56 | texts are shared by all threads |
//! | 58 | functions name a row of `sources` instead of a file |
//! | 60 | stacks, frames and functions are shared by all threads |
//! | 65 | no caller is -1 instead of `null` |
//! | 66 | `prefixOffset` says how many rows before a stack its caller is, 0 for none |
//! | 70 | frames name their library themselves |

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::import::json::{Index, Number, Text};

#[derive(Deserialize)]
pub(super) struct File<'a> {
    #[serde(borrow)]
    pub(super) meta: Meta<'a>,
    #[serde(borrow, default)]
    pub(super) libs: Vec<Lib<'a>>,
    #[serde(borrow, default)]
    pub(super) shared: Tables<'a>,
    #[serde(borrow)]
    pub(super) threads: Vec<Thread<'a>>,
    #[serde(borrow, default)]
    pub(super) counters: Option<Vec<Counter<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Meta<'a> {
    pub(super) preprocessed_profile_version: Option<u32>,
    #[serde(default)]
    pub(super) interval: Number,
    #[serde(default)]
    pub(super) start_time: Number,
    pub(super) profiling_start_time: Option<Number>,
    #[serde(borrow)]
    pub(super) product: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) imported_from: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) oscpu: Option<Text<'a>>,
    #[serde(borrow, rename = "CPUName")]
    pub(super) cpu_name: Option<Text<'a>>,
    #[serde(rename = "logicalCPUs")]
    pub(super) logical_cpus: Option<Index>,
    #[serde(borrow)]
    pub(super) sample_units: Option<SampleUnits<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SampleUnits<'a> {
    #[serde(borrow)]
    pub(super) time: Option<Text<'a>>,
    #[serde(borrow, rename = "threadCPUDelta")]
    pub(super) thread_cpu_delta: Option<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Lib<'a> {
    #[serde(borrow)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) path: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) debug_name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) breakpad_id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) code_id: Option<Text<'a>>,
}

/// Tables that are part of a thread in older versions and shared in newer ones.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Tables<'a> {
    #[serde(borrow)]
    pub(super) string_array: Option<Vec<Text<'a>>>,
    pub(super) stack_table: Option<StackTable>,
    pub(super) frame_table: Option<FrameTable>,
    pub(super) func_table: Option<FuncTable>,
    pub(super) resource_table: Option<ResourceTable>,
    pub(super) native_symbols: Option<NativeSymbols>,
    pub(super) sources: Option<Sources>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct StackTable {
    pub(super) frame: Vec<Index>,
    pub(super) prefix: Vec<Index>,
    pub(super) prefix_offset: Vec<Index>,
}

impl StackTable {
    /// The row of the caller. A caller precedes its callees; a row that claims otherwise has no caller.
    pub(super) fn caller(&self, row: usize) -> Option<usize> {
        let caller = match self.prefix_offset.get(row) {
            Some(Index(offset)) => row.checked_sub((*offset).filter(|&offset| offset > 0)? as usize)?,
            None => self.prefix.get(row)?.0? as usize,
        };
        (caller < row).then_some(caller)
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct FrameTable {
    pub(super) address: Vec<Number>,
    pub(super) inline_depth: Vec<Index>,
    pub(super) func: Vec<Index>,
    pub(super) native_symbol: Vec<Index>,
    pub(super) line: Vec<Index>,
    pub(super) lib: Vec<Index>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct FuncTable {
    pub(super) name: Vec<Index>,
    pub(super) resource: Vec<Index>,
    pub(super) file_name: Vec<Index>,
    pub(super) source: Vec<Index>,
    pub(super) line_number: Vec<Index>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ResourceTable {
    pub(super) lib: Vec<Index>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct NativeSymbols {
    pub(super) lib_index: Vec<Index>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Sources {
    pub(super) filename: Vec<Index>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Thread<'a> {
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) process_name: Option<Text<'a>>,
    #[serde(default)]
    pub(super) is_main_thread: bool,
    /// A text or a number.
    #[serde(borrow)]
    pub(super) pid: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) tid: Option<&'a RawValue>,
    pub(super) process_startup_time: Option<Number>,
    pub(super) process_shutdown_time: Option<Number>,
    pub(super) register_time: Option<Number>,
    pub(super) unregister_time: Option<Number>,
    #[serde(borrow)]
    pub(super) samples: SampleTable<'a>,
    #[serde(borrow, default)]
    pub(super) native_allocations: Option<SampleTable<'a>>,
    #[serde(borrow, default)]
    pub(super) markers: Option<MarkerTable<'a>>,
    #[serde(borrow)]
    pub(super) string_array: Option<Vec<Text<'a>>>,
    pub(super) stack_table: Option<StackTable>,
    pub(super) frame_table: Option<FrameTable>,
    pub(super) func_table: Option<FuncTable>,
    pub(super) resource_table: Option<ResourceTable>,
    pub(super) native_symbols: Option<NativeSymbols>,
    /// Before version 41, each thread had the libraries of its process.
    #[serde(borrow, default)]
    pub(super) libs: Option<Vec<Lib<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SampleTable<'a> {
    #[serde(default)]
    pub(super) stack: Vec<Index>,
    pub(super) time: Option<Vec<Number>>,
    pub(super) time_deltas: Option<Vec<Number>>,
    pub(super) weight: Option<Vec<Number>>,
    #[serde(borrow)]
    pub(super) weight_type: Option<Text<'a>>,
    #[serde(rename = "threadCPUDelta")]
    pub(super) thread_cpu_delta: Option<Vec<Number>>,
}

/// The times of a table with either times or time deltas.
pub(super) fn times(time: Option<&[Number]>, deltas: Option<&[Number]>) -> Vec<f64> {
    match (time, deltas) {
        (Some(times), _) => times.iter().map(|time| time.0).collect(),
        (None, Some(deltas)) => {
            let sums = deltas.iter().scan(0.0, |time, delta| {
                *time += delta.0;
                Some(*time)
            });
            sums.collect()
        }
        (None, None) => Vec::new(),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MarkerTable<'a> {
    #[serde(default)]
    pub(super) name: Vec<Index>,
    #[serde(default)]
    pub(super) start_time: Vec<Number>,
    #[serde(default)]
    pub(super) end_time: Vec<Number>,
    #[serde(default)]
    pub(super) phase: Vec<Index>,
    #[serde(borrow, default)]
    pub(super) data: Vec<Option<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Counter<'a> {
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) category: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) pid: Option<&'a RawValue>,
    pub(super) samples: Option<CounterTable>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CounterTable {
    pub(super) time: Option<Vec<Number>>,
    pub(super) time_deltas: Option<Vec<Number>>,
    #[serde(default)]
    pub(super) count: Vec<Number>,
}
