//! JSON Schemas (2020-12) of the configuration's files, for editors and other programs, made of the
//! tables of [`keys`](crate::config::keys). They hold what concerns one file: names, forms, ranges,
//! which keys go together. What refers to other files is for `meridian check`.

use serde_json::{Map, Value, json};

use crate::config::keys::{FILES, FileKind, Form, Key, Only, Preset, Section};
use crate::rr::Ttl;

/// The dialect.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The schema of one kind of file.
pub fn of_file(kind: &FileKind) -> Value {
    let mut schema = section(kind.root);
    schema.insert("$schema".to_owned(), json!(DIALECT));
    schema.insert("title".to_owned(), json!(format!("Meridian: {}", kind.files)));
    let mut definitions = Map::new();
    define_below(kind.root, &mut definitions);
    schema.insert("$defs".to_owned(), Value::Object(definitions));
    Value::Object(schema)
}

/// The schema of all files: what fits one of their kinds.
pub fn of_all_files() -> Value {
    let mut definitions = Map::new();
    for kind in &FILES {
        definitions.insert(kind.root.id.to_owned(), Value::Object(section(kind.root)));
        define_below(kind.root, &mut definitions);
    }
    let kinds: Vec<Value> = FILES.iter().map(|kind| reference(kind.root)).collect();
    json!({
        "$schema": DIALECT,
        "title": "Meridian: any file of the configuration",
        "anyOf": kinds,
        "$defs": definitions,
    })
}

/// Adds the definitions of all tables within a table.
fn define_below(section: &Section, definitions: &mut Map<String, Value>) {
    for inner in section.keys.iter().flat_map(|key| sections(&key.form)) {
        if !definitions.contains_key(inner.id) {
            definitions.insert(inner.id.to_owned(), Value::Object(self::section(inner)));
            define_below(inner, definitions);
        }
    }
}

/// The tables that a form refers to.
fn sections(form: &Form) -> Vec<&'static Section> {
    match form {
        Form::Either(forms) => forms.iter().flat_map(sections).collect(),
        Form::OneOrMore(each) | Form::List(each) => sections(each),
        _ => form.section().into_iter().collect(),
    }
}

fn section(section: &Section) -> Map<String, Value> {
    let is_required = |key: &&Key| matches!(key.default, Preset::Required);
    let required: Vec<&str> = section.keys.iter().filter(is_required).map(|key| key.name).collect();
    let properties: Map<_, _> =
        section.keys.iter().map(|key| (key.name.to_owned(), property(key))).collect();
    let mut schema = Map::new();
    schema.insert("type".to_owned(), json!("object"));
    if !section.about.is_empty() {
        schema.insert("description".to_owned(), json!(plain(section.about)));
    }
    schema.insert("properties".to_owned(), Value::Object(properties));
    schema.insert("additionalProperties".to_owned(), json!(false));
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    let bound = || section.keys.iter().filter_map(|key| Some((key.name, key.only?)));
    let with: Map<_, _> =
        bound().map(|(name, only)| (name.to_owned(), stands_with(only))).collect();
    if !with.is_empty() {
        schema.insert("dependentSchemas".to_owned(), Value::Object(with));
    }
    let needed = bound().filter(|(_, only)| !only.required.is_empty());
    let needed: Vec<_> = needed.map(|(name, only)| needed_with(name, only)).collect();
    if !needed.is_empty() {
        schema.insert("allOf".to_owned(), json!(needed));
    }
    schema
}

/// What holds of the other key where a key stands.
fn stands_with(Only { of, words, .. }: Only) -> Value {
    json!({ "properties": { of: { "enum": words } }, "required": [of] })
}

/// That a key stands where the other key asks for it.
fn needed_with(name: &str, Only { of, required, .. }: Only) -> Value {
    json!({
        "if": { "properties": { of: { "enum": required } }, "required": [of] },
        "then": { "required": [name] },
    })
}

fn property(key: &Key) -> Value {
    let mut schema = form(&key.form);
    schema.insert("description".to_owned(), json!(plain(key.meaning)));
    if let Preset::Value(text) = key.default
        && let Ok(value) = serde_json::from_str::<Value>(text)
    {
        schema.insert("default".to_owned(), value);
    }
    Value::Object(schema)
}

fn form(form: &Form) -> Map<String, Value> {
    let any_of = |forms: Vec<Map<String, Value>>| json!({ "anyOf": forms });
    let schema = match form {
        Form::Boolean => json!({ "type": "boolean" }),
        Form::Integer(low, high) => json!({ "type": "integer", "minimum": low, "maximum": high }),
        Form::Ttl => json!({ "type": "integer", "minimum": 0, "maximum": Ttl::MAX }),
        Form::Number(low, high) => json!({ "type": "number", "minimum": low, "maximum": high }),
        Form::Ratio => json!({ "type": "number", "minimum": 0, "maximum": 1 }),
        Form::Duration(low, _) => {
            json!({ "type": "string", "pattern": "^[0-9]+(ms|s|m|h|d)$", "examples": [low] })
        }
        Form::Text { .. } => json!({ "type": "string" }),
        Form::Choice(words) => json!({ "enum": words }),
        Form::Coordinates => json!({
            "type": "array",
            "prefixItems": [
                { "type": "number", "minimum": -90, "maximum": 90 },
                { "type": "number", "minimum": -180, "maximum": 180 },
            ],
            "items": false,
            "minItems": 2,
        }),
        Form::OneOrMore(each) => {
            let list = self::form(&Form::List(each));
            any_of(vec![self::form(each), list])
        }
        Form::List(each) => json!({ "type": "array", "items": self::form(each) }),
        Form::Either(forms) => any_of(forms.iter().map(self::form).collect()),
        Form::Table(section) => reference(section),
        Form::Tables(section) => json!({ "type": "array", "items": reference(section) }),
        Form::Named { each, .. } => {
            json!({ "type": "object", "additionalProperties": self::form(each) })
        }
    };
    match schema {
        Value::Object(schema) => schema,
        _ => Map::new(),
    }
}

fn reference(section: &Section) -> Value {
    json!({ "$ref": format!("#/$defs/{}", section.id) })
}

/// Markdown without its links.
fn plain(markdown: &str) -> String {
    let mut text = String::new();
    let mut rest = markdown;
    while let Some((before, link)) = rest.split_once('[') {
        let parts = link.split_once("](").and_then(|(label, after)| {
            let (_, after) = after.split_once(')')?;
            (!label.contains(']')).then_some((label, after))
        });
        text.push_str(before);
        match parts {
            Some((label, after)) => {
                text.push_str(label);
                rest = after;
            }
            None => {
                text.push('[');
                rest = link;
            }
        }
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_become_their_labels() {
        assert_eq!(plain("see [a](b.md#c), [0, 1] and `[d]`"), "see a, [0, 1] and `[d]`");
    }
}
