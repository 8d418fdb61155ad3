// Keys: the rows and tabs of a page, the parts of a difference, and the pages of the menu.

import { panel } from "./page.js";
import { mark, rowsOf } from "./panel.js";

const move = (step) => {
  const all = rowsOf();
  if (!all.length) return;
  const at = all.findIndex((row) => row.classList.contains("at"));
  const next = all[Math.min(Math.max(at + step, 0), all.length - 1)];
  mark(next);
  next.scrollIntoView({ block: "nearest" });
  const link = next.querySelector("a, summary");
  if (link) link.focus();
};
const hunk = (step) => {
  const all = [...(panel.hidden ? document : panel).querySelectorAll(".text-diff, .change, .hunk, .fields tbody tr")].filter((item) => item.offsetParent);
  const at = all.indexOf(document.querySelector(".hunk-at"));
  const next = all[Math.min(Math.max(at + step, 0), all.length - 1)];
  if (!next) return;
  all.forEach((item) => item.classList.toggle("hunk-at", item === next));
  next.scrollIntoView({ block: "center" });
};
const tab = (step) => {
  const tabs = [...document.querySelectorAll(".tabs a")];
  const at = tabs.findIndex((item) => item.hasAttribute("aria-current"));
  if (tabs[at + step]) location.assign(tabs[at + step].href);
};
const keys = {
  "/": () => document.getElementById("q")?.focus(),
  "j": () => move(1),
  "k": () => move(-1),
  "n": () => hunk(1),
  "p": () => hunk(-1),
  "[": () => tab(-1),
  "]": () => tab(1),
  "c": () => navigator.clipboard && navigator.clipboard.writeText(location.href),
  "o": () => { const row = document.querySelector(".at"); const item = row && row.closest("details"); if (item) item.open = !item.open; },
  "O": () => { const all = [...document.querySelectorAll("main details")]; const open = !all.every((item) => item.open); all.forEach((item) => { item.open = open; item.dataset.chosen = ""; }); },
  "f": () => { const filter = document.querySelector("[data-filter]"); if (filter) filter.focus(); },
  "r": () => { const first = document.querySelector(".decide :is(input, textarea):not([type=hidden])"); if (first) first.focus(); },
  "?": () => document.getElementById("keys").showModal(),
  "go": () => location.assign("/"),
  "ga": () => location.assign("/apps"),
  "gp": () => location.assign("/approvals"),
  "gl": () => location.assign("/audit"),
  "gc": () => location.assign("/changes"),
  "gd": () => location.assign("/drift"),
  "gj": () => location.assign("/objects"),
  "ge": () => location.assign("/agents"),
};

let prefix = "";
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
  const key = prefix + event.key;
  prefix = key === "g" ? "g" : "";
  if (Object.hasOwn(keys, key)) { event.preventDefault(); keys[key](); }
});
