// Everything of the dashboard works without this script. Each part of it is a module of its own.

import "./live.js";
import "./notify.js";
import "./panel.js";
import "./forms.js";
import "./palette.js";
import "./keys.js";

// On a narrow screen menu and tabs are rows that scroll: they begin at what is shown. scrollIntoView would scroll the page too.
for (const row of document.querySelectorAll(".top > div, .bar, .tabs")) {
  const current = row.querySelector("[aria-current=page]");
  if (current && row.scrollWidth > row.clientWidth) row.scrollLeft = current.getBoundingClientRect().left - row.getBoundingClientRect().left - 60;
}
