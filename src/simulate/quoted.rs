//! A piece of an input in an error: in quotes, with escapes for what a terminal would act on, and not
//! longer than it takes to find it again.

use std::fmt;

/// The most characters of it that are shown.
const LONGEST: usize = 60;

/// What was read, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quoted(String);

impl Quoted {
    /// Shows a piece of any length.
    pub fn new(piece: &str) -> Self {
        Self(match piece.char_indices().nth(LONGEST) {
            None => format!("{piece:?}"),
            Some((end, _)) => {
                let begin = piece.get(..end).unwrap_or_default();
                format!("{begin:?}… ({} octets)", piece.len())
            }
        })
    }
}

impl fmt::Display for Quoted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_pieces_are_cut_and_escapes_keep_terminals_quiet() {
        assert_eq!(Quoted::new("weu").to_string(), "\"weu\"");
        assert_eq!(Quoted::new("\u{1b}[2J\r\u{202e}").to_string(), r#""\u{1b}[2J\r\u{202e}""#);
        let whole = "ä".repeat(LONGEST);
        assert_eq!(Quoted::new(&whole).to_string(), format!("\"{whole}\""));
        let cut = Quoted::new(&"ä".repeat(1_000_000)).to_string();
        assert_eq!(cut, format!("\"{whole}\"… (2000000 octets)"));
    }
}
