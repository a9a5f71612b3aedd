//! The page: one file, safe whatever the names are, and useful without scripts.

use whyslow_analyze::testing;
use whyslow_profile::Profile;
use whyslow_render::html::{Bundle, Page, served_page, served_policy, write_page, write_payload};

use crate::decoder::{Payload, blocks};
use crate::program::program;

const BUNDLE: Bundle<'static> = Bundle { script: "start()", style: "body{margin:0}" };

fn page_with(profile: &Profile, block_length: usize) -> String {
    let page = Page { bundle: BUNDLE, block_length, ..Page::new(profile, "run.whyslow") };
    let mut out = Vec::new();
    write_page(&page, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The page without its payload.
fn without_payload(page: &str) -> String {
    let tag = "class=\"payload\">";
    let (before, rest) = page.split_once(tag).unwrap();
    let (_, after) = rest.split_once("</script>").unwrap();
    format!("{before}{tag}…</script>{after}").replace(env!("CARGO_PKG_VERSION"), "VERSION")
}

#[test]
fn a_small_page() {
    insta::assert_snapshot!(without_payload(&page_with(&program(), 1 << 20)));
}

#[test]
fn the_page_holds_the_payload() {
    let profile = program();
    let mut payload = Vec::new();
    write_payload(&Page::new(&profile, "run.whyslow"), &mut payload).unwrap();
    let blocks = blocks(&page_with(&profile, 1 << 20));
    assert_eq!(blocks.len(), 1);
    assert_eq!(blocks[0].1, payload);
}

#[test]
fn a_large_payload_is_split_into_blocks() {
    let profile = program();
    let whole = blocks(&page_with(&profile, 1 << 20)).remove(0).1;
    for most in [4, 100, 101, 1000, whole.len().div_ceil(3) * 4] {
        let blocks = blocks(&page_with(&profile, most));
        assert_eq!(blocks.len(), whole.len().div_ceil(most / 4 * 3), "{most}");
        assert!(blocks.iter().all(|(length, _)| *length <= most), "{most}");
        let joined: Vec<u8> = blocks.into_iter().flat_map(|(_, bytes)| bytes).collect();
        assert_eq!(joined, whole);
        assert_eq!(Payload::decode(&joined).texts("metrics.name").len(), 2);
    }
}

#[test]
fn the_usual_block_is_no_longer_than_8_mb() {
    assert!(Page::new(&program(), "x").block_length <= 8_000_000);
}

#[test]
fn the_real_viewer_is_inside() {
    let profile = program();
    let mut out = Vec::new();
    write_page(&Page::new(&profile, "run.whyslow"), &mut out).unwrap();
    let page = String::from_utf8(out).unwrap();
    assert!(page.contains(Bundle::EMBEDDED.script) && page.contains(Bundle::EMBEDDED.style));
}

/// Names that try to break out of every context they are shown in.
const HOSTILE: [&str; 7] = [
    "</script><script>alert(1)</script>",
    "</title></noscript><img src=x onerror=alert(2)>",
    "\"'><b>&lt;",
    "<!--<script>",
    "\0\x1b[31m\r\n",
    "\u{202e}left\u{2066}\u{2028}",
    "]]></style>",
];

#[test]
fn hostile_names_stay_text() {
    let harmless = page_with(&testing::profile("main;f 30"), 1 << 20);
    for name in HOSTILE {
        let mut profile = testing::profile("main;f 30");
        let text = profile.strings.push(name);
        profile.meta.command = vec![name.to_owned()];
        profile.meta.notes = vec![whyslow_profile::Note::Text(name.to_owned())];
        profile.functions[1].name = text;
        profile.functions[1].file = Some(text);
        profile.threads[0].name = text;
        profile.modules[0].path = text;
        let page = Page { bundle: BUNDLE, ..Page::new(&profile, name) };
        let mut out = Vec::new();
        write_page(&page, &mut out).unwrap();
        for page in [String::from_utf8(out).unwrap(), served_page(&page, "?token=1")] {
            let count = |text: &str, what: &str| text.to_ascii_lowercase().matches(what).count();
            for tag in
                ["<title", "</title", "<noscript", "</noscript", "<style", "</style", "<!--", "<img", "<b>"]
            {
                assert!(count(&page, tag) <= count(&harmless, tag), "{tag} in {page}");
            }
            assert!(count(&page, "<script") <= 2 && count(&page, "</script") <= 2, "{page}");
            assert!(!page.contains(|c: char| c.is_control() && c != '\n'), "{page:?}");
            assert!(!page.contains(['\u{202e}', '\u{2066}', '\u{2028}']), "{page:?}");
        }
    }
}

#[test]
fn a_very_long_name_is_cut_in_the_table_without_scripts() {
    let mut profile = testing::profile("main 30");
    profile.functions[0].name = profile.strings.push(&"x".repeat(100_000));
    let page = page_with(&profile, 1 << 20);
    assert!(page.len() < 20_000, "{}", page.len());
    assert_eq!(
        Payload::decode(&blocks(&page)[0].1).texts("functions.name")[0].as_ref().unwrap().len(),
        100_000
    );
}

#[test]
fn the_policy_lets_nothing_in_or_out() {
    let page = page_with(&program(), 1 << 20);
    let policy =
        page.split("Content-Security-Policy\" content=\"").nth(1).unwrap().split('"').next().unwrap();
    for policy in [policy, served_policy()] {
        assert!(policy.starts_with("default-src 'none'; "), "{policy}");
        for loose in ["unsafe", "http:", "https:", "*"] {
            assert!(!policy.contains(loose), "{policy}");
        }
    }
    assert!(!policy.contains("'self'") && !policy.contains("connect-src"), "{policy}");
    let before_policy = page.split("Content-Security-Policy").next().unwrap();
    assert!(!before_policy.contains("<script") && !before_policy.contains("<style"));
}

#[test]
fn a_served_page_asks_for_its_parts_with_the_token() {
    let profile = program();
    let page = served_page(&Page::new(&profile, "run.whyslow"), "?token=abc");
    assert!(page.contains("src=\"viewer.js?token=abc\"") && page.contains("href=\"viewer.css?token=abc\""));
    assert!(blocks(&page).is_empty());
}

#[test]
fn a_profile_without_samples_has_a_page() {
    let page = page_with(&Profile::default(), 1 << 20);
    assert!(page.contains("the recording has no samples"));
}
