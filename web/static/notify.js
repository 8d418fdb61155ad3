// Notifications of the browser, turned on in the settings: what begins to need attention while no page of gitsync is in sight.

import { fetchPage } from "./page.js";

const KEY = "gitsync-notifications";
const choice = document.getElementById("notifications");

// The choice first: the permission is a request to another process of the browser, which pages without a choice need not make when they are left.
export const isOn = () => localStorage.getItem(KEY) === "on" && "Notification" in window && Notification.permission === "granted";

const stateOf = (row) => row.querySelector(".state").textContent.trim();
// Applications with one problem share a row, which names some of them and then their number.
const namesOf = (row) => [...row.querySelectorAll("a")].filter((link) => !link.getAttribute("href").startsWith("/apps?q=state:"));

let known = null;
// What is there at first is known, not new.
const read = async () => {
  const page = isOn() && await fetchPage("/").catch(() => null);
  if (!page) return;
  const current = new Set();
  for (const row of page.querySelectorAll("#attention [data-row]")) {
    const state = stateOf(row);
    const links = namesOf(row).filter((link) => !known || !known.has(link.textContent + state));
    namesOf(row).forEach((link) => current.add(link.textContent + state));
    if (!known || !links.length) continue;
    const names = links.map((link) => link.textContent.trim()).join(", ");
    const body = row.querySelector("span:not(.state)").firstChild.textContent.trim();
    const shown = new Notification(names + ": " + state, { body, tag: row.dataset.row });
    shown.addEventListener("click", () => { window.focus(); location.assign(links[0].getAttribute("href")); });
  }
  known = current;
};

const PAUSE = 1000;
let reading = Promise.resolve();
let isQueued = false;
// One read at a time, and a single one for all events until it begins.
export const notifyOfNew = () => {
  if (isQueued) return;
  isQueued = true;
  reading = reading.then(() => { isQueued = false; return read(); }).then(() => new Promise((resolve) => { setTimeout(resolve, PAUSE); }));
};

// The choice of this browser: a page cannot ask for the permission before a person wants it.
const show = () => {
  const isDenied = !("Notification" in window) || Notification.permission === "denied";
  choice.querySelector("button").textContent = isOn() ? "Turn off" : "Turn on";
  choice.querySelector("button").disabled = isDenied;
  choice.querySelector("[role=status]").textContent = isDenied ? "This browser does not let this page show notifications." : isOn() ? "On in this browser." : "Off in this browser.";
};
if (choice) {
  choice.hidden = false;
  show();
  choice.querySelector("button").addEventListener("click", async () => {
    const isWanted = !isOn() && await Notification.requestPermission() === "granted";
    localStorage.setItem(KEY, isWanted ? "on" : "off");
    show();
  });
}
