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
