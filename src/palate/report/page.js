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

  function setUpSlices() {
    const chooser = byId("slice");
    if (!chooser) return;
    const tables = document.querySelectorAll("details.slice");
    const show = () => {
      for (const table of tables) {
        table.hidden = table.dataset.slice !== chooser.value;
        table.open = !table.hidden;
        table.classList.add("chosen");
      }
    };
    chooser.addEventListener("change", show);
    byId("slice-chooser").hidden = false;
    show();
  }

  function setUpPrinting() {
    let closed = [];
    window.addEventListener("beforeprint", () => {
      closed = [...document.querySelectorAll("details:not([open], .slice)")];
      for (const details of closed) details.open = true;
    });
    window.addEventListener("afterprint", () => {
      for (const details of closed) details.open = false;
    });
  }

  function setUpBrowser() {
    const { texts, items } = JSON.parse(byId("data").textContent);
    const [list, detail, found] = [byId("list"), byId("detail"), byId("found")];
    const filters = { search: byId("search"), rm: byId("by-model"), view: byId("by-view"), outcome: byId("by-outcome") };
    let matches = items;
    let current = 0;
    let profileView = null;

    const relevant = (item) =>
      item.ratings.filter(
        (rating) =>
          (!filters.rm.value || rating.rm === filters.rm.value) &&
          (!filters.view.value || rating.view === filters.view.value),
      );

    function haystack(item) {
      item.haystack ??= [item.id, item.user, item.category, item.difficulty, texts[item.prompt]]
        .concat(item.responses.map((index) => texts[index]))
        .join("\n")
        .toLowerCase();
      return item.haystack;
    }

    function fits(item, words) {
      if (!words.every((word) => haystack(item).includes(word))) return false;
      const outcome = filters.outcome.value;
      if (!filters.rm.value && !filters.view.value && !outcome) return true;
      return relevant(item).some((rating) => !outcome || rating.outcome === outcome);
    }

    function filter() {
      const words = filters.search.value.toLowerCase().split(/\s+/).filter(Boolean);
      matches = items.filter((item) => fits(item, words));
      const all = items.length.toLocaleString("en-GB");
      found.textContent =
        matches.length === items.length ? `${all} items` : `${matches.length.toLocaleString("en-GB")} of ${all} items`;
      choose(0, false);
    }

    function summarise(item) {
      const ratings = relevant(item);
      if (ratings.length === 1) return OUTCOMES[ratings[0].outcome];
      const right = ratings.filter((rating) => rating.outcome === "right").length;
      return ratings.length ? `${right} of ${ratings.length} right` : "not rated";
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

    function drawDetail(item) {
      detail.replaceChildren();
      if (!item) {
        detail.append(make("p", { class: "empty" }, "No item fits these filters."));
        return;
      }
      const facts = [["user", item.user], ["category", item.category?.replaceAll("_", " ")], ["difficulty", item.difficulty]];
      detail.append(
        make("h3", {}, item.id),
        make("p", { class: "small" }, facts.filter(([, value]) => value).map((pair) => pair.join(" ")).join(" \u00b7 ")),
        make("h4", {}, "Prompt"),
        make("p", { class: "text" }, texts[item.prompt]),
        make("h4", {}, "Responses"),
        drawResponses(item),
        ...drawProfile(item),
        make("h4", {}, "What the models said"),
        drawRatings(item),
      );
    }

    function drawResponses(item) {
      const grid = make("div", { class: "responses" });
      item.responses.forEach((index, position) => {
        const preferred = position === item.preferred;
        const title = make("p", { class: "response-title" }, `Response ${position + 1}`);
        if (preferred) title.append(make("strong", {}, "\u2713 preferred by this user"));
        const label = `Response ${position + 1}${preferred ? ", preferred" : ""}`;
        const text = make("div", { class: "text tall", tabindex: "0", role: "region", "aria-label": label }, texts[index]);
        grid.append(make("div", { class: preferred ? "response preferred" : "response" }, title, text));
      });
      return grid;
    }

    function drawRatings(item) {
      const ratings = relevant(item);
      if (!ratings.length) return make("p", {}, "No model rated this item.");
      const head = make("tr", {}, ...["Model", "View"].map((name) => make("th", { scope: "col" }, name)));
      head.append(make("th", { scope: "col" }, "Outcome"));
      item.responses.forEach((_, position) => {
        const mark = position === item.preferred ? " \u2713" : "";
        head.append(make("th", { scope: "col", class: "number" }, `Response ${position + 1}${mark}`));
      });
      head.append(make("th", { scope: "col" }, "Remarks"));
      const table = make("table", {}, make("thead", {}, head));
      for (const rm of new Set(ratings.map((rating) => rating.rm))) {
        const own = ratings.filter((rating) => rating.rm === rm);
        const body = make("tbody", {}, ...own.map((rating) => drawRating(rating, item)));
        body.rows[0].prepend(make("th", { scope: "rowgroup", rowspan: String(own.length) }, rm));
        table.append(body);
      }
      return make("div", { class: "scrolling", role: "region", tabindex: "0", "aria-label": "Ratings" }, table);
    }

    function drawRating(rating, item) {
      const row = make("tr", {}, make("td", {}, rating.view));
      row.append(make("td", { class: `outcome ${rating.outcome}` }, OUTCOMES[rating.outcome]));
      const scores = rating.scores ?? [];
      const finite = scores.filter((score) => score !== null);
      const best = Math.max(...finite);
      item.responses.forEach((_, position) => {
        const score = scores[position];
        const cell = make("td", { class: score === best && finite.length ? "number best" : "number" });
        if (rating.scores) cell.textContent = score === null || score === undefined ? "not a number" : written(score);
        else cell.textContent = "\u2013";
        row.append(cell);
      });
      row.append(drawRemarks(rating));
      return row;
    }

    function drawRemarks(rating) {
      const cell = make("td", { class: "remarks" });
      for (const remark of [rating.unscored, rating.note]) if (remark) cell.append(make("p", {}, remark));
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
      for (const [key, select] of [["rm", filters.rm], ["view", filters.view]]) {
        const names = new Set(items.flatMap((item) => item.ratings.map((rating) => rating[key])));
        for (const name of names) select.append(make("option", { value: name }, name));
      }
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
    for (const select of [filters.rm, filters.view, filters.outcome]) select.addEventListener("change", filter);
    byId("browser").addEventListener("keydown", moveByKey);
    byId("previous").addEventListener("click", () => choose((Math.floor(current / PAGE) - 1) * PAGE));
    byId("next").addEventListener("click", () => choose((Math.floor(current / PAGE) + 1) * PAGE));
    list.addEventListener("click", (event) => {
      const option = event.target.closest("[role=option]");
      if (option) choose(Number(option.id.slice("option-".length)));
    });
    byId("browser").hidden = false;
    filter();
  }

  setUpTheme();
  setUpSlices();
  setUpPrinting();
  setUpBrowser();
})();
