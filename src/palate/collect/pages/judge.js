"use strict";
(() => {
  const root = document.getElementById("task");
  const { task, kind } = root.dataset;
  const $ = (id) => document.getElementById(id);
  const details = $("details");
  const grades = $("grades");
  const reason = $("reason");
  let items = [];      // what comes next, the present one first
  let done = 0;
  let total = 0;
  let last = null;     // the last one answered, for undo
  let position = null; // what is chosen on screen; -1 is a tie
  let pasted = false;
  let shownAt = 0;     // when the clock of this item started, and what ran before a pause
  let ran = 0;
  const pace = [];     // seconds of the answers of this visit
  let busy = false;

  const key = (one) => `${one.item} ${one.repeat}`;
  const seconds = () => Math.round((ran + (document.hidden ? 0 : performance.now() - shownAt)) / 100) / 10;
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) ran += performance.now() - shownAt; else shownAt = performance.now();
  });

  async function load() {
    let answer;
    try {
      answer = await palate.get(`/api/tasks/${task}`);
    } catch {
      palate.show("Offline: waiting for the network", true);
      return false;
    }
    if (!answer.ok) { palate.show((await answer.json()).detail, true); return false; }
    const told = await answer.json();
    const waiting = new Map(palate.pending().filter((one) => one.task === task).map((one) => [key(one), one.kind]));
    items = told.items.filter((one) => waiting.get(key(one)) !== "answer" || kind === "validate");
    done = told.done + (told.items.length - items.length);
    total = told.total;
    last = told.last;
    return true;
  }

  // People may go on while the network is away, as long as there are items in hand.
  async function begin() {
    await palate.flush();
    if (!(await load())) { setTimeout(begin, 3000); return; }
    present();
  }

  function present() {
    position = null;
    pasted = false;
    details?.reset();
    grades?.reset();
    if (details) details.hidden = true;
    $("undo").hidden = !last;
    progress();
    const item = items[0];
    const ask = $("ask");
    if (ask) ask.hidden = Boolean(item) || done >= total;
    $("item").hidden = !item;
    $("keys").hidden = !item;
    if (!item) {
      if (ask && done < total) { $("prompt").focus(); return; }
      finish();
      return;
    }
    $("prompt-text").innerHTML = item.prompt; // sanitised by the server
    const responses = $("responses");
    responses.replaceChildren(...item.responses.map((html, place) => card(html, place)));
    if (kind === "validate") gradeRows(item);
    shownAt = performance.now();
    ran = 0;
    window.scrollTo(0, 0);
    $("prompt-title").focus({ preventScroll: true });
  }

  function card(html, place) {
    const box = document.createElement("article");
    box.className = "response";
    box.setAttribute("aria-label", `Answer ${place + 1}`);
    const title = document.createElement("h2");
    title.textContent = `Answer ${place + 1}`;
    const text = document.createElement("div");
    text.className = "text";
    text.innerHTML = html; // sanitised by the server
    box.append(title, text);
    if (kind !== "validate") {
      const button = document.createElement("button");
      const hint = document.createElement("kbd");
      hint.textContent = place + 1;
      button.append(hint, ` I prefer answer ${place + 1}`);
      button.setAttribute("aria-pressed", "false");
      // The second click of a double click may come to the next item, which nobody has read.
      button.addEventListener("click", (event) => { if (event.detail < 2) choose(place); });
      box.append(button);
    }
    return box;
  }

  function progress() {
    $("progress").max = Math.max(total, 1);
    $("progress").value = done;
    const typical = [...pace].sort((a, b) => a - b)[Math.floor(pace.length / 2)];
    const minutes = typical ? Math.max(1, Math.round(((total - done) * typical) / 60)) : 0;
    const left = minutes && done < total ? `, about ${minutes} min left` : "";
    $("counts").textContent = `${Math.min(done, total)} of ${total}${left}`;
  }

  function answer() {
    const form = details ? new FormData(details) : new FormData();
    const number = (name) => (form.get(name) ? Number(form.get(name)) : null);
    const tie = position === -1;
    const event = {
      kind: "answer", task, item: items[0].item, repeat: items[0].repeat, position: tie ? null : position, tie,
      strength: tie ? null : number("strength"), satisfaction: number("satisfaction"),
      reason: reason?.value.trim() || null, values: form.getAll("values"), seconds: seconds(), pasted,
    };
    const edit = $("edit");
    if (edit && !tie && edit.value.trim() && edit.value !== items[0].texts[position]) event.edit = edit.value;
    return event;
  }

  function choose(place) {
    if (busy || !items.length || kind === "validate" || place >= items[0].responses.length) return;
    if (place === -1 && root.dataset.tie !== "yes") return;
    const before = position;
    position = place;
    $("undo").hidden = false;
    [...$("responses").children].forEach((box, number) => {
      box.classList.toggle("chosen-one", number === place);
      box.querySelector("button").setAttribute("aria-pressed", String(number === place));
    });
    const edit = $("edit");
    if (edit) {
      $("edit-box").hidden = place === -1;
      if (before !== place) edit.value = place === -1 ? "" : items[0].texts[place];
    }
    if (before !== place) palate.add(answer()); // saved at once; what is added below is a new version
    if (details.querySelector("input, textarea")) {
      details.hidden = false;
      const strength = $("strength");
      if (strength) strength.hidden = place === -1;
      $("chosen").textContent = place === -1 ? "You find them equally good." : `You prefer answer ${place + 1}.`;
      if (before === null) details.scrollIntoView({ block: "nearest" });
    } else {
      next(false);
    }
  }

  function next(edited) {
    if (position === null || !items.length) return;
    if (edited) palate.add(answer());
    pace.push(seconds());
    last = items.shift();
    done += 1;
    advance();
  }

  async function advance() {
    if (items.length || (kind === "feedback" && done < total)) { present(); return; }
    busy = true;
    $("item").hidden = true;
    await palate.flush();
    busy = false;
    await begin();
  }

  async function finish() {
    if (palate.pending().length) {
      palate.onSaved(() => location.assign("/"));
      await palate.flush();
      return;
    }
    location.assign("/");
  }

  // Takes back what is chosen on screen; where nothing is, the answer before.
  function undo() {
    const back = position === null ? last : items[0];
    if (busy || !back) return;
    palate.add({ kind: "undo", task, item: back.item, repeat: back.repeat });
    if (back === last) {
      items = [back, ...items.filter((one) => key(one) !== key(back))];
      done = Math.max(0, done - 1);
      last = null;
    }
    present();
  }

  details?.addEventListener("submit", (event) => { event.preventDefault(); next(true); });
  reason?.addEventListener("paste", () => { pasted = true; });
  $("tie")?.addEventListener("click", (event) => { if (event.detail < 2) choose(-1); });
  $("undo").addEventListener("click", undo);

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    const typing = event.target.closest?.("textarea, input:not([type=radio], [type=checkbox]), select");
    if (typing) return;
    if (/^[0-9]$/.test(event.key)) { choose(event.key === "0" ? -1 : Number(event.key) - 1); event.preventDefault(); }
    else if (event.key === "u") { undo(); event.preventDefault(); }
    else if (event.key === "Enter" && details && !details.hidden && !event.target.closest?.("button, a")) {
      next(true);
      event.preventDefault();
    }
  });

  // Validation: three dimensions first; then the profile, which the server gives out after these are saved.
  let graded = {};
  function gradeRows(item) {
    graded = {};
    $("profile").hidden = true;
    $("missing").hidden = true;
    for (const field of grades.querySelectorAll("fieldset")) {
      const name = field.dataset.dimension;
      field.hidden = name === "personal fit";
      field.disabled = false;
      field.querySelector(".grades").replaceChildren(...item.responses.map((_, place) => {
        const row = document.createElement("div");
        row.className = "grade";
        row.setAttribute("role", "group");
        row.setAttribute("aria-label", `Answer ${place + 1}`);
        const label = document.createElement("span");
        label.textContent = `Answer ${place + 1}`;
        row.append(label);
        for (let grade = 1; grade <= 5; grade += 1) {
          const chip = document.createElement("label");
          chip.className = "chip";
          const input = document.createElement("input");
          input.type = "radio";
          input.name = `${name}-${place}`;
          input.value = grade;
          chip.append(input, ` ${grade}`);
          row.append(chip);
        }
        return row;
      }));
    }
  }
  grades?.addEventListener("submit", async (event) => {
    event.preventDefault();
    const item = items[0];
    if (!item || busy) return;
    const form = new FormData(grades);
    const wanted = $("profile").hidden ? ["factuality", "relevance", "helpfulness"] : ["personal fit"];
    const read = (name) => item.responses.map((_, place) => Number(form.get(`${name}-${place}`)) || null);
    const missing = wanted.some((name) => read(name).includes(null));
    $("missing").hidden = !missing;
    if (missing) return;
    wanted.forEach((name) => { graded[name] = read(name); });
    const sent = { kind: "answer", task, item: item.item, repeat: item.repeat, ratings: graded, seconds: seconds() };
    busy = true;
    const saved = await palate.add(sent);
    busy = false;
    if (wanted.includes("personal fit")) { position = 0; next(false); return; }
    if (!saved) { palate.show("Waiting for the network before the last question", true); }
    await showProfile(item);
  });
  async function showProfile(item) {
    const own = graded; // of what is on screen: after an undo it is another's, and this profile must not come there
    let answer;
    try {
      await palate.flush();
      const query = new URLSearchParams({ item: item.item, repeat: item.repeat });
      answer = await palate.get(`/api/tasks/${task}/profile?${query}`);
    } catch { answer = null; }
    const told = answer?.ok ? await answer.json() : null;
    if (graded !== own) return;
    if (!told) { setTimeout(() => { if (graded === own) showProfile(item); }, 2000); return; }
    $("profile-text").innerHTML = told.profile.join("");
    $("profile").hidden = false;
    for (const field of grades.querySelectorAll("fieldset")) field.hidden = field.dataset.dimension !== "personal fit";
    $("profile-title").focus();
    $("profile").scrollIntoView({ block: "nearest" });
  }

  // Live: the person's own prompt, answered by both models.
  $("ask")?.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (busy) return;
    busy = true;
    const button = $("ask").querySelector("button");
    button.disabled = true;
    $("waiting").textContent = "Both assistants are writing…";
    try {
      const answer = await palate.post(`/api/tasks/${task}/prompts`, { id: palate.newId(), prompt: $("prompt").value });
      const told = await answer.json();
      if (answer.ok) {
        items = [told];
        $("prompt").value = "";
        $("waiting").textContent = "";
        present();
      } else $("waiting").textContent = told.detail;
    } catch {
      $("waiting").textContent = "The network is away. Your text stays here; try again in a moment.";
    }
    button.disabled = false;
    busy = false;
  });

  begin();
})();
