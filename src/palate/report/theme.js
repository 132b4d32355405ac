"use strict";
// Runs before the first paint, so that the page does not flash in the wrong colours.
try {
  const kept = localStorage.getItem("palate-theme");
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
} catch (error) {
  // Storage may be forbidden; the system's setting then decides.
}
