/** Folder of the templates: `templates/` lies beside `src/` and, once built, beside `dist/`. */
export const TEMPLATES = new URL("../templates/", import.meta.url);
