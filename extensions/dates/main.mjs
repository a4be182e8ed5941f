// Dates and time zones. The time zones are those of Node.js on this machine; it uses no network.
import { run, setup, tool, ToolError } from "./exthost.mjs";

let home = "UTC";

setup(({ config }) => { home = zoneOf(config.zone ?? home); });

const ZONE = { type: "string", description: "An IANA time zone such as Europe/Berlin or UTC; default: the configured one", optional: true };
const TIME = "2026-03-29 or 2026-03-29T02:30, in the zone; or with an offset of its own, 2026-03-29T02:30:00+01:00";

tool("now", "The current date, time and weekday in a time zone. Models do not know the time: use this before anything that depends on it.",
  { zone: ZONE }, ({ zone }) => describe(Date.now(), zoneOf(zone)), { readOnly: true });

tool("convert", "Say what a moment is in another time zone, with its weekday, ISO week, day of the year and Unix time.",
  { time: { type: "string", description: TIME }, zone: { ...ZONE, description: "The zone that time is in, if it states none" }, to: { ...ZONE, description: "The zone that is wanted; default: the same", optional: true } },
  ({ time, zone, to }) => describe(moment(time, zoneOf(zone)), zoneOf(to ?? zone)), { readOnly: true });

tool("shift", "Add to a date or time, or with negative numbers subtract. Months and years keep the day where there is one (31 January and a month is the last of February); days keep the time of day across a clock change.",
  {
    time: { type: "string", description: TIME }, zone: ZONE,
    ...Object.fromEntries(["years", "months", "weeks", "days", "hours", "minutes", "workdays"].map((unit) => [unit, {
      type: "integer", minimum: -100000, maximum: 100000, optional: true,
      description: unit === "workdays" ? "How many days that are neither Saturday nor Sunday" : `How many ${unit}`,
    }])),
  },
  ({ time, zone, ...by }) => {
    const at = zoneOf(zone);
    const start = fields(moment(time, at), at);
    const month = start.year * 12 + start.month - 1 + (by.years ?? 0) * 12 + (by.months ?? 0);
    const year = Math.floor(month / 12), day = Math.min(start.day, daysIn(year, (month % 12 + 12) % 12));
    const date = new Date(dayAt(year, (month % 12 + 12) % 12, day + (by.weeks ?? 0) * 7 + (by.days ?? 0)));
    skipWorkdays(date, by.workdays ?? 0);
    const local = date.getTime() + ((start.hour * 60 + start.minute) * 60 + start.second) * 1000;
    return describe(toUTC(local, at) + ((by.hours ?? 0) * 60 + (by.minutes ?? 0)) * 60000, at);
  }, { readOnly: true });

tool("between", "How long it is from one date or time to another: in days, workdays, as years, months and days, and in seconds.",
  { from: { type: "string", description: TIME }, to: { type: "string", description: TIME }, zone: ZONE },
  ({ from, to, zone }) => {
    const at = zoneOf(zone), begin = moment(from, at), end = moment(to, at);
    const [first, last] = begin <= end ? [begin, end] : [end, begin];
    const sign = begin <= end ? 1 : -1;
    const a = fields(first, at), b = fields(last, at);
    const days = (dayOf(b) - dayOf(a)) / DAY;
    return { seconds: (end - begin) / 1000, days: sign * days || 0, workdays: sign * workdaysBetween(dayOf(a), dayOf(b)) || 0, calendar: calendar(a, b), backwards: sign < 0 };
  }, { readOnly: true });

const DAY = 86400000;
const WEEKDAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

function zoneOf(zone = home) {
  try {
    return new Intl.DateTimeFormat("en", { timeZone: zone }).resolvedOptions().timeZone;
  } catch {
    throw new ToolError(`there is no time zone ${zone}; one is called Europe/Berlin or UTC`);
  }
}

/** The local date and time of a moment in a zone. */
function fields(time, zone) {
  const format = new Intl.DateTimeFormat("en", {
    timeZone: zone, hourCycle: "h23", era: "short", year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric",
  });
  const parts = Object.fromEntries(format.formatToParts(time).map(({ type, value }) => [type, value]));
  const year = parts.era === "BC" ? 1 - Number(parts.year) : Number(parts.year);
  return { year, month: Number(parts.month), day: Number(parts.day), hour: Number(parts.hour), minute: Number(parts.minute), second: Number(parts.second) };
}

/** Date.UTC, except that it does not map the years 0 to 99 to 1900 to 1999. */
function dayAt(year, month, day) {
  const date = new Date(0);
  date.setUTCFullYear(year, month, day);
  return date.getTime();
}

const dayOf = (f) => dayAt(f.year, f.month - 1, f.day);
const daysIn = (year, month) => new Date(dayAt(year, month + 1, 0)).getUTCDate();
const localOf = (f) => dayOf(f) + ((f.hour * 60 + f.minute) * 60 + f.second) * 1000;

/** The moment of a local time in a zone. A time that a clock change skips is moved forward by the change. */
function toUTC(local, zone) {
  const offset = (time) => localOf(fields(time, zone)) - Math.floor(time / 1000) * 1000;
  const before = local - offset(local - DAY), after = local - offset(local + DAY);
  return localOf(fields(before, zone)) === Math.floor(local / 1000) * 1000 || localOf(fields(after, zone)) !== Math.floor(local / 1000) * 1000 ? before : after;
}

const PATTERN = /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.\d+)?)?)?\s*(Z|[+-]\d\d:?\d\d)?$/i;

function moment(text, zone) {
  const m = PATTERN.exec(text.trim());
  if (!m) throw new ToolError(`${JSON.stringify(text)} is no date or time; one is written ${TIME}`);
  const [year, month, day, hour = 0, minute = 0, second = 0] = m.slice(1, 7).map((s) => (s === undefined ? undefined : Number(s)));
  if (month < 1 || month > 12 || day < 1 || day > daysIn(year, month - 1) || hour > 23 || minute > 59 || second > 59) {
    throw new ToolError(`${JSON.stringify(text)} is in no calendar`);
  }
  const local = localOf({ year, month, day, hour, minute, second });
  if (!m[7]) return toUTC(local, zone);
  const [, sign, hours, minutes] = /^([+-])(\d\d):?(\d\d)$/.exec(m[7]) ?? [null, "+", "0", "0"];
  return local - (sign === "-" ? -1 : 1) * (Number(hours) * 60 + Number(minutes)) * 60000;
}

const two = (n) => String(n).padStart(2, "0");

function describe(time, zone) {
  if (!Number.isFinite(time) || Math.abs(time) > 8.64e15) throw new ToolError("that is beyond the calendar");
  const f = fields(time, zone), day = dayOf(f), weekday = new Date(day).getUTCDay();
  const offset = Math.round((localOf(f) - time) / 60000);
  const date = `${String(f.year).padStart(4, "0")}-${two(f.month)}-${two(f.day)}`;
  const zoneOffset = `${offset < 0 ? "-" : "+"}${two(Math.floor(Math.abs(offset) / 60))}:${two(Math.abs(offset) % 60)}`;
  return {
    iso: `${date}T${two(f.hour)}:${two(f.minute)}:${two(f.second)}${zoneOffset}`, date, time: `${two(f.hour)}:${two(f.minute)}:${two(f.second)}`,
    weekday: WEEKDAYS[weekday], iso_week: isoWeek(day), day_of_year: (day - dayAt(f.year, 0, 1)) / DAY + 1, zone, unix: Math.floor(time / 1000),
  };
}

function isoWeek(day) {
  const thursday = new Date(day + (4 - (new Date(day).getUTCDay() || 7)) * DAY);
  const year = thursday.getUTCFullYear();
  return `${year}-W${two(Math.floor((thursday - dayAt(year, 0, 1)) / DAY / 7) + 1)}`;
}

const isWorkday = (date) => date.getUTCDay() % 6 !== 0;

function skipWorkdays(date, count) {
  for (let left = Math.abs(count); left > 0;) {
    date.setUTCDate(date.getUTCDate() + Math.sign(count));
    if (isWorkday(date)) left--;
  }
}

/** The number of weekdays, Monday to Friday, after first up to and including last. */
function workdaysBetween(first, last) {
  const weeks = Math.floor((last - first) / DAY / 7);
  let count = weeks * 5;
  for (let day = first + weeks * 7 * DAY + DAY; day <= last; day += DAY) count += isWorkday(new Date(day)) ? 1 : 0;
  return count;
}

/** The years, months and days from one date to a later one. */
function calendar(a, b) {
  let months = (b.year - a.year) * 12 + b.month - a.month;
  const anniversary = (n) => {
    const month = a.year * 12 + a.month - 1 + n;
    return dayAt(Math.floor(month / 12), month % 12, Math.min(a.day, daysIn(Math.floor(month / 12), month % 12)));
  };
  if (anniversary(months) > dayOf(b)) months--;
  return { years: Math.floor(months / 12), months: months % 12, days: (dayOf(b) - anniversary(months)) / DAY };
}

run("0.1.0");
