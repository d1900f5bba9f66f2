//! The dashboard: a page of files in the binary, for a browser. It holds no data and needs no token;
//! what it shows it asks of the rest of the service, by that service's rules.

use axum::extract::Path;
use axum::http::{HeaderName, HeaderValue, Uri, header};
use axum::response::{IntoResponse, Response};

use crate::admin::error;

/// Everything comes from this server and nothing else may run, be sent to or frame it. Scripts cannot
/// write markup either, so that text of the configuration stays text.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types";

/// What browsers are told of each file.
const HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    // Another version of the program has another page.
    (header::CACHE_CONTROL, "no-cache"),
];

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const DRAWING: &str = "image/svg+xml";

/// A file of the page: its name, its type, and what is in it.
type File = (&'static str, &'static str, &'static str);

const INDEX: File = ("index.html", HTML, include_str!("page/index.html"));

/// What is below `/assets/`.
const ASSETS: [File; 21] = [
    ("style.css", STYLE, include_str!("page/style.css")),
    ("parts.css", STYLE, include_str!("page/parts.css")),
    ("layout.css", STYLE, include_str!("page/layout.css")),
    ("icon.svg", DRAWING, include_str!("page/icon.svg")),
    ("main.js", SCRIPT, include_str!("page/main.js")),
    ("server.js", SCRIPT, include_str!("page/server.js")),
    ("health.js", SCRIPT, include_str!("page/health.js")),
    ("overview.js", SCRIPT, include_str!("page/overview.js")),
    ("origins.js", SCRIPT, include_str!("page/origins.js")),
    ("pools.js", SCRIPT, include_str!("page/pools.js")),
    ("balancers.js", SCRIPT, include_str!("page/balancers.js")),
    ("traffic.js", SCRIPT, include_str!("page/traffic.js")),
    ("map.js", SCRIPT, include_str!("page/map.js")),
    ("events.js", SCRIPT, include_str!("page/events.js")),
    ("explain.js", SCRIPT, include_str!("page/explain.js")),
    ("change.js", SCRIPT, include_str!("page/change.js")),
    ("chart.js", SCRIPT, include_str!("page/chart.js")),
    ("colours.js", SCRIPT, include_str!("page/colours.js")),
    ("dom.js", SCRIPT, include_str!("page/dom.js")),
    ("format.js", SCRIPT, include_str!("page/format.js")),
    ("world.js", SCRIPT, include_str!("page/world.js")),
];

/// Shows the page.
pub(super) async fn index() -> Response {
    answer(&INDEX)
}

/// Shows a file of the page.
pub(super) async fn asset(Path(name): Path<String>, uri: Uri) -> Response {
    match ASSETS.iter().find(|(known, _, _)| *known == name) {
        Some(file) => answer(file),
        None => error::not_found(uri).await.into_response(),
    }
}

fn answer(&(_, media_type, text): &File) -> Response {
    let mut response = text.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names that stand in a text between `before` and `"`.
    fn named<'t>(text: &'t str, before: &str) -> Vec<&'t str> {
        text.split(before).skip(1).filter_map(|rest| rest.split('"').next()).collect()
    }

    #[test]
    fn every_file_that_another_names_is_there() {
        let is_there = |name: &str| ASSETS.iter().any(|(known, _, _)| *known == name);
        let assets = named(INDEX.2, "\"/assets/");
        assert_eq!(assets.len(), 5, "{assets:?}");
        for name in assets {
            assert!(is_there(name), "{name}");
        }
        for (file, _, text) in ASSETS {
            for name in named(text, " from \"") {
                let name = name.strip_prefix("./").unwrap_or(name);
                assert!(is_there(name), "{file} imports {name}");
            }
        }
    }

    #[test]
    fn nothing_is_inline_and_nothing_is_from_elsewhere() {
        for word in [" style=", " onclick=", "<style", "javascript:", "http://", "https://"] {
            assert!(!INDEX.2.contains(word), "{word}");
        }
        assert_eq!(INDEX.2.matches("<script").count(), 1);
        for (file, media_type, text) in ASSETS {
            for word in ["innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", "https://"] {
                assert!(!text.contains(word), "{file}: {word}");
            }
            if media_type == STYLE {
                assert!(!text.contains("url("), "{file}");
            }
        }
    }
}
