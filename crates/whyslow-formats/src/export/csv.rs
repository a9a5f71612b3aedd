//! The function table as comma-separated values, for spreadsheets and data frames.

use std::borrow::Cow;
use std::io::{self, Write};

use whyslow_analyze::{CallTree, FunctionTable, Label, SortBy};

use super::{Export, LeftOut, one_line};

/// Writes one row per function, heaviest first. Returns what the format cannot hold.
pub fn write_csv(export: &Export<'_>, out: &mut dyn Write) -> io::Result<Vec<LeftOut>> {
    let profile = export.profile;
    let unit = export.unit().label();
    writeln!(
        out,
        "function,kind,crate,file,line,module,self_{unit},self_percent,total_{unit},total_percent,self_samples,total_samples"
    )?;
    let table = FunctionTable::build(profile, export.selection, export.inline, SortBy::SelfValue);
    for row in &table.rows {
        let function = match row.label {
            Label::Function(id) => profile.functions.get(id.index()),
            _ => None,
        };
        let text = |id: Option<whyslow_profile::StringId>| id.map_or("", |id| profile.text(id));
        let module = match row.label {
            Label::Module(id) => Some(id),
            _ => function.and_then(|function| function.module),
        };
        let module = module.and_then(|id| profile.modules.get(id.index())).map(|module| module.path);
        let line = function.map_or(0, |function| function.line);
        writeln!(
            out,
            "{},{},{},{},{},{},{},{:.4},{},{:.4},{},{}",
            cell(&CallTree::name(profile, row.label)),
            CallTree::kind(profile, row.label).label(),
            cell(text(function.and_then(|function| function.crate_name))),
            cell(text(function.and_then(|function| function.file))),
            if line > 0 { line.to_string() } else { String::new() },
            cell(text(module)),
            row.self_value,
            100.0 * table.self_share(row).value,
            row.total_value,
            100.0 * table.total_share(row).value,
            row.self_samples,
            row.total_samples,
        )?;
    }
    // It is a table of functions: users do not expect stacks in it.
    Ok(Vec::new())
}

/// A text as one cell. A name that a spreadsheet would read as a formula gets a leading apostrophe.
fn cell(text: &str) -> Cow<'_, str> {
    let text = one_line(text);
    let formula = text.starts_with(['=', '+', '-', '@']);
    if !formula && !text.contains([',', '"']) && text.trim() == text {
        return text;
    }
    let quote = if formula { "'" } else { "" };
    format!("\"{quote}{}\"", text.replace('"', "\"\"")).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_analyze::{Selection, testing};

    #[test]
    fn every_function_is_a_row() {
        let profile = testing::profile("main@app.rs:3;std::f 3\nmain;[libfoo.so] 1");
        let mut out = Vec::new();
        let selection = Selection::default();
        write_csv(&Export::new(&profile, &selection, true), &mut out).expect("memory");
        assert_eq!(
            String::from_utf8(out).expect("UTF-8"),
            "function,kind,crate,file,line,module,self_ns,self_percent,total_ns,total_percent,self_samples,total_samples\n\
             std::f,std,std,,,/home/me/app,3000000,75.0000,3000000,75.0000,3,3\n\
             [libfoo.so],unknown,,,,/usr/lib/libfoo.so,1000000,25.0000,1000000,25.0000,1,1\n\
             main,yours,,app.rs,1,/home/me/app,0,0.0000,4000000,100.0000,0,4\n"
        );
    }

    #[test]
    fn names_stay_in_their_cells() {
        assert_eq!(cell("f<a, b>"), "\"f<a, b>\"");
        assert_eq!(cell("a\"b\nc"), "\"a\"\"b c\"");
        assert_eq!(cell("=HYPERLINK(1)"), "\"'=HYPERLINK(1)\"");
        assert_eq!(cell("plain::name"), "plain::name");
    }
}
