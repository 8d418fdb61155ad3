// Live pages: the server says that something changed, this fetches the page again and takes over the parts marked
// data-live. Everything works without it.
"use strict";
(() => {
  const body = document.body;
  const banner = document.getElementById("connection");
  let after = Number(body.dataset.lastEvent || 0);
  let source = null;
  let wait = 1000;
  let pending = false;
  let queued = false;

  const say = (text) => {
    banner.textContent = text;
    banner.hidden = !text;
  };

  // No HTML text is ever put into the page: the parser makes an inert document, and its nodes are moved over.
  const parse = async (response) => {
    const frame = new XMLHttpRequest();
    return new Promise((resolve, reject) => {
      frame.open("GET", response);
      frame.responseType = "document";
      frame.timeout = 10000;
      frame.onload = () => (frame.status < 400 && frame.responseXML ? resolve(frame.responseXML) : reject(frame));
      frame.onerror = frame.ontimeout = () => reject(frame);
      frame.send();
    });
  };

  const busy = () => {
    const active = document.activeElement;
    return active && active.closest("[data-live]") && /^(INPUT|TEXTAREA|SELECT)$/.test(active.tagName);
  };

  const take = (fresh) => {
    const parts = document.querySelectorAll("[data-live]");
    const others = fresh.querySelectorAll("[data-live]");
    if (parts.length !== others.length) return location.reload();
    parts.forEach((part, index) => {
      const other = others[index];
      if (part.isEqualNode(other)) return;
      const open = [...part.querySelectorAll("details")].map((item) => item.open);
      const focused = document.activeElement && part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
      const before = new Map([...part.querySelectorAll("[data-row]")].map((row) => [row.dataset.row, row.textContent]));
      const replacement = document.importNode(other, true);
      part.replaceWith(replacement);
      [...replacement.querySelectorAll("details")].forEach((item, at) => { if (open[at] !== undefined) item.open = open[at]; });
      replacement.querySelectorAll("[data-row]").forEach((row) => {
        if (before.has(row.dataset.row) && before.get(row.dataset.row) !== row.textContent) row.classList.add("changed");
      });
      if (focused) { const again = [...replacement.querySelectorAll("a")].find((link) => link.getAttribute("href") === focused); if (again) again.focus(); }
    });
  };

  const refresh = async () => {
    if (pending) { queued = true; return; }
    pending = true;
    try {
      if (!busy()) take(await parse(location.href));
      say("");
    } catch (error) {
      if (error && error.status === 401) { stop(); say("Signed out: load the page again"); }
      else say("Could not refresh; showing what was seen last");
    } finally {
      pending = false;
      if (queued) { queued = false; setTimeout(refresh, 250); }
    }
  };

  const stop = () => { if (source) source.close(); source = null; };

  const connect = () => {
    stop();
    source = new EventSource("/live?after=" + after);
    source.addEventListener("open", () => { wait = 1000; say(""); });
    source.addEventListener("changed", (event) => {
      after = Number(event.lastEventId || after);
      const own = document.querySelector("[data-app]");
      const changes = JSON.parse(event.data);
      if (!own || changes.some((change) => change.app === own.dataset.app)) refresh();
    });
    source.addEventListener("reset", (event) => { after = Number(event.lastEventId || after); refresh(); });
    source.addEventListener("error", () => {
      stop();
      say("Not connected since " + new Date().toLocaleTimeString() + "; trying again");
      setTimeout(() => { if (!document.hidden) { connect(); refresh(); } }, wait * (0.75 + Math.random() / 2));
      wait = Math.min(wait * 2, 30000);
    });
  };

  if (document.querySelector("[data-live]")) {
    connect();
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) stop();
      else { connect(); refresh(); }
    });
  }

  // Keys
  const rows = () => [...document.querySelectorAll("tbody tr")];
  const move = (step) => {
    const all = rows();
    if (!all.length) return;
    const at = all.findIndex((row) => row.classList.contains("at"));
    const next = all[Math.min(Math.max(at + step, 0), all.length - 1)];
    all.forEach((row) => row.classList.toggle("at", row === next));
    next.scrollIntoView({ block: "nearest" });
    const link = next.querySelector("a");
    if (link) link.focus();
  };
  let prefix = "";
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
    const key = prefix + event.key;
    prefix = "";
    if (key === "/") { event.preventDefault(); document.getElementById("q").focus(); }
    else if (key === "j") move(1);
    else if (key === "k") move(-1);
    else if (key === "?") document.querySelector("footer").scrollIntoView();
    else if (key === "g") prefix = "g";
    else if (key === "go") location.assign("/");
    else if (key === "ga") location.assign("/apps");
  });
})();
