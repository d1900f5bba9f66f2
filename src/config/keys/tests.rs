//! Tables and parsers agree. For each table a file is made that has it, with a key that nobody knows: the
//! parser's message then lists the keys that it does know. For each key values are tried that its form
//! allows, and some that it does not. Where this fails the message says what to change.

mod documents;
mod values;

use serde_json::{Value, json};

use crate::config::keys::tests::documents::{
    errors_at, for_each_key, for_each_section, open, opened, outcome, prepare, read, shown,
};
use crate::config::keys::tests::values::{right, wrong};
use crate::config::keys::{Form, Only, Preset, Section};

/// A key that no table has, and that is like none.
const UNKNOWN: &str = "qqqqqqqqqqqqqqqqqqqqqqqq";

/// Keys whose upper limit depends on others as well, so that it is not tried.
const BOUND_BY_OTHERS: [(&str, &str); 2] = [("monitor", "timeout"), ("pool", "minimum_origins")];
/// Keys for which it is remembered that they were given, so that giving the default is not the same.
const REMEMBERED: [(&str, &str); 2] = [("server", "listen"), ("server", "geo")];

#[test]
fn every_key_of_the_parsers_is_in_the_tables_and_every_other_way_round() {
    let mut faults = Vec::new();
    for_each_section(|kind, path, section| {
        let mut document = opened(kind, path);
        open(&mut document, path).insert(UNKNOWN.to_owned(), json!(0));
        let at = format!("{}{UNKNOWN}", shown(path, &document));
        let found = read(kind, &document);
        let unknown = found.iter().find(|d| d.key == at && d.message == "unknown key");
        let known = unknown.and_then(|d| d.help.strip_prefix("the keys here are "));
        let Some(known) = known else {
            faults.push(format!(
                "{}: the parser does not refuse unknown keys in {} ({}). Does it call \
                 Table::finish? Or src/config/keys has a table that no parser reads",
                kind.files, section.id, at
            ));
            return;
        };
        let known: Vec<&str> = known.split(", ").collect();
        for name in known.iter().filter(|name| section.keys.iter().all(|key| key.name != **name)) {
            faults.push(format!(
                "{}: the parser knows `{name}` in the table {:?}, and src/config/keys does not: add \
                 key({name:?}, …) to the Section with this id, then run `cargo run -- reference > \
                 docs/reference.md`",
                kind.files, section.id
            ));
        }
        for key in section.keys.iter().filter(|key| !known.contains(&key.name)) {
            faults.push(format!(
                "{}: the Section {:?} of src/config/keys has {:?}, and the parser does not know it: \
                 remove it there, or read it in the parser with Table::optional",
                kind.files, section.id, key.name
            ));
        }
    });
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn the_parsers_take_what_the_forms_allow_and_nothing_else() {
    let mut faults = Vec::new();
    for_each_key(|kind, path, section, key| {
        if kind.word == "shared" {
            // The keys are those of a zone, and the names in the examples are taken by its own.
            return;
        }
        let mut document = opened(kind, path);
        prepare(open(&mut document, path), section, key);
        let at = format!("{}{}", shown(path, &document), key.name);
        let mut errors = |value: Value| -> Vec<String> {
            open(&mut document, path).insert(key.name.to_owned(), value);
            errors_at(kind, &document, &at)
        };
        let mut right = right(&key.form);
        if BOUND_BY_OTHERS.contains(&(section.id, key.name)) {
            right.truncate(1);
        }
        if let Preset::Value(text) = key.default {
            match serde_json::from_str(text) {
                Ok(value) => right.push(value),
                Err(error) => faults.push(format!("{at}: the default {text} is no JSON: {error}")),
            }
        }
        for value in right {
            let found = errors(value.clone());
            if !found.is_empty() {
                faults.push(format!("{at} = {value}: the Form allows it, the parser: {found:?}"));
            }
        }
        for value in wrong(&key.form) {
            if errors(value.clone()).is_empty() {
                faults.push(format!("{at} = {value}: the Form forbids it, the parser takes it"));
            }
        }
    });
    assert!(
        faults.is_empty(),
        "\n{}\nCorrect the Form in src/config/keys; what a value needs beside it stands in base() and \
         beside() of src/config/keys/tests/documents.rs\n",
        faults.join("\n")
    );
}

#[test]
fn the_words_of_choices_are_all_there() {
    let mut faults = Vec::new();
    for_each_key(|kind, path, section, key| {
        let (words, wrong) = match key.form {
            Form::Choice(words) => (words, json!(UNKNOWN)),
            Form::List(Form::Choice(words)) => (*words, json!([UNKNOWN])),
            _ => return,
        };
        let mut document = opened(kind, path);
        prepare(open(&mut document, path), section, key);
        let at = format!("{}{}", shown(path, &document), key.name);
        open(&mut document, path).insert(key.name.to_owned(), wrong);
        let words: Vec<_> = words.iter().map(|word| format!("{word:?}")).collect();
        let found = read(kind, &document);
        let help: Vec<_> =
            found.iter().filter(|d| d.key.starts_with(&at)).map(|d| &d.help).collect();
        let expected = format!("the choices are {}", words.join(", "));
        if help != [&expected] {
            faults.push(format!("{at}: src/config/keys says {expected}; the parser: {help:?}"));
        }
    });
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn keys_that_depend_on_another_stand_and_are_missed_where_the_tables_say_so() {
    let mut faults = Vec::new();
    for_each_key(|kind, path, section, key| {
        let Some(Only { of, words, required }) = key.only else { return };
        let other = section.keys.iter().find(|other| other.name == of);
        let Some(Form::Choice(all)) = other.map(|other| other.form) else {
            faults
                .push(format!("{}.{}: there is no choice {of:?} beside it", section.id, key.name));
            return;
        };
        for word in all {
            let mut document = opened(kind, path);
            let at = format!("{}{}", shown(path, &document), key.name);
            let table = open(&mut document, path);
            table.insert(of.to_owned(), json!(word));
            table.insert(key.name.to_owned(), right(&key.form)[0].clone());
            if errors_at(kind, &document, &at).is_empty() != words.contains(word) {
                faults.push(format!("{at} with {of} = {word:?}: correct the words of its `only`"));
            }
            open(&mut document, path).remove(key.name);
            if errors_at(kind, &document, &at).is_empty() == required.contains(word) {
                faults.push(format!("{at} missing with {of} = {word:?}: correct what is required"));
            }
        }
    });
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn the_defaults_of_the_tables_are_those_of_the_parsers() {
    let mut faults = Vec::new();
    for_each_key(|kind, path, section, key| {
        let Preset::Value(text) = key.default else { return };
        if REMEMBERED.contains(&(section.id, key.name)) {
            return;
        }
        let mut document = opened(kind, path);
        prepare(open(&mut document, path), section, key);
        open(&mut document, path).remove(key.name);
        let without = outcome(kind, &document);
        let value: Value = serde_json::from_str(text).expect("a default in JSON");
        open(&mut document, path).insert(key.name.to_owned(), value);
        let (found, with) = (read(kind, &document), outcome(kind, &document));
        if with.is_none() || with != without {
            faults.push(format!(
                "{}.{}: leaving it out is not the same as {text}: correct the default in \
                 src/config/keys {found:?}",
                section.id, key.name
            ));
        }
    });
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn sections_have_names_of_their_own() {
    let mut seen: Vec<&Section> = Vec::new();
    for_each_section(|_, _, section| {
        let is_taken = seen.iter().any(|other| other.id == section.id);
        assert!(!is_taken, "two sections are called {:?}", section.id);
        seen.push(section);
    });
}
