//! The log's list of descriptors that are open at exit. Older versions name them only there; their stacks are in the
//! XML, in the same order.

/// A descriptor that the process opened and left open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenDescriptor {
    /// Its number.
    pub number: u64,
    /// What it is: a path, or words such as `AF_UNIX socket`.
    pub what: String,
}

/// Reads the list; those that the process inherited at its start are left out.
///
/// ```text
/// ==17== Open file descriptor 5: /dev/null
/// ==17==
/// ==17== Open AF_INET socket 4: 127.0.0.1:80 <-> unbound
/// ==17==    <inherited from parent>
/// ```
pub fn open_descriptors(log: &str) -> Vec<OpenDescriptor> {
    let lines: Vec<&str> = log.lines().map(without_head).collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(descriptor) = descriptor(line) else { continue };
        let is_inherited = lines.get(at + 1).is_some_and(|next| next.trim() == "<inherited from parent>");
        if !is_inherited {
            found.push(descriptor);
        }
    }
    found
}

/// A line without `==17==`.
fn without_head(line: &str) -> &str {
    let head = line.strip_prefix("==").and_then(|rest| rest.split_once("=="));
    head.filter(|(pid, _)| pid.bytes().all(|byte| byte.is_ascii_digit()))
        .map_or(line, |(_, rest)| rest.trim_start_matches(' '))
}

fn descriptor(line: &str) -> Option<OpenDescriptor> {
    let rest = line.strip_prefix("Open ")?;
    let (head, what) = rest.split_once(':').unwrap_or((rest, ""));
    let (kind, number) = head.rsplit_once(' ')?;
    let number = number.parse().ok()?;
    let what = match kind {
        "file descriptor" => what.trim().to_owned(),
        _ => format!("{kind} {}", what.trim()).trim_end().to_owned(),
    };
    (kind == "file descriptor" || kind.contains("socket")).then_some(OpenDescriptor { number, what })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_that_are_not_inherited_are_found() {
        let log = "==7== FILE DESCRIPTORS: 5 open (3 std) at exit.\n\
                   ==7== Open file descriptor 5: /dev/null\n==7== \n\
                   ==7== Open AF_INET socket 4: 127.0.0.1:80 <-> unbound\n==7== \n\
                   ==7== Open file descriptor 3:\n==7==    <inherited from parent>\n==7== \n";
        let found = open_descriptors(log);
        assert_eq!(
            found,
            [
                OpenDescriptor { number: 5, what: "/dev/null".to_owned() },
                OpenDescriptor { number: 4, what: "AF_INET socket 127.0.0.1:80 <-> unbound".to_owned() },
            ]
        );
        assert_eq!(open_descriptors("==x== Open file descriptor\nOpen a\nOpen file descriptor z: b\n"), []);
    }
}
