// What is asked of the server: documents, changes, and the events as they come.

const TOKEN = "meridian-token";
/** How long a request may take. */
const PATIENCE = 12_000;
/** How long the events may be silent: the server sends a comment every 15 s. */
const LONGEST_SILENCE = 40_000;

/** The token that the user entered; it ends with the tab. */
export const token = {
  get: () => sessionStorage.getItem(TOKEN) ?? "",
  set(text) {
    if (text) sessionStorage.setItem(TOKEN, text);
    else sessionStorage.removeItem(TOKEN);
  },
};

/** Why a request failed. `status` is 0 if there was no answer. */
export class Failure extends Error {
  constructor(status, message, help = "") {
    super(message);
    this.status = status;
    this.help = help;
  }
}

function headers(more, given = token.get()) {
  return given ? { ...more, Authorization: `Bearer ${given}` } : { ...more };
}

async function ask(path, options, signal) {
  let response;
  try {
    response = await fetch(path, {
      ...options,
      signal,
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
    });
  } catch (error) {
    throw new Failure(
      0,
      error.name === "TimeoutError" ? "the server does not answer" : "the server cannot be reached",
    );
  }
  if (response.ok) return response;
  const document = await response.json().catch(() => ({}));
  throw new Failure(
    response.status,
    document.error ?? `the server answered ${response.status}`,
    document.help,
  );
}

async function askJson(path, options) {
  const response = await ask(path, options, AbortSignal.timeout(PATIENCE));
  try {
    return await response.json();
  } catch {
    throw new Failure(0, "the answer broke off");
  }
}

/** The JSON document at a path. */
export const get = (path) => askJson(path, { headers: headers() });

/** Changes something, with this token if one is given. */
export function change(method, path, body, entered) {
  return askJson(path, {
    method,
    headers: headers({ "Content-Type": "application/json" }, entered || token.get()),
    body: JSON.stringify(body),
  });
}

/**
 * Follows the events after a number until the stream ends. EventSource sends no token, so the stream is
 * read by hand. `opened` is called when it stands, `took` with each event.
 */
export async function follow(after, opened, took) {
  const control = new AbortController();
  let silence;
  const heard = () => {
    clearTimeout(silence);
    silence = setTimeout(() => control.abort(), LONGEST_SILENCE);
  };
  heard();
  try {
    const path = `/api/v1/events?after=${encodeURIComponent(after)}`;
    const response = await ask(
      path,
      { headers: headers({ Accept: "text/event-stream" }) },
      control.signal,
    );
    opened();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      heard();
      const parts = (rest + value.replaceAll("\r", "")).split("\n\n");
      rest = parts.pop();
      parts.map(eventOf).filter(Boolean).forEach(took);
    }
  } finally {
    clearTimeout(silence);
    control.abort();
  }
}

/** The event of a block of lines; none if it is a comment. */
function eventOf(block) {
  const lines = block.split("\n").filter((line) => line.startsWith("data:"));
  if (lines.length === 0) return null;
  try {
    return JSON.parse(lines.map((line) => line.slice(5).replace(/^ /, "")).join("\n"));
  } catch {
    return null;
  }
}
