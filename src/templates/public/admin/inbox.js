// The inbox while it is open: what was answered elsewhere, what is new, and the next question by keyboard.
(() => {
  "use strict";
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

  document.addEventListener("svc:change", ({ detail }) => {
    const inbox = $("[data-inbox]");
    if (!inbox || !detail.topics.includes("cases")) return;
    document.dispatchEvent(new CustomEvent("svc:ask", { detail: { key: "inbox", send: updateInbox } }));
  });

  async function updateInbox(signal) {
    const headers = { accept: "application/json", "X-Unattended": "1" };
    const response = await fetch($("[data-inbox]").dataset.inbox, { headers, signal });
    if (response.ok) show(await response.json());
    return response.status;
  }

  function show({ items, total }) {
    const inbox = $("[data-inbox]");
    const open = new Set(items.map((item) => item.case_id));
    // Beyond the first page of the answer, nothing is known.
    const isOver = (id) => !open.has(id) && total <= items.length;
    for (const ask of $$("[data-ask]", inbox)) {
      const form = $("form", ask);
      if (!form || !isOver(ask.dataset.ask)) continue;
      form.inert = true;
      const note = document.createElement("p");
      note.className = "soft";
      note.textContent = "Answered or ended elsewhere.";
      forget(form);
      form.replaceWith(note);
    }
    for (const row of $$("[data-case]", inbox)) row.classList.toggle("over", isOver(row.dataset.case));
    $("#inbox-sum").textContent = total ? `${total.toLocaleString("en")} open question${total === 1 ? "" : "s"}, the most urgent first.` : "No open questions here.";
    const count = $(".tabs [aria-current] .count", inbox);
    if (count) count.textContent = total.toLocaleString("en");
    const fresh = items.filter(({ asked_at }) => asked_at && Date.parse(asked_at) > Date.parse(inbox.dataset.at)).length;
    const news = $(".news", inbox);
    if (fresh > 0 && news) {
      news.hidden = false;
      news.firstElementChild.textContent = `Show ${fresh} new ${fresh === 1 ? "question" : "questions"}`;
    }
  }

  // "Send, open the next": an answer after which something is left to read stays.
  let opensNext = false;
  document.addEventListener("submit", ({ submitter }) => {
    opensNext = submitter?.hasAttribute("data-next") === true;
  });
  document.addEventListener("keydown", (event) => {
    const next = event.key === "Enter" && (event.ctrlKey || event.metaKey) && $(".pane .ask [data-next]");
    if (!next) return;
    event.preventDefault();
    next.form.requestSubmit(next);
  });

  document.addEventListener("htmx:afterSwap", ({ detail: { target } }) => {
    if (target?.matches?.(".ask") && $(".pane .done")) $(".asks [aria-current]")?.closest("li").classList.add("over");
    const settled = target?.matches?.(".ask") && opensNext && $(".pane .done[data-settled]");
    if (settled) {
      document.dispatchEvent(new CustomEvent("svc:say", { detail: settled.textContent.trim().split("\n")[0] }));
      otherQuestion(1);
    }
    if (target?.id === "inbox") $(".asks [aria-current]")?.scrollIntoView({ block: "nearest" });
  });

  // An answer that is half typed stays in this tab until its question is answered or ends; signing out removes it.
  const DRAFT = "svc-draft:";
  const FORM = ".ask form[id^=form-]";
  document.addEventListener("input", ({ target }) => {
    const form = target.closest(FORM);
    if (!form) return;
    const typed = [...new FormData(form)].filter(([name]) => name !== "question_id");
    sessionStorage.setItem(DRAFT + form.id, JSON.stringify(typed));
  });

  function restore() {
    for (const form of $$(FORM)) {
      const kept = sessionStorage.getItem(DRAFT + form.id);
      if (kept !== null) fill(form, JSON.parse(kept));
    }
  }
  function fill(form, typed) {
    for (const field of form.elements) {
      if (!field.name || field.type === "hidden") continue;
      const values = typed.filter(([name]) => name === field.name).map(([, value]) => value);
      if (field.type === "checkbox" || field.type === "radio") field.checked = values.includes(field.value);
      else if (field.multiple) for (const option of field.options) option.selected = values.includes(option.value);
      else if (values.length > 0) field.value = values[0];
    }
  }
  function forget(form) {
    if (form?.id) sessionStorage.removeItem(DRAFT + form.id);
  }
  document.addEventListener("htmx:afterSettle", restore);
  document.addEventListener("htmx:beforeSwap", ({ detail: { requestConfig, xhr } }) => {
    if (requestConfig.elt?.matches?.(FORM) && xhr.responseText.includes('class="done"')) forget(requestConfig.elt);
  });
  restore();

  document.addEventListener("svc:step", (event) => {
    event.preventDefault();
    otherQuestion(event.detail);
  });

  // The next question is opened beside the list; one that is answered is passed over.
  function otherQuestion(by) {
    const links = $$(".asks a");
    const at = links.findIndex((link) => link.hasAttribute("aria-current"));
    const isOpen = (link) => !link.closest("li").classList.contains("over");
    const next = by > 0 ? links.slice(at + 1).find(isOpen) : links.slice(0, Math.max(at, 0)).findLast(isOpen);
    if (next) next.focus();
    next?.click();
  }
})();
