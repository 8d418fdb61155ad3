"""A walk through a page with the Tab key: which actions get the focus, and whether the focus is visible."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page

# Radio buttons of a group are one stop: arrow keys move within it. A pointer that becomes a hand promises an action.
_START = """() => {
  const controls = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex]";
  const passive = ":disabled, :is(main, div, aside)[tabindex='-1']";
  const isVisible = (item) => item.checkVisibility() && !item.matches(passive);
  const name = (item) => `${item.nodeName} ${(item.name || item.textContent || "").trim().slice(0, 40)}`;
  const first = (radio) => document.querySelector(`[type=radio][name="${radio.name}"]`);
  const stop = (item) => (item.type === "radio" ? first(item) : item);
  const isMarked = ({ outlineStyle, outlineWidth }) => outlineStyle !== "none" && parseFloat(outlineWidth) > 0;
  const isShown = ({ width, height, top, left, bottom, right }) =>
    width > 1 && height > 1 && bottom > 0 && right > 0 && top < innerHeight && left < innerWidth;
  const stops = [...new Set([...document.querySelectorAll(controls)].filter(isVisible).map(stop))];
  const reached = new Set();
  const unseen = [];
  const step = () => {
    const item = stop(document.activeElement);
    if (item === document.body || reached.has(item)) return false;
    reached.add(item);
    if (!isMarked(getComputedStyle(document.activeElement))) unseen.push(name(item) + ": no outline");
    if (!isShown(document.activeElement.getBoundingClientRect())) unseen.push(name(item) + ": out of sight");
    return true;
  };
  const found = () => ({
    unreached: stops.filter((item) => item.isConnected && isVisible(item) && !reached.has(item)).map(name),
    unseen,
    byPointerAlone: [...document.body.querySelectorAll("*")].filter((item) => isVisible(item)
      && getComputedStyle(item).cursor === "pointer" && !item.closest(controls + ", label")).map(name),
  });
  window.walk = { step, found };
  return stops.length;
}"""


def walk(page: Page) -> dict[str, Any]:
    """Press Tab through a page; return the names of actions that are unreached, unseen, or by pointer alone."""
    stops = page.evaluate(_START)
    for _ in range(stops + 20):  # areas that scroll are stops too
        page.keyboard.press("Tab")
        if not page.evaluate("walk.step()"):
            break
    found: dict[str, Any] = page.evaluate("walk.found()")
    return {reason: names for reason, names in found.items() if names}
