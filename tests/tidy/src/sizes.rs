//! Lengths of files and functions.

use crate::source::{code_only, is_excused, is_word, line_of, word_positions};

/// Lines of a file: what one can still hold in one's head.
pub const FILE_LINES_MAX: usize = 600;
/// Lines of a function, from `fn` to its closing brace: more than a screen hides its shape.
pub const FUNCTION_LINES_MAX: usize = 70;

/// Returns the file if it is too long.
pub fn long_file(path: &str, text: &str) -> Option<String> {
    let lines = text.lines().count();
    (lines > FILE_LINES_MAX).then(|| format!("{path} has {lines} lines, at most {FILE_LINES_MAX} are allowed"))
}

/// Returns functions that are too long, unless the line before says why: `// tidy: long because ...`.
pub fn long_functions(path: &str, text: &str) -> Vec<String> {
    let code = code_only(text);
    let mut found = Vec::new();
    for at in word_positions(&code, "fn") {
        let Some((name, end)) = function_at(&code, at) else { continue };
        let (first, last) = (line_of(&code, at), line_of(&code, end));
        let lines = last - first + 1;
        if lines > FUNCTION_LINES_MAX && !is_excused(text, first, "long") {
            found.push(format!("{path}:{first}: {name} has {lines} lines, at most {FUNCTION_LINES_MAX} are allowed"));
        }
    }
    found
}

/// Returns name and closing brace of the function whose `fn` is at `at`; None for a type or a declaration.
fn function_at(code: &str, at: usize) -> Option<(&str, usize)> {
    let after = &code[at + 2..];
    let name = after.trim_start();
    let name = &name[..name.bytes().take_while(|&byte| is_word(byte)).count()];
    if name.is_empty() {
        return None;
    }
    let bytes = code.as_bytes();
    let (mut nested, mut braces) = (0usize, 0usize);
    for (end, &byte) in bytes.iter().enumerate().skip(at) {
        match byte {
            b'(' | b'[' => nested += 1,
            b')' | b']' => nested = nested.saturating_sub(1),
            b';' if nested == 0 && braces == 0 => return None,
            b'{' => braces += 1,
            b'}' if braces == 1 => return Some((name, end)),
            b'}' => braces = braces.saturating_sub(1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_over_the_limit_is_found() {
        assert_eq!(long_file("a.rs", &"\n".repeat(FILE_LINES_MAX)), None);
        let found = long_file("a.rs", &"\n".repeat(FILE_LINES_MAX + 1)).expect("too long");
        assert_eq!(found, "a.rs has 601 lines, at most 600 are allowed");
    }

    #[test]
    fn a_function_over_the_limit_is_found_unless_it_says_why() {
        let function =
            |lines: usize| format!("fn short(a: [u8; 2]) {{ '}}'; }}\nfn f() {{\n{}}}\n", "x;\n".repeat(lines - 2));
        assert_eq!(long_functions("a.rs", &function(FUNCTION_LINES_MAX)), [""; 0]);
        let long = function(FUNCTION_LINES_MAX + 1);
        assert_eq!(long_functions("a.rs", &long), ["a.rs:2: f has 71 lines, at most 70 are allowed"]);
        let excused = long.replace("fn f", "// tidy: long because it reads as a table\n#[test]\nfn f");
        assert_eq!(long_functions("a.rs", &excused), [""; 0]);
    }

    #[test]
    fn declarations_and_function_types_have_no_length() {
        let body = "\n".repeat(FUNCTION_LINES_MAX);
        let text = format!("trait T {{ fn f(&self) -> [u8; 4];\n{body}}}\ntype F = fn(u8) -> u8;\nstruct S {{{body}}}");
        assert_eq!(long_functions("a.rs", &text), [""; 0]);
    }
}
