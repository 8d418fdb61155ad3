// Live pages: the server says that something changed, this fetches the page again and takes over the parts marked data-live.

import { fetchPage, isSelected, take } from "./page.js";
import { isOn, notifyOfNew } from "./notify.js";
import { refreshPanel } from "./panel.js";

const banner = document.getElementById("connection");
let after = Number(document.body.dataset.lastEvent || 0);
let source = null;
let wait = 1000;
let lost = null;
let over = false;
let pending = false;
let queued = false;

const say = (text) => {
  banner.textContent = text;
  banner.hidden = !text;
  document.body.classList.toggle("stale", Boolean(text));
};

// Behind one address, another replica may answer than the one that this stream is of, and learn of a change later.
const LATER = [500, 2000, 8000];
let shown = document.body.dataset.replica;
let streamed = shown;
let again = 0;
let timer = 0;
const readAgain = (pages) => {
  clearTimeout(timer);
  if (again < LATER.length && pages.some((page) => page && page.body.dataset.replica !== streamed)) timer = setTimeout(refresh, LATER[again++]);
};

const refresh = async () => {
  if (over) return;
  if (pending) { queued = true; return; }
  pending = true;
  try {
    const page = await fetchPage(location.href);
    take(document, page, () => location.reload());
    shown = page.body.dataset.replica;
    const beside = await refreshPanel();
    if (!lost) say("");
    readAgain([page, beside]);
  } catch (error) {
    if (error && error.status === 401) { over = true; stop(); say("Signed out. Load the page again to sign in."); }
    else if (error && error.status === 404) location.reload();
    else say("Not connected: showing the last known state.");
  } finally {
    pending = false;
    if (queued) { queued = false; setTimeout(refresh, 250); }
  }
};

const refreshNow = () => { again = 0; refresh(); };

const stop = () => { if (source) source.close(); source = null; };

const connect = () => {
  stop();
  if (over) return;
  const mine = source = new EventSource("/live?after=" + after);
  source.addEventListener("open", () => { wait = 1000; lost = null; say(""); });
  source.addEventListener("replica", (event) => {
    streamed = event.data;
    if (streamed !== shown) refreshNow();
  });
  source.addEventListener("changed", (event) => {
    after = Number(event.lastEventId || after);
    if (document.hidden) { notifyOfNew(); return; }
    const own = document.querySelector("[data-app]");
    const changes = JSON.parse(event.data);
    if (!own || changes.some((change) => change.app === own.dataset.app)) refreshNow();
  });
  source.addEventListener("reset", (event) => { after = Number(event.lastEventId || after); refreshNow(); });
  source.addEventListener("error", () => {
    if (mine !== source) return;
    stop();
    lost = lost || new Date();
    say("Not connected since " + lost.toISOString().slice(0, 19).replace("T", " ") + " UTC: showing the last known state.");
    setTimeout(() => { if (!document.hidden && !source) { connect(); refreshNow(); } }, wait * (0.75 + Math.random() / 2));
    wait = Math.min(wait * 2, 30000);
  });
};

// The answer of a form stays as it is. What is held is on every page, also on that of an error, whose URL cannot be fetched again.
if ("lastEvent" in document.body.dataset && document.querySelector("main [data-live]:not(#holds)")) {
  connect();
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) { connect(); refreshNow(); }
    // without notifications a page out of sight costs nothing
    else if (isOn()) notifyOfNew();
    else stop();
  });
  document.addEventListener("click", (event) => {
    const summary = event.target.closest && event.target.closest("summary");
    if (summary) summary.parentElement.dataset.chosen = "";
  });
}

// A log that is followed is read again while the page is visible, and stays at its end.
setInterval(() => {
  const log = document.querySelector("[data-follow]");
  if (!log || document.hidden || pending) return;
  const isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  refresh().then(() => { const now = document.querySelector("[data-follow]"); if (now && isAtEnd) now.scrollTop = now.scrollHeight; });
}, 2000);

// Charts get a new value once a minute while someone looks at them.
setInterval(() => { if (document.querySelector("[data-sampled]") && !document.hidden && !pending) refresh(); }, 60000);

// Ages go on between refreshes, so that an old page shows its age.
const units = [[120, 1, "s"], [7200, 60, "m"], [172800, 3600, "h"], [Infinity, 86400, "d"]];
const skew = Date.now() - Date.parse(document.body.dataset.now);
const tick = () => document.querySelectorAll("time[data-age]").forEach((time) => {
  const seconds = Math.max(0, Math.floor((Date.now() - skew - Date.parse(time.dateTime)) / 1000));
  const [, divisor, unit] = units.find(([limit]) => seconds < limit);
  const text = Math.floor(seconds / divisor) + unit;
  if (time.textContent !== text && !isSelected(time)) time.textContent = text;
});
setInterval(tick, 1000);
