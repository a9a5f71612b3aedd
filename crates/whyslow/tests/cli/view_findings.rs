//! The viewer's findings are those of `whyslow explain`.

use std::io::Read;

use serde_json::Value;

use crate::harness::Folder;

const HASHING: &str =
    "main@app.rs:3;count@app.rs:12;core::hash::sip::Hasher::write 500\nmain@app.rs:3;work@app.rs:20 500";

/// The findings in the payload of a page, and whether the payload contains some words.
fn explained(page: &str, words: &str) -> (Value, bool) {
    let text = page.split("class=\"payload\">").nth(1).unwrap().split("</script>").next().unwrap();
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(&base64(text)[..]).read_to_end(&mut bytes).unwrap();
    let length = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[4..4 + length]).unwrap();
    let has_words = bytes[4 + length..].windows(words.len()).any(|part| part == words.as_bytes());
    (header["explained"].clone(), has_words)
}

fn base64(text: &str) -> Vec<u8> {
    const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0u32, 0);
    for digit in text.trim_end_matches('=').chars() {
        bits = bits << 6 | DIGITS.find(digit).unwrap() as u32;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    bytes
}

/// The page as `view -o` and `export --to html` write it.
fn pages(folder: &Folder) -> [String; 2] {
    let commands: [&[&str]; 2] =
        [&["view", "x.whyslow", "-o", "-"], &["export", "x.whyslow", "--to", "html", "-o", "-"]];
    commands.map(|command| folder.whyslow(command).succeeds().stdout.clone())
}

#[test]
fn the_page_has_the_findings_of_explain() {
    let folder = Folder::new();
    folder.profile("x.whyslow", HASHING);
    for page in pages(&folder) {
        let (said, has_words) = explained(&page, "sip-hash");
        assert!(has_words && said["allowed"] == 0, "{said}");
        assert!(said["shape"].as_str().unwrap().contains("x.whyslow"), "{said}");
    }
}

#[test]
fn the_command_behind_the_copy_button_quotes_the_file() {
    let folder = Folder::new();
    let name = "a; touch PWNED; $(id) .whyslow";
    folder.profile(name, HASHING);
    let page = folder.whyslow(["view", name, "-o", "-"]).succeeds().stdout.clone();
    let (_, is_quoted) = explained(&page, "whyslow verify 'a; touch PWNED; $(id) .whyslow' AFTER.whyslow");
    assert!(is_quoted);
}

#[test]
fn a_comment_in_the_source_hides_a_finding() {
    let folder = Folder::new();
    let mut profile = whyslow_analyze::testing::profile(HASHING);
    let file = profile.functions.iter().find_map(|row| row.file).unwrap();
    let text = profile.strings.push("seen.insert(word); // whyslow: allow(sip-hash)");
    profile.sources.rows.push(whyslow_profile::SourceLine { file, line: 12, text });
    folder.save("x.whyslow", &profile);
    for page in pages(&folder) {
        let (said, has_words) = explained(&page, "are hashed with SipHash");
        assert!(!has_words && said["allowed"] == 1, "{said}");
    }
}

#[test]
fn a_whyslow_toml_applies_and_a_broken_one_only_warns() {
    let folder = Folder::new();
    folder.profile("x.whyslow", HASHING);
    folder.file("whyslow.toml", "[explain]\nallow = [\"sip-hash\"]\n");
    for page in pages(&folder) {
        let (said, has_words) = explained(&page, "sip-hash");
        assert!(!has_words && said["allowed"] == 1, "{said}");
    }
    folder.file("whyslow.toml", "[explain]\nallow = [\"no-such-rule\"]\n");
    let outcome = folder.whyslow(["view", "x.whyslow", "-o", "-"]);
    let (_, has_words) = explained(&outcome.succeeds().stdout, "sip-hash");
    assert!(has_words);
    assert!(outcome.stderr.contains("no-such-rule"), "{outcome:?}");
}
