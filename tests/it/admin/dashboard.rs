//! The dashboard, in a browser: that it shows what is so, as it changes; that it changes things; and
//! that whatever it shows stays text.

use std::net::{Ipv4Addr, TcpListener};

use serde_json::json;

use super::browser::{Browser, Theme};
use super::http::Request;
use super::{A, POOLS, Served, TOKEN, WWW, ZONE, site, until, with_admin, zone};

/// What a wall, a desk and a phone have.
const SIZES: [(u32, u32); 3] = [(1920, 1080), (1280, 800), (360, 740)];

/// A browser that shows the dashboard, with the state of the origin a1.
fn shown(served: &Served, size: (u32, u32), theme: Theme) -> Option<Browser> {
    let browser = Browser::start()?;
    browser.show_as(size, theme);
    browser.open(&served.url());
    browser.until_shown("#pools > .pool");
    Some(browser)
}

fn origin(name: &str, state: &str) -> String {
    format!("[data-origin={name:?}][data-state={state:?}]")
}

/// A real origin: the system takes connections in on its port until it is dropped.
fn start_origin(port: u16) -> TcpListener {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("a free port")
}

// ------------------------------------------------------------------------------ What is served

#[test]
fn the_page_needs_no_token_and_says_what_a_browser_may_do_with_it() {
    let site = site(POOLS);
    with_admin(&site, "listen = \"0.0.0.0:0\"\ntoken_file = \"admin.token\"");
    let served = Served::start(&site);
    let reached = served.admin.replace("0.0.0.0", "127.0.0.1");
    let get = |path: &str| Request::new("GET", path).send(&reached);
    get("/api/v1/status").assert_refused(401, &["token"]);
    let types = [
        ("/", "text/html; charset=utf-8"),
        ("/assets/main.js", "text/javascript; charset=utf-8"),
        ("/assets/style.css", "text/css; charset=utf-8"),
        ("/assets/icon.svg", "image/svg+xml"),
    ];
    for (path, media_type) in types {
        let reply = get(path);
        assert_eq!(reply.status, 200, "{path}");
        assert_eq!(reply.header("content-type"), Some(media_type), "{path}");
        assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(reply.header("referrer-policy"), Some("no-referrer"), "{path}");
        assert_eq!(reply.header("access-control-allow-origin"), None, "{path}");
        let policy = reply.header("content-security-policy").expect("a policy");
        for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        for secret in ["example.test", "192.0.2."] {
            let plain = reply.body.replace("192.0.2.0/24", "");
            assert!(!plain.contains(secret), "{path} tells {secret}");
        }
    }
    for path in ["/assets/", "/assets/nothing.js", "/assets/..%2fmod.rs", "/index.html"] {
        let reply = Request::new("GET", path).token(TOKEN).send(&reached);
        reply.assert_refused(404, &["nothing at"]);
    }
    Request::new("POST", "/").token(TOKEN).send(&reached).assert_refused(405, &["POST"]);
}

// ------------------------------------------------------------------------------ What is shown

#[test]
fn an_origin_that_is_killed_turns_red_without_a_reload() {
    let alive = start_origin(0);
    let port = alive.local_addr().expect("an address").port();
    let zone = format!(
        "[monitors.m]\ntype = \"tcp\"\nport = {port}\ninterval = \"1s\"\ntimeout = \"500ms\"\nfall = 1\n\
         rise = 1\n[pools.a]\nmonitor = \"m\"\n\
         origins = [{{ name = \"a1\", address = \"127.0.0.1\" }}]\n\
         [load_balancers.www]\npools = [\"a\"]\n"
    );
    let served = Served::of(site(&zone));
    let Some(browser) = shown(&served, SIZES[1], Theme::Light) else { return };
    browser.until_shown(&origin("a1", "up"));
    browser.until("document.querySelector('.verdict').dataset.state === 'up'");
    browser.run("window.same = true");

    drop(alive);
    browser.until_shown(&origin("a1", "down"));
    let text = browser.text(&origin("a1", "down"));
    for part in ["unhealthy", "refused", "since"] {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
    let colour = "const word = document.querySelector('[data-origin=a1] .word'); \
                  return getComputedStyle(word).color.match(/\\d+/g).map(Number)";
    let colour = browser.run(colour);
    let [red, green, blue] = [0, 1, 2].map(|index| colour[index].as_u64().expect("a number"));
    assert!(red > 2 * green && red > 2 * blue, "{colour}");
    browser.until("document.querySelector('.verdict').dataset.state === 'down'");
    assert!(browser.text("#balancers").contains("fallback only"));

    // What happened is told, too, as it happens.
    browser.until("document.querySelector('#link').dataset.state === 'live'");
    browser.until_shown(".event[data-kind=health].is-down");
    assert!(browser.text(".event[data-kind=health].is-down").contains("a/a1"));

    let _alive = start_origin(port);
    browser.until_shown(&origin("a1", "up"));
    browser.until_shown(".event[data-kind=health].is-up");
    assert_eq!(browser.run("return window.same"), true, "the page was loaded again");
    assert_eq!(browser.console(), [""; 0]);
}

#[test]
fn weight_0_is_told_from_drained() {
    let zone = POOLS.replace("192.0.2.2\"", "192.0.2.2\", weight = 0.0");
    let served = Served::of(site(&zone));
    served.push("192.0.2.1", "up");
    let Some(browser) = shown(&served, SIZES[1], Theme::Light) else { return };
    browser.until_shown(&origin("a2", "out"));
    assert_eq!(browser.text("[data-origin=a2] .word"), "weight 0");
    served.say(&json!({ "subject": "b1", "word": "drained" }));
    browser.until_shown(&origin("b1", "out"));
    assert_eq!(browser.text("[data-origin=b1] .word"), "drained");
}

#[test]
fn the_first_tile_says_that_a_reload_was_refused_until_one_succeeds() {
    let site = site(POOLS);
    let mut served = Served::start(&site);
    served.push("192.0.2.1", "up");
    served.push("192.0.2.2", "up");
    let Some(browser) = shown(&served, SIZES[2], Theme::Light) else { return };
    browser.until("document.querySelector('.verdict').dataset.state === 'up'");
    let long = "x".repeat(500);
    site.write(ZONE, zone(&format!("{POOLS}[{long}]\n")));
    served.server.reload("reload refused");
    browser.until("document.querySelector('.verdict').dataset.state === 'impaired'");
    let text = browser.text(".verdict");
    for part in ["Last reload refused", "zones/example.test.toml:", "xxx"] {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
    let is_wider = "return document.documentElement.scrollWidth > window.innerWidth";
    assert_eq!(browser.run(is_wider), false, "it fits a phone");
    site.write(ZONE, zone(POOLS));
    served.server.reload("reloaded");
    browser.until("document.querySelector('.verdict').dataset.state === 'up'");
    assert!(!browser.text(".verdict").contains("refused"));
}

#[test]
fn explain_shows_the_decision_step_by_step() {
    let served = Served::of(site(POOLS));
    served.push("192.0.2.1", "up");
    served.push("192.0.2.2", "down");
    let Some(browser) = shown(&served, SIZES[1], Theme::Light) else { return };
    let ask = |client: &str, resolver: &str| {
        browser.write("#explain-name", WWW);
        browser.write("#explain-client", client);
        browser.write("#explain-resolver", resolver);
        browser.click("#explain button");
    };
    ask("198.51.100.0/24", "203.0.113.53");
    browser.until_shown("#explained .steps");
    let text = browser.text("#explained");
    let parts = [
        "www.example.test. A for 198.51.100.0/24 (client subnet)",
        "failover, pools: a, b",
        "a available: 1 of 2 origins healthy",
        "a, the first available",
        "healthy primaries: a1",
        "NOERROR, ECS scope 0",
        "www.example.test. 30 IN A 192.0.2.1",
    ];
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    // A mistake is told as the server tells it. The console says that the request was refused.
    ask("nowhere", "");
    browser.until_shown("#explained .error");
    assert!(browser.text("#explained").contains("client: give an address"));
    let errors = browser.console();
    assert!(errors.iter().all(|line| line.contains("400")), "{errors:?}");
}

#[test]
fn whatever_operators_and_probes_say_is_shown_as_text() {
    let served = Served::of(site(POOLS));
    served.push("192.0.2.2", "up");
    let script = "<img src=x onerror='window.ran = true'><script>window.ran = true</script>";
    let push = json!({ "monitor": "m", "address": "192.0.2.1", "state": "down", "why": script });
    assert_eq!(served.send("POST", "/api/v1/push", &push).status, 200);
    let by = "<b onmouseover=run()>ada</b>";
    served.say(&json!({ "pool": "b", "word": "drained", "why": script, "by": by }));
    let Some(browser) = shown(&served, SIZES[0], Theme::Dark) else { return };
    browser.until_shown(&origin("a1", "down"));
    assert!(browser.text(&origin("a1", "down")).contains(script));
    assert!(browser.text("[data-pool=b]").contains(script));
    assert!(browser.text("[data-pool=b]").contains(by));
    // Also in the dialog, and in what is explained.
    browser.click("[data-pool=b] .pool-head .quiet");
    assert!(browser.text("#change").contains(script));
    browser.click("#change-cancel");
    browser.write("#explain-name", WWW);
    browser.write("#explain-client", "198.51.100.1");
    browser.click("#explain button");
    browser.until_shown("#explained .steps");
    assert!(browser.text("#explained").contains(script));
    assert_eq!(browser.run("return document.querySelectorAll('img, b, body script').length"), 0);
    assert_eq!(browser.run("return window.ran ?? null"), json!(null));
    // And if the page had a hole, the policy would close it.
    let hole =
        "try { document.body.innerHTML = '<p>'; return 'written' } catch { return 'refused' }";
    assert_eq!(browser.run(hole), "refused");
    let console = browser.console();
    assert!(console.iter().all(|line| line.contains("TrustedHTML")), "{console:?}");
}

#[test]
fn nothing_is_wider_than_the_window_in_light_and_dark() {
    let long = "an-origin-with-a-name-as-long-as-a-name-of-an-origin-may-be-63c";
    let zone = POOLS.replace("a2", long).replace("[pools.a]", "[pools.a]\nregion = \"weu\"");
    let served = Served::of(site(&zone));
    served.push("192.0.2.1", "down");
    let why = "because-".repeat(100);
    served.say(&json!({ "pool": "b", "word": "drained", "why": why, "by": "a".repeat(200) }));
    let Some(browser) = shown(&served, SIZES[0], Theme::Light) else { return };
    for size in SIZES {
        for theme in [Theme::Light, Theme::Dark] {
            browser.show_as(size, theme);
            browser.open(&served.url());
            browser.until_shown(&origin("a1", "down"));
            browser.write("#explain-name", WWW);
            browser.write("#explain-client", "198.51.100.1");
            browser.click("#explain button");
            browser.until_shown("#explained .steps");
            let widths = "return [document.documentElement.scrollWidth, innerWidth]";
            let widths = browser.run(widths);
            assert!(widths[0].as_u64() <= widths[1].as_u64(), "{size:?} {theme:?}: {widths}");
            let light = "return getComputedStyle(document.body).backgroundColor.match(/\\d+/g)\
                         .every((part) => Number(part) > 128)";
            assert_eq!(browser.run(light), matches!(theme, Theme::Light), "{size:?} {theme:?}");
            browser.click("[data-pool=b] .pool-head .quiet");
            let inside = "const box = document.querySelector('#change').getBoundingClientRect(); \
                          return box.left >= 0 && box.right <= innerWidth";
            assert_eq!(browser.run(inside), true, "the dialog at {size:?}");
            assert_eq!(browser.console(), [""; 0], "{size:?} {theme:?}");
        }
    }
}

#[test]
fn a_thousand_pools_are_not_shown_at_once() {
    let mut zone = String::from("[monitors.m]\ntype = \"push\"\nttl = \"1h\"\n");
    for number in 0..1000 {
        let (high, low) = (number / 250, number % 250 + 1);
        let monitor = if number == 700 { "monitor = \"m\"\n" } else { "" };
        zone.push_str(&format!(
            "[pools.p{number}]\n{monitor}origins = [{{ name = \"o{number}\", address = \
             \"10.0.{high}.{low}\" }}]\n"
        ));
    }
    zone.push_str("[load_balancers.www]\npools = [\"p0\"]\n");
    let served = Served::of(site(&zone));
    served.push("10.0.2.201", "down");
    let Some(browser) = shown(&served, SIZES[1], Theme::Light) else { return };
    // What is wrong is shown, and nothing else.
    assert_eq!(browser.run("return document.querySelectorAll('.pool').length"), 1);
    browser.until_shown(&origin("o700", "down"));
    browser.click("[data-which=all]");
    browser.until("document.querySelectorAll('.pool').length > 1");
    let few = browser.run("return document.querySelectorAll('.pool').length");
    assert!(few.as_u64().is_some_and(|few| few < 100), "{few}");
    assert!(browser.text("#pools-more").contains("are not shown"));
    browser.write("#pools-filter", "10.0.2.44");
    browser.until("document.querySelector('.pool').dataset.pool === 'p543'");
    assert_eq!(browser.run("return document.querySelectorAll('.pool').length"), 1);
    assert_eq!(browser.console(), [""; 0]);
}

#[test]
fn where_answers_go_is_counted_and_drawn() {
    let served = Served::of(site(POOLS));
    served.push("192.0.2.1", "up");
    for _ in 0..20 {
        served.answered();
    }
    let Some(browser) = shown(&served, SIZES[0], Theme::Light) else { return };
    browser
        .until("document.querySelector('#traffic-note').textContent.startsWith('20 answers in')");
    assert!(browser.text("#traffic-pools").contains("100 %"));
    assert!(browser.text("#traffic-regions").contains("not located"));
    browser.until("document.querySelectorAll('#balancers tr').length === 1");
    assert!(browser.text("#balancers").contains("100 %"));
    browser.click(".as-table summary");
    assert!(browser.text("#map-table").contains("unknown places"));
    assert_eq!(browser.console(), [""; 0]);
}

#[test]
fn that_the_server_is_gone_is_said() {
    let served = Served::of(site(POOLS));
    let Some(browser) = shown(&served, SIZES[2], Theme::Light) else { return };
    assert_eq!(browser.run("return document.querySelector('#lost').hidden"), true);
    drop(served);
    browser.until_shown("#lost");
    let text = browser.text("#lost");
    assert!(text.starts_with("No data since ") && text.contains("cannot be reached"), "{text}");
    assert!(browser.text("#link").starts_with("lost"), "{}", browser.text("#link"));
}

// ------------------------------------------------------------------------------ What is changed

#[test]
fn an_origin_that_is_drained_here_gets_no_more_answers() {
    let served = Served::of(site(POOLS));
    served.push("192.0.2.1", "up");
    served.push("192.0.2.2", "up");
    let Some(browser) = shown(&served, SIZES[1], Theme::Light) else { return };
    browser.until_shown(&origin("a1", "up"));
    assert_eq!(served.answered(), A);
    browser.click(&format!("{} button", origin("a1", "up")));
    browser.click("#change [value=drained]");
    browser.write("#change-for", "2h");
    browser.write("#change-why", "new kernel");
    browser.write("#change-by", "ada");
    // Without the token nothing happens, and the dialog says why.
    browser.write("#change-token", "a-token-that-is-wrong");
    browser.click("#change-apply");
    browser.until("document.querySelector('#change-error').textContent.includes('token is wrong')");
    assert_eq!(served.answered(), A);
    assert_eq!(browser.console().len(), 1, "the refusal");

    browser.write("#change-token", TOKEN);
    browser.click("#change-apply");
    browser.until("!document.querySelector('#change').open");
    assert_eq!(served.answered(), ["192.0.2.2"]);
    browser.until_shown(&origin("a1", "out"));
    let text = browser.text(&origin("a1", "out"));
    for part in ["drained", "by ada", "until", "new kernel"] {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
    // The token is kept by this tab, and nowhere else.
    let kept = browser.run("return Object.values(sessionStorage)");
    assert!(kept.as_array().is_some_and(|kept| kept.contains(&json!(TOKEN))), "{kept}");
    assert_eq!(browser.run("return [localStorage.length, document.cookie]"), json!([0, ""]));

    browser.click(&format!("{} button", origin("a1", "out")));
    browser.click("#change-lift");
    browser.until_shown(&origin("a1", "up"));
    assert_eq!(served.answered(), A);
    assert_eq!(browser.console(), [""; 0]);
}

#[test]
fn a_pool_is_taken_out_with_the_keyboard_alone() {
    let served = Served::of(site(POOLS));
    let Some(browser) = shown(&served, SIZES[1], Theme::Dark) else { return };
    let (tab, enter, down) = ("\u{e004}", "\u{e007}", "\u{e015}");
    browser.run("document.querySelector('[data-pool=a] .fold').focus()");
    let focus_is = |expression: &str| {
        let expression = format!("return document.activeElement.matches({expression:?})");
        browser.run(&expression) == true
    };
    browser.press(tab);
    assert!(focus_is("[data-pool=a] .pool-head .quiet"));
    let outline = "return getComputedStyle(document.activeElement).outlineStyle";
    assert_eq!(browser.run(outline), "solid", "the focus is seen");
    browser.press(enter);
    browser.until_shown("#change");
    browser.until("document.activeElement.name === 'word'");
    browser.press(down);
    assert!(focus_is("[value=disabled]:checked"));
    browser.run("document.querySelector('#change-token').focus()");
    browser.write("#change-token", TOKEN);
    browser.press(enter);
    until("the pool is out", || served.answered() == ["192.0.2.9"]);
    browser.until("document.querySelector('[data-pool=a]').dataset.state === 'out'");
    let back = "document.activeElement.matches('[data-pool=a] .pool-head .quiet')";
    browser.until(back);
    assert_eq!(browser.console(), [""; 0]);
}

#[test]
fn a_server_that_asks_for_the_token_is_read_with_it() {
    let site = site(POOLS);
    with_admin(&site, "listen = \"0.0.0.0:0\"\ntoken_file = \"admin.token\"");
    let served = Served::start(&site);
    let Some(browser) = Browser::start() else { return };
    browser.show_as(SIZES[2], Theme::Light);
    browser.open(&served.url().replace("0.0.0.0", "127.0.0.1"));
    browser.until_shown("#locked");
    assert_eq!(browser.run("return document.querySelectorAll('.pool').length"), 0);
    browser.write("#locked-token", "a-token-that-is-wrong");
    browser.click("#locked button");
    browser.until("document.querySelector('#locked-error').textContent.includes('is wrong')");
    browser.write("#locked-token", TOKEN);
    browser.click("#locked button");
    browser.until_shown("#pools > .pool");
    let refused = browser.console();
    assert!(refused.iter().all(|line| line.contains("401")), "{refused:?}");
}
