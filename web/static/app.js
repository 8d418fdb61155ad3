// Live pages: the server says that something changed, this fetches the page again and takes over the parts marked
// data-live. Everything works without it.
"use strict";
(() => {
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

  // No HTML text is ever put into the page: the parser makes an inert document, and its nodes are moved over.
  const fetchPage = (url) => new Promise((resolve, reject) => {
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
  const isSelected = (part) => { const range = getSelection(); return !range.isCollapsed && range.containsNode(part, true); };
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

  // The side panel: an object of a list opens beside it where there is room. Its address is in the URL, its content is the part of
  // the object's page marked data-detail.
  const panel = document.getElementById("panel");
  const detail = panel.querySelector("div");
  const hasRoom = matchMedia("(min-width: 64rem)");
  const OBJECT = /^\/apps\/[^/]+\/[^/]+\/object(\/events|\/logs)?\?/;
  let opened = "";

  const wantedPath = () => {
    const path = new URLSearchParams(location.search).get("panel") || "";
    return OBJECT.test(path) ? path : "";
  };

  const partsOf = (place) => [...place.querySelectorAll("[data-live]")].filter((part) => place === panel || !panel.contains(part));

  // Takes over the live parts of a page; where their number changed, all is loaded again, unless that loses what is typed or selected.
  const isTaken = (part) => inUse(part) || isSelected(part) || part.querySelector("[data-pick]:checked") !== null;
  const take = (place, fresh, remake) => {
    const parts = partsOf(place);
    const others = partsOf(fresh);
    if (parts.length === others.length) parts.forEach((part, index) => replace(part, others[index]));
    else if (!parts.some(isTaken)) remake();
  };

  const refreshPanel = async () => {
    const path = panel.dataset.path;
    const page = path && await fetchPage(path).catch((error) => { if (error.status !== 404) throw error; });
    if (!path || path !== panel.dataset.path) return;
    const part = page && page.querySelector("[data-detail]");
    if (part) take(panel, part, () => detail.replaceChildren(document.importNode(part, true)));
    else detail.textContent = "This object is neither in the cluster nor in Git any more.";
  };

  const refresh = async () => {
    if (over) return;
    if (pending) { queued = true; return; }
    pending = true;
    try {
      take(document, await fetchPage(location.href), () => location.reload());
      await refreshPanel();
      if (!lost) say("");
    } catch (error) {
      if (error && error.status === 401) { over = true; stop(); say("Signed out. Load the page again to sign in."); }
      else if (error && error.status === 404) location.reload();
      else say("Not connected: showing the last known state.");
    } finally {
      pending = false;
      if (queued) { queued = false; setTimeout(refresh, 250); }
    }
  };

  const stop = () => { if (source) source.close(); source = null; };

  const connect = () => {
    stop();
    if (over) return;
    const mine = source = new EventSource("/live?after=" + after);
    source.addEventListener("open", () => { wait = 1000; lost = null; say(""); });
    source.addEventListener("changed", (event) => {
      after = Number(event.lastEventId || after);
      const own = document.querySelector("[data-app]");
      const changes = JSON.parse(event.data);
      if (!own || changes.some((change) => change.app === own.dataset.app)) refresh();
    });
    source.addEventListener("reset", (event) => { after = Number(event.lastEventId || after); refresh(); });
    source.addEventListener("error", () => {
      if (mine !== source) return;
      stop();
      lost = lost || new Date();
      say("Not connected since " + lost.toISOString().slice(0, 19).replace("T", " ") + " UTC: showing the last known state.");
      setTimeout(() => { if (!document.hidden && !source) { connect(); refresh(); } }, wait * (0.75 + Math.random() / 2));
      wait = Math.min(wait * 2, 30000);
    });
  };

  if (document.querySelector("main [data-live]")) {
    connect();
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) stop();
      else { connect(); refresh(); }
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

  // Nothing can be requested while the server cannot be reached; the button says that the request is on its way.
  document.addEventListener("submit", (event) => {
    if (document.body.classList.contains("stale") && event.target.method === "post") {
      event.preventDefault();
      banner.textContent = "Not sent: the dashboard cannot be reached. Try again when it is connected.";
    } else if (event.submitter) event.submitter.setAttribute("aria-busy", "true");
  });

  // Enter must not submit a review, whatever is filled in; without this script the server refuses it.
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.tagName === "INPUT" && event.target.form && event.target.form.matches(".decide")) event.preventDefault();
  });

  // Selecting a step selects what it needs, and says so; removing one removes what needs it.
  document.addEventListener("change", (event) => {
    const box = event.target;
    if (!(box.matches && box.matches("input[data-needs]"))) return;
    const all = [...document.querySelectorAll("input[data-needs]")];
    const needs = (item) => item.dataset.needs.split(" ").filter(Boolean).map(decodeURIComponent);
    const changed = [box];
    for (const item of changed) {
      const others = all.filter((other) => (box.checked ? needs(item).includes(other.value) : needs(other).includes(item.value)));
      others.filter((other) => other.checked !== box.checked).forEach((other) => { other.checked = box.checked; changed.push(other); });
    }
    const names = changed.slice(1).map((item) => item.parentElement.querySelector(".hidden").textContent.trim());
    const count = all.filter((item) => item.checked).length;
    const status = document.getElementById("selected");
    const note = count + " of " + all.length + " selected" + (names.length ? "; with it " + (box.checked ? "selected: " : "removed: ") + names.join(", ") : "") + ".";
    status.replaceChildren(...status.querySelectorAll("input"), note);
  });

  const ROWS = "main :is(tbody tr, details.object, article, .tree li)";
  const rowsOf = () => [...document.querySelectorAll(ROWS)].filter((row) => row.offsetParent);
  const mark = (row) => rowsOf().forEach((other) => other.classList.toggle("at", other === row));
  const openedLink = () => [...document.querySelectorAll("main a")].find((link) => link.getAttribute("href") === opened);

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
  if (openedLink()) mark(openedLink().closest(ROWS));
  showPanel();

  // Keys
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
    "/": () => document.getElementById("q").focus(),
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
  // The command palette: pages first, then what the search page finds. Without this script the search field does the same.
  const palette = document.getElementById("palette");
  const wanted = palette.querySelector("input");
  const found = document.getElementById("palette-found");
  let asked = 0;
  const offer = (links) => {
    found.replaceChildren(...links.slice(0, 12).map((link) => {
      const item = document.createElement("li");
      const copy = document.createElement("a");
      copy.href = link.getAttribute("href");
      copy.textContent = link.dataset.label || link.textContent.trim();
      item.append(copy);
      return item;
    }));
  };
  const pagesFor = (text) => [...document.querySelectorAll(".top nav a, .tabs a, main .actions a")].filter((link) => link.textContent.toLowerCase().includes(text));
  const lookUp = async () => {
    const text = wanted.value.trim().toLowerCase();
    const mine = ++asked;
    offer(pagesFor(text));
    if (text.length < 2) return;
    await new Promise((done) => setTimeout(done, 120));
    if (mine !== asked) return;
    try {
      const page = await fetchPage("/search?q=" + encodeURIComponent(text));
      const rows = [...page.querySelectorAll("main [data-row] th a, main .timeline .results a")];
      rows.forEach((link) => { const row = link.closest("tr"); link.dataset.label = row ? row.cells[0].textContent.trim() + (row.cells[0].contains(link) ? "" : " " + link.textContent) : "Change: " + link.closest(".event").textContent.trim().slice(0, 70); });
      if (mine === asked) offer([...pagesFor(text), ...rows]);
    } catch { /* the pages stay offered */ }
  };
  wanted.addEventListener("input", lookUp);
  palette.addEventListener("keydown", (event) => {
    const links = [...found.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const next = at + (event.key === "ArrowDown" ? 1 : -1);
      (links[next] || wanted).focus();
    } else if (event.key === "Enter" && event.target === wanted && links.length) {
      event.preventDefault();
      location.assign(links[0].href);
    }
  });
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      wanted.value = "";
      lookUp();
      palette.showModal();
    }
  });

  let prefix = "";
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
    const key = prefix + event.key;
    prefix = key === "g" ? "g" : "";
    if (Object.hasOwn(keys, key)) { event.preventDefault(); keys[key](); }
  });
})();
