// The command palette: pages first, then what the search page finds. Without this script the search field does the same.

import { fetchPage } from "./page.js";

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
const labelOf = (link) => {
  const row = link.closest("tr");
  if (!row) return "Change: " + link.closest(".event").textContent.trim().slice(0, 70);
  const small = row.cells[0].querySelector("small");
  const words = row.cells[0].contains(link) ? [link.textContent, small ? small.textContent : ""] : [row.cells[0].textContent, link.textContent];
  return words.map((word) => word.trim()).join(" ").trim();
};
// A name that is meant comes before a problem or a change whose text has the word, whatever list it is in.
const unlikeness = (link, text) => {
  const name = link.closest("tr") ? link.textContent.trim().toLowerCase() : "";
  return name === text ? 0 : name.startsWith(text) ? 1 : name.includes(text) ? 2 : 3;
};
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
    rows.forEach((link) => { link.dataset.label = labelOf(link); });
    // stable: names that are alike keep the order of the page
    rows.sort((one, other) => unlikeness(one, text) - unlikeness(other, text));
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
