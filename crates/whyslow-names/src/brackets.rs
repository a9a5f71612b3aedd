//! Brackets in names of Rust and C++ functions.

/// The name with `x` in place of characters that look like brackets but are not: `operator<`, `->`, `(8>4)`.
/// The brackets that remain match. Positions are unchanged.
pub fn mask(name: &str) -> Vec<u8> {
    const OPERATOR: &[u8] = b"operator";
    const ANONYMOUS: &[u8] = b"(anonymous namespace)";
    let bytes = name.as_bytes();
    let mut mask = bytes.to_vec();
    let mut at = 0;
    while at < mask.len() {
        let rest = &bytes[at..];
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
        let starts_word = at == 0 || !is_word(bytes[at - 1]);
        if starts_word
            && rest.starts_with(OPERATOR)
            && !rest.get(OPERATOR.len()).copied().is_some_and(is_word)
        {
            let symbol = operator_length(&rest[OPERATOR.len()..]);
            let mut end = at + OPERATOR.len() + symbol;
            // A space separates the arguments of `operator<<` from it.
            end += usize::from(bytes[end..].starts_with(b" <"));
            mask[at..end].fill(b'x');
            at = end;
        } else if rest.starts_with(ANONYMOUS) {
            mask[at..at + ANONYMOUS.len()].fill(b'x');
            at += ANONYMOUS.len();
        } else {
            if rest.starts_with(b"->") || rest.starts_with(b"=>") {
                mask[at + 1] = b'x';
                at += 1;
            }
            at += 1;
        }
    }
    mask_lone_brackets(&mut mask);
    mask
}

/// Masks brackets without a partner, such as a comparison in an argument.
fn mask_lone_brackets(mask: &mut [u8]) {
    let mut open: Vec<usize> = Vec::new();
    for at in 0..mask.len() {
        let partner = match mask[at] {
            b'<' | b'(' | b'[' | b'{' => {
                open.push(at);
                continue;
            }
            b'>' => b'<',
            b')' => b'(',
            b']' => b'[',
            b'}' => b'{',
            _ => continue,
        };
        // `<` is the only one that is ever without a partner inside others.
        while partner != b'<' && open.last().is_some_and(|&last| mask[last] == b'<') {
            open.pop().iter().for_each(|&lone| mask[lone] = b'x');
        }
        match open.last() {
            Some(&last) if mask[last] == partner => drop(open.pop()),
            _ => mask[at] = b'x',
        }
    }
    for lone in open {
        mask[lone] = b'x';
    }
}

/// The length of the symbol after `operator`; for a word or a type (`new`, `std::string`), the length up to its
/// parameters.
fn operator_length(rest: &[u8]) -> usize {
    const SYMBOLS: [&[u8]; 38] = [
        b"()", b"[]", b"<=>", b"<<=", b">>=", b"->*", b"<<", b">>", b"->", b"<=", b">=", b"&&", b"||", b"++",
        b"--", b"==", b"!=", b"+=", b"-=", b"*=", b"/=", b"%=", b"^=", b"&=", b"|=", b"<", b">", b",", b"+",
        b"-", b"*", b"/", b"%", b"^", b"&", b"|", b"!", b"=",
    ];
    if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(symbol)) {
        return symbol.len();
    }
    if rest.first() != Some(&b' ') && !rest.starts_with(b"\"\"") {
        return 0;
    }
    let mut depth = 0usize;
    let end = rest.iter().position(|&byte| {
        match byte {
            b'<' => depth += 1,
            b'>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && byte == b'('
    });
    end.unwrap_or(rest.len())
}

/// Splits at each `separator` outside all brackets; `None` if brackets do not match.
pub fn split_at_top(mask: &[u8], separator: &[u8]) -> Option<Vec<std::ops::Range<usize>>> {
    let mut parts = Vec::new();
    let mut depth = 0usize;
    let (mut start, mut at) = (0, 0);
    while at < mask.len() {
        match mask[at] {
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            b'>' | b')' | b']' | b'}' => depth = depth.checked_sub(1)?,
            _ if depth == 0 && mask[at..].starts_with(separator) => {
                parts.push(start..at);
                at += separator.len();
                start = at;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    (depth == 0).then(|| {
        parts.push(start..mask.len());
        parts
    })
}
