"use strict";
(() => {
  const PAGE = 50;
  const OUTCOMES = { right: "\u2713 right", wrong: "\u2717 wrong", tied: "= tied", unscored: "? unscored" };
  const byId = (id) => document.getElementById(id);

  /** A new element; text goes in as text, never as markup. */
  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    for (const child of children) element.append(child);
    return element;
  }

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

  function setUpChoices() {
    for (const chooser of document.querySelectorAll(".chooser > select")) {
      const tables = document.querySelectorAll(`details[data-by="${chooser.id}"]`);
      const show = () => {
        for (const table of tables) {
          table.hidden = table.dataset.place !== chooser.value;
          table.open = !table.hidden;
          table.classList.add("chosen");
        }
      };
      chooser.addEventListener("change", show);
      chooser.parentElement.hidden = false;
      show();
    }
  }

  function setUpPrinting() {
    let closed = [];
    window.addEventListener("beforeprint", () => {
      closed = [...document.querySelectorAll("details:not([open], .chosen-by)")];
      for (const details of closed) details.open = true;
    });
    window.addEventListener("afterprint", () => {
      for (const details of closed) details.open = false;
    });
  }

  /** Under every plot, a button for each format that it can be saved in. */
  function setUpDrawings() {
    for (const drawing of document.querySelectorAll(".drawing")) {
      const name = `palate-${drawing.dataset.name.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60)}`;
      const button = (format, save) => {
        const made = make("button", { type: "button", "aria-label": `Save ${drawing.dataset.name} as ${format}` }, format);
        made.addEventListener("click", () => save(flattened(drawing), name));
        return made;
      };
      drawing.after(make("p", { class: "save" }, "Save as ", button("SVG", saveVector), button("PNG", savePixels)));
    }
  }

  function download(blob, name) {
    const address = URL.createObjectURL(blob);
    make("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
  }

  const saveVector = (svg, name) =>
    download(new Blob([new XMLSerializer().serializeToString(svg)], { type: "image/svg+xml" }), `${name}.svg`);

  async function savePixels(svg, name) {
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(svg))}`;
    await image.decode();
    const canvas = make("canvas");
    const finer = 2; // pixels for each of the page, so that it stays sharp in print
    [canvas.width, canvas.height] = [image.width * finer, image.height * finer];
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => download(blob, `${name}.png`), "image/png");
  }

  /** What a reader sees of a plot, as one drawing that needs no style sheet: lines and shapes stay lines, text stays text. */
  function flattened(drawing) {
    const LOOK = ["color", "fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "opacity", "paint-order"];
    const LENGTHS = ["x", "y", "x1", "x2", "y1", "y2", "width", "height"];
    const MARGIN = 12;
    const space = new DOMParser().parseFromString("<svg/>", "text/html").body.firstChild.namespaceURI; // a page holds no address
    const frame = drawing.getBoundingClientRect();
    const svg = document.createElementNS(space, "svg");
    const edges = { right: frame.width, bottom: frame.height, left: 0 };
    const add = (tag, attributes, text = "") => {
      const element = document.createElementNS(space, tag);
      for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
      element.textContent = text;
      svg.append(element);
      return element;
    };
    const reach = (box) => {
      edges.left = Math.min(edges.left, box.left - frame.left);
      edges.right = Math.max(edges.right, box.right - frame.left);
      edges.bottom = Math.max(edges.bottom, box.bottom - frame.top);
    };
    const place = (element) => {
      const { a, b, c, d, e, f } = element.getScreenCTM();
      return `matrix(${[a, b, c, d, e - frame.left, f - frame.top].map((part) => Number(part.toFixed(3))).join(" ")})`;
    };
    const look = (element, style) => {
      for (const key of LOOK) element.setAttribute(key, style.getPropertyValue(key));
    };
    const write = (text, style, x, y, transform, fill) =>
      add("text", {
        x, y, transform, fill, "font-family": style.fontFamily, "font-size": style.fontSize, "font-weight": style.fontWeight,
        stroke: style.stroke, "stroke-width": style.strokeWidth, "paint-order": style.paintOrder, "stroke-linejoin": style.strokeLinejoin,
      }, text);

    const walker = document.createTreeWalker(drawing, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const owner = node.nodeType === Node.TEXT_NODE ? node.parentElement : node;
      if (!owner.checkVisibility() || owner.closest("title")) continue;
      const style = getComputedStyle(owner);
      if (node.nodeType === Node.TEXT_NODE) {
        if (!node.data.trim()) continue;
        if (owner instanceof SVGTextContentElement) {
          const range = document.createRange();
          range.selectNodeContents(owner.closest("text"));
          range.setEnd(node, 0);
          const at = owner.closest("text").getStartPositionOfChar(range.toString().length);
          write(node.data, style, at.x, at.y, place(owner.closest("text")), style.fill);
          reach(owner.getBoundingClientRect());
        } else {
          for (const line of linesOf(node)) {
            write(line.text, style, line.left - frame.left, line.baseline - frame.top, "", style.color);
            reach(line);
          }
        }
      } else if (["line", "path", "rect"].includes(owner.localName)) {
        const copy = owner.cloneNode(false);
        copy.removeAttribute("class");
        for (const key of LENGTHS) if (copy.hasAttribute(key)) copy.setAttribute(key, owner[key].baseVal.value);
        look(copy, style);
        copy.setAttribute("transform", place(owner));
        svg.append(copy);
      } else if (!(owner instanceof SVGElement) && style.backgroundColor !== "rgba(0, 0, 0, 0)") {
        const box = owner.getBoundingClientRect();
        add("rect", { x: box.left - frame.left, y: box.top - frame.top, width: box.width, height: box.height, fill: style.backgroundColor });
      }
    }
    const [width, height] = [edges.right - edges.left + 2 * MARGIN, edges.bottom + 2 * MARGIN].map(Math.ceil);
    const box = { x: Math.floor(edges.left) - MARGIN, y: -MARGIN, width, height };
    svg.prepend(add("rect", { ...box, fill: getComputedStyle(document.body).backgroundColor }));
    svg.prepend(add("title", {}, drawing.dataset.name));
    for (const [key, value] of Object.entries({ width, height, viewBox: Object.values(box).join(" ") })) svg.setAttribute(key, value);
    return svg;
  }

  /** The lines that a text of the page is broken into, with where each begins. */
  function linesOf(node) {
    const lines = [];
    for (const word of node.data.matchAll(/\S+/g)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const box = range.getBoundingClientRect();
      const last = lines.at(-1);
      if (last && Math.abs(last.top - box.top) < 2) {
        last.text += ` ${word[0]}`;
        last.right = box.right;
      } else {
        lines.push({ text: word[0], left: box.left, right: box.right, top: box.top, bottom: box.bottom, baseline: box.bottom - 0.22 * box.height });
      }
    }
    return lines;
  }

  function setUpBrowser() {
    const { texts, items } = JSON.parse(byId("data").textContent);
    if (!items.length) return;
    const [list, detail, found] = [byId("list"), byId("detail"), byId("found")];
    const filters = { search: byId("search"), by: byId("by-model"), view: byId("by-view"), outcome: byId("by-outcome") };
    const sort = byId("sort");
    let matches = items;
    let current = 0;
    let profileView = null;

    const relevant = (item) =>
      item.ratings.filter(
        (rating) =>
          (!filters.by.value || rating.by === filters.by.value) &&
          (!filters.view.value || rating.view === filters.view.value),
      );

    function haystack(item) {
      item.haystack ??= [item.id, item.user, ...Object.values(item.facts), texts[item.prompt]]
        .concat(item.texts.map((text) => texts[text.text]))
        .join("\n")
        .toLowerCase();
      return item.haystack;
    }

    function fits(item, words) {
      if (!words.every((word) => haystack(item).includes(word))) return false;
      const outcome = filters.outcome.value;
      if (!filters.by.value && !filters.view.value && !outcome) return true;
      return relevant(item).some((rating) => !outcome || rating.outcome === outcome);
    }

    function filter() {
      const words = filters.search.value.toLowerCase().split(/\s+/).filter(Boolean);
      matches = items.filter((item) => fits(item, words));
      const order = ORDERS[sort.value];
      if (order) matches = matches.map((item) => [order(item), item]).sort(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0)).map(([, item]) => item);
      const all = items.length.toLocaleString("en-GB");
      found.textContent =
        matches.length === items.length ? `${all} items` : `${matches.length.toLocaleString("en-GB")} of ${all} items`;
      choose(0, false);
    }

    /** What counts for an item: controls only where nothing else is asked for. */
    function counted(item) {
      const ratings = relevant(item);
      const models = ratings.filter((rating) => !rating.control);
      return models.length ? models : ratings;
    }

    /** The share of an item's ratings that are right, a tie as half; one where none can be. */
    function shareRight(item) {
      const judged = counted(item).filter((rating) => rating.outcome && rating.outcome !== "unscored");
      const right = judged.reduce((sum, rating) => sum + ({ right: 1, tied: 0.5 }[rating.outcome] ?? 0), 0);
      return judged.length ? right / judged.length : 1;
    }

    const ORDERS = {
      user: (item) => item.user,
      wrong: shareRight,
      divided: disagreement,
      close: (item) => mean(counted(item).map(margin)) ?? Infinity,
      sure: (item) => -Math.max(-1, ...counted(item).filter((rating) => rating.outcome === "wrong").map((rating) => margin(rating) ?? -1)),
    };

    /** From minus one, where half of the ratings pick another text than the rest, to zero, where all pick the same. */
    function disagreement(item) {
      const picks = counted(item).map(({ scores }) => scores?.indexOf(Math.max(...scores))).filter((pick) => pick >= 0);
      const largest = Math.max(0, ...picks.map((pick) => picks.filter((other) => other === pick).length));
      return picks.length ? largest / picks.length - 1 : 0;
    }

    const mean = (numbers) => {
      const known = numbers.filter((number) => number !== null);
      return known.length ? known.reduce((sum, number) => sum + number, 0) / known.length : null;
    };

    /** The best score minus the second best; null without two scores. */
    function gap({ scores }) {
      const [second, best] = (scores ?? []).filter((score) => score !== null).sort((one, other) => one - other).slice(-2);
      return best === undefined ? null : best - second;
    }

    /** A gap in units of the mean gap of its model and view over all items, so that models of other scales can be mixed. */
    let usual = null;
    function margin(rating) {
      if (!usual) {
        const gaps = new Map();
        for (const one of items.flatMap((item) => item.ratings)) {
          const key = `${one.by}\n${one.view}`;
          if (!gaps.has(key)) gaps.set(key, []);
          gaps.get(key).push(gap(one));
        }
        usual = new Map([...gaps].map(([key, own]) => [key, mean(own)]));
      }
      const own = gap(rating);
      return own === null ? null : own / (usual.get(`${rating.by}\n${rating.view}`) || 1);
    }

    function summarise(item) {
      if (sort.value === "close") {
        const [size, ratings] = [ORDERS.close(item), counted(item)];
        if (size === Infinity) return "no margin";
        return ratings.length === 1 ? `margin ${written(gap(ratings[0]))}` : `margin ${size.toFixed(2)} of usual`;
      }
      const ratings = counted(item).filter((rating) => rating.outcome);
      if (ratings.length && ratings.every((rating) => rating.outcome === "unscored")) return OUTCOMES.unscored;
      if (ratings.length === 1) return OUTCOMES[ratings[0].outcome];
      const right = ratings.filter((rating) => rating.outcome === "right").length;
      return ratings.length ? `${right} of ${ratings.length} right` : item.user;
    }

    function drawList() {
      const first = Math.floor(current / PAGE) * PAGE;
      const shown = matches.slice(first, first + PAGE);
      list.replaceChildren(
        ...shown.map((item, offset) =>
          make(
            "li",
            { role: "option", id: `option-${first + offset}`, "aria-selected": String(first + offset === current) },
            make("span", { class: "option-head" }, make("span", { class: "option-id" }, item.id), make("span", {}, summarise(item))),
            make("span", { class: "option-prompt" }, texts[item.prompt].slice(0, 160)),
          ),
        ),
      );
      if (!shown.length) list.removeAttribute("aria-activedescendant");
      const last = first + shown.length;
      byId("pages").textContent = shown.length ? `${first + 1}\u2013${last} of ${matches.length}` : "nothing fits";
      byId("previous").disabled = first === 0;
      byId("next").disabled = last >= matches.length;
    }

    function choose(index, follow = true) {
      const before = Math.floor(current / PAGE);
      byId(`option-${current}`)?.setAttribute("aria-selected", "false");
      current = Math.max(0, Math.min(index, matches.length - 1));
      if (!follow || Math.floor(current / PAGE) !== before) drawList();
      const option = byId(`option-${current}`);
      if (option) {
        option.setAttribute("aria-selected", "true");
        list.setAttribute("aria-activedescendant", option.id);
        const [top, bottom] = [option.offsetTop, option.offsetTop + option.offsetHeight];
        if (top < list.scrollTop) list.scrollTop = top;
        else if (bottom > list.scrollTop + list.clientHeight) list.scrollTop = bottom - list.clientHeight;
      }
      drawDetail(matches[current]);
    }

    /** Show the item that the page's address names; false where it names none. */
    function followLink() {
      const name = location.hash.startsWith("#item=") ? decodeURIComponent(location.hash.slice("#item=".length)) : null;
      if (name === null || !items.some((item) => item.id === name)) return false;
      for (const select of [filters.search, filters.by, filters.view, filters.outcome]) select.value = "";
      filter();
      choose(matches.findIndex((item) => item.id === name));
      byId("items").scrollIntoView();
      return true;
    }

    function drawDetail(item) {
      detail.replaceChildren();
      if (!item) {
        detail.append(make("p", { class: "empty" }, "No item fits these filters."));
        return;
      }
      const facts = [["user", item.user], ...Object.entries(item.facts)];
      const link = make("a", { href: `#item=${encodeURIComponent(item.id)}`, class: "item-link", "aria-label": "Link to this item" }, item.id);
      detail.append(
        make("h3", {}, link),
        make("p", { class: "small" }, facts.map(([name, value]) => `${name} ${name === "user" ? value : value.replaceAll("_", " ")}`).join(" \u00b7 ")),
        make("h4", {}, "Prompt"),
        make("p", { class: "text" }, texts[item.prompt]),
        make("h4", {}, item.texts.length === 1 ? "Text" : "Texts"),
        drawTexts(item),
        ...drawProfile(item),
      );
      if (item.ratings.length) detail.append(make("h4", {}, "What the models said"), drawRatings(item));
    }

    function drawTexts(item) {
      const grid = make("div", { class: "responses" });
      for (const shown of item.texts) {
        const title = make("p", { class: "response-title" }, make("span", {}, shown.label));
        for (const tag of shown.tags) title.append(make("strong", {}, `\u2713 ${tag}`));
        for (const [name, number] of Object.entries(shown.numbers)) title.append(make("span", {}, `${name} ${number}`));
        const label = [shown.label, ...shown.tags].join(", ");
        const text = make("div", { class: "text tall", tabindex: "0", role: "region", "aria-label": label }, texts[shown.text] || "(empty)");
        grid.append(make("div", { class: shown.highlighted ? "response highlighted" : "response" }, title, text));
      }
      return grid;
    }

    function drawRatings(item) {
      const ratings = relevant(item);
      if (!ratings.length) return make("p", {}, "No model rated this item.");
      const [views, outcomes, remarks] = ["view", "outcome"].map((key) => ratings.some((rating) => rating[key])).concat(
        ratings.some((rating) => rating.note || rating.raw),
      );
      const head = make("tr", {}, make("th", { scope: "col" }, "Model"));
      if (views) head.append(make("th", { scope: "col" }, "View"));
      if (outcomes) head.append(make("th", { scope: "col" }, "Outcome"));
      for (const shown of item.texts) head.append(make("th", { scope: "col", class: "number" }, shown.label + (shown.highlighted ? " \u2713" : "")));
      if (remarks) head.append(make("th", { scope: "col" }, "Remarks"));
      const table = make("table", {}, make("thead", {}, head));
      for (const by of new Set(ratings.map((rating) => rating.by))) {
        const own = mergeViews(ratings.filter((rating) => rating.by === by));
        const body = make("tbody", {}, ...own.map((rating) => drawRating(rating, item, views, outcomes, remarks)));
        body.rows[0].prepend(make("th", { scope: "rowgroup", rowspan: String(own.length) }, by));
        table.append(body);
      }
      return make("div", { class: "scrolling", role: "region", tabindex: "0", "aria-label": "Ratings" }, table);
    }

    /** A control's ratings, with views under which it said the same in one row. */
    function mergeViews(ratings) {
      const rows = new Map();
      for (const rating of ratings) {
        const same = rating.control ? JSON.stringify({ ...rating, view: null }) : String(rows.size);
        rows.set(same, [...(rows.get(same) ?? []), rating]);
      }
      return [...rows.values()].map((alike) => {
        const all = alike.length > 1 && alike.length === ratings.length;
        return { ...alike[0], view: all ? "every view" : alike.map((rating) => rating.view).join(", ") };
      });
    }

    function drawRating(rating, item, views, outcomes, remarks) {
      const row = make("tr");
      if (views) row.append(make("td", {}, rating.view ?? ""));
      if (outcomes) row.append(make("td", { class: `outcome ${rating.outcome ?? ""}` }, OUTCOMES[rating.outcome] ?? ""));
      const scores = rating.scores ?? [];
      const finite = scores.filter((score) => score !== null);
      const best = Math.max(...finite);
      item.texts.forEach((_, position) => {
        const score = scores[position];
        const cell = make("td", { class: score === best && finite.length ? "number best" : "number" });
        if (rating.scores) cell.textContent = score === null || score === undefined ? "not a number" : written(score);
        else cell.textContent = "\u2013";
        row.append(cell);
      });
      if (remarks) row.append(drawRemarks(rating));
      return row;
    }

    function drawRemarks(rating) {
      const cell = make("td", { class: "remarks" });
      if (rating.note) cell.append(make("p", {}, rating.note));
      if (rating.raw) {
        const raw = make("pre", { tabindex: "0", role: "region", "aria-label": "The model's own words" }, rating.raw);
        cell.append(make("details", {}, make("summary", {}, "its own words"), raw));
      }
      return cell;
    }

    function written(score) {
      const size = Math.abs(score);
      const text = size !== 0 && (size < 0.001 || size >= 1e6) ? score.toExponential(2) : String(Number(score.toPrecision(4)));
      return text.replace("-", "\u2212");
    }

    function drawProfile(item) {
      const names = Object.keys(item.profiles);
      if (!names.length) return [];
      const wanted = [filters.view.value, profileView, names.find((name) => texts[item.profiles[name]])];
      const select = make("select", { id: "profile-view" }, ...names.map((name) => make("option", { value: name }, name)));
      select.value = wanted.find((name) => name && names.includes(name)) ?? names[0];
      const text = make("div", { class: "text profile", tabindex: "0", role: "region", "aria-label": "Profile" });
      const show = () => {
        text.textContent = texts[item.profiles[select.value]] || "Nothing: this view shows no profile.";
      };
      select.addEventListener("change", () => {
        profileView = select.value;
        show();
      });
      show();
      const label = make("label", { for: "profile-view" }, "Under the view");
      return [make("h4", {}, "What the models saw of the person"), make("p", { class: "chooser" }, label, select), text];
    }

    function fillFilters() {
      for (const [key, select] of [["by", filters.by], ["view", filters.view]]) {
        const names = new Set(items.flatMap((item) => item.ratings.map((rating) => rating[key])).filter(Boolean));
        for (const name of names) select.append(make("option", { value: name }, name));
        select.parentElement.hidden = names.size < 2;
      }
      const judged = items.some((item) => item.ratings.some((rating) => rating.outcome));
      filters.outcome.parentElement.hidden = !judged;
      for (const option of sort.options) option.hidden = !judged && ["wrong", "sure"].includes(option.value);
    }

    function moveByKey(event) {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, summary")) return;
      const inList = event.target === list;
      const steps = { j: 1, k: -1, ...(inList && { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity }) };
      if (!(event.key in steps)) return;
      event.preventDefault();
      choose(current + steps[event.key]);
    }

    fillFilters();
    filters.search.addEventListener("input", filter);
    for (const select of [filters.by, filters.view, filters.outcome, sort]) select.addEventListener("change", filter);
    window.addEventListener("hashchange", followLink);
    byId("browser").addEventListener("keydown", moveByKey);
    byId("previous").addEventListener("click", () => choose((Math.floor(current / PAGE) - 1) * PAGE));
    byId("next").addEventListener("click", () => choose((Math.floor(current / PAGE) + 1) * PAGE));
    list.addEventListener("click", (event) => {
      const option = event.target.closest("[role=option]");
      if (option) choose(Number(option.id.slice("option-".length)));
    });
    byId("browser").hidden = false;
    if (!followLink()) filter();
  }

  setUpTheme();
  setUpChoices();
  setUpDrawings();
  setUpPrinting();
  setUpBrowser();
})();
