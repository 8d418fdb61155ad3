// A page is fetched again and taken over: only what differs is touched, and nothing of what a user types or selects.

export const panel = document.getElementById("panel");

// No HTML text is ever put into the page: the parser makes an inert document, and its nodes are moved over.
export const fetchPage = (url) => new Promise((resolve, reject) => {
  const request = new XMLHttpRequest();
  request.open("GET", url);
  request.responseType = "document";
  request.timeout = 10000;
  request.onload = () => (request.status < 400 && request.responseXML ? resolve(request.responseXML) : reject(request));
  request.onerror = request.ontimeout = () => reject(request);
  request.send();
});

// What the user types, chooses or selects is never taken away. A form, and the text around it, changes as a whole or not at all:
// a decision has to be about what is shown. Rows that are picked for an action on several are only a list.
export const isSelected = (part) => { const range = getSelection(); return !range.isCollapsed && range.containsNode(part, true); };
const isFilled = (part) => [...part.querySelectorAll("input:not([type=hidden], [data-pick]), textarea")]
  .some((input) => input === document.activeElement || input.value !== input.defaultValue || input.checked);
const inUse = (part) => isFilled(part) || (part.querySelector("form.decide, .ask form") !== null && isSelected(part));

const KEPT = ["at", "hunk-at"];
const keyOf = (node) => (node.nodeType === Node.ELEMENT_NODE && (node.dataset.row || node.id)) || "";
const isHeld = (node) => isSelected(node) || node.contains(document.activeElement) || (node.matches && node.matches(":has([data-pick]:checked)"));

const copyAttributes = (now, next) => {
  const kept = KEPT.filter((name) => now.classList.contains(name));
  const isChosen = "chosen" in now.dataset;
  for (const { name } of [...now.attributes]) if (!next.hasAttribute(name) && name !== "data-chosen" && !(isChosen && name === "open")) now.removeAttribute(name);
  for (const { name, value } of next.attributes) if (now.getAttribute(name) !== value && !(isChosen && name === "open")) now.setAttribute(name, value);
  if (kept.length) now.classList.add(...kept);
};

// Makes one node equal to another and touches only what differs, so that selection, focus and scroll position stay. Rows are
// known by data-row or id. Returns whether a text changed, other than an age.
const update = (now, next, rows) => {
  if (now.isEqualNode(next) || (now.dataset && now.dataset.row && isSelected(now))) return false;
  if (now.nodeType !== Node.ELEMENT_NODE) {
    if (!isSelected(now)) now.nodeValue = next.nodeValue;
    return true;
  }
  copyAttributes(now, next);
  const isChanged = updateChildren(now, next, rows);
  if (isChanged && now.dataset.row) rows.push(now);
  return isChanged && !now.matches("time[data-age]");
};

const updateChildren = (now, next, rows) => {
  const coming = new Set([...next.children].map(keyOf));
  const gone = [...now.children].filter((child) => keyOf(child) && !coming.has(keyOf(child)) && !isSelected(child));
  gone.forEach((child) => child.remove());
  const known = new Map([...now.children].filter(keyOf).map((child) => [keyOf(child), child]));
  const kept = new Set();
  let place = now.firstChild;
  let isChanged = gone.length > 0;
  for (const child of next.childNodes) {
    const key = keyOf(child);
    const same = key ? known.get(key) : place;
    if (same && same.nodeName === child.nodeName && keyOf(same) === key && !kept.has(same)) {
      kept.add(same);
      if (same === place) place = place.nextSibling;
      else if (!isHeld(same)) now.insertBefore(same, place);
      isChanged = update(same, child, rows) || isChanged;
    } else {
      const added = document.importNode(child, true);
      kept.add(added);
      now.insertBefore(added, place);
      if (added.nodeType === Node.ELEMENT_NODE) isChanged = true;
      if (added.dataset && added.dataset.row) rows.push(added);
    }
  }
  const left = [...now.childNodes].filter((child) => !kept.has(child) && !isSelected(child));
  left.forEach((child) => child.remove());
  return isChanged || left.some((child) => child.nodeType === Node.ELEMENT_NODE);
};

const replace = (part, other) => {
  if (inUse(part)) return;
  const rows = [];
  if (part.nodeName === other.nodeName) update(part, other, rows);
  else part.replaceWith(document.importNode(other, true));
  rows.forEach((row) => row.classList.remove("changed"));
  void document.body.offsetWidth; // the animation of a row that changes again starts again
  rows.forEach((row) => row.classList.add("changed"));
};

const partsOf = (place) => [...place.querySelectorAll("[data-live]")].filter((part) => place === panel || !panel.contains(part));

// Takes over the live parts of a page; where their number changed, all is loaded again, unless that loses what is typed or selected.
const isTaken = (part) => inUse(part) || isSelected(part) || part.querySelector("[data-pick]:checked") !== null;
export const take = (place, fresh, remake) => {
  const parts = partsOf(place);
  const others = partsOf(fresh);
  if (parts.length === others.length) parts.forEach((part, index) => replace(part, others[index]));
  else if (!parts.some(isTaken)) remake();
};
