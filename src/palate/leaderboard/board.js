"use strict";
/* The pages of a board. Data come as scripts that call palate.got: a page opened from a disk may load scripts, but may
   not fetch files. Every text goes in as text, never as markup. */
const palate = (() => {
  const MINUS = "\u2212", DASH = "\u2013", STEPS = 60, FIRST = 40, PAGE = 50, MOST_ROWS = 200;
  const byId = (id) => document.getElementById(id);
  const main = byId("main");
  const store = new Map();
  const waiting = new Map();
  let board = null;

  // Loading -----------------------------------------------------------------------------------------------------

  function got(key, value) {
    store.set(key, value);
    waiting.get(key)?.resolve(value);
    waiting.delete(key);
    if (key === "board") {
      board = value;
      start();
    }
  }

  function load(key) {
    if (store.has(key)) return Promise.resolve(store.get(key));
    if (!waiting.has(key)) {
      const pending = {};
      pending.promise = new Promise((resolve, reject) => Object.assign(pending, { resolve, reject }));
      waiting.set(key, pending);
      const script = document.createElement("script");
      script.src = `data/${key}.js`;
      script.addEventListener("load", () => script.remove());
      script.addEventListener("error", () => {
        script.remove();
        waiting.delete(key);
        pending.reject(new Error(`data/${key}.js is missing. Copy the whole folder of the site.`));
      });
      document.head.append(script);
    }
    return waiting.get(key).promise;
  }

  // Elements and numbers ------------------------------------------------------------------------------------------

  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value === null || value === undefined || value === false) continue;
      element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.flat().filter((child) => child !== null && child !== undefined));
    return element;
  }

  function drawing(tag, attributes, ...children) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  const absent = (value) => value === null || value === undefined;
  const percent = (value) => (absent(value) ? DASH : `${(100 * value).toFixed(1)}%`);
  const bare = (value) => (100 * value).toFixed(1).replace("-", MINUS);
  const points = (value) => (absent(value) ? DASH : `${value > 0 ? "+" : ""}${(100 * value).toFixed(1).replace("-", MINUS)}`);
  const whole = (value) => value.toLocaleString("en-GB");
  const plural = (number, noun) => `${whole(number)} ${noun}${number === 1 ? "" : "s"}`;
  const clear = (q) => !absent(q) && q < 0.05;
  const interval = (low, high) => (absent(low) || absent(high) ? DASH : `${bare(low)}${DASH}${bare(high)}`);

  function parameters(number) {
    if (absent(number)) return DASH;
    const [unit, name] = [[1e9, "B"], [1e6, "M"], [1, ""]].find(([size]) => number >= size);
    return `${Number((number / unit).toPrecision(3))}${name}`;
  }

  function accuracyBar(value, low, high) {
    const [width, height] = [120, 14];
    const bar = drawing("svg", { class: "slice-bar", width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
    bar.append(drawing("rect", { class: "track", x: 0, y: 4, width, height: 6 }));
    if (!absent(value)) bar.append(drawing("rect", { class: "value", x: 0, y: 4, width: width * value, height: 6 }));
    if (!absent(low) && !absent(high)) bar.append(drawing("line", { class: "whisker", x1: width * low, x2: width * high, y1: 7, y2: 7 }));
    bar.append(drawing("line", { class: "chance", x1: width / 2, x2: width / 2, y1: 0, y2: height }));
    return bar;
  }

  function chooser(label, id, options, value, change) {
    const select = make("select", { id }, options.map(([key, text]) => make("option", { value: key }, text)));
    select.value = value;
    select.addEventListener("change", () => change(select.value));
    return make("p", {}, make("label", { for: id }, label), select);
  }

  const partName = (part) => (part.by === "everybody" ? "everybody" : `${fieldName(part.by)}: ${part.value}`);
  const fieldName = (by) => by.replace("demographics.", "").replaceAll("_", " ");

  function scrolling(label, ...children) {
    return make("div", { class: "scrolling", role: "region", tabindex: "0", "aria-label": label }, ...children);
  }

  function tableOf(label, titles, rows) {
    const head = make("tr", {}, titles.map(([title, number]) => make("th", { scope: "col", class: number ? "number" : null }, title)));
    const body = rows.map((row) =>
      make("tr", {}, row.map((cell, place) => {
        if (place === 0) return make("th", { scope: "row" }, cell);
        return make("td", { class: titles[place][1] ? "number" : null }, cell);
      })),
    );
    return scrolling(label, make("table", {}, make("thead", {}, head), make("tbody", {}, body)));
  }

  function facts(pairs) {
    return make("dl", { class: "facts" }, pairs.filter(([, fact]) => !absent(fact) && fact !== "").map(([name, fact]) =>
      make("div", {}, make("dt", {}, name), make("dd", {}, fact))));
  }

  // Addresses -----------------------------------------------------------------------------------------------------

  function address(...parts) {
    return `#/${parts.map((part) => encodeURIComponent(part)).join("/")}`;
  }

  function route() {
    const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
    let parts = [];
    try {
      parts = path.split("/").filter(Boolean).map(decodeURIComponent);
    } catch (error) {
      parts = ["nowhere"];
    }
    return { parts, query: new URLSearchParams(query ?? "") };
  }

  function modelOf(id) {
    for (const [number, benchmark] of board.benchmarks.entries()) {
      const model = benchmark.models.find((one) => one.id === id);
      if (model) return { model, benchmark, number };
    }
    return null;
  }

  /** Show a page; what was asked for later wins over what loads slowly. */
  let shown = 0;
  async function show(focus = true) {
    const ticket = ++shown;
    const { parts, query } = route();
    if (location.hash && !location.hash.startsWith("#/")) return;
    const page = { "": ranking, model: modelPage, pair: pairPage, item: itemPage, people: peoplePage, about: aboutPage }[parts[0] ?? ""];
    main.setAttribute("aria-busy", "true");
    let content;
    try {
      content = page ? await page(parts.slice(1), query) : notFound();
    } catch (error) {
      content = [make("h1", {}, "This page cannot be shown"), make("p", { class: "callout" }, error.message)];
    }
    if (ticket !== shown) return;
    main.replaceChildren(...content);
    main.removeAttribute("aria-busy");
    const title = main.querySelector("h1").textContent;
    document.title = title === board.title ? title : `${title} ${DASH} ${board.title}`;
    for (const link of document.querySelectorAll("nav a[href^='#/']")) {
      if (link.getAttribute("href") === `#/${parts[0] ?? ""}`) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    if (focus) {
      main.focus({ preventScroll: true });
      window.scrollTo(0, 0);
    }
  }

  function notFound() {
    return [make("h1", {}, "Not on this board"), make("p", {}, make("a", { href: "#/" }, "Back to the ranking"))];
  }

  // Ranking -------------------------------------------------------------------------------------------------------

  const [MODEL, VALUE, LOW, HIGH, ITEMS, USERS, RANK, BETTER, BEST, WORST, NONE, NONE_LOW, NONE_HIGH, NONE_Q, STRANGER, STRANGER_LOW, STRANGER_HIGH, STRANGER_Q] =
    Array(18).keys();
  const last = (value) => (absent(value) ? Infinity : value);
  const COLUMNS = [
    { name: "Rank", key: "rank", number: true, order: (row) => last(row[RANK]), title: "Models that share a rank cannot be told apart from those above" },
    { name: "Model", key: "model", order: (row, models) => models[row[MODEL]].name.toLowerCase() },
    { name: "Accuracy", key: "accuracy", number: true, order: (row) => last(-row[VALUE]), wide: true },
    { name: "Places on half the users", key: "halves", number: true, order: (row) => last(row[WORST]) },
    { name: "Over no profile", key: "none", number: true, order: (row) => last(absent(row[NONE]) ? null : -row[NONE]) },
    { name: "Over a stranger", key: "stranger", number: true, order: (row) => last(absent(row[STRANGER]) ? null : -row[STRANGER]) },
    { name: "Kind", key: "kind", order: (row, models) => models[row[MODEL]].kind },
    { name: "Size", key: "size", number: true, order: (row, models) => last(models[row[MODEL]].parameters) },
    { name: "Licence", key: "licence", order: (row, models) => models[row[MODEL]].licence },
    { name: "Variants tried", key: "variants", number: true, order: (row, models) => last(models[row[MODEL]].variants) },
  ];
  const chosen = new Set();

  async function ranking(_, query) {
    const number = place(query.get("b"), board.benchmarks.length, 0);
    const benchmark = board.benchmarks[number];
    const view = place(query.get("v"), benchmark.views.length, benchmark.view);
    const part = place(query.get("p"), benchmark.parts.length, 0);
    const table = await load(`table-${number}-${view}-${part}`);
    const models = benchmark.models;
    const wanted = Object.fromEntries(["kind", "size", "licence", "q"].map((name) => [name, query.get(name) ?? ""]));
    let sort = query.get("sort") ?? "rank";
    let down = query.get("down") === "1";

    const status = make("p", { id: "found", role: "status" });
    const body = make("tbody");
    const head = make("tr");
    const compare = make("p", { class: "compare", role: "status" });
    let most = MOST_ROWS;
    const more = make("button", { type: "button", id: "show-all" });
    more.addEventListener("click", () => {
      most = Infinity;
      drawBody();
    });
    const drawn = new Map();

    function remember() {
      const values = { b: number || "", v: view === benchmark.view ? "" : view, p: part || "", ...wanted, sort: sort === "rank" ? "" : sort, down: down ? "1" : "" };
      const kept = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== ""));
      history.replaceState(null, "", `#/${String(kept) ? `?${kept}` : ""}`);
    }

    /** Controls stay: what they reach is what the models have to beat. */
    function fits(row) {
      const model = models[row[MODEL]];
      if (model.control) return true;
      const words = wanted.q.toLowerCase().split(/\s+/).filter(Boolean);
      return ["kind", "size", "licence"].every((name) => !wanted[name] || model[name] === wanted[name]) && words.every((word) => model.name.toLowerCase().includes(word));
    }

    function drawBody() {
      const column = COLUMNS.find((one) => one.key === sort) ?? COLUMNS[0];
      const rows = table.rows.filter(fits).map((row) => [column.order(row, models), last(row[RANK]), last(-row[VALUE]), row]);
      const sign = down ? -1 : 1;
      rows.sort((one, other) => sign * compared(one[0], other[0]) || compared(one[1], other[1]) || compared(one[2], other[2]));
      // A browser takes long to lay out a thousand rows. Controls are shown wherever they stand.
      const shown = rows.filter(([, , , row], index) => index < most || models[row[MODEL]].control);
      body.replaceChildren(...shown.map(([, , , row]) => {
        if (!drawn.has(row)) drawn.set(row, drawRow(row));
        return drawn.get(row);
      }));
      const all = table.rows.length;
      more.hidden = shown.length === rows.length;
      more.textContent = `Show all ${whole(rows.length)}`;
      status.textContent = rows.length === all ? `${plural(all, "model")}, controls among them` : `${whole(rows.length)} of ${plural(all, "model")}. Controls always stay. Ranks are among all ${whole(all)}.`;
      for (const cell of head.children) {
        const own = cell.dataset.key;
        if (!own) continue;
        if (own === sort) cell.setAttribute("aria-sort", down ? "descending" : "ascending");
        else cell.removeAttribute("aria-sort");
      }
    }

    function drawRow(row) {
      const model = models[row[MODEL]];
      const check = make("input", { type: "checkbox", id: `compare-${model.id}`, "aria-label": `Compare ${model.name}` });
      check.checked = chosen.has(model.id);
      check.addEventListener("change", () => {
        if (check.checked) chosen.add(model.id);
        else chosen.delete(model.id);
        drawCompare();
      });
      return make(
        "tr",
        { class: model.control ? "control-row" : null },
        make("td", { class: "number rank" }, absent(row[RANK]) ? DASH : String(row[RANK])),
        make("th", { scope: "row" }, make("a", { href: address("model", model.id) }, model.name), model.control ? make("span", { class: "tag" }, "control") : null),
        make("td", { class: "number accuracy" }, accuracyBar(row[VALUE], row[LOW], row[HIGH]), make("span", { class: "figures" }, make("b", {}, percent(row[VALUE])), make("span", { class: "small" }, interval(row[LOW], row[HIGH])))),
        make("td", { class: "number" }, absent(row[BEST]) ? DASH : row[BEST] === row[WORST] ? String(row[BEST]) : `${row[BEST]}${DASH}${row[WORST]}`),
        make("td", { class: "number" }, points(row[NONE]) + (clear(row[NONE_Q]) ? "*" : "")),
        make("td", { class: "number" }, points(row[STRANGER]) + (clear(row[STRANGER_Q]) ? "*" : "")),
        make("td", {}, model.kind),
        make("td", { class: "number" }, model.control ? DASH : parameters(model.parameters)),
        make("td", {}, model.control ? DASH : model.licence),
        make("td", { class: "number" }, model.control ? DASH : absent(model.variants) ? "not given" : whole(model.variants)),
        make("td", {}, check),
      );
    }

    function drawCompare() {
      const names = [...chosen].map((id) => models.find((one) => one.id === id)).filter(Boolean);
      if (names.length === 2) {
        const href = `${address("pair", names[0].id, names[1].id)}?v=${view}`;
        compare.replaceChildren(make("a", { href }, `Compare ${names[0].name} with ${names[1].name}`));
      } else compare.replaceChildren(names.length === 1 ? "Tick a second model to compare the two." : names.length ? "Tick two models to compare them." : "Tick two models to compare them item by item.");
    }

    for (const column of COLUMNS) {
      const button = make("button", { type: "button", class: "sort", title: column.title }, column.name);
      button.addEventListener("click", () => {
        down = sort === column.key ? !down : false;
        sort = column.key;
        drawBody();
        remember();
      });
      head.append(make("th", { scope: "col", class: column.number ? "number" : null, "data-key": column.key }, button));
    }
    head.append(make("th", { scope: "col" }, "Compare"));

    const go = (changes) => {
      const next = new URLSearchParams(location.hash.split("?")[1] ?? "");
      for (const [name, value] of Object.entries(changes)) {
        if (value === "") next.delete(name);
        else next.set(name, value);
      }
      history.replaceState(null, "", `#/${String(next) ? `?${next}` : ""}`);
      const id = document.activeElement?.id;
      show(false).then(() => id && byId(id)?.focus());
    };
    const filter = (name) => (value) => {
      wanted[name] = value;
      drawBody();
      remember();
    };
    const distinct = (name) => [["", "any"], ...[...new Set(models.filter((one) => !one.control).map((one) => one[name]))].sort().map((value) => [value, value])];
    const numbered = (names) => names.map((name, index) => [String(index), name]);
    const search = make("input", { id: "search", type: "search", autocomplete: "off", placeholder: "part of a name" });
    search.value = wanted.q;
    search.addEventListener("input", () => filter("q")(search.value));
    drawBody();
    drawCompare();
    return [
      make("h1", {}, board.title),
      make("p", { class: "subtitle" }, `How often ${plural(models.filter((one) => !one.control).length, "reward model")} scored highest what ${plural(benchmark.users, "person").replace("persons", "people")} preferred, on ${plural(benchmark.items, "choice")}. Benchmark: ${benchmark.title}.`),
      findings("warning", "callout"),
      make(
        "div",
        { class: "filters", role: "group", "aria-label": "Choose what is ranked" },
        chooser("Benchmark", "by-benchmark", numbered(board.benchmarks.map((one) => one.title)), String(number), (value) => go({ b: value, v: "", p: "" })),
        chooser("What models see", "by-view", numbered(benchmark.views.map((one) => one.name)), String(view), (value) => go({ v: value })),
        chooser("People or domain", "by-part", numbered(benchmark.parts.map((one) => `${partName(one)} (${plural(one.users, "user")})`)), String(part), (value) => go({ p: value })),
      ),
      make(
        "details",
        { class: "more", open: Object.values(wanted).some(Boolean) },
        make("summary", {}, "Filter the models"),
        make(
          "div",
          { class: "filters", role: "search", "aria-label": "Filter the models" },
          chooser("Kind", "by-kind", distinct("kind"), wanted.kind, filter("kind")),
          chooser("Size", "by-size", distinct("size"), wanted.size, filter("size")),
          chooser("Licence", "by-licence", distinct("licence"), wanted.licence, filter("licence")),
          make("p", { class: "wide" }, make("label", { for: "search" }, "Search"), search),
        ),
      ),
      status,
      scrolling("Ranking", make("table", { class: "board" }, make("thead", {}, head), body)),
      more,
      compare,
      make("p", { class: "small" }, explained(table, benchmark)),
      findings("note", "notes"),
    ].filter(Boolean);
  }

  function findings(severity, kind) {
    const own = board.findings.filter((one) => (one.severity === "warning") === (severity === "warning"));
    if (!own.length) return null;
    const list = make("ul", { class: "small" }, own.map((one) => make("li", {}, one.text)));
    return make("div", { class: kind, role: "note", "aria-label": "Findings" }, kind === "callout" ? make("p", { class: "callout-title" }, "Before you believe it") : null, list);
  }

  function explained(table, benchmark) {
    const stays = absent(table.leader_stays) ? "" : ` Splitting the ${plural(table.users, "user")} into halves at random, the leader of one half also led the other ${percent(table.leader_stays)} of the time.`;
    return `A model's rank is one more than the number of models that are clearly better: a paired test over ${benchmark.resampled}, false discovery rate 5% over all pairs. Models that nothing clearly beats share rank 1.${stays} Places: where nine of ten halves of the users put it. Intervals are 95%. Gains in percentage points; * is q < .05.`;
  }

  function place(text, length, otherwise) {
    const number = Number(text);
    return text !== null && text !== "" && Number.isInteger(number) && number >= 0 && number < length ? number : otherwise;
  }

  const compared = (one, other) => (one < other ? -1 : one > other ? 1 : 0);

  // Best for people like ------------------------------------------------------------------------------------------

  async function peoplePage(_, query) {
    const number = place(query.get("b"), board.benchmarks.length, 0);
    const benchmark = board.benchmarks[number];
    const view = place(query.get("v"), benchmark.views.length, benchmark.view);
    const best = await load(`best-${number}-${view}`);
    const go = (changes) => {
      location.hash = `#/people?${new URLSearchParams({ b: number, v: view, ...changes })}`;
    };
    const rows = best.map(({ part, models }) => {
      const own = models.map((place) => benchmark.models[place]);
      const names = own.slice(0, 8).flatMap((model, index) => [index ? ", " : "", make("a", { href: address("model", model.id) }, model.name), model.control ? " (control)" : ""]);
      const more = own.length > 8 ? ` and ${own.length - 8} more` : "";
      const shown = benchmark.parts[part];
      const query = new URLSearchParams({ b: number, v: view, p: part });
      return [make("a", { href: `#/?${query}` }, partName(shown)), whole(shown.users), make("span", {}, ...names, more || (own.length ? "" : "not ranked: too few users"))];
    });
    return [
      make("h1", {}, "Best for people like"),
      make("p", { class: "subtitle" }, `The models that share the first rank for each domain and each group of ${board.smallest} users or more.`),
      make(
        "div",
        { class: "filters" },
        chooser("Benchmark", "by-benchmark", board.benchmarks.map((one, index) => [String(index), one.title]), String(number), (value) => go({ b: value, v: board.benchmarks[value].view })),
        chooser("What models see", "by-view", benchmark.views.map((one, index) => [String(index), one.name]), String(view), (value) => go({ v: value })),
      ),
      tableOf("Best for people like", [["People or domain"], ["Users", true], ["Nothing is clearly better than"]], rows),
      make("p", { class: "small" }, `Smaller groups are put together, so that no number is about fewer than ${board.smallest} people. In a small group, many models share the first rank: the test cannot tell them apart.`),
    ];
  }

  // A model -------------------------------------------------------------------------------------------------------

  async function modelPage([id], query) {
    const found = modelOf(id);
    if (!found) return notFound();
    const { model, benchmark, number } = found;
    const data = await load(`model-${id}`);
    const names = Object.keys(data.views);
    const wanted = query.get("view");
    const view = names.includes(wanted) ? wanted : names.includes(benchmark.views[benchmark.view].name) ? benchmark.views[benchmark.view].name : names[0];
    const viewPlace = benchmark.views.findIndex((one) => one.name === view);
    const table = await load(`table-${number}-${viewPlace}-0`);
    const row = table.rows.find((one) => benchmark.models[one[MODEL]].id === id);
    const { gaps, calibration, unscored } = data.views[view];
    const run = data.runs[0];
    const people = gaps.filter((gap) => gap.by.startsWith("demographics."));
    const domains = gaps.filter((gap) => !gap.by.startsWith("demographics."));
    const worse = people.filter((gap) => gap.difference < 0 && clear(gap.q));
    return [
      make("h1", {}, model.name),
      make("p", { class: "subtitle" }, model.control ? "A control: it understands nothing, and shows what is free." : `Benchmark: ${benchmark.title}.`),
      make("div", { class: "filters" }, chooser("What it sees", "model-view", names.map((name) => [name, name]), view, (value) => {
        location.hash = `${address("model", id)}?${new URLSearchParams({ view: value })}`;
      })),
      facts([
        ["Rank", absent(row[RANK]) ? "not ranked" : `${row[RANK]} of ${whole(table.rows.length)}`],
        ["Accuracy", `${percent(row[VALUE])} (${interval(row[LOW], row[HIGH])})`],
        ["Places on half the users", absent(row[BEST]) ? DASH : `${row[BEST]}${DASH}${row[WORST]}`],
        ["Clearly better than", plural(row[BETTER] ?? 0, "model")],
        ["Over no profile", gain(row[NONE], row[NONE_LOW], row[NONE_HIGH], row[NONE_Q])],
        ["Over a stranger", gain(row[STRANGER], row[STRANGER_LOW], row[STRANGER_HIGH], row[STRANGER_Q])],
        ["Items without a score", whole(unscored)],
        ["Kind", model.kind],
        ["Size", absent(model.parameters) ? null : parameters(model.parameters)],
        ["Licence", model.control ? null : model.licence],
        ["Variants tried", model.control ? null : absent(model.variants) ? "not given" : whole(model.variants)],
        ["Link", model.link ? make("a", { href: model.link, rel: "noreferrer noopener" }, model.link) : null],
      ]),
      section("Strengths by domain", domains.length ? gapTable(domains, "Strengths by domain") : make("p", {}, "The benchmark names no domains of ten users or more.")),
      section(
        "Whom it serves worse",
        make("p", { class: "lead" }, people.length ? (worse.length ? `Clearly worse than everybody else: ${worse.map((gap) => `${fieldName(gap.by)} ${gap.value}`).join(", ")}.` : "No group is clearly served worse than everybody else. A small group may be, unseen.") : "The benchmark says nothing of its users that makes two groups of ten or more."),
        people.length ? gapTable(people, "Whom it serves worse") : null,
      ),
      section(
        "Calibration and cost",
        calibration ? make("p", {}, `Brier score ${calibration.brier.toFixed(3)}, expected calibration error ${calibration.ece.toFixed(3)}, over ${plural(calibration.n, "rating")} with probabilities. Saying one half for every pair gets 0.250.`) : make("p", {}, "The model claims no probabilities."),
        data.cost ? make("p", {}, `A user costs ${plural(data.cost.bytes, "byte")}${absent(data.cost.adapt_ms) ? "" : `, ${data.cost.adapt_ms.toFixed(2)} ms to learn`}${absent(data.cost.score_ms) ? "" : `, ${data.cost.score_ms.toFixed(2)} ms to score two responses`}, on the machine that trained it.`) : make("p", {}, "No costs were recorded with the run."),
      ),
      await itemSection(number, benchmark, [model], [data], view),
      section(
        "How it was measured",
        tableOf("Settings", [["Setting"], ["Value"]], settingRows(benchmark, data, run)),
        model.control ? null : make("p", { class: "small" }, make("a", { href: model.file, download: true }, "Results for the model card"), " (model-index, YAML)"),
      ),
    ];
  }

  const gain = (value, low, high, q) => (absent(value) ? null : `${points(value)}${clear(q) ? "*" : ""} (${points(low)} to ${points(high)})`);

  function section(title, ...children) {
    const id = `title-${title.toLowerCase().replaceAll(/[^a-z]+/g, "-")}`;
    return make("section", { "aria-labelledby": id }, make("h2", { id }, title), ...children);
  }

  function gapTable(gaps, label) {
    const titles = [["Group"], ["Accuracy", true], ["Median model", true], ["Against the rest", true], ["95%", true], ["q", true], ["Users", true]];
    return tableOf(label, titles, gaps.map((gap) => [
      `${fieldName(gap.by)}: ${gap.value}`, percent(gap.accuracy), percent(gap.median), points(gap.difference) + (clear(gap.q) ? "*" : ""),
      `${points(gap.low)} to ${points(gap.high)}`, gap.q < 0.001 ? "<.001" : gap.q.toFixed(3).replace(/^0/, ""), whole(gap.users),
    ]));
  }

  function settingRows(benchmark, data, run) {
    const rows = [
      ["benchmark", `${benchmark.name} ${benchmark.version}`], ["benchmark hash", benchmark.hash], ["benchmark licence", benchmark.licence],
      ...Object.entries(data.identity).map(([name, value]) => [`model ${name}`, value]),
    ];
    for (const one of data.runs) {
      const { environment, ...facts } = one.facts;
      rows.push(...Object.entries(facts).filter(([, value]) => !absent(value) && value !== "").map(([name, value]) => [name === "hash" ? "settings hash" : name, String(value)]));
      rows.push(...Object.entries(environment).map(([name, value]) => [name, value]));
      rows.push(["seal of the raw lines", one.seal]);
    }
    return rows.map(([name, value]) => [name.replaceAll("_", " "), make("code", {}, value)]);
  }

  // Items ---------------------------------------------------------------------------------------------------------

  const credit = (text, index) => (text[index] === "~" ? null : (text.charCodeAt(index) - FIRST) / STEPS);
  const outcome = (value) => (value === null ? "unscored" : value >= 1 ? "right" : value <= 0 ? "wrong" : "tied");
  const OUTCOMES = { right: "\u2713 right", wrong: "\u2717 wrong", tied: "= tied", unscored: "? unscored" };

  async function itemSection(number, benchmark, models, loaded, view) {
    if (!board.users) return section("Items", make("p", {}, "This board holds no items: it was built without users."));
    const texts = loaded.map((data) => data.views[view].outcomes);
    const all = Array.from({ length: benchmark.items }, (_, index) => index);
    const kinds = models.length === 1 ? SINGLE : PAIRED(models);
    let [kind, page] = ["", 0];
    const list = make("ol", { class: "item-list" });
    const count = make("p", { id: "found", role: "status" });
    const previous = make("button", { type: "button" }, "Previous");
    const next = make("button", { type: "button" }, "Next");
    const credits = (index) => texts.map((text) => credit(text, index));

    async function draw() {
      const fitting = all.filter((index) => !kind || kinds[kind][1](credits(index)));
      page = Math.max(0, Math.min(page, Math.ceil(fitting.length / PAGE) - 1));
      const some = fitting.slice(page * PAGE, (page + 1) * PAGE);
      const items = await Promise.all(some.map((index) => itemOf(number, index)));
      list.replaceChildren(...some.map((index, at) => {
        const href = `${address("item", models.map((one) => one.id).join(","), String(index))}?${new URLSearchParams({ view })}`;
        const said = credits(index).map((value) => make("span", { class: `outcome ${outcome(value)}` }, OUTCOMES[outcome(value)]));
        return make("li", {}, make("a", { href }, `Item ${index + 1}`), ...said, make("span", { class: "option-prompt" }, items[at].prompt.slice(0, 160)));
      }));
      count.textContent = fitting.length ? `${plural(fitting.length, "item")}; ${whole(page * PAGE + 1)}${DASH}${whole(page * PAGE + some.length)} shown` : "No item fits.";
      previous.disabled = page === 0;
      next.disabled = (page + 1) * PAGE >= fitting.length;
    }

    previous.addEventListener("click", () => { page -= 1; draw(); });
    next.addEventListener("click", () => { page += 1; draw(); });
    const choice = chooser("Show", "by-outcome", [["", "every item"], ...Object.entries(kinds).map(([key, [text]]) => [key, text])], "", (value) => {
      [kind, page] = [value, 0];
      draw();
    });
    await draw();
    return section("Items", make("div", { class: "filters" }, choice), count, list, make("div", { class: "pager" }, previous, next));
  }

  const SINGLE = Object.fromEntries(Object.keys(OUTCOMES).map((name) => [name, [name, ([value]) => outcome(value) === name]]));
  const PAIRED = ([one, other]) => ({
    first: [`${one.name} is more right`, ([a, b]) => a !== null && b !== null && a > b],
    second: [`${other.name} is more right`, ([a, b]) => a !== null && b !== null && a < b],
    both: ["both are right", ([a, b]) => a === 1 && b === 1],
    neither: ["both are wrong", ([a, b]) => a === 0 && b === 0],
  });

  async function itemOf(number, index) {
    const chunk = await load(`items-${number}-${Math.floor(index / board.chunk)}`);
    return chunk[index % board.chunk];
  }

  async function itemPage([ids, text], query) {
    const found = (ids ?? "").split(",").map(modelOf);
    const index = Number(text);
    if (!board.users || !found.length || found.some((one) => !one || one.number !== found[0].number)) return notFound();
    const { benchmark, number } = found[0];
    if (!Number.isInteger(index) || index < 0 || index >= benchmark.items) return notFound();
    const models = found.map((one) => one.model);
    const loaded = await Promise.all(models.map((one) => load(`model-${one.id}`)));
    const views = Object.keys(loaded[0].views).filter((name) => loaded.every((data) => name in data.views));
    const view = views.includes(query.get("view")) ? query.get("view") : views[0];
    const item = await itemOf(number, index);
    const chunk = Math.floor(index / board.chunk);
    const said = [];
    const profiles = [];
    for (const [place, data] of loaded.entries()) {
      const run = data.runs.find((one) => view in one.views);
      const words = await load(`${run.said}-${chunk}`);
      const seen = await load(run.seen[chunk]);
      const own = run.views[view];
      for (const label of Object.keys(words).filter((one) => one === own || new RegExp(`^ \\(\\d+\\)$`).test(one.startsWith(own) ? one.slice(own.length) : ""))) {
        const rating = words[label][index % board.chunk];
        if (rating !== null) said.push({ model: models[place], label: label.replace(own, view), ...(Array.isArray(rating) ? { scores: rating } : rating) });
        const keys = seen.views[index % board.chunk][label];
        if (place === 0 && keys) profiles.push([label.replace(own, view), keys.map((key) => seen.texts[key]).join("\n\n")]);
      }
    }
    const here = (at) => `${address("item", ids, String(at))}?${new URLSearchParams({ view })}`;
    const back = models.length === 1 ? `${address("model", models[0].id)}?${new URLSearchParams({ view })}` : address("pair", ...models.map((one) => one.id));
    return [
      make("p", { class: "small" }, make("a", { href: back }, `Back to ${models.map((one) => one.name).join(" and ")}`)),
      make("h1", {}, `Item ${whole(index + 1)}`),
      make("div", { class: "filters" }, chooser("What the models see", "item-view", views.map((name) => [name, name]), view, (value) => {
        location.hash = `${address("item", ids, String(index))}?${new URLSearchParams({ view: value })}`;
      })),
      make("p", { class: "small" }, Object.entries(item.facts).map(([name, fact]) => `${name} ${fact}`).join(" \u00b7 ")),
      make("h2", {}, "Prompt"),
      make("p", { class: "text" }, item.prompt),
      make("h2", {}, "Responses"),
      make("div", { class: "responses" }, item.responses.map((response, at) =>
        make("div", { class: at === item.preferred ? "response highlighted" : "response" },
          make("p", { class: "response-title" }, make("span", {}, `Response ${at + 1}`), at === item.preferred ? make("strong", {}, "\u2713 preferred by this person") : null),
          make("div", { class: "text tall", tabindex: "0", role: "region", "aria-label": `Response ${at + 1}` }, response || "(empty)")))),
      make("h2", {}, `What the models saw of the person: ${view}`),
      ...(profiles.length ? profiles : [[view, ""]]).map(([label, profile]) =>
        make("div", { class: "text profile", tabindex: "0", role: "region", "aria-label": `Profile, ${label}` }, profile || "Nothing: this view shows no profile.")),
      make("h2", {}, "What they said"),
      said.length ? drawSaid(said, item) : make("p", {}, "No model was asked."),
      make("div", { class: "pager" },
        index > 0 ? make("a", { href: here(index - 1), id: "previous-item" }, "Previous item") : make("span"),
        index + 1 < benchmark.items ? make("a", { href: here(index + 1), id: "next-item" }, "Next item") : make("span")),
      make("p", { class: "small" }, "Press j and k to move."),
    ];
  }

  function drawSaid(said, item) {
    const titles = [["Model"], ["View"], ["Outcome"], ...item.responses.map((_, at) => [`Response ${at + 1}${at === item.preferred ? " \u2713" : ""}`, true]), ["Remarks"]];
    return tableOf("Ratings", titles, said.map((one) => {
      const best = one.scores ? Math.max(...one.scores) : null;
      const ties = one.scores ? one.scores.filter((score) => score === best).length : 0;
      const value = !one.scores ? null : one.scores[item.preferred] === best ? 1 / ties : 0;
      const remarks = make("div", { class: "remarks" });
      if (one.note) remarks.append(make("p", {}, one.note));
      if (one.raw) remarks.append(make("details", {}, make("summary", {}, "its own words"), make("pre", { tabindex: "0", role: "region", "aria-label": "The model's own words" }, one.raw)));
      return [one.model.name, one.label, make("span", { class: `outcome ${outcome(value)}` }, OUTCOMES[outcome(value)]),
        ...item.responses.map((_, at) => (one.scores ? written(one.scores[at]) : DASH)), remarks];
    }));
  }

  function written(score) {
    if (score === null) return "not a number";
    const size = Math.abs(score);
    return (size !== 0 && (size < 0.001 || size >= 1e6) ? score.toExponential(2) : String(Number(score.toPrecision(4)))).replace("-", MINUS);
  }

  // Two models ----------------------------------------------------------------------------------------------------

  async function pairPage([one, other], query) {
    const found = [modelOf(one), modelOf(other)];
    if (found.some((each) => !each) || found[0].number !== found[1].number || one === other) return notFound();
    const { benchmark, number } = found[0];
    const models = found.map((each) => each.model);
    const loaded = await Promise.all([one, other].map((id) => load(`model-${id}`)));
    const views = Object.keys(loaded[0].views).filter((name) => name in loaded[1].views);
    const heading = [make("h1", {}, `${models[0].name} and ${models[1].name}`)];
    if (!views.length) return [...heading, make("p", {}, "The two were never shown the same view, so nothing can be paired.")];
    const preferred = benchmark.views[place(query.get("v"), benchmark.views.length, benchmark.view)].name;
    const view = views.includes(query.get("view")) ? query.get("view") : views.includes(preferred) ? preferred : views[0];
    const choice = make("div", { class: "filters" }, chooser("What both see", "pair-view", views.map((name) => [name, name]), view, (value) => {
      location.hash = `${address("pair", one, other)}?${new URLSearchParams({ view: value })}`;
    }));
    if (!board.users) {
      const table = await load(`table-${number}-${benchmark.views.findIndex((each) => each.name === view)}-0`);
      const rows = models.map((model) => [model.name, ...table.rows.filter((row) => benchmark.models[row[MODEL]].id === model.id).flatMap((row) => [String(row[RANK] ?? DASH), percent(row[VALUE]), interval(row[LOW], row[HIGH])])]);
      return [...heading, choice, tableOf("Both models", [["Model"], ["Rank", true], ["Accuracy", true], ["95%", true]], rows), make("p", {}, "This board was built without users, so there are no items to pair.")];
    }
    const clusters = await load(`people-${number}`);
    const texts = loaded.map((data) => data.views[view].outcomes);
    const pairs = clusters.map((_, index) => texts.map((text) => credit(text, index)));
    const test = pairedDifference(pairs, clusters);
    const kinds = PAIRED(models);
    return [
      ...heading,
      make("p", { class: "subtitle" }, `On the ${plural(test.n, "item")} that both scored, seeing ${view}. Benchmark: ${benchmark.title}.`),
      choice,
      facts([
        ["Difference", `${points(test.difference)} points (95% ${points(test.low)} to ${points(test.high)})`],
        ...loaded.map((_, at) => [models[at].name, percent(test.means[at])]),
        ...Object.values(kinds).map(([text, fits]) => [text, plural(pairs.filter(fits).length, "item")]),
        ["Independent users", whole(test.users)],
      ]),
      make("p", { class: "small" }, "The interval is Student's over users or couples of users, for these two models alone: among many pairs some leave zero out by luck. The ranking corrects for that."),
      await itemSection(number, benchmark, models, loaded, view),
    ];
  }

  /** The mean difference over items, with an interval that takes users as independent. */
  function pairedDifference(pairs, clusters) {
    const there = pairs.map(([a, b], index) => [a, b, clusters[index]]).filter(([a, b]) => a !== null && b !== null);
    const n = there.length;
    const means = [0, 1].map((at) => there.reduce((sum, pair) => sum + pair[at], 0) / n);
    const difference = means[0] - means[1];
    const sums = new Map();
    for (const [a, b, cluster] of there) sums.set(cluster, (sums.get(cluster) ?? 0) + (a - b - difference));
    const users = sums.size;
    const variance = [...sums.values()].reduce((sum, value) => sum + value * value, 0) * users / (users - 1) / (n * n);
    const reach = studentLimit(users - 1) * Math.sqrt(variance);
    return { n, users, means, difference, low: Math.max(-1, difference - reach), high: Math.min(1, difference + reach) };
  }

  /** The 97.5% point of Student's distribution, by Hill's (1970) expansion around the normal one. */
  function studentLimit(freedom) {
    if (freedom < 1) return Infinity;
    if (freedom < 4) return [12.706, 4.303, 3.182][freedom - 1];
    const z = 1.959964;
    const terms = [(z ** 3 + z) / 4, (5 * z ** 5 + 16 * z ** 3 + 3 * z) / 96, (3 * z ** 7 + 19 * z ** 5 + 17 * z ** 3 - 15 * z) / 384];
    return terms.reduce((sum, term, power) => sum + term / freedom ** (power + 1), z);
  }

  // How it was made -----------------------------------------------------------------------------------------------

  async function aboutPage() {
    const events = await load("manifest");
    const rows = [...events].reverse().map((event) => [event.date, event.action, event.model, event.benchmark, event.reason, absent(event.variants) ? "not given" : whole(event.variants), make("code", { title: event.seal }, `${event.seal.slice(0, 12)}\u2026`), event.run]);
    return [
      make("h1", {}, "How it was made"),
      make("p", { class: "subtitle" }, `Built by palate ${board.palate} on ${board.date} from run folders. Every number was recomputed from raw ratings.`),
      section(
        "Benchmarks",
        tableOf("Benchmarks", [["Benchmark"], ["Version"], ["Hash"], ["Licence"], ["Items", true], ["Users", true]], board.benchmarks.map((one) => [one.title, one.version, make("code", { title: one.hash }, `${one.hash.slice(0, 12)}\u2026`), one.licence, whole(one.items), whole(one.users)])),
      ),
      section(
        "History of the board",
        make("p", { class: "lead" }, "Every entry, rescore and removal, the latest first. Lines are only ever added. The seal is a hash over all raw lines of a run: compare it with the one that its maker published."),
        tableOf("History", [["Date"], ["What"], ["Model"], ["Benchmark"], ["Reason"], ["Variants", true], ["Seal"], ["Run"]], rows),
        make("p", { class: "small" }, make("a", { href: "manifest.jsonl", download: true }, "manifest.jsonl"), " holds the whole of it."),
      ),
      board.left_out.length ? section("Left out", make("ul", {}, board.left_out.map((line) => make("li", {}, line)))) : null,
    ].filter(Boolean);
  }

  // Start ---------------------------------------------------------------------------------------------------------

  function setUpTheme() {
    const button = byId("theme");
    const root = document.documentElement;
    const system = window.matchMedia("(prefers-color-scheme: dark)");
    const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
    const label = () => {
      button.textContent = isDark() ? "Light" : "Dark";
      button.setAttribute("aria-label", isDark() ? "Use light colours" : "Use dark colours");
    };
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      try {
        localStorage.setItem("palate-theme", root.dataset.theme);
      } catch (error) {
        // Storage may be forbidden; the choice then lasts as long as the page.
      }
      label();
    });
    system.addEventListener("change", label);
    label();
    button.hidden = false;
  }

  function moveByKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, select, textarea")) return;
    const link = { j: byId("next-item"), k: byId("previous-item") }[event.key];
    if (link) location.hash = link.getAttribute("href");
  }

  function start() {
    setUpTheme();
    window.addEventListener("hashchange", () => show());
    document.addEventListener("keydown", moveByKey);
    document.querySelector(".skip").addEventListener("click", (event) => {
      event.preventDefault();
      main.focus();
    });
    show(false);
  }

  return { got };
})();
