//! Profiles as Firefox records them (the Gecko format), before the Firefox Profiler processes them.
//!
//! ```text
//! profile = meta, libs, threads, processes: profiles of other processes, each with its own start
//! table   = {"schema": {"column": number, …}, "data": [[value, …], …]}      rows may end early
//! thread  = stringTable, samples, stackTable, frameTable, markers
//! frame   = location: "0x7f12…", an address in the process, or "name (file:line:column)"
//! ```
//! They are converted to the tables of a processed profile.

use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::schema::{
    File, FrameTable, FuncTable, Lib, MarkerTable, Meta, SampleTable, StackTable, Tables, Thread,
};
use crate::import::dhat::file_and_line;
use crate::import::json::{Index, Number, Text};

/// The profile of one process.
#[derive(Deserialize)]
pub(super) struct Gecko<'a> {
    #[serde(borrow)]
    meta: Meta<'a>,
    #[serde(borrow, default)]
    libs: Vec<GeckoLib<'a>>,
    #[serde(borrow, default)]
    threads: Vec<GeckoThread<'a>>,
    #[serde(borrow, default)]
    processes: Vec<Gecko<'a>>,
}

#[derive(Deserialize)]
struct GeckoLib<'a> {
    start: Number,
    end: Number,
    #[serde(borrow, flatten)]
    lib: Lib<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeckoThread<'a> {
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(borrow)]
    process_name: Option<Text<'a>>,
    #[serde(borrow)]
    pid: Option<&'a RawValue>,
    #[serde(borrow)]
    tid: Option<&'a RawValue>,
    register_time: Option<Number>,
    unregister_time: Option<Number>,
    #[serde(borrow, default)]
    string_table: Vec<Text<'a>>,
    #[serde(default)]
    samples: Table,
    #[serde(default)]
    stack_table: Table,
    #[serde(default)]
    frame_table: Table,
    #[serde(default)]
    markers: Table,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Table {
    schema: FxHashMap<String, usize>,
    data: Vec<Vec<Value>>,
}

impl Table {
    /// A column of row numbers.
    fn rows(&self, name: &str) -> Vec<Index> {
        self.column(name, |value| Index(value.as_u64().and_then(|row| u32::try_from(row).ok())))
    }

    /// A column of numbers.
    fn numbers(&self, name: &str) -> Vec<Number> {
        self.column(name, |value| Number(value.as_f64().unwrap_or(0.0)))
    }

    fn column<T>(&self, name: &str, read: impl Fn(&Value) -> T) -> Vec<T> {
        let Some(&column) = self.schema.get(name) else { return Vec::new() };
        self.data.iter().map(|row| read(row.get(column).unwrap_or(&Value::Null))).collect()
    }
}

impl<'a> Gecko<'a> {
    /// The same as a processed profile.
    pub(super) fn processed(self) -> File<'a> {
        let mut file = File {
            meta: Meta { preprocessed_profile_version: Some(0), ..self.meta },
            libs: Vec::new(),
            shared: Tables::default(),
            threads: Vec::new(),
            counters: None,
        };
        let start = file.meta.start_time.0;
        let mut left = vec![(self.libs, self.threads, self.processes, 0.0)];
        while let Some((libs, threads, processes, late)) = left.pop() {
            let first = file.libs.len() as u32;
            let ranges: Vec<(f64, f64)> = libs.iter().map(|lib| (lib.start.0, lib.end.0)).collect();
            file.libs.extend(libs.into_iter().map(|lib| lib.lib));
            file.threads.extend(threads.into_iter().map(|thread| thread.processed(&ranges, first, late)));
            for process in processes.into_iter().rev() {
                let late = process.meta.start_time.0 - start;
                left.push((process.libs, process.threads, process.processes, late));
            }
        }
        file
    }
}

impl<'a> GeckoThread<'a> {
    /// The same, with the process's libraries at these addresses (rows from `first` on), for a process that
    /// started some milliseconds late.
    fn processed(self, libs: &[(f64, f64)], first: u32, late: f64) -> Thread<'a> {
        let mut texts = self.string_table;
        let mut frames = FrameTable::default();
        let mut funcs = FuncTable::default();
        let mut known: FxHashMap<u32, u32> = FxHashMap::default();
        let lines = self.frame_table.rows("line");
        for (row, location) in self.frame_table.rows("location").into_iter().enumerate() {
            let text = location.of(&texts).map_or("", Text::as_str).to_owned();
            let address = text.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
            let lib =
                address.and_then(|at| libs.iter().position(|&(from, to)| (from..to).contains(&(at as f64))));
            let relative = match (address, lib) {
                (Some(address), Some(lib)) => address as f64 - libs[lib].0,
                (Some(address), None) => address as f64,
                (None, _) => -1.0,
            };
            frames.address.push(Number(relative));
            frames.inline_depth.push(Index(Some(0)));
            frames.lib.push(Index(lib.map(|lib| first + lib as u32)));
            frames.line.push(lines.get(row).copied().unwrap_or_default());
            let func = *known.entry(location.0.unwrap_or(u32::MAX)).or_insert_with(|| {
                let (name, file, line) = name_and_place(&text);
                let mut id = |text: &str| {
                    texts.push(Text(text.to_owned().into()));
                    Index(Some(texts.len() as u32 - 1))
                };
                funcs.name.push(id(name));
                funcs.file_name.push(file.map_or(Index(None), &mut id));
                funcs.line_number.push(Index(Some(line).filter(|line| *line > 0)));
                funcs.name.len() as u32 - 1
            });
            frames.func.push(Index(Some(func)));
        }
        let later = |time: &Number| Number(time.0 + late);
        let cpu = self.samples.numbers("threadCPUDelta");
        // Older versions have instants only.
        let starts = match self.markers.numbers("startTime") {
            starts if starts.is_empty() => self.markers.numbers("time"),
            starts => starts,
        };
        Thread {
            is_main_thread: self.name.as_str() == "GeckoMain",
            name: self.name,
            process_name: self.process_name,
            pid: self.pid,
            tid: self.tid,
            process_startup_time: None,
            process_shutdown_time: None,
            register_time: self.register_time.as_ref().map(later),
            unregister_time: self.unregister_time.as_ref().map(later),
            samples: SampleTable {
                stack: self.samples.rows("stack"),
                time: Some(self.samples.numbers("time").iter().map(later).collect()),
                time_deltas: None,
                weight: None,
                weight_type: None,
                thread_cpu_delta: (!cpu.is_empty()).then_some(cpu),
            },
            native_allocations: None,
            markers: Some(MarkerTable {
                name: self.markers.rows("name"),
                start_time: starts.iter().map(later).collect(),
                end_time: self.markers.numbers("endTime").iter().map(later).collect(),
                phase: self.markers.rows("phase"),
                data: Vec::new(),
            }),
            string_array: Some(texts),
            stack_table: Some(StackTable {
                frame: self.stack_table.rows("frame"),
                prefix: self.stack_table.rows("prefix"),
                prefix_offset: Vec::new(),
            }),
            frame_table: Some(frames),
            func_table: Some(funcs),
            resource_table: None,
            native_symbols: None,
            libs: None,
        }
    }
}

/// `render (https://site/app.js:12:3)`: the name, the file, and the line of the function.
fn name_and_place(text: &str) -> (&str, Option<&str>, u32) {
    let place = text.strip_suffix(')').and_then(|text| text.rsplit_once(" ("));
    match place.map(|(name, place)| (name, file_and_line(place))) {
        Some((name, (file, line))) if line > 0 => (name, file, line),
        _ => (text, None, 0),
    }
}

#[cfg(test)]
mod tests {
    use crate::import::{Format, ImportOptions, import_bytes};

    const RAW: &str = r#"{"meta":{"version":24,"interval":2,"startTime":1000,"stackwalk":1,"product":"Firefox"},
        "libs":[{"start":4096,"end":8192,"offset":0,"name":"libx.so","path":"/usr/lib/libx.so","breakpadId":"A0"}],
        "threads":[{"name":"GeckoMain","processType":"default","tid":11,"pid":10,"registerTime":0,
            "stringTable":["(root)","0x1010","run (https://site/app.js:12:3)"],
            "frameTable":{"schema":{"location":0,"line":1},"data":[[0],[1],[2,14]]},
            "stackTable":{"schema":{"prefix":0,"frame":1},"data":[[null,0],[0,2],[1,1]]},
            "samples":{"schema":{"stack":0,"time":1},"data":[[2,10.5],[1,12.5],[null,14]]},
            "markers":{"schema":{"name":0,"startTime":1,"endTime":2,"phase":3},"data":[[2,10,11,1]]}}],
        "processes":[{"meta":{"version":24,"interval":2,"startTime":1100},"libs":[],
            "threads":[{"name":"Web","tid":21,"pid":20,"stringTable":["idle"],
                "frameTable":{"schema":{"location":0},"data":[[0]]},
                "stackTable":{"schema":{"prefix":0,"frame":1},"data":[[null,0]]},
                "samples":{"schema":{"stack":0,"time":1},"data":[[0,1]]}}]}]}"#;

    #[test]
    fn a_profile_within_a_devtools_recording_is_read() {
        let markers = r#"{"name":"Styles","start":1,"end":2},"#.repeat(3000);
        let text = format!(
            r#"{{"label":"one","duration":900.5,"markers":[{markers}null],"profile":{RAW},"fileType":"Recorded Performance Data"}}"#
        );
        let (format, wrapped) =
            import_bytes(text.as_bytes(), None, &ImportOptions::default()).expect("it is a recording");
        assert_eq!(format, Format::Firefox);
        let plain = import_bytes(RAW.as_bytes(), None, &ImportOptions::default()).expect("it is raw").1;
        assert_eq!(wrapped.profile.samples, plain.profile.samples);
        assert_eq!(wrapped.profile.threads, plain.profile.threads);
    }

    #[test]
    fn a_gecko_profile_is_read() {
        let (format, imported) =
            import_bytes(RAW.as_bytes(), None, &ImportOptions::default()).expect("it is raw");
        assert_eq!(format, Format::Firefox);
        let profile = &imported.profile;
        let threads: Vec<&str> = profile.threads.iter().map(|thread| profile.text(thread.name)).collect();
        assert_eq!(threads, ["GeckoMain", "Web"]);
        assert_eq!(profile.processes.len(), 2);
        let samples = &profile.samples[0];
        // The second process started 100 ms after the first.
        assert_eq!(samples.time_ns.len(), 3);
        assert_eq!(samples.time_ns[2] - samples.time_ns[0], 90_500_000);
        assert_eq!(samples.value, [2_000_000; 3]);
        let leaf = profile.stacks.location(samples.stack[0]);
        assert_eq!(profile.locations.address[leaf.index()].0, 0x10);
        assert!(profile.frames.of(leaf).is_empty(), "an address waits for its name");
        let outer = profile.frames.of(profile.stacks.location(samples.stack[1]))[0];
        let function = &profile.functions[outer.function.index()];
        assert_eq!((profile.text(function.name), outer.line), ("run", 14));
        assert_eq!(profile.text(function.file.expect("a file")), "https://site/app.js");
        assert_eq!(imported.left_out, 1);
        assert_eq!(profile.spans.len(), 1);
    }

    #[test]
    fn a_version_that_is_too_old_is_named() {
        let text = r#"{"meta":{"version":3,"interval":1,"stackwalk":1},"libs":"[]","threads":[]}"#;
        let error = import_bytes(text.as_bytes(), None, &ImportOptions::default()).expect_err("too old");
        assert!(error.to_string().contains("its version, 3, is from before 2017"), "{error}");
        let processed = r#"{"meta":{"version":3,"interval":1,"stackwalk":1},"threads":[{"samples":{"stack":[0]},"libs":{}}]}"#;
        let error = import_bytes(processed.as_bytes(), None, &ImportOptions::default()).expect_err("too old");
        assert!(error.to_string().contains("its version, 3, is from before 2017"), "{error}");
        let broken = text.replace("\"version\":3", "\"version\":4");
        let error = import_bytes(broken.as_bytes(), None, &ImportOptions::default()).expect_err("broken");
        assert!(error.to_string().contains("invalid type"), "{error}");
    }

    #[test]
    fn measures_of_a_saved_dhat_profile_are_not_added_up() {
        let thread = |name: &str, bytes: u32| {
            format!(
                r#"{{"name":"{name}","pid":1,"tid":1,"stringArray":["f"],
                "samples":{{"stack":[0],"time":[0],"weight":[{bytes}],"weightType":"bytes"}},
                "stackTable":{{"frame":[0],"prefix":[null]}},"frameTable":{{"address":[-1],"func":[0]}},
                "funcTable":{{"name":[0],"resource":[-1]}},"resourceTable":{{"lib":[],"name":[]}}}}"#
            )
        };
        let text = format!(
            r#"{{"meta":{{"preprocessedProfileVersion":30,"interval":1,"importedFrom":"DHAT"}},"threads":[{},{}]}}"#,
            thread("Total Bytes", 70),
            thread("Bytes at End", 3)
        );
        let (_, imported) =
            import_bytes(text.as_bytes(), None, &ImportOptions::default()).expect("it is DHAT");
        let profile = &imported.profile;
        let metrics: Vec<&str> = profile.metrics.iter().map(|metric| profile.text(metric.name)).collect();
        let sums: Vec<u64> = profile.samples.iter().map(|samples| samples.value.iter().sum()).collect();
        assert_eq!((metrics, sums), (vec!["total-bytes", "bytes-at-end"], vec![70, 3]));
    }

    #[test]
    fn threads_of_old_versions_have_their_own_libraries() {
        let text = r#"{"meta":{"preprocessedProfileVersion":30,"interval":1},"threads":[{"name":"t","pid":1,"tid":1,
            "libs":[{"name":"libx.so","path":"/usr/lib/libx.so"}],"stringArray":["0x10","libx.so"],
            "samples":{"stack":[0],"time":[5]},"stackTable":{"frame":[0],"prefix":[null]},
            "frameTable":{"address":[16],"func":[0]},"funcTable":{"name":[0],"resource":[0]},
            "resourceTable":{"lib":[0],"name":[1]}}]}"#;
        let (_, imported) =
            import_bytes(text.as_bytes(), None, &ImportOptions::default()).expect("it is old");
        let profile = &imported.profile;
        let leaf = profile.stacks.location(profile.samples[0].stack[0]);
        let module = profile.locations.module[leaf.index()].expect("a module");
        assert_eq!(profile.text(profile.modules[module.index()].path), "/usr/lib/libx.so");
    }
}
