import type { Templates } from "../../core/base/template-engine.ts";

/** The build puts the templates in its place. */
declare function compiledTemplates(folder: "admin"): Templates;

/** The templates of the admin interface. */
export const TEMPLATES = compiledTemplates("admin");
