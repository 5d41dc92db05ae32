//! Rust text without what is not code. No parser: enough for counting lines and finding names.

/// Returns the text with comments, strings and characters blanked out, every line and column where it was.
pub fn code_only(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = skipped_end(bytes, at);
        for byte in &mut out[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end.max(at + 1);
    }
    String::from_utf8(out).expect("only whole tokens are blanked out")
}

/// Returns where the comment, string or character that starts here ends; `at` itself if none starts here.
fn skipped_end(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let starts_word = at == 0 || !is_word(bytes[at - 1]);
    match rest[0] {
        b'/' if rest.starts_with(b"//") => at + rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len()),
        b'/' if rest.starts_with(b"/*") => at + block_comment_length(rest),
        b'"' => at + string_length(rest),
        b'b' | b'c' if starts_word && rest.get(1) == Some(&b'"') => at + 1 + string_length(&rest[1..]),
        b'b' | b'c' if starts_word && rest.get(1) == Some(&b'r') => {
            raw_string_length(&rest[1..]).map_or(at, |length| at + 1 + length)
        }
        b'r' if starts_word => raw_string_length(rest).map_or(at, |length| at + length),
        b'\'' => char_length(rest).map_or(at, |length| at + length),
        _ => at,
    }
}

fn block_comment_length(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += 1;
        }
    }
    at
}

fn string_length(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != b'"' {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

fn raw_string_length(rest: &[u8]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|&&byte| byte == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return None; // r#identifier
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let body = &rest[2 + hashes..];
    let end = body.windows(close.len()).position(|window| window == close).unwrap_or(body.len());
    Some((2 + hashes + end + close.len()).min(rest.len()))
}

/// A character, not a lifetime: `'a'`, `'\n'`, `'é'`.
fn char_length(rest: &[u8]) -> Option<usize> {
    if rest.get(1) == Some(&b'\\') {
        let end = rest.iter().skip(3).position(|&byte| byte == b'\'')?;
        return Some(end + 4);
    }
    let width = 1 + rest.get(2..)?.iter().take_while(|&&byte| byte & 0xc0 == 0x80).count();
    (rest.get(1 + width) == Some(&b'\'')).then_some(width + 2)
}

pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Returns where `needle` stands in `text` as words of its own; its ends that are no letters are taken as they are.
pub fn word_positions<'a>(text: &'a str, needle: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes = text.as_bytes();
    let edge = |byte: Option<u8>| byte.is_some_and(is_word);
    let (first, last) = (edge(needle.bytes().next()), edge(needle.bytes().last()));
    text.match_indices(needle).map(|(at, _)| at).filter(move |&at| {
        let before = at > 0 && is_word(bytes[at - 1]);
        let after = bytes.get(at + needle.len()).is_some_and(|&byte| is_word(byte));
        !(first && before || last && after)
    })
}

/// Returns the number of the line that a position is in, counted from 1.
pub fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count()
}

/// Says whether a line before `line` (from 1) is `// tidy: KEY because` with a reason; attributes and comments between
/// do not matter.
pub fn is_excused(text: &str, line: usize, key: &str) -> bool {
    let lines: Vec<&str> = text.lines().take(line - 1).map(str::trim).collect();
    let marker = format!("// tidy: {key} because ");
    lines
        .iter()
        .rev()
        .take_while(|line| line.starts_with("//") || line.starts_with("#["))
        .any(|line| line.strip_prefix(&marker).is_some_and(|reason| !reason.trim().is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_strings_and_characters_go_and_code_stays() {
        let text =
            "let a = \"x // \\\" y\"; // fn\nlet b = r#\"\" fn \"#; /* fn /* */ fn */ fn f<'a>(c: &'a u8) -> 'x' '\\''";
        let code = code_only(text);
        assert_eq!(code.len(), text.len());
        assert_eq!(code.matches("fn").count(), 1, "{code}");
        assert!(code.contains("f<'a>(c: &'a u8)"), "{code}");
        assert!(!code.contains("'x'"), "{code}");
        assert_eq!(code.lines().count(), 2);
    }

    #[test]
    fn words_are_found_whole() {
        assert_eq!(word_positions("a Instant, InstantX, myInstant", "Instant").collect::<Vec<_>>(), [2]);
        assert_eq!(word_positions("std::fs::read", "std::fs").count(), 1);
        assert_eq!(word_positions("std::fsx", "std::fs").count(), 0);
        assert_eq!(word_positions("rand::rng", "rand::").count(), 1);
    }

    #[test]
    fn an_excuse_needs_its_key_and_a_reason() {
        let text = "// tidy: long because it is a table\n#[test]\nfn f() {}\n";
        assert!(is_excused(text, 3, "long"));
        assert!(!is_excused(text, 3, "sleep"));
        assert!(!is_excused("// tidy: long because \nfn f() {}\n", 2, "long"));
        assert!(!is_excused("// tidy: long because x\n\nfn f() {}\n", 3, "long"));
    }
}
