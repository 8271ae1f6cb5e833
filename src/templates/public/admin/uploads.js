// Forms with files show how much of them is sent, and where they can be dropped. They work without it.
(() => {
  "use strict";
  document.addEventListener("htmx:xhr:progress", ({ target, detail }) => {
    const bar = target.querySelector("progress.sending");
    if (!bar || !target.matches('[enctype="multipart/form-data"]') || !detail.lengthComputable) return;
    bar.hidden = detail.loaded === detail.total;
    bar.value = (100 * detail.loaded) / detail.total;
  });
  for (const kind of ["dragover", "dragleave", "drop"]) {
    document.addEventListener(kind, (event) => {
      const place = event.target.closest?.(".field:has(.drop)");
      const input = place?.querySelector(".drop");
      if (!input) return;
      input.classList.toggle("over", kind === "dragover");
      if (event.target === input || kind === "dragleave") return;
      // Beside the input, in its field: the browser would open the file.
      event.preventDefault();
      if (kind === "drop") input.files = event.dataTransfer.files;
    });
  }
})();
