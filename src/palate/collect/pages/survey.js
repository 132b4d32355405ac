"use strict";
(() => {
  const survey = document.getElementById("survey");
  const task = survey.dataset.task;

  function valueOf(field) {
    const fields = [...survey.querySelectorAll(`[name="${CSS.escape(field.name)}"]`)];
    if (field.dataset.kind === "scale") return Number(field.value);
    if (field.dataset.kind === "choices") return fields.filter((one) => one.checked).map((one) => one.value);
    return field.value;
  }
  const before = new Map();
  function save(field) {
    const value = valueOf(field);
    const text = JSON.stringify(value);
    if (before.get(field.name) === text) return;
    before.set(field.name, text);
    const empty = value === "" || (Array.isArray(value) && !value.length);
    palate.add(empty ? { kind: "undo", task, item: field.name } : { kind: "survey", task, item: field.name, value });
  }
  // What waits in this browser is shown as given; what was given before this script came is saved now.
  for (const event of palate.pending().filter((one) => one.task === task)) {
    const fields = [...survey.querySelectorAll(`[name="${CSS.escape(event.item)}"]`)];
    for (const field of fields) {
      if (field.dataset.kind === "text") field.value = event.value ?? "";
      else field.checked = [event.value].flat().map(String).includes(field.value);
    }
    const shown = fields.find((field) => field.checked) ?? fields[0];
    if (shown) before.set(event.item, JSON.stringify(valueOf(shown)));
  }
  for (const field of survey.querySelectorAll("[name]")) {
    const given = field.dataset.kind === "text" ? field.value !== field.defaultValue
      : field.checked !== field.defaultChecked && (field.checked || field.dataset.kind === "choices");
    if (given) save(field);
  }
  survey.addEventListener("change", (event) => { if (event.target.name) save(event.target); });
  document.getElementById("finish").addEventListener("click", async (event) => {
    const active = document.activeElement;
    if (active?.name) save(active);
    event.target.disabled = true;
    palate.onSaved(() => location.assign("/"));
    if (!(await palate.add({ kind: "survey", task, item: "finished", value: "yes" }))) event.target.disabled = false;
  });
})();
