//! Flame graphs: always well-formed, complete without scripts, and true to the tree.

use quick_xml::Reader;
use quick_xml::events::Event;
use whyslow_analyze::diff::{Paths, Runs, Side};
use whyslow_analyze::{CallTree, Label, Outline, Selection, TimeSplit, TreeOptions, testing};
use whyslow_profile::{CodeKind, Function, FunctionId, Profile};
use whyslow_render::flame::{FlameOptions, diff_svg, folded_svg, svg};

/// An element with its attributes and the text directly inside it.
#[derive(Debug, Default, Clone)]
struct Element {
    tag: String,
    attributes: Vec<(String, String)>,
    text: String,
}

impl Element {
    fn get(&self, key: &str) -> &str {
        self.attributes.iter().find(|(name, _)| name == key).map_or("", |(_, value)| value)
    }
}

/// Parses strictly; panics if the document is not well-formed or holds a character that XML forbids.
fn elements(xml: &str) -> Vec<Element> {
    for c in xml.chars() {
        let legal =
            matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
        assert!(legal, "{c:?} is not allowed in XML");
    }
    let mut reader = Reader::from_str(xml);
    let config = reader.config_mut();
    config.check_end_names = true;
    config.expand_empty_elements = true;
    let mut done = Vec::new();
    let mut open: Vec<Element> = Vec::new();
    loop {
        match reader.read_event().expect("well-formed XML") {
            Event::Start(start) => {
                let attributes = start.attributes().map(|attribute| {
                    let attribute = attribute.expect("a well-formed attribute");
                    let key = String::from_utf8(attribute.key.as_ref().to_vec()).expect("UTF-8");
                    let value = String::from_utf8(attribute.value.to_vec()).expect("UTF-8");
                    assert!(!value.contains('<'));
                    (key, value)
                });
                open.push(Element {
                    tag: String::from_utf8(start.name().as_ref().to_vec()).expect("UTF-8"),
                    attributes: attributes.collect(),
                    text: String::new(),
                });
            }
            Event::End(_) => done.push(open.pop().expect("an open element")),
            Event::Text(text) => {
                let text = text.decode().expect("UTF-8");
                if let Some(element) = open.last_mut() {
                    element.text.push_str(&text);
                }
            }
            Event::GeneralRef(entity) => {
                let c = match entity.decode().expect("UTF-8").as_ref() {
                    "lt" => '<',
                    "gt" => '>',
                    "amp" => '&',
                    "quot" => '"',
                    other => panic!("entity {other}"),
                };
                open.last_mut().expect("an open element").text.push(c);
            }
            Event::CData(data) => {
                let text = data.decode().expect("UTF-8");
                open.last_mut().expect("an open element").text.push_str(&text);
            }
            Event::Eof => break,
            other => panic!("unexpected {other:?}"),
        }
    }
    assert!(open.is_empty());
    done
}

fn drawn(folded: &str, options: &FlameOptions) -> String {
    let profile = testing::profile(folded);
    svg(&CallTree::build(&profile, &Selection::default(), &TreeOptions::default()), &profile, options)
}

/// A tree of one level with these names, all with the same value.
fn named(names: &[&str]) -> (CallTree, Profile) {
    let mut profile = Profile::default();
    let mut tree = CallTree {
        parent: vec![0],
        label: vec![Label::Root],
        inlined: vec![false],
        self_value: vec![0],
        total_value: vec![1000 * names.len() as u64],
    };
    for name in names {
        let name = profile.strings.push(name);
        profile.functions.push(Function {
            name,
            raw_name: name,
            crate_name: Some(name),
            kind: CodeKind::Yours,
            file: None,
            line: 0,
            module: None,
        });
        tree.parent.push(0);
        tree.label.push(Label::Function(FunctionId::from(profile.functions.len() - 1)));
        tree.inlined.push(false);
        tree.self_value.push(1000);
        tree.total_value.push(1000);
    }
    (tree, profile)
}

const PROGRAM: &str = "
    _start;std::rt::lang_start;app::main;app::parse;+core::str::split 30
    _start;std::rt::lang_start;app::main;app::parse;malloc 10
    _start;std::rt::lang_start;app::main;dep::json::Value<T>::read;sys_read 15
    _start;std::rt::lang_start;app::main;[libfoo.so] 5
    [truncated];app::parse 2
    [unknown] 1";

#[test]
fn a_small_tree() {
    let options = FlameOptions {
        title: "app <in>".to_owned(),
        subtitle: "63 ms of CPU time".to_owned(),
        ..FlameOptions::default()
    };
    let picture = drawn(PROGRAM, &options);
    elements(&picture);
    // Style and script have their own files.
    let (before, rest) = picture.split_once("<style>").expect("a style");
    let (_, rest) = rest.split_once("</style>").expect("an end of the style");
    let (rest, _) = rest.split_once("<script><![CDATA[").expect("a script");
    insta::assert_snapshot!(format!("{before}{rest}"));
}

#[test]
fn hostile_names_are_text() {
    let long = "n".repeat(100_000);
    let names = [
        "<script>alert(1)</script>",
        "]]></script><svg onload=\"alert(2)\">",
        "a\"b'c&d&#0;&lt;",
        "\0\u{1}\u{8}\u{b}\u{1b}\u{7f}\u{85}\r\n\t",
        "\u{202e}gpj.exe\u{2066}\u{200b}\u{feff}",
        "\u{fffe}\u{ffff}\u{1fffe}\u{10ffff}",
        "<![CDATA[ ]]>",
        "<!-- -- -->",
        long.as_str(),
        "",
    ];
    let (tree, profile) = named(&names);
    for name in names {
        let options = FlameOptions {
            title: name.to_owned(),
            subtitle: name.to_owned(),
            width: 4000,
            ..FlameOptions::default()
        };
        let picture = svg(&tree, &profile, &options);
        let elements = elements(&picture);
        let count = |tag: &str| elements.iter().filter(|element| element.tag == tag).count();
        assert_eq!((count("svg"), count("script"), count("style")), (1, 2, 1), "{name:?}");
        assert!(elements.iter().any(|e| e.tag == "text" && e.text == "<script>alert(1)</script>"));
        assert!(elements.iter().any(|e| e.tag == "text" && e.text.starts_with("\\u{202e}gpj.exe\\u{2066}")));
        assert!(picture.len() < 60_000, "a long name must not blow up the file: {}", picture.len());
        let data = elements.iter().find(|element| element.get("id") == "data").expect("the data");
        let data: serde_json::Value = serde_json::from_str(&data.text).expect("valid JSON");
        let shown = data["functions"].as_array().expect("functions").len();
        assert_eq!(shown, names.len() + 1);
        assert!(data["functions"].to_string().contains("<script>alert(1)</script>"));
    }
}

/// Every drawn line as row, left and right edge.
fn lines(picture: &str) -> Vec<(i64, f64, f64)> {
    let elements = elements(picture);
    let paths =
        elements.iter().filter(|e| e.tag == "path" && e.get("class").len() == 2 && e.get("id").is_empty());
    let number = |text: &str| text.parse::<f64>().expect("a number");
    let mut found = Vec::new();
    for line in paths.flat_map(|path| path.get("d").split('M').skip(1)) {
        let (x, rest) = line.split_once(' ').expect("x and y");
        let (y, width) = rest.split_once('h').expect("y and width");
        found.push((y.parse().expect("a row"), number(x), number(x) + number(width)));
    }
    found
}

#[test]
fn frames_lie_on_their_callers_and_never_on_each_other() {
    for inverted in [false, true] {
        let mut lines = lines(&drawn(PROGRAM, &FlameOptions { inverted, ..FlameOptions::default() }));
        assert_eq!(lines.len(), 13);
        lines.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
        for pair in lines.windows(2) {
            assert!(pair[0].0 != pair[1].0 || pair[0].2 <= pair[1].1, "{pair:?} overlap");
        }
        let root = if inverted { lines.first() } else { lines.last() }.expect("a root").0;
        for &(y, left, right) in lines.iter().filter(|line| line.0 != root) {
            let below = if inverted { y - 18 } else { y + 18 };
            let lies = |&&(row, l, r): &&(i64, f64, f64)| row == below && l <= left && right <= r + 0.6;
            assert_eq!(lines.iter().filter(lies).count(), 1, "{y} {left} {right}");
        }
    }
}

#[test]
fn frames_too_narrow_to_draw_are_counted() {
    let options = FlameOptions { min_width_px: 100.0, ..FlameOptions::default() };
    let picture = drawn("main;a 990\nmain;b;c;d 6\nmain;e 4", &options);
    assert!(picture.contains("4 frames narrower than 100 px (1.0 % of the total) are left out."));
    assert_eq!(lines(&picture).len(), 3);
    let all = FlameOptions { min_width_px: 0.0, ..FlameOptions::default() };
    assert!(!drawn("main;a 990\nmain;b;c;d 6\nmain;e 4", &all).contains("left out"));
}

#[test]
fn labels_fit_their_frames() {
    let picture =
        drawn("app::some::very::long::path::Type<T>::method 50\nx 50\nmain 900", &FlameOptions::default());
    let labels: Vec<String> = elements(&picture)
        .into_iter()
        .filter(|e| e.tag == "text" && e.attributes.len() == 2)
        .map(|e| e.text)
        .collect();
    assert_eq!(labels[..4], ["all", "main", "method", "x"], "{labels:?}");
}

#[test]
fn stacks_of_ten_thousand_frames_do_not_overflow_our_stack() {
    let draw = || {
        let depth = 10_000;
        let (mut tree, profile) = named(&["recurse"]);
        for node in 1..depth {
            tree.parent.push(node);
            tree.label.push(tree.label[1]);
            tree.inlined.push(node % 2 == 0);
            tree.self_value.push(0);
            tree.total_value.push(1000);
        }
        tree.self_value = vec![0; tree.len()];
        tree.self_value[depth as usize] = 1000;
        let picture = svg(&tree, &profile, &FlameOptions::default());
        elements(&picture);
        assert_eq!(lines(&picture).len(), 300);
        assert!(picture.contains("300 of 10001 rows are drawn"));
        assert!(picture.len() < 200_000);
    };
    std::thread::Builder::new()
        .stack_size(128 << 10)
        .spawn(draw)
        .expect("a thread")
        .join()
        .expect("no overflow");
}

#[test]
fn an_empty_tree_draws_nothing() {
    let picture = drawn("", &FlameOptions::default());
    elements(&picture);
    assert!(picture.contains("There are no samples."));
}

#[test]
fn nothing_is_loaded_from_elsewhere() {
    let picture = drawn(PROGRAM, &FlameOptions::default());
    let outside =
        picture.replace("http://www.w3.org/2000/svg", "").replace("http://www.w3.org/1999/xhtml", "");
    assert!(!outside.contains("http") && !outside.contains("url(") && !outside.contains("@import"));
}

#[test]
fn trees_of_callers_count_kinds_at_the_leaves() {
    let profile = testing::profile("main;malloc 25\nmain 75");
    let options = TreeOptions { inverted: true, ..TreeOptions::default() };
    let tree = CallTree::build(&profile, &Selection::default(), &options);
    let picture = svg(&tree, &profile, &FlameOptions { callers: true, ..FlameOptions::default() });
    assert!(picture.contains("your code 75.0 %") && picture.contains("allocator 25.0 %"));
}

#[test]
fn known_kinds_of_time_determine_the_colours() {
    let profile = testing::profile("main;a 75\nmain;b 25");
    let tree = CallTree::build(&profile, &Selection::default(), &TreeOptions::default());
    let total = tree.total_value.clone();
    // Half of `a` waits for I/O; everything else runs.
    let a =
        (0..tree.len()).find(|node| CallTree::name(&profile, tree.label[*node]) == "a").expect("it is there");
    let waits = |node: usize| if total[node] >= total[a] { total[a] / 2 } else { 0 };
    let of_node = (0..tree.len()).map(|node| [total[node] - waits(node), 0, 0, waits(node), 0, 0]).collect();
    let options = FlameOptions { times: Some(TimeSplit { of_node }), ..FlameOptions::default() };
    let picture = svg(&tree, &profile, &options);
    assert!(picture.contains(">running ") && picture.contains(", 62.5 %<") && picture.contains(", 37.5 %<"));
    assert!(picture.contains(">blocked: I/O ") && !picture.contains(">your code"));
    let elements = elements(&picture);
    let path = |class: &str| {
        let is = |element: &&Element| element.tag == "path" && element.get("class") == class;
        elements.iter().find(is).map(|element| element.get("d").matches('M').count())
    };
    // The root, main and a are split; b runs.
    assert_eq!([path("k8"), path("k11"), path("k0")], [Some(4), Some(3), Some(0)]);
    let plain = svg(&tree, &profile, &FlameOptions::default());
    assert!(!plain.contains("\"times\"") && !plain.contains("class=\"k8\""), "nothing changes without them");
}

#[test]
fn changes_determine_the_colours_and_removed_paths_keep_their_place() {
    let before = testing::profile("main;a;old 300\nmain;b 400\nmain;c 200");
    let after = testing::profile("main;a;new 100\nmain;b 410\nmain;c 280");
    let selection = Selection::default();
    let runs = |profile| Runs::new(vec![Side { profile, selection: &selection }]);
    let paths = Paths::of_runs(&runs(&before), &runs(&after), true);
    let picture = diff_svg(&paths, &FlameOptions::default());
    let elements = elements(&picture);
    let lines = |class: &str| {
        let is = |element: &&Element| element.tag == "path" && element.get("class") == class;
        elements.iter().find(is).map(|element| element.get("d").matches('M').count())
    };
    // old and a are less than half, the root and main less, c is more, new is new; b is grey.
    assert_eq!(["k14", "k15", "k16", "k17", "k18"].map(lines), [2, 2, 1, 1, 1].map(Some));
    for word in ["half or less, removed", "within noise", "more", "twice or more, new"] {
        assert!(picture.contains(&format!(">{word}</text>")), "{word}");
    }
    assert!(!picture.contains(">your code") && picture.contains("\"verdicts\":[\"undecided\",\"less\""));
    // As wide as the larger side: 300 + 100 + 410 + 280 samples.
    let number = |text: &str| u64::from_str_radix(text, 36).expect("a number");
    let data = &elements.iter().find(|element| element.get("id") == "data").expect("the data").text;
    let of =
        |key: &str| data.split_once(key).and_then(|(_, rest)| rest.split_once('"')).expect("it is there").0;
    let root = of("\"frames\":\"").split(';').next().and_then(|frame| frame.split(',').nth(2)).map(number);
    assert_eq!(root, Some(1090 * testing::SAMPLE_NS));
    let root = of("\"changes\":\"").split(';').next().expect("the root").split(',').take(2).map(number);
    assert_eq!(root.collect::<Vec<_>>(), [900, 790].map(|samples| samples * testing::SAMPLE_NS));
    let plain = drawn("main;a 1", &FlameOptions::default());
    assert!(
        !plain.contains("\"changes\"") && !plain.contains("class=\"k14\""),
        "nothing changes without them"
    );
}

#[test]
fn a_folded_picture_also_holds_the_unfolded_tree() {
    let start = "clone3;start_thread;std::thread::lifecycle::spawn;__rust_try";
    let profile = testing::profile(&format!(
        "{start};rayon_core::join::join;rayon::iter::left;app::work;app::work;app::work 60
         {start};rayon_core::job::execute;rayon::iter::right;app::work 40"
    ));
    let weights = Selection::default().weigh(&profile);
    let whole = CallTree::from_weights(&profile, &weights, &TreeOptions::default());
    let outline = Outline::folded(&profile, &weights, &TreeOptions::default());
    let picture = folded_svg(&outline, &whole, &profile, &FlameOptions::default());
    let elements = elements(&picture);
    let labels = elements.iter().filter(|element| element.tag == "text" && !element.get("y").is_empty());
    let labels = labels.map(|element| element.text.as_str()).collect::<Vec<_>>();
    assert!(labels.contains(&"[thread start, rayon: 6 frames]"), "{labels:?}");
    assert!(labels.contains(&"app::work (×3)") && !labels.contains(&"clone3"), "{labels:?}");
    let data = &elements.iter().find(|element| element.get("id") == "data").expect("the data").text;
    assert!(
        data.contains("\"whole\":\"") && data.contains("\"wholeRows\":10") && data.contains("\"clone3\""),
        "{data}"
    );
    // Folding does not change the kinds of code.
    let legend = elements.iter().filter(|element| element.text.starts_with("runtime")).count();
    assert_eq!(legend, 1, "{picture}");

    let plain = testing::profile("app::main;app::work 5");
    let weights = Selection::default().weigh(&plain);
    let whole = CallTree::from_weights(&plain, &weights, &TreeOptions::default());
    let outline = Outline::folded(&plain, &weights, &TreeOptions::default());
    let options = FlameOptions::default();
    assert_eq!(folded_svg(&outline, &whole, &plain, &options), svg(&whole, &plain, &options));
}

#[test]
fn very_long_names_are_shortened_like_others_and_are_whole_in_the_data() {
    let long = format!("app::Map<{}>::insert(int)", vec!["std::pair<int, long>"; 200].join(", "));
    let (tree, profile) = named(&[&long]);
    let picture = svg(&tree, &profile, &FlameOptions::default());
    assert!(picture.contains(">Map::insert<"), "the label");
    assert!(picture.contains("::insert(int)\""), "the searched name has its end");
}

#[test]
fn regular_expressions_of_the_search_run_in_bounded_time() {
    let picture = drawn("main;a 1", &FlameOptions::default());
    assert!(picture.contains("whyslowRegex.Pattern(text)") && picture.contains("var whyslowRegex"));
    assert!(!picture.contains("new RegExp("), "it backtracks");
}

#[test]
fn the_legend_of_inlined_frames_has_no_colour_of_a_change() {
    let (before, after) = (testing::profile("main;+a 300"), testing::profile("main;+a 400"));
    let selection = Selection::default();
    let runs = |profile| Runs::new(vec![Side { profile, selection: &selection }]);
    let paths = Paths::of_runs(&runs(&before), &runs(&after), true);
    let picture = diff_svg(&paths, &FlameOptions::default());
    let legend = picture.split("id=\"legend\"").nth(1).and_then(|rest| rest.split(">inlined<").next());
    let swatch = legend.and_then(|text| text.rsplit("<path class=\"k").next()).expect("the legend");
    assert!(swatch.starts_with("16 swatch"), "{swatch}");
}
