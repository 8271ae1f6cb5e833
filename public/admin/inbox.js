// The inbox while it is open: what was answered elsewhere, what is new, and the next question by keyboard.
(() => {
  "use strict";
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

  document.addEventListener("svc:change", ({ detail }) => {
    const inbox = $("[data-inbox]");
    if (inbox && detail.topics.includes("cases")) updateInbox(inbox);
  });

  async function updateInbox(inbox) {
    if (inbox.dataset.busy) return;
    inbox.dataset.busy = "1";
    try {
      const response = await fetch(inbox.dataset.inbox, { headers: { accept: "application/json", "X-Unattended": "1" } });
      if (!response.ok) return;
      const { items, total } = await response.json();
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
        form.replaceWith(note);
      }
      for (const row of $$("[data-case]", inbox)) row.classList.toggle("over", isOver(row.dataset.case));
      const fresh = items.filter(({ question }) => question && Date.parse(question.asked_at) > Date.parse(inbox.dataset.at)).length;
      const news = $(".news", inbox);
      if (fresh > 0 && news) {
        news.hidden = false;
        news.firstElementChild.textContent = `Show ${fresh} new ${fresh === 1 ? "question" : "questions"}`;
      }
    } finally {
      delete inbox.dataset.busy;
    }
  }

  document.addEventListener("htmx:afterSwap", ({ detail: { target } }) => {
    if (target?.matches?.(".ask") && $(".pane .done")) $(".asks [aria-current]")?.closest("li").classList.add("over");
    if (target?.id === "inbox") $(".asks [aria-current]")?.scrollIntoView({ block: "nearest" });
  });

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
