// The side panel: an object of a list opens beside it where there is room. Its address is in the URL, its content is the part of
// the object's page marked data-detail.

import { fetchPage, panel, take } from "./page.js";

const detail = panel.querySelector("div");
const hasRoom = matchMedia("(min-width: 64rem)");
const OBJECT = /^\/apps\/[^/]+\/[^/]+\/object(\/events|\/logs)?\?/;
let opened = "";

const wantedPath = () => {
  const path = new URLSearchParams(location.search).get("panel") || "";
  return OBJECT.test(path) ? path : "";
};

// Returns the page that was fetched, if any.
export const refreshPanel = async () => {
  const path = panel.dataset.path;
  const page = path && await fetchPage(path).catch((error) => { if (error.status !== 404) throw error; });
  if (!path || path !== panel.dataset.path) return;
  const part = page && page.querySelector("[data-detail]");
  if (part) take(panel, part, () => detail.replaceChildren(document.importNode(part, true)));
  else detail.textContent = "This object is neither in the cluster nor in Git any more.";
  // its row may come later than the panel: this page and the object's may be of two replicas
  if (!document.querySelector("main .at")) markOpened();
  return page;
};

const ROWS = "main :is(tbody tr, details.object, article, .tree li)";
export const rowsOf = () => [...document.querySelectorAll(ROWS)].filter((row) => row.offsetParent);
export const mark = (row) => rowsOf().forEach((other) => other.classList.toggle("at", other === row));
const openedLink = () => [...document.querySelectorAll("main a")].find((link) => link.getAttribute("href") === opened);
const markOpened = () => { if (openedLink()) mark(openedLink().closest(ROWS)); };

const hidePanel = () => {
  if (panel.hidden) return;
  panel.hidden = true;
  delete panel.dataset.path;
  detail.replaceChildren();
  document.body.classList.remove("has-panel");
  const link = openedLink();
  if (link) link.focus();
};

// Shows what the URL names. Where that cannot be shown, or not beside the list, the object has its own page.
const showPanel = async () => {
  const path = wantedPath();
  if (path === (panel.dataset.path || "")) return;
  if (!path) { hidePanel(); return; }
  const page = hasRoom.matches ? await fetchPage(path).catch(() => null) : null;
  if (path !== wantedPath()) return;
  const part = page && page.querySelector("[data-detail]");
  if (!part) { location.replace(path); return; }
  detail.replaceChildren(document.importNode(part, true));
  panel.dataset.path = panel.querySelector("a").href = path;
  panel.hidden = false;
  document.body.classList.add("has-panel");
  panel.scrollTop = 0;
  panel.focus();
};

const go = (path) => {
  const url = new URL(location.href);
  if (path) url.searchParams.set("panel", path);
  else url.searchParams.delete("panel");
  history.pushState(null, "", url);
  showPanel();
};

document.addEventListener("click", (event) => {
  const link = event.target.closest && event.target.closest("main a, #panel div a");
  const path = link && link.getAttribute("href");
  if (!link || !OBJECT.test(path) || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  if (!hasRoom.matches || document.querySelector("main [data-detail]")) return;
  event.preventDefault();
  if (!panel.contains(link)) { opened = path; mark(link.closest(ROWS)); }
  go(path);
});
panel.addEventListener("submit", (event) => {
  const path = new URL(event.target.action).pathname + "?" + new URLSearchParams(new FormData(event.target));
  if (event.target.method === "get" && OBJECT.test(path)) { event.preventDefault(); go(path); }
});
panel.querySelector("button").addEventListener("click", () => go(""));
document.addEventListener("keydown", (event) => { if (event.key === "Escape" && !panel.hidden && !document.querySelector("dialog[open]")) go(""); });
window.addEventListener("popstate", showPanel);
opened = wantedPath();
markOpened();
showPanel();
