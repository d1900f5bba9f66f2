//! A browser without a window: Chromium, told what to do by way of chromedriver (W3C WebDriver), which
//! is HTTP and JSON.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use data_encoding::BASE64;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::http::connect;
use crate::harness::is_missing;

/// How long the page may take to show something.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);
/// What the browser is started with: nothing of the system, and nothing of the Internet.
const FLAGS: [&str; 9] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];
/// The key of an element in answers (WebDriver section 12.1).
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// One at a time: each takes as much of the machine as many servers do.
static ONE: Mutex<()> = Mutex::new(());

/// A browser with one tab; it ends when dropped.
pub(super) struct Browser {
    driver: Child,
    address: String,
    session: String,
    _profile: TempDir,
    _turn: MutexGuard<'static, ()>,
}

/// The colours that the system is set to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Theme {
    Light,
    Dark,
}

impl Browser {
    /// Starts one; none if this machine has none.
    pub(super) fn start() -> Option<Self> {
        if is_missing("chromium", "--version", "chromium")
            || is_missing("chromedriver", "--version", "chromium-driver")
        {
            return None;
        }
        let turn = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut command = Command::new("chromedriver");
        command.arg("--port=0").stdin(Stdio::null()).stderr(Stdio::null()).stdout(Stdio::piped());
        let mut driver = command.spawn().expect("chromedriver");
        let mut lines = BufReader::new(driver.stdout.take().expect("a pipe")).lines();
        let port = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let (_, port) = line.split_once("started successfully on port ")?;
            port.trim_end_matches('.').parse::<u16>().ok()
        });
        // A pipe that nobody reads would hold it up.
        thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        let address = format!("127.0.0.1:{}", port.expect("the port of chromedriver"));
        let profile = TempDir::new().expect("a temporary folder");
        let mut flags: Vec<_> = FLAGS.iter().map(|&flag| flag.to_owned()).collect();
        flags.push(format!("--user-data-dir={}", profile.path().display()));
        let mut browser =
            Self { driver, address, session: String::new(), _profile: profile, _turn: turn };
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "goog:loggingPrefs": { "browser": "ALL" },
            "goog:chromeOptions": { "args": flags },
        } } });
        let session = browser.call("POST", "/session", &wanted);
        let id = session["sessionId"].as_str().expect("a session");
        browser.session = format!("/session/{id}");
        Some(browser)
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let path = format!("{}{path}", self.session);
        let mut document = exchange(&self.address, method, &path, body);
        assert!(document["value"]["error"].is_null(), "{method} {path} {body}: {document:#}");
        document["value"].take()
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.call("POST", path, body)
    }

    /// Speaks to the browser in its own protocol.
    fn develop(&self, command: &str, parameters: &Value) -> Value {
        self.post("/goog/cdp/execute", &json!({ "cmd": command, "params": parameters }))
    }

    /// Loads a page.
    pub(super) fn open(&self, url: &str) {
        self.post("/url", &json!({ "url": url }));
    }

    /// The size of the window, and the theme.
    pub(super) fn show_as(&self, (width, height): (u32, u32), theme: Theme) {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.develop("Emulation.setDeviceMetricsOverride", &size);
        let value = match theme {
            Theme::Light => "light",
            Theme::Dark => "dark",
        };
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": value }] });
        self.develop("Emulation.setEmulatedMedia", &features);
    }

    /// What the body of a function returns.
    pub(super) fn run(&self, body: &str) -> Value {
        self.post("/execute/sync", &json!({ "script": body, "args": [] }))
    }

    /// Waits until an expression is true.
    pub(super) fn until(&self, expression: &str) {
        let start = Instant::now();
        while self.run(&format!("return Boolean({expression})")) != true {
            if start.elapsed() > PATIENCE {
                let text = self.run("return document.body.innerText");
                let text = text.as_str().unwrap_or_default();
                panic!("not within {PATIENCE:?}: {expression}\n{text}\n{:#?}", self.console());
            }
            thread::sleep(LOOK);
        }
    }

    /// Waits until an element is shown.
    pub(super) fn until_shown(&self, selector: &str) {
        self.until(&format!("document.querySelector({selector:?})?.checkVisibility()"));
    }

    /// The text of an element, as it is shown.
    pub(super) fn text(&self, selector: &str) -> String {
        let text = self.run(&format!("return document.querySelector({selector:?}).innerText"));
        text.as_str().expect("a text").to_owned()
    }

    fn element(&self, selector: &str) -> String {
        let wanted = json!({ "using": "css selector", "value": selector });
        let found = self.post("/element", &wanted);
        found[ELEMENT].as_str().expect("an element").to_owned()
    }

    /// Clicks on an element, as a user does: it must be where a user can reach it.
    pub(super) fn click(&self, selector: &str) {
        self.until_shown(selector);
        let element = self.element(selector);
        self.post(&format!("/element/{element}/click"), &json!({}));
    }

    /// Writes into a field, in place of what it has.
    pub(super) fn write(&self, selector: &str, text: &str) {
        let element = self.element(selector);
        self.post(&format!("/element/{element}/clear"), &json!({}));
        self.post(&format!("/element/{element}/value"), &json!({ "text": text }));
    }

    /// Presses a key on whatever has the focus: its character, or a code of WebDriver section 17.4.2.
    pub(super) fn press(&self, key: &str) {
        let keys = json!([{ "type": "keyDown", "value": key }, { "type": "keyUp", "value": key }]);
        let actions = json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": keys }] });
        self.post("/actions", &actions);
    }

    /// What the console got since the last look: errors, and violations of the policy.
    pub(super) fn console(&self) -> Vec<String> {
        let entries = self.post("/se/log", &json!({ "type": "browser" }));
        let entries = entries.as_array().expect("a list");
        let line = |entry: &Value| {
            format!("{} {}", entry["level"].as_str().unwrap_or(""), entry["message"])
        };
        entries.iter().map(line).collect()
    }

    /// Keeps what the window shows as a picture.
    pub(super) fn keep_picture(&self, file: &Path) {
        let picture = self.call("GET", "/screenshot", &Value::Null);
        let octets = BASE64.decode(picture.as_str().expect("a text").as_bytes());
        fs::write(file, octets.expect("base64")).expect("a file that can be written");
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // With the session the browser ends; a driver that is killed would leave it behind. What fails
        // here must not hide why a test did.
        if !self.session.is_empty() && !thread::panicking() {
            self.call("DELETE", "", &Value::Null);
        } else if !self.session.is_empty() {
            let end = || exchange(&self.address, "DELETE", &self.session, &Value::Null);
            let _ended = std::panic::catch_unwind(end);
        }
        let _killed = self.driver.kill();
        let _status = self.driver.wait();
    }
}

/// Sends JSON to chromedriver, and reads its answer: it does not close the connection, so that the length
/// counts.
fn exchange(address: &str, method: &str, path: &str, body: &Value) -> Value {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let mut stream = connect(address);
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).expect("a request sent");
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("a header in time");
        let Some((name, value)) = line.trim().split_once(':') else {
            if line.trim().is_empty() {
                break;
            }
            continue;
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().expect("a length");
        }
    }
    let mut octets = vec![0; length];
    reader.read_exact(&mut octets).expect("a body in time");
    serde_json::from_slice(&octets).expect("JSON")
}
