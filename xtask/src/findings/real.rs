//! Real programs, and a judgement of what is found in them.

use std::path::PathBuf;

use anyhow::{Result, ensure};

use super::{Judged, Judgement, Lab};
use crate::real_programs::install_with_debug_info;
use crate::{process, setup};

/// A real program with its work.
pub(super) struct Real {
    pub(super) name: &'static str,
    /// Its package and version in the package registry. `None` for programs of the system.
    package: Option<(&'static str, &'static str)>,
    /// A command for the shell, in a folder of its own. The executable of a package is `$0`.
    command: &'static str,
    /// Findings that a person who knows the program signs. All others are wrong.
    right: &'static [&'static str],
}

const fn real(name: &'static str, command: &'static str, right: &'static [&'static str]) -> Real {
    Real { name, package: None, command, right }
}

/// A program in Rust, which is built with debug info.
const fn built(
    name: &'static str,
    package: (&'static str, &'static str),
    command: &'static str,
    right: &'static [&'static str],
) -> Real {
    Real { name, package: Some(package), command, right }
}

/// The programs. Each runs for about a second.
pub(super) const PROGRAMS: &[Real] = &[
    real("gzip", "gzip -9 -c text > /dev/null", &[]),
    real("xz", "xz -3 -T1 -c part > /dev/null", &[]),
    real("bzip2", "bzip2 -c text > /dev/null", &[]),
    real("zstd", "zstd -q -12 -c text > /dev/null", &[]),
    real("sort", "LC_ALL=C sort --parallel=1 text text text > /dev/null", &[]),
    real("grep", "LC_ALL=C grep -cE '(a|b)+[0-9]*9 $' text text text text", &[]),
    real("sed", "sed -e 's/a/b/g' -e 's/ab*c/x/' text > /dev/null", &[]),
    real(
        "gawk",
        "gawk '{ for (i = 1; i <= NF; i++) n[$i]++ } END { for (w in n) print w, n[w] }' text > /dev/null",
        &[],
    ),
    real("perl", "perl -ne '$n{$_}++ for split; END { print scalar keys %n }' text text", &[]),
    real(
        "python3",
        "/usr/bin/python3 -c \"import collections; print(len(collections.Counter(w for _ in range(4) for w in open('text').read().split())))\"",
        &[],
    ),
    real(
        "git",
        "git init -q repo && cd repo && cp ../text . && git add text && git -c user.name=a -c user.email=a@b commit -qm a && git gc -q --aggressive",
        &[],
    ),
    real(
        "sqlite3",
        "sqlite3 :memory: 'create table t(a, b); with recursive n(i) as (select 1 union all select i+1 from n where i < 600000) insert into t select i, i*7919 % 10007 from n; select b, count(*), sum(a) from t group by b order by 2 desc limit 3'",
        &[],
    ),
    real(
        "gnuplot",
        "gnuplot -e \"set terminal svg; set samples 200000; plot sin(x)*cos(3*x)\" > /dev/null",
        &[],
    ),
    real("dot", "dot -Tsvg graph > /dev/null", &[]),
    real(
        "ffmpeg",
        "ffmpeg -v error -f lavfi -i testsrc=size=640x480:duration=4 -threads 1 -c:v mpeg4 -f null -",
        &["startup-dominated"],
    ),
    real(
        "openssl",
        "openssl enc -aes-256-cbc -pbkdf2 -iter 800000 -k x -in text -out /dev/null",
        &["allocator-heavy"],
    ),
    real("tar", "for i in 1 2 3 4 5 6 7 8; do tar cf - /usr/include | cat > /dev/null; done", &[]),
    real("jq", "jq -c '[.[] | select(.a > 5) | .b] | length' json", &["allocator-heavy"]),
    real("cc1", "cc -O2 -c -o cc.o source.c", &[]),
    // It copies a growing list, and gives its memory back each time: M_TRIM_THRESHOLD makes it 3.4 times as fast.
    real("cmake", "cmake -S project -B built > /dev/null", &["allocator-heavy", "page-faults"]),
    real("od", "od -A x -t x4 text > /dev/null", &[]),
    real("bc", "echo 'scale=2000; a(1)*4' | bc -l > /dev/null", &[]),
    real(
        "convert",
        "/usr/bin/convert -size 1200x1200 plasma:red-blue -blur 0x4 x.png",
        &["startup-dominated"],
    ),
    built("hexyl", ("hexyl", "0.17.0"), "$0 -n 6MB text > /dev/null", &[]),
    built("sd", ("sd", "1.0.0"), "for i in 1 2 3; do $0 'a([0-9]+) ' 'x$1 ' < text > /dev/null; done", &[]),
    // `sort` keeps a block per record; `frequency` copies each field twice before it looks it up.
    built(
        "xsv",
        ("xsv", "0.13.0"),
        "$0 frequency -l 5 csv && $0 sort -s b csv > /dev/null",
        &["allocator-heavy", "clone-heavy"],
    ),
    // Each filter boxes its iterator, each value its text.
    built(
        "jaq",
        ("jaq", "3.1.2"),
        "$0 -c '[.[] | select(.a > 5) | .b] | length' json json json",
        &["allocator-heavy"],
    ),
    built("rg", ("ripgrep", "15.2.0"), "$0 -j1 -c '(a|b)+[0-9]*9 $' text text text text", &[]),
    // Both write each line to stdout as it comes.
    built("choose", ("choose", "1.3.7"), "$0 0 2 4 < text > /dev/null", &["print-per-line"]),
    built("huniq", ("huniq", "2.7.0"), "for i in 1 2 3; do $0 < text > /dev/null; done", &["print-per-line"]),
];

/// Files that the programs work on.
const INPUTS: &str = r#"
[ -f text ] || gawk 'BEGIN { srand(7); for (i = 0; i < 300000; i++) { line = ""; for (j = 0; j < 8; j++) { w = int(rand() * rand() * 20000); line = line sprintf("%c%c%d ", 97 + w % 26, 97 + w % 7, w) } print line } }' > text
[ -f part ] || head -c 1500000 text > part
[ -f graph ] || gawk 'BEGIN { srand(7); print "digraph {"; for (i = 1; i < 1000; i++) { print "n" int(rand() * i), "-> n" i; if (i % 4 == 0) print "n" int(rand() * i), "-> n" i } print "}" }' > graph
[ -f json ] || gawk 'BEGIN { printf "["; for (i = 0; i < 150000; i++) printf "%s{\"a\":%d,\"b\":\"text %d\",\"c\":[1,2,3]}", i ? "," : "", i % 11, i; print "]" }' > json
[ -f source.c ] || gawk 'BEGIN { for (i = 0; i < 1500; i++) printf "int f%d(int *a, int n) { int s = 0; for (int i = 0; i < n; i++) s += a[i] * %d; return s; }\n", i, i }' > source.c
[ -d project ] || { mkdir project; printf 'cmake_minimum_required(VERSION 3.10)\nproject(p C CXX)\nfind_package(Threads)\nforeach(i RANGE 40000)\n  string(REGEX REPLACE "a([0-9]+)" "\\\\1" x "a${i}")\n  list(APPEND all "${x}")\nendforeach()\n' > project/CMakeLists.txt; }
[ -f csv ] || gawk 'BEGIN { srand(7); print "a,b,c,d"; for (i = 0; i < 300000; i++) printf "%d,name %d,%.3f,%s\n", i, int(rand() * 100000), rand(), i % 3 ? "yes" : "no" }' > csv
rm -rf repo built
"#;

/// The command and the Debian package of a program of the system.
fn of_debian(name: &'static str) -> (&'static str, &'static str) {
    match name {
        "cc1" => ("cc", "gcc"),
        "xz" => ("xz", "xz-utils"),
        "gnuplot" => ("gnuplot", "gnuplot-nox"),
        "dot" => ("dot", "graphviz"),
        "convert" => ("/usr/bin/convert", "imagemagick"),
        "sort" | "od" => (name, "coreutils"),
        _ => (name, name),
    }
}

/// The path of a program of the system. Installs it if it is missing and this user may.
fn installed(name: &'static str) -> Option<PathBuf> {
    let (command, package) = of_debian(name);
    process::find(command).or_else(|| setup::install(package).then(|| process::find(command)).flatten())
}

/// The executable of a program, if it is installed or can be.
fn executable(program: &Real) -> Option<PathBuf> {
    let Some((package, version)) = program.package else { return installed(program.name) };
    let installed = install_with_debug_info(package, program.name, Some(version));
    installed.inspect_err(|error| eprintln!("{package} {version}: {error:#}")).ok()
}

/// The findings of a real program, judged. `None` if it cannot be had.
pub(super) fn run(lab: &Lab, program: &Real) -> Result<Option<Vec<Judged>>> {
    // gawk writes the input.
    let Some(executable) = executable(program).filter(|_| installed("gawk").is_some()) else {
        return Ok(None);
    };
    let executable = executable.to_string_lossy();
    let shell = std::path::Path::new("/bin/sh");
    let status = process::command(shell).args(["-c", INPUTS]).current_dir(&lab.folder).status()?;
    ensure!(status.success(), "cannot make the input of {}", program.name);
    let judged = |found: super::Found| {
        let is_right = program.right.contains(&found.id.as_str());
        let judgement = if is_right { Judgement::Right } else { Judgement::Wrong };
        Judged { program: program.name.to_owned(), found, judgement }
    };
    let found = lab.explain(&[], shell, &["-c", program.command, &executable])?;
    Ok(Some(found.into_iter().map(judged).collect()))
}
