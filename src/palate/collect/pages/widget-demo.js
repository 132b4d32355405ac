"use strict";
(() => {
  const state = document.getElementById("state");
  const tell = (saved) => { state.textContent = saved ? "Saved" : "This page may not send feedback: see origins"; };
  const prompt = document.getElementById("demo-prompt").textContent;
  const response = document.getElementById("demo-response").textContent;
  const thumbs = document.getElementById("thumbs");
  palateWidget.thumb(thumbs, { prompt, response });
  new MutationObserver(() => tell(thumbs.dataset.state === "saved")).observe(thumbs, { attributeFilter: ["data-state"], attributes: true });
  document.getElementById("demo-edit").addEventListener("submit", async (event) => {
    event.preventDefault();
    tell(await palateWidget.edit({ prompt, response, edit: document.getElementById("demo-text").value }));
  });
  document.getElementById("demo-forget").addEventListener("click", async () => {
    state.textContent = (await palateWidget.forget()) ? "Erased" : "Not erased";
  });
})();
