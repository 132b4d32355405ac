"use strict";
// Feedback from a product's own page, sent to palate collect:
//   <script src="https://study.example.org/widget.js" data-key="pk-..." defer></script>
//   palateWidget.thumb(element, { prompt, response });
//   palateWidget.choice({ prompt, responses, choice }); palateWidget.edit({ prompt, response, edit });
//   palateWidget.forget();
window.palateWidget = (() => {
  const script = document.currentScript;
  const server = new URL(script.src).origin;
  const key = script.dataset.key;
  const PERSON = "palate-person";
  function newId() {
    return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  }
  function person() {
    let id = null;
    try { id = localStorage.getItem(PERSON); } catch { /* forbidden: one id for this page view */ }
    id ??= newId();
    try { localStorage.setItem(PERSON, id); } catch { /* see above */ }
    return id;
  }
  async function post(path, body) {
    for (let wait = 500; ; wait *= 2) {
      try {
        const answer = await fetch(server + path, {
          method: "POST", mode: "cors", credentials: "omit", headers: { "content-type": "application/json" },
          body: JSON.stringify({ key, person: person(), ...body }),
        });
        if (answer.ok) return true;
        if (answer.status < 500 && answer.status !== 429) return false;
      } catch { /* the network is away: try again with the same id */ }
      if (wait > 16000) return false;
      await new Promise((resolve) => { setTimeout(resolve, wait); });
    }
  }
  const send = (body) => post("/api/widget", { id: newId(), ...body });
  const choice = ({ prompt, responses, choice: chosen, reason }) =>
    send({ kind: "choice", prompt, responses, choice: chosen, reason });
  const edit = ({ prompt, response, edit: text }) => send({ kind: "edit", prompt, responses: [response], edit: text });
  function thumb(element, { prompt, response }) {
    for (const [up, sign, words] of [[true, "👍", "This was helpful"], [false, "👎", "This was not helpful"]]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = sign;
      button.setAttribute("aria-label", words);
      button.setAttribute("aria-pressed", "false");
      button.addEventListener("click", async () => {
        const saved = await send({ kind: "thumb", prompt, responses: [response], up });
        for (const other of element.querySelectorAll("button")) {
          other.setAttribute("aria-pressed", String(saved && other === button));
        }
        element.dataset.state = saved ? "saved" : "failed";
      });
      element.append(button);
    }
  }
  async function forget() {
    const done = await post("/api/widget/forget", {});
    if (done) try { localStorage.removeItem(PERSON); } catch { /* nothing was kept */ }
    return done;
  }
  return { thumb, choice, edit, forget };
})();
