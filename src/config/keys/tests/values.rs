//! Values that a form allows, and some that it does not.

use serde_json::{Map, Value, json};

use crate::config::duration::{parse_duration, show_duration};
use crate::config::keys::tests::UNKNOWN;
use crate::config::keys::tests::documents::SECRET;
use crate::config::keys::{Form, Preset, Section};
use crate::rr::Ttl;

/// Values that a form allows, the limits among them; the lowest first.
pub(super) fn right(form: &Form) -> Vec<Value> {
    match form {
        Form::Boolean => vec![json!(false), json!(true)],
        Form::Integer(low, high) => vec![json!(low), json!(high)],
        Form::Ttl => vec![json!(0), json!(Ttl::MAX)],
        Form::Number(low, high) => vec![json!(low), json!(high), json!(f64::from(*low) + 0.5)],
        Form::Ratio => vec![json!(1), json!(0.25), json!(0)],
        Form::Duration(low, high) => vec![json!(low), json!(high)],
        Form::Text { example, .. } => vec![json!(example)],
        Form::Choice(words) => words.iter().map(|word| json!(word)).collect(),
        Form::Coordinates => vec![json!([52.4, 4.9]), json!([-90, 180])],
        Form::OneOrMore(each) => vec![right(each)[0].clone(), json!([right(each)[0]])],
        Form::List(each) => right(each).into_iter().map(|value| json!([value])).collect(),
        Form::Either(forms) => forms.iter().flat_map(right).collect(),
        Form::Table(section) => vec![filled(section, Map::new())],
        Form::Tables(section) => vec![json!([filled(section, Map::new())])],
        Form::Named { example, each, .. } => vec![json!({ *example: right(each)[0] })],
    }
}

/// Values that a form does not allow.
pub(super) fn wrong(form: &Form) -> Vec<Value> {
    let of_entry = |each: &Form| wrong(each).into_iter().map(|value| json!([value])).collect();
    match form {
        Form::Boolean => vec![json!(1), json!("true")],
        Form::Integer(low, high) => {
            let below = i64::try_from(*low).map_or(0, |low| low - 1);
            vec![json!(below), json!(high + 1), json!("1"), json!(true)]
        }
        Form::Ttl => vec![json!(-1), json!(u64::from(Ttl::MAX) + 1), json!("1")],
        Form::Number(_, high) => vec![json!(-1), json!(u64::from(*high) + 1), json!("1")],
        Form::Ratio => vec![json!(1.5), json!(-0.5), json!("1")],
        Form::Duration(low, high) => {
            let millisecond = std::time::Duration::from_millis(1);
            let limit = |text: &str| parse_duration(text).expect("a duration");
            let below = limit(low).checked_sub(millisecond).map(show_duration);
            let above = show_duration(limit(high) + millisecond);
            let texts = below.into_iter().chain([above, "10".to_owned()]);
            texts.map(|text| json!(text)).chain([json!(10)]).collect()
        }
        Form::Text { .. } => vec![json!(1), json!(true)],
        Form::Choice(_) => vec![json!(UNKNOWN), json!(1)],
        Form::Coordinates => vec![json!([1]), json!([91, 0]), json!([0, 181]), json!("0, 0")],
        Form::OneOrMore(each) => wrong(each),
        Form::List(each) => [vec![right(each)[0].clone()], of_entry(each)].concat(),
        Form::Either(_) => vec![json!(true)],
        Form::Table(_) | Form::Tables(_) => vec![json!(1), json!([1])],
        Form::Named { example, each, .. } => [
            vec![json!(1)],
            wrong(each).into_iter().map(|value| json!({ *example: value })).collect(),
        ]
        .concat(),
    }
}

/// A table with all keys that it must have.
pub(super) fn filled(section: &Section, mut table: Map<String, Value>) -> Value {
    for key in section.keys.iter().filter(|key| matches!(key.default, Preset::Required)) {
        table.entry(key.name).or_insert_with(|| right(&key.form)[0].clone());
    }
    // One of two keys must be there.
    if section.id == "query_log" && !table.contains_key("socket") {
        table.entry("file").or_insert(json!("queries.log"));
    }
    if section.id == "tsig_key" && !table.contains_key("secret_file") {
        table.entry("secret").or_insert(json!(SECRET));
    }
    Value::Object(table)
}
