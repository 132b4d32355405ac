"use strict";
// Every answer goes into a queue in this browser first, and leaves it when the server says that it is on disk. The queue
// survives reloads and lost networks; an event keeps its id, so that sending it twice changes nothing. Each person has a
// queue of their own: whoever comes next at the same browser must not send the answers of the one before.
const palate = (() => {
  const csrf = document.querySelector('meta[name="csrf"]')?.content ?? "";
  const KEY = `palate-queue-${document.querySelector('meta[name="queue"]')?.content ?? ""}`;
  const BATCH = 50;
  const LONGEST_WAIT = 30000;
  let memory = null;   // the queue, where the browser cannot keep it
  let sending = null;
  let wait = 1000;
  let timer = 0;
  const listeners = [];

  function read() {
    if (memory) return memory;
    try { return JSON.parse(localStorage.getItem(KEY) ?? "[]"); } catch { return []; }
  }
  function write(queue) {
    try { localStorage.setItem(KEY, JSON.stringify(queue)); memory = null; } catch { memory = queue; }
  }
  function show(text, waiting) {
    const state = document.getElementById("state");
    if (!state) return;
    state.textContent = text;
    state.classList.toggle("waiting", waiting);
  }
  function newId() {
    return crypto.randomUUID ? crypto.randomUUID()
      : Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  }
  async function post(path, body) {
    return fetch(path, {
      method: "POST", credentials: "same-origin", body: JSON.stringify(body),
      headers: { "content-type": "application/json", "x-csrf-token": csrf },
    });
  }
  // With the token, so that another person who has come in since, in another tab, is not taken for this one.
  async function get(path) {
    return fetch(path, { credentials: "same-origin", headers: { "x-csrf-token": csrf } });
  }
  function add(event) {
    write([...read(), { id: newId(), ...event }]);
    show("Saving…", false);
    return flush();
  }
  function pending() { return read(); }
  function drop(ids) { write(read().filter((event) => !ids.includes(event.id))); }

  // One sender at a time; resolves to whether everything is saved.
  function flush() {
    sending ??= send().finally(() => { sending = null; });
    return sending;
  }
  async function send() {
    clearTimeout(timer);
    let size = BATCH;
    for (;;) {
      const queue = read();
      if (!queue.length) {
        show("Saved", false);
        wait = 1000;
        listeners.forEach((tell) => tell());
        return true;
      }
      const batch = queue.slice(0, size);
      let answer;
      try {
        answer = await post("/api/events", { events: batch });
      } catch {
        return later(`Offline: ${count(read().length)} kept in this browser`);
      }
      if (answer.ok) {
        const told = await answer.json();
        drop([...told.saved, ...told.refused.map((one) => one.id)]);
        if (told.refused.length) alertPerson(`An answer could not be saved: ${told.refused[0].why}`);
        size = BATCH;
      } else if ([400, 409, 413, 422].includes(answer.status)) {
        // Something in the batch cannot be read: find out which, so that it does not hold up the others.
        if (batch.length > 1) { size = 1; continue; }
        drop([batch[0].id]);
        alertPerson("An answer could not be saved, because the server could not read it.");
      } else if ([401, 403].includes(answer.status)) {
        return later("Please open your link again; your answers are kept in this browser");
      } else {
        const told = await answer.json().catch(() => ({}));
        return later(told.detail ?? `The server is busy: ${count(read().length)} kept in this browser`);
      }
    }
  }
  function count(number) { return number === 1 ? "1 answer" : `${number} answers`; }
  function alertPerson(text) { show(text, true); }
  function later(text) {
    show(text, true);
    clearTimeout(timer);
    timer = setTimeout(flush, wait);
    wait = Math.min(wait * 2, LONGEST_WAIT);
    return false;
  }
  window.addEventListener("online", () => { wait = 1000; flush(); });
  document.addEventListener("visibilitychange", () => { if (!document.hidden && read().length) flush(); });
  window.addEventListener("beforeunload", (event) => { if (read().length && !navigator.onLine) event.preventDefault(); });
  if (read().length) flush();
  navigator.serviceWorker?.register("/offline.js").catch(() => { /* forbidden: the browser says itself that it is offline */ });
  return { add, flush, pending, get, post, newId, show, onSaved: (tell) => listeners.push(tell) };
})();
