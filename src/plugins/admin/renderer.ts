import { TemplateEngine } from "../../core/base/template-engine.ts";
import type { Assets } from "./assets.ts";
import { html } from "./views/html.ts";

/** Renders the templates of the admin interface. They are loaded with the first page, not with the service. */
export class Renderer {
  readonly #assets: Assets;
  #engine: Promise<TemplateEngine> | undefined;

  constructor(assets: Assets) {
    this.#assets = assets;
  }

  /** `template` is one of ours; never a name from a request. */
  async render(
    template: `${"pages" | "fragments"}/${string}`,
    state: Record<string, unknown>,
  ): Promise<string> {
    this.#engine ??= this.#load();
    return (await this.#engine).render(template, state);
  }

  async #load(): Promise<TemplateEngine> {
    const { TEMPLATES } = await import("./compiled-templates.ts");
    const { icons, files } = this.#assets.urls;
    return new TemplateEngine(TEMPLATES, {
      fileStyles: () => html`<link rel="stylesheet" href="${files}">`.toString(),
      icon: (name: string) =>
        html`<svg class="i" aria-hidden="true"><use href="${icons}#${name}"/></svg>`.toString(),
    });
  }
}
