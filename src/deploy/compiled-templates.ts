import type { Templates } from "../core/base/template-engine.ts";

/** The build puts the templates in its place. */
declare function compiledTemplates(folder: "deploy"): Templates;

/** The templates of the deployment files. */
export const TEMPLATES = compiledTemplates("deploy");
