//! The schema of the processed profile, version 57. The Firefox Profiler reads this and every older version.

use serde::Serialize;
use serde_json::Value;

/// The last version in which threads share texts, but not stacks and functions.
pub(super) const VERSION: u32 = 57;

#[derive(Serialize)]
pub(super) struct File<'p> {
    pub(super) meta: Value,
    pub(super) libs: Vec<Lib<'p>>,
    pub(super) shared: Shared,
    pub(super) threads: Vec<Thread<'p>>,
    pub(super) counters: Vec<Counter<'p>>,
    pub(super) pages: [(); 0],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Shared {
    pub(super) string_array: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Lib<'p> {
    pub(super) arch: &'p str,
    pub(super) name: &'p str,
    pub(super) path: &'p str,
    pub(super) debug_name: &'p str,
    pub(super) debug_path: &'p str,
    pub(super) breakpad_id: String,
    pub(super) code_id: Option<&'p str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Thread<'p> {
    pub(super) process_type: &'static str,
    pub(super) process_name: &'p str,
    pub(super) process_startup_time: f64,
    pub(super) process_shutdown_time: Option<f64>,
    pub(super) register_time: f64,
    pub(super) unregister_time: Option<f64>,
    pub(super) paused_ranges: [(); 0],
    pub(super) name: &'p str,
    pub(super) is_main_thread: bool,
    pub(super) pid: String,
    pub(super) tid: u32,
    pub(super) show_markers_in_timeline: bool,
    pub(super) samples: Samples,
    pub(super) markers: Markers<'p>,
    pub(super) stack_table: StackTable,
    pub(super) frame_table: FrameTable,
    pub(super) func_table: FuncTable,
    pub(super) resource_table: ResourceTable,
    pub(super) native_symbols: NativeSymbols,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Samples {
    pub(super) length: usize,
    pub(super) stack: Vec<u32>,
    pub(super) time: Vec<f64>,
    pub(super) weight: Vec<f64>,
    pub(super) weight_type: &'static str,
    #[serde(rename = "threadCPUDelta", skip_serializing_if = "Option::is_none")]
    pub(super) thread_cpu_delta: Option<Vec<u64>>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Markers<'p> {
    pub(super) length: usize,
    pub(super) name: Vec<u32>,
    pub(super) start_time: Vec<f64>,
    pub(super) end_time: Vec<Option<f64>>,
    pub(super) phase: Vec<u8>,
    pub(super) category: Vec<u32>,
    pub(super) data: Vec<MarkerData<'p>>,
}

#[derive(Serialize)]
pub(super) struct MarkerData<'p> {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) detail: Option<&'p str>,
}

#[derive(Default, Serialize)]
pub(super) struct StackTable {
    pub(super) length: usize,
    pub(super) frame: Vec<u32>,
    pub(super) prefix: Vec<Option<u32>>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FrameTable {
    pub(super) length: usize,
    pub(super) address: Vec<i64>,
    pub(super) inline_depth: Vec<u32>,
    pub(super) category: Vec<u32>,
    pub(super) subcategory: Vec<u32>,
    pub(super) func: Vec<u32>,
    pub(super) native_symbol: Vec<Option<u32>>,
    #[serde(rename = "innerWindowID")]
    pub(super) inner_window_id: Vec<Option<u32>>,
    pub(super) line: Vec<Option<u32>>,
    pub(super) column: Vec<Option<u32>>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FuncTable {
    pub(super) length: usize,
    pub(super) name: Vec<u32>,
    #[serde(rename = "isJS")]
    pub(super) is_js: Vec<bool>,
    #[serde(rename = "relevantForJS")]
    pub(super) relevant_for_js: Vec<bool>,
    pub(super) resource: Vec<i64>,
    pub(super) file_name: Vec<Option<u32>>,
    pub(super) line_number: Vec<Option<u32>>,
    pub(super) column_number: Vec<Option<u32>>,
}

#[derive(Default, Serialize)]
pub(super) struct ResourceTable {
    pub(super) length: usize,
    pub(super) lib: Vec<u32>,
    pub(super) name: Vec<u32>,
    pub(super) host: Vec<Option<u32>>,
    #[serde(rename = "type")]
    pub(super) kind: Vec<u32>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NativeSymbols {
    pub(super) length: usize,
    pub(super) lib_index: Vec<u32>,
    pub(super) address: Vec<u64>,
    pub(super) name: Vec<u32>,
    pub(super) function_size: Vec<Option<u64>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Counter<'p> {
    pub(super) name: &'p str,
    pub(super) category: &'static str,
    pub(super) description: &'static str,
    pub(super) pid: String,
    pub(super) main_thread_index: usize,
    pub(super) samples: CounterSamples,
}

#[derive(Default, Serialize)]
pub(super) struct CounterSamples {
    pub(super) length: usize,
    pub(super) time: Vec<f64>,
    pub(super) count: Vec<i64>,
}
