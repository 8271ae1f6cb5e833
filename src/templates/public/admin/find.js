// Ctrl-K: from a few typed letters to a page, an agent, a job, a case, a question, a saved view, or an action of this page.
(() => {
  "use strict";
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
  const dialog = $("#dialog");
  document.addEventListener("htmx:afterSwap", ({ detail: { target } }) => {
    if (target === dialog) start();
  });
  // This script is loaded when it is first needed: the dialog may be open already.
  start();

  function start() {
    const input = $("#find");
    if (!input || input.dataset.started) return;
    input.dataset.started = "1";
    open(input, $("#found"), $("#found-count"));
  }

  /** What this page can do, by the words on its buttons. */
  function actions() {
    const seen = new Map();
    for (const button of $$("main .btn")) {
      const label = button.textContent.trim().replace(/\s+/g, " ");
      const isListed = button.closest("td, .bulk, .pager, .news, .filters");
      const isOffered = button.matches(".menu a") || button.checkVisibility?.() !== false;
      if (label && !isListed && !seen.has(label) && isOffered) seen.set(label, button);
    }
    return [...seen].map(([label, button]) => ({ kind: "Action", label, about: "on this page", button }));
  }

  function open(input, list, count) {
    const own = actions();
    let items = [];
    let at = 0;
    let asked = 0;
    let timer;

    async function search() {
      const text = input.value.trim();
      const number = ++asked;
      let found = [];
      let problem = "";
      try {
        const response = await fetch(`/admin/api/find?q=${encodeURIComponent(text)}`, { headers: { accept: "application/json" } });
        if (!response.ok) problem = `The service responded with ${response.status}. Reload the page.`;
        else found = (await response.json()).items;
      } catch {
        problem = "The service does not respond.";
      }
      // A later search is on its way, or shown already.
      if (number !== asked || !input.isConnected) return;
      const mine = own.filter(({ label }) => label.toLowerCase().includes(text.toLowerCase()));
      show(text === "" ? [...found, ...mine] : [...mine, ...found], text, problem);
    }

    function show(next, text, problem) {
      items = next;
      input.dataset.shown = text;
      list.replaceChildren(...items.map(option));
      list.hidden = items.length === 0;
      input.setAttribute("aria-expanded", String(items.length > 0));
      count.classList.toggle("sr", items.length > 0);
      count.textContent = problem || (items.length === 0 ? "Nothing has this in its name or id." : `${items.length} ${items.length === 1 ? "result" : "results"}`);
      select(0);
    }

    function option({ kind, label, about }, index) {
      const row = document.createElement("li");
      row.id = `found-${index}`;
      row.setAttribute("role", "option");
      for (const [name, text, className] of [["span", kind, "tag"], ["bdi", label, "name"], ["bdi", about, "faint"]]) {
        const part = document.createElement(name);
        part.className = className;
        part.textContent = text;
        row.append(part, " ");
      }
      row.addEventListener("click", () => go(index));
      return row;
    }

    function select(index) {
      at = Math.max(0, Math.min(items.length - 1, index));
      for (const [place, row] of [...list.children].entries()) row.setAttribute("aria-selected", String(place === at));
      if (items.length === 0) return input.removeAttribute("aria-activedescendant");
      input.setAttribute("aria-activedescendant", `found-${at}`);
      list.children[at].scrollIntoView({ block: "nearest" });
    }

    function go(index) {
      const item = items[index];
      if (!item) return;
      dialog.close();
      if (item.button) item.button.click();
      else location.href = item.href;
    }

    input.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(search, 120);
    });
    input.addEventListener("keydown", (event) => {
      const by = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
      if (by) {
        event.preventDefault();
        // From the last to the first, and back.
        const isStep = Math.abs(by) === 1;
        select(isStep ? (at + by + items.length) % Math.max(1, items.length) : at + by);
      }
    });
    input.form.addEventListener("submit", async (event) => {
      event.preventDefault();
      clearTimeout(timer);
      // What is shown may be of fewer letters than were typed.
      if (input.value.trim() !== input.dataset.shown) await search();
      go(at);
    });
    input.focus();
    void search();
  }
})();
