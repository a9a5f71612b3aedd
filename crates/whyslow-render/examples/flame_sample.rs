//! Writes a flame graph of an invented program with every kind of code, for the eye and for the browser
//! tests: `cargo run -p whyslow-render --example flame_sample -- FILE
//! [flame|icicle|deep|hostile|large|waits]`.

use std::collections::HashMap;
use std::time::Instant;

use whyslow_analyze::{CallTree, Label, TimeKind, TimeSplit};
use whyslow_profile::{CodeKind, Function, FunctionId, Profile};
use whyslow_render::flame::{FlameOptions, svg};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().expect("the file to write");
    let shape = arguments.next().unwrap_or_else(|| "flame".to_owned());
    let mut builder = Builder::default();
    match shape.as_str() {
        "deep" => builder.deep(10_000),
        "hostile" => builder.hostile(),
        "large" => builder.program(20_000),
        _ => builder.program(2_000),
    }
    let (tree, profile) = builder.finish();
    let options = FlameOptions {
        title: "rg --threads 4 'whyslow' /usr/src".to_owned(),
        subtitle: "12.4 s of CPU time in 12,391 samples on 4 threads; 99.8 % of stacks complete".to_owned(),
        inverted: shape == "icicle",
        times: (shape == "waits").then(|| kinds_of_time(&tree)),
        min_width_px: if shape == "large" { 0.0 } else { FlameOptions::default().min_width_px },
        ..FlameOptions::default()
    };
    let begun = Instant::now();
    let picture = svg(&tree, &profile, &options);
    eprintln!(
        "{} nodes, {} bytes, {:.1} bytes per node, {:.2} ms",
        tree.len(),
        picture.len(),
        picture.len() as f64 / tree.len() as f64,
        begun.elapsed().as_secs_f64() * 1e3
    );
    std::fs::write(&file, picture).expect("the picture is written");
}

/// Gives the self values of the nodes to the kinds of time in turn.
fn kinds_of_time(tree: &CallTree) -> TimeSplit {
    let mut of_node = vec![[0; TimeKind::ALL.len()]; tree.len()];
    for node in (0..tree.len()).rev() {
        of_node[node][node % TimeKind::ALL.len()] += tree.self_value[node];
        let (of, parent) = (of_node[node], tree.parent[node] as usize);
        if node > 0 {
            of_node[parent].iter_mut().zip(of).for_each(|(sum, part): (&mut u64, u64)| *sum += part);
        }
    }
    TimeSplit { of_node }
}

/// Names and kinds of the functions; `+` marks those that are usually inlined.
const FUNCTIONS: &[(&str, CodeKind)] = &[
    ("ripgrep::search::SearchWorker<W>::search", CodeKind::Yours),
    ("ripgrep::main::{{closure}}", CodeKind::Yours),
    ("+ripgrep::haystack::HaystackBuilder::build_from_result", CodeKind::Yours),
    ("ripgrep::flags::hiargs::HiArgs::matcher", CodeKind::Yours),
    ("grep_searcher::searcher::glue::MultiLine<M,S>::run", CodeKind::Dependency),
    ("grep_searcher::line_buffer::LineBuffer::fill", CodeKind::Dependency),
    ("ignore::walk::Worker::run_one", CodeKind::Dependency),
    ("ignore::gitignore::Gitignore::matched_stripped", CodeKind::Dependency),
    ("+regex_automata::util::search::Input::set_span", CodeKind::Dependency),
    ("regex_automata::hybrid::search::find_fwd", CodeKind::Dependency),
    ("+memchr::arch::x86_64::avx2::memchr::One::find_raw", CodeKind::Dependency),
    ("crossbeam_deque::deque::Stealer<T>::steal_batch_and_pop", CodeKind::Dependency),
    ("<alloc::vec::Vec<T,A> as core::ops::drop::Drop>::drop", CodeKind::Std),
    ("+core::iter::adapters::map::Map<I,F>::fold", CodeKind::Std),
    ("+alloc::collections::btree::map::BTreeMap<K,V,A>::insert", CodeKind::Std),
    ("std::io::Write::write_all", CodeKind::Std),
    ("+core::ops::function::FnOnce::call_once", CodeKind::Std),
    ("<std::path::Components as core::iter::traits::iterator::Iterator>::next", CodeKind::Std),
    ("malloc", CodeKind::Allocator),
    ("free", CodeKind::Allocator),
    ("realloc", CodeKind::Allocator),
    ("entry_SYSCALL_64_after_hwframe", CodeKind::Kernel),
    ("do_syscall_64", CodeKind::Kernel),
    ("vfs_read", CodeKind::Kernel),
    ("__x64_sys_getdents64", CodeKind::Kernel),
    ("filemap_read", CodeKind::Kernel),
    ("__memmove_avx_unaligned_erms", CodeKind::Runtime),
    ("[libunknown.so.1]", CodeKind::Unknown),
];

struct Builder {
    profile: Profile,
    ids: HashMap<String, FunctionId>,
    tree: CallTree,
    random: u64,
}

impl Default for Builder {
    fn default() -> Self {
        let tree = CallTree {
            parent: vec![0],
            label: vec![Label::Root],
            inlined: vec![false],
            self_value: vec![0],
            total_value: vec![12_391_000_000],
        };
        Self { profile: Profile::default(), ids: HashMap::new(), tree, random: 7 }
    }
}

impl Builder {
    fn random(&mut self, below: u64) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below
    }

    fn child(&mut self, parent: usize, name: &str, kind: CodeKind, inlined: bool, total: u64) -> usize {
        let id = match self.ids.get(name) {
            Some(&id) => id,
            None => {
                let strings = &mut self.profile.strings;
                let (name_id, crate_name) =
                    (strings.push(name), name.trim_start_matches('<').split_once("::"));
                let crate_name = crate_name.map(|(first, _)| strings.push(first));
                let id = FunctionId::from(self.profile.functions.len());
                let (raw_name, file, module) = (name_id, None, None);
                self.profile.functions.push(Function {
                    name: name_id,
                    raw_name,
                    crate_name,
                    kind,
                    file,
                    line: 0,
                    module,
                });
                self.ids.insert(name.to_owned(), id);
                id
            }
        };
        self.tree.parent.push(parent as u32);
        self.tree.label.push(Label::Function(id));
        self.tree.inlined.push(inlined);
        self.tree.self_value.push(0);
        self.tree.total_value.push(total);
        self.tree.len() - 1
    }

    /// Builds a program in which each frame splits its time at random among its callees.
    fn program(&mut self, nodes: usize) {
        let total = self.tree.total_value[0];
        let mut at = 0;
        for (name, kind) in [
            ("_start", CodeKind::Runtime),
            ("__libc_start_main", CodeKind::Runtime),
            ("std::rt::lang_start::{{closure}}", CodeKind::Std),
            ("ripgrep::main", CodeKind::Yours),
        ] {
            at = self.child(at, name, kind, false, total / 100 * 97);
        }
        let mut open = std::collections::VecDeque::from([at]);
        // A recursion that gets narrower with each step.
        let mut deeper = at;
        for step in 0..24 {
            let value = self.tree.total_value[at] / 4 / (step / 3 + 1);
            deeper = self.child(deeper, "ripgrep::parse::Node::visit", CodeKind::Yours, false, value);
        }
        open.push_back(deeper);
        while let Some(parent) = open.pop_front() {
            let mut left = self.tree.total_value[parent];
            if parent == at {
                left -= left / 4;
            }
            left = left * (96 + self.random(5)) / 100;
            let children = if parent == at { 5 } else { 1 + self.random(4) };
            for child in 0..children {
                if self.tree.len() >= nodes {
                    return;
                }
                let value = if child + 1 == children { left } else { left * (30 + self.random(55)) / 100 };
                left -= value;
                let (name, kind) = FUNCTIONS[self.random(FUNCTIONS.len() as u64) as usize];
                let node =
                    self.child(parent, name.trim_start_matches('+'), kind, name.starts_with('+'), value);
                open.push_back(node);
            }
        }
    }

    fn deep(&mut self, levels: usize) {
        let mut at = self.child(0, "deep::main", CodeKind::Yours, false, self.tree.total_value[0]);
        for level in 0..levels {
            let total = self.tree.total_value[at];
            if level % 40 == 39 {
                self.child(at, "malloc", CodeKind::Allocator, false, total / 400);
            }
            at = self.child(at, "deep::recurse", CodeKind::Yours, level % 3 == 0, total - total / 400);
        }
    }

    fn hostile(&mut self) {
        let total = self.tree.total_value[0] / 16;
        let long = "x".repeat(100_000);
        for name in [
            "<script>alert(1)</script>",
            "]]></script><svg onload=alert(2)>",
            "quotes \" ' ` ${alert(3)}",
            "control\0\u{1}\u{1b}[31m\nnew\tline",
            "right\u{202e}tfel\u{2066}",
            "&amp; &#60; &lt;",
            "\\u003c \\\" \\",
            "größe::名前::шаг🦀",
            "no\u{ffff}character\u{fffe}",
            "<!-- comment --> <?xml?> <![CDATA[x]]>",
            &long,
            "",
        ] {
            let node = self.child(0, name, CodeKind::Yours, false, total);
            self.child(node, "inside", CodeKind::Std, true, total / 2);
        }
    }

    fn finish(mut self) -> (CallTree, Profile) {
        let tree = &mut self.tree;
        tree.self_value = tree.total_value.clone();
        for node in 1..tree.len() {
            let parent = tree.parent[node] as usize;
            tree.self_value[parent] -= tree.total_value[node];
        }
        (self.tree, self.profile)
    }
}
