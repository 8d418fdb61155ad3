// Forms: what is refused before it is sent, and steps of a plan that are selected together.

const banner = document.getElementById("connection");

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

// Copies the lines of a manifest without their numbers, also of what is folded.
document.addEventListener("click", (event) => {
  const button = event.target.closest && event.target.closest("[data-copy]");
  if (!button) return;
  const lines = [...button.closest("section").querySelectorAll("[data-line]")].map((line) => line.textContent);
  const say = (text) => { button.firstChild.textContent = text; };
  // a browser has a clipboard only over HTTPS and on localhost
  if (navigator.clipboard) navigator.clipboard.writeText(lines.join("\n") + "\n").then(() => say("Copied"));
  else { getSelection().selectAllChildren(button.closest("section").querySelector(".yaml")); say("Selected"); }
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
