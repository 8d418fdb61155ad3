"""Rules of layout that a machine can check: what a person sees on a picture only at full size."""

from __future__ import annotations

from playwright.sync_api import Page

_FAULTS = r"""() => {
  const faults = new Set();
  const name = (item) => {
    const classes = [...item.classList].map((one) => "." + one).join("");
    const text = (item.textContent || "").trim().replace(/\s+/g, " ").slice(0, 60);
    return `${item.localName}${item.id ? "#" + item.id : ""}${classes} "${text}"`;
  };
  const isShown = (item) => item.checkVisibility({visibilityProperty: true, opacityProperty: true});
  const root = document.documentElement;
  if (root.scrollWidth > innerWidth) faults.add(`the page scrolls sideways: ${root.scrollWidth} px`);

  // What of a rectangle is seen: not what an area that scrolls or a text for readers alone hides.
  const clips = new Map();
  const nowhere = {left: 0, top: 0, right: 0, bottom: 0};
  const clipOf = (item) => {
    if (!item || item === root) return {left: 0, top: -Infinity, right: innerWidth, bottom: Infinity};
    if (!clips.has(item)) {
      const outer = clipOf(item.parentElement);
      const style = getComputedStyle(item);
      const box = item.getBoundingClientRect();
      clips.set(item, style.clipPath !== "none" ? nowhere : style.overflowX === "visible" ? outer : {
        left: Math.max(outer.left, box.left), right: Math.min(outer.right, box.right),
        top: Math.max(outer.top, box.top), bottom: Math.min(outer.bottom, box.bottom),
      });
    }
    return clips.get(item);
  };

  const lines = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode;
    const owner = node.parentElement;
    if (!node.data.trim() || !isShown(owner)) continue;
    if (owner.closest("script, style, option, dialog, .hidden, .skip")) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const clip = clipOf(owner);
    if (clip.right - clip.left < 3) continue;
    const fixed = owner.closest(".top, .panel, .bar");
    for (const box of range.getClientRects()) {
      const seen = {
        left: Math.max(box.left, clip.left), right: Math.min(box.right, clip.right),
        top: Math.max(box.top, clip.top), bottom: Math.min(box.bottom, clip.bottom),
      };
      if (seen.right - seen.left > 2 && seen.bottom - seen.top > 4) lines.push({...seen, owner, fixed});
    }
    // A word breaks where it may: at a hyphen, slash or bracket. Anywhere else its place is too narrow.
    for (const part of node.data.matchAll(/[\p{L}\p{N}_.:@=]+/gu)) {
      range.setStart(node, part.index);
      range.setEnd(node, part.index + part[0].length);
      const boxes = [...range.getClientRects()].filter((box) => box.width > 1);
      const rows = new Set(boxes.map((box) => Math.round(box.top))).size;
      if (rows > 1 && part[0].length / rows < 10) {
        faults.add(`"${part[0]}" breaks into ${rows} lines in ${name(owner)}`);
      }
    }
  }
  lines.sort((one, other) => one.top - other.top);
  lines.forEach((line, at) => {
    for (let next = at + 1; next < lines.length && lines[next].top < line.bottom - 3; next += 1) {
      const other = lines[next];
      const width = Math.min(line.right, other.right) - Math.max(line.left, other.left);
      const height = Math.min(line.bottom, other.bottom) - Math.max(line.top, other.top);
      const smaller = Math.min(line.bottom - line.top, other.bottom - other.top);
      // The box of a font is higher than its letters, and than a line that is set tight.
      const isOver = width > 2 && height > 0.4 * smaller;
      if (isOver && line.owner !== other.owner && line.fixed === other.fixed) {
        faults.add(`${name(line.owner)} lies over ${name(other.owner)}`);
      }
    }
  });

  for (const item of document.querySelectorAll("h1, h2, h3, th, dt, label, button, .button")) {
    const style = getComputedStyle(item);
    if (isShown(item) && style.overflowX !== "visible" && style.clipPath === "none" && !item.closest(".hidden")
        && item.scrollWidth > item.clientWidth + 1 && item.clientWidth > 1 && !item.title) {
      faults.add(`${name(item)} is cut`);
    }
  }
  for (const item of document.querySelectorAll("table, ul:not([aria-live]), ol, dl, tbody")) {
    if (isShown(item) && !item.closest("dialog, .panel") && !item.querySelector("td, li, dd, th[scope=row]")) {
      faults.add(`${name(item)} is empty`);
    }
  }
  for (const table of document.querySelectorAll("table")) {
    if (!isShown(table)) continue;
    const heads = [...table.querySelectorAll("thead th")];
    const rows = [...table.querySelectorAll("tbody tr")].filter(
      (row) => [...row.children].reduce((sum, cell) => sum + cell.colSpan, 0) === heads.length
        && row.children.length === heads.length);
    heads.forEach((head, at) => {
      const isEmpty = rows.length && rows.every((row) => {
        const cell = row.children[at];
        return !cell.textContent.trim() && !cell.querySelector("input, svg, img");
      });
      if (isEmpty && head.textContent.trim()) faults.add(`column "${head.textContent.trim()}" is empty`);
    });
    const place = table.parentElement.clientWidth;
    if (innerWidth >= 1280 && table.scrollWidth > place + 1) {
      faults.add(`${name(table)} is wider than its place: ${table.scrollWidth} of ${place} px`);
    }
  }
  // A cell of many short lines beside room that others do not use: the defect of a column that was never given a width.
  for (const cell of document.querySelectorAll("td, th, dd")) {
    const size = parseFloat(getComputedStyle(cell).fontSize);
    const box = cell.getBoundingClientRect();
    if (isShown(cell) && box.width < 9 * size && box.height > 7 * size && cell.textContent.trim().length > 30
        && !cell.closest("ul, pre")) {
      faults.add(`${name(cell)} has ${Math.round(box.height)} px in a column of ${Math.round(box.width)} px`);
    }
  }
  return [...faults];
}"""


def faults(page: Page) -> list[str]:
    """
    Return what is wrong with the layout of a page at its size.

    A page that scrolls sideways; a word that breaks where no word may; text over other text; a cut heading or button;
    an empty table, list or column; a table that is wider than its place on a laptop; a column of many short lines.
    """
    shown: list[str] = page.evaluate(_FAULTS)
    return shown
