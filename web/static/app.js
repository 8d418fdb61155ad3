// Everything of the dashboard works without this script. Each part of it is a module of its own.

import "./live.js";
import "./notify.js";
import "./panel.js";
import "./forms.js";
import "./palette.js";
import "./keys.js";

// On a narrow screen the menu is one row that scrolls: it begins at the page that is shown. scrollIntoView would scroll the page too.
const current = document.querySelector(".top nav [aria-current]");
const row = document.querySelector(".top > div");
if (current && row.scrollWidth > row.clientWidth) row.scrollLeft = current.offsetLeft - 60;
