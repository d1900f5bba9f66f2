// Numbers and times as they are shown. Times are in UTC, as in the server's log.

const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

/** A number of things. */
export const count = (number) => WHOLE.format(number);

/** A rate: three digits are enough to see it change. */
export function rate(number) {
  if (number >= 10_000) return SHORT.format(number);
  if (number >= 100) return WHOLE.format(number);
  if (number >= 10) return number.toFixed(1);
  return number === 0 ? "0" : number.toFixed(2);
}

/** A share of 1 in per cent. */
export function share(part) {
  const percent = part * 100;
  if (percent > 0 && percent < 0.1) return "< 0.1 %";
  return `${percent.toFixed(percent >= 99.95 || percent === 0 ? 0 : 1)} %`;
}

/** One thing or several. */
export const plural = (number, one, several) => `${count(number)} ${number === 1 ? one : several}`;

/** A length of time, in its two largest units at most. */
export function lasting(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const units = [
    ["d", 86_400],
    ["h", 3600],
    ["m", 60],
    ["s", 1],
  ];
  const first = units.findIndex(([, size]) => whole >= size);
  if (first < 0) return "0s";
  const [unit, size] = units[first];
  const text = `${Math.floor(whole / size)}${unit}`;
  const next = units[first + 1];
  const rest = next ? Math.floor((whole % size) / next[1]) : 0;
  return rest > 0 ? `${text} ${rest}${next[0]}` : text;
}

/** The time of day of a moment. */
export const timeOfDay = (date) => date.toISOString().slice(11, 19);

/** A moment: the time of day, with the date before it if that is another day. */
export function moment(text) {
  const date = new Date(text);
  if (Number.isNaN(date.getTime())) return text ?? "";
  const day = date.toISOString().slice(0, 10);
  const today = new Date().toISOString().slice(0, 10);
  return day === today ? timeOfDay(date) : `${day} ${timeOfDay(date).slice(0, 5)}`;
}

const COUNTRIES = new Intl.DisplayNames("en", { type: "region", fallback: "code" });

/** A country's name by its code. */
export function country(code) {
  if (!code) return "unknown places";
  try {
    return COUNTRIES.of(code);
  } catch {
    return code;
  }
}

/** A name without the dot at its end. */
export const plainName = (name) => (name.length > 1 ? name.replace(/\.$/, "") : name);
