/** Folder of the templates: `templates/` lies beside `src/` and, once built, beside `dist/`. */
export const TEMPLATES = new URL("../../../templates/", import.meta.url);

/** Folder of the files that browsers load. */
export const PUBLIC = new URL("../../../public/", import.meta.url);
