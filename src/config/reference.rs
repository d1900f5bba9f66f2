//! docs/reference.md: every key of every file, made of the tables of [`keys`](crate::config::keys).

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::config::keys::{FILES, Form, Key, Only, Preset, Section};

/// What stands above the tables.
const HEAD: &str = "\
<!-- Made by `meridian reference > docs/reference.md` from src/config/keys: change it there. -->

# Configuration reference

Every key of every file, with its default. Rules that hold everywhere, examples and what is warned of are
in [configuration.md](configuration.md). `meridian schema` prints the same as a JSON Schema
([configuration.md](configuration.md#in-an-editor)).
";

/// The whole page, in Markdown.
pub fn page() -> String {
    let mut page = HEAD.to_owned();
    let mut shown = BTreeSet::new();
    for kind in &FILES {
        show(kind.root, "##", &mut page);
        show_below(kind.root, &mut page, &mut shown);
    }
    page
}

/// Shows the tables within a table, those that have a heading, each once.
fn show_below(section: &Section, page: &mut String, shown: &mut BTreeSet<&'static str>) {
    for inner in section.keys.iter().filter_map(|key| key.form.section()) {
        if !inner.heading.is_empty() && shown.insert(inner.id) {
            show(inner, "###", page);
            show_below(inner, page, shown);
        }
    }
}

fn show(section: &Section, level: &str, page: &mut String) {
    let is_plain = !section.heading.starts_with('[');
    let tick = if is_plain { "" } else { "`" };
    let mut part = format!("\n{level} {tick}{}{tick}\n\n", section.heading);
    if !section.about.is_empty() {
        part += &format!("{}\n\n", section.about);
    }
    part += "| key | default | values | meaning |\n| --- | --- | --- | --- |\n";
    rows("", section, &mut part);
    page.push_str(&part);
}

/// A row for each key; those of a table without a heading stand among them.
fn rows(prefix: &str, section: &Section, page: &mut String) {
    for key in section.keys {
        let name = format!("{prefix}{}", key.name);
        match key.form.section() {
            Some(inner) if inner.heading.is_empty() => rows(&format!("{name}."), inner, page),
            _ => {
                let default = match key.default {
                    Preset::Required if prefix.is_empty() => "required".to_owned(),
                    Preset::Required => "required in its table".to_owned(),
                    Preset::Nothing => "none".to_owned(),
                    Preset::Value(value) => format!("`{value}`"),
                    Preset::Words(words) => words.to_owned(),
                };
                let (values, meaning) = (values(&key.form), meaning(key));
                // Writing to a string does not fail.
                let _written = writeln!(page, "| `{name}` | {default} | {values} | {meaning} |");
            }
        }
    }
}

fn meaning(key: &Key) -> String {
    let Some(Only { of, words, required }) = key.only else { return key.meaning.to_owned() };
    let with = |words: &[&str]| {
        let words: Vec<_> = words.iter().map(|word| format!("`\"{word}\"`")).collect();
        words.join(", ")
    };
    let needed = match required.len() {
        0 => String::new(),
        _ if required == words => ", and required there".to_owned(),
        _ => format!("; required with {}", with(required)),
    };
    format!("{}. Only with `{of}` {}{needed}", key.meaning, with(words))
}

/// What can stand at a key, in few words.
fn values(form: &Form) -> String {
    let link = |section: &Section| format!("[`{}`](#{})", section.heading, anchor(section.heading));
    match form {
        Form::Boolean => "true, false".to_owned(),
        Form::Integer(low, high) => format!("{low} to {high}"),
        Form::Ttl => "seconds".to_owned(),
        Form::Number(low, high) => format!("{low} to {high}, with decimals"),
        Form::Ratio => "0 to 1".to_owned(),
        Form::Duration(low, high) => format!("`\"{low}\"` to `\"{high}\"`"),
        Form::Text { what, .. } => (*what).to_owned(),
        Form::Choice(words) => {
            words.iter().map(|word| format!("`\"{word}\"`")).collect::<Vec<_>>().join(", ")
        }
        Form::Coordinates => "`[latitude, longitude]` in degrees".to_owned(),
        Form::OneOrMore(each) => format!("{}, or a list", values(each)),
        Form::List(each) => format!("a list: {}", values(each)),
        Form::Either(forms) => forms.iter().map(values).collect::<Vec<_>>().join(", or "),
        Form::Table(section) if section.heading.is_empty() => {
            let keys: Vec<_> = section.keys.iter().map(|key| format!("`{}`", key.name)).collect();
            format!("a table with {}", keys.join(" and "))
        }
        Form::Table(section) => link(section),
        Form::Tables(section) => format!("a list of tables: {}", link(section)),
        Form::Named { what, each, .. } => {
            format!("a table by {what}; at each: {}", values(each))
        }
    }
}

/// The anchor of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|&c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}
