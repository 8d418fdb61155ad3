// Everything of the dashboard works without this script. Each part of it is a module of its own.

import "./live.js";
import "./panel.js";
import "./forms.js";
import "./palette.js";
import "./keys.js";
