//! Text: formatting, parsing, logging, and other library calls on strings.

use std::sync::LazyLock;

use regex::Regex;
use whyslow_profile::Profile;

use crate::finding::{Confidence, Place};
use crate::rule::{Beneath, Frames, Rule, Signal};
use crate::rules::RuleId;

pub(super) static FORMATTING: Rule = Rule {
    id: RuleId::Formatting,
    title: "numbers and strings are formatted in hot code",
    rust: "format less: write bytes and strings directly (push_str, write_all), use itoa or ryu for numbers, and drop output that is never read",
    native: Some("format less: write digits and strings into the buffer directly (in C++ std::to_chars) instead of printf or streams, and drop output that is never read"),
    signal: Signal::Frames(
        Frames::new(&[
            r"^core::fmt::|<core::fmt::Formatter>::|^core::fmt::Write::write_fmt|as core::fmt::Write>::write_fmt$|std::io::(?:default_write_fmt|Write::write_fmt)",
            r" as core::fmt::(?:Display|Debug|LowerHex|UpperHex|LowerExp)>::fmt$",
            r"^core::num::flt2dec|alloc::fmt::format|SpecToString.*::spec_to_string$|alloc::string::ToString>?::to_string$",
            r"^(?:__)?(?:s|sn|vs|vsn)printf(?:_chk|_internal)?$|^std::basic_ostream<.*>& std::operator<<|std::ostream::_M_insert|std::num_put<",
        ])
        .with(Beneath::All)
        // Text that goes to a file is what the program is for.
        .unless(&[
            r"std::io::(?:default_write_fmt|Write::write_fmt|stdio::)|as std::io::Write>::write_fmt",
            r"^(?:__)?(?:vf|f|v|d)?printf(?:_chk|_internal)?$|basic_(?:of|f)stream|basic_filebuf",
        ])
        // A program that writes much is there to format.
        .needed_for(&[
            r"^(?:__GI_|_)*(?:IO_)?(?:new_)?(?:fwrite|fputs|file_xsputn|file_write|file_overflow)(?:_unlocked)?$|^(?:__GI_|__libc_|__GI___libc_|__)*write$",
            r"^<?std::io::(?:buffered|stdio)::|as std::io::Write>::write(?:_all|_fmt)?$|basic_filebuf|^std::ostream::(?:write|flush)",
        ])
        .needed_at(0.02)
        .on_line(|_, place| place.file.is_some())
        .least(0.10)
        .at_most(Confidence::Medium),
    ),
};

/// Whole numbers are formatted into a block of the right size, which is as fast as `write!`.
const WHOLE_NUMBERS: &str = r"<(?:u|i)(?:8|16|32|64|128|size) as alloc::string::(?:Spec)?ToString>::";

pub(super) static FORMAT_ALLOCATES: Rule = Rule {
    id: RuleId::FormatAllocates,
    title: "format! or to_string() allocates a new String each time",
    rust: "keep one String, clear() it and write!(text, …) into it, or pass format_args!(…) if the text is only printed",
    native: Some("use snprintf or std::format_to with a buffer that you reuse"),
    signal: Signal::Frames(
        Frames::new(&[
            r"^alloc::fmt::format\b",
            r"alloc::string::ToString>?::to_string$|SpecToString.*::spec_to_string$",
            r"std::__cxx11::to_string|std::to_string",
        ])
        .with(Beneath::All)
        // Strings that are collected are kept.
        .unless(&[r"FromIterator<.*>>::from_iter$|SpecFromIter|spec_extend$", WHOLE_NUMBERS])
        .ended_by(&[WHOLE_NUMBERS])
        .absorbs(&[RuleId::AllocatorHeavy]),
    ),
};

pub(super) static UTF8_VALIDATION: Rule = Rule {
    id: RuleId::Utf8Validation,
    title: "bytes are validated as UTF-8 in hot code",
    rust: "work on bytes (&[u8], the bstr crate) if you do not need text, read files with fs::read instead of read_to_string, or validate once and keep the &str; simdutf8 validates faster",
    native: None,
    signal: Signal::Frames(Frames::new(&[
        r"core::str::(?:validations::run_utf8_validation|converts::from_utf8(?:_mut)?)$",
        r"String>?::from_utf8(?:_lossy|_lossy_owned)?$|core::str::lossy::",
    ])),
};

pub(super) static REGEX_IN_LOOP: Rule = Rule {
    id: RuleId::RegexInLoop,
    title: "regular expressions are compiled in hot code, possibly the same one repeatedly",
    rust: "compile each regex once, in a static LazyLock<Regex> or a struct field; match several against the same text with a RegexSet",
    native: Some("compile each regex once, in a static or a member, not at every use"),
    signal: Signal::Frames(
        Frames::new(&[
            r"^regex(?:_lite|_automata|_syntax)?::.*(?:Builder|Compiler|Parser\w*)(?:<.*>)?>?::(?:build|compile|parse)\w*$",
            r"^regex(?:_lite)?::.*Regex(?:Set)?>?::new$|^regex_automata::meta::.*::new(?:_many)?$",
            r"^regcomp$|^re_compile|std::__detail::_Compiler<|std::basic_regex<.*>::(?:basic_regex|_M_compile)|^pcre2?_compile",
        ])
        .with(Beneath::All),
    ),
};

pub(super) static JSON_VALUES: Rule = Rule {
    id: RuleId::JsonValues,
    title: "JSON is parsed into serde_json::Value, with an allocation for every key and string",
    rust: "deserialise into your own struct (#[derive(Deserialize)]), borrow its strings (&'a str, Cow), and let serde skip the fields you do not need",
    native: None,
    signal: Signal::Frames(
        Frames::new(&[
            r"serde_json::value::de::.*Deserialize.* for serde_json::value::Value",
            r"drop_in_place(?:::)?<serde_json::value::Value>|serde_json::map::Map<.*>::insert$",
            r"<serde_json::value::Value as .*(?:Clone|Deserialize|Serialize)",
        ])
        .with(Beneath::All),
    ),
};

pub(super) static LOGGING: Rule = Rule {
    id: RuleId::Logging,
    title: "log records are formatted and written in hot code",
    rust: "log less in hot code, set the level at compile time (the release_max_level_… features of log and tracing), and compute arguments only if the level is enabled",
    native: Some("log less in hot code, and compute arguments only if the level is enabled"),
    signal: Signal::Frames(
        Frames::new(&[
            r"^log::__private_api::|<log::\w+ as |^env_logger::|^<?tracing(?:_core|_subscriber|_log)?::.*(?:event|enabled|Subscriber|dispatch|span::Span)",
            r"^slog::|^<?fern::|^spdlog::",
        ])
        .with(Beneath::All),
    ),
};

pub(super) static PANICS_AS_ERRORS: Rule = Rule {
    id: RuleId::PanicsAsErrors,
    title: "panics or exceptions are thrown and caught: each one unwinds the stack",
    rust: "return Result for failures you expect; use catch_unwind only for bugs",
    native: Some("return an error code, std::optional or std::expected for failures you expect; a throw costs microseconds"),
    signal: Signal::Frames(
        Frames::new(&[
            r"^_Unwind_(?:RaiseException|Resume|ForcedUnwind)|^__cxa_throw$|^__cxa_(?:begin|end)_catch$",
            r"std::panicking::(?:rust_panic_with_hook|begin_panic|begin_panic_handler|resume_unwind|panic_handler)|rust_panic$|std::panic::resume_unwind$|core::panicking::panic",
        ])
        .with(Beneath::All),
    ),
};

pub(super) static EAGER_FALLBACK: Rule = Rule {
    id: RuleId::EagerFallback,
    title: "a fallback value or an error is built even when it is not needed",
    rust: "pass a closure: ok_or_else, unwrap_or_else, or_else, map_or_else, or use unwrap_or_default; replace expect(&format!(…)) with unwrap_or_else(|| panic!(…))",
    native: None,
    signal: Signal::Frames(
        Frames::new(&[
            r"^alloc::fmt::format\b|ToString>?::to_string$| as core::clone::Clone>::clone$|::to_owned$|<alloc::string::String as core::convert::From<",
            r"drop_in_place(?:::)?<alloc::(?:string::String|vec::Vec<)",
        ])
        .with(Beneath::All)
        .on_line(builds_a_fallback),
    ),
};

pub(super) static SOFTWARE_CRYPTO: Rule = Rule {
    id: RuleId::SoftwareCrypto,
    title: "hashing, encryption or compression runs in software, without the CPU's instructions for it",
    rust: "enable the assembly or SIMD backend (sha2's asm feature or no force-soft, aes with the CPU's instructions, ring, zlib-rs instead of miniz_oxide, \
           crc32fast), or use a lower compression level",
    native: Some("use a library with the CPU's instructions (OpenSSL, zlib-ng, ISA-L), or a lower compression level"),
    signal: Signal::Frames(
        Frames::new(&[
            r"(?:sha1|sha2|sha3|md5|aes|blake2|ghash|polyval|chacha20|poly1305)::.*\bsoft\w*::|(?:sha1|sha2)::.*compress::soft|crc32fast::baseline",
            r"^<?miniz_oxide::(?:deflate|inflate)",
        ])
        .with(Beneath::All)
        .at_most(Confidence::Medium)
        .least(0.05),
    ),
};

pub(super) static STRLEN_IN_LOOP: Rule = Rule {
    id: RuleId::StrlenInLoop,
    title: "the condition of a loop measures a string again in every iteration",
    rust: "measure the string once, before the loop (CStr::to_bytes), and keep the slice",
    native: Some(
        "measure the string once, before the loop: size_t length = strlen(text); change length where the text changes",
    ),
    signal: Signal::Frames(
        Frames::new(&[r"^_*(?:GI_+)?(?:strn?len|wcslen)(?:_.*)?$"])
            .on_line(|profile, place| {
                let text = place.file.and_then(|file| profile.sources.get(file, place.line));
                text.is_some_and(|text| measures_in_condition(profile.text(text)))
            })
            .least(0.10),
    ),
};

/// Whether a line is the head of a loop whose condition calls `strlen`.
fn measures_in_condition(line: &str) -> bool {
    let line = line.trim_start().trim_start_matches(['}', ' ']);
    let condition = if let Some(head) = line.strip_prefix("for") {
        // for (start; condition; step)
        head.split(';').nth(1)
    } else {
        line.strip_prefix("while")
    };
    condition.is_some_and(|condition| condition.contains("strlen(") || condition.contains("wcslen("))
}

/// Whether a line builds a value that its call needs only in the rare case.
fn builds_a_fallback(profile: &Profile, place: &Place) -> bool {
    static EAGER: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"\.(?:ok_or|unwrap_or|map_or|or|expect|insert_or|get_or_insert)\(&?(?:format!|String::|vec!|Vec::|Box::new|[a-z_.]*to_(?:string|owned|vec)\(|[a-z_.]*\.clone\()").ok()
    });
    let text = place.file.and_then(|file| profile.sources.get(file, place.line));
    text.is_some_and(|text| EAGER.as_ref().is_some_and(|eager| eager.is_match(profile.text(text))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_condition_of_a_loop_is_evaluated_each_time() {
        for each in [
            "for (size_t at = 0; at < strlen(line); at++)",
            "  while (at < strlen(line)) {",
            "} while (strlen(line) > 1);",
        ] {
            assert!(measures_in_condition(each), "{each}");
        }
        for once in [
            "for (size_t n = strlen(line), at = 0; at < n; at++)",
            "size_t length = strlen(line);",
            "if (strlen(line) > 4)",
        ] {
            assert!(!measures_in_condition(once), "{once}");
        }
    }
}
