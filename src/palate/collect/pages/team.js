"use strict";
(() => {
  async function refresh() {
    try {
      const answer = await fetch("/api/team/counts", { credentials: "same-origin" });
      if (!answer.ok) return;
      const counts = await answer.json();
      for (const [name, value] of Object.entries(counts)) document.getElementById(`live-${name}`).textContent = value;
    } catch { /* the next try may do better */ }
  }
  setInterval(() => { if (!document.hidden) refresh(); }, 5000);
})();
