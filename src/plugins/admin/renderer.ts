import type { Edge } from "edge.js";
import type { Assets } from "./assets.ts";
import { html } from "./views/html.ts";

const TEMPLATES = new URL("../../templates/admin/", import.meta.url);

/** Renders the templates of the admin interface. The engine is loaded with the first page, not with the service. */
export class Renderer {
  readonly #assets: Assets;
  #edge: Promise<Edge> | undefined;

  constructor(assets: Assets) {
    this.#assets = assets;
  }

  /** `template` is one of ours; never a name from a request. */
  async render(
    template: `${"pages" | "fragments"}/${string}`,
    state: Record<string, unknown>,
  ): Promise<string> {
    this.#edge ??= this.#load();
    const edge = await this.#edge;
    return edge.render(template, state);
  }

  async #load(): Promise<Edge> {
    const { Edge } = await import("edge.js");
    const edge = Edge.create({ cache: true });
    keepParts(edge.asyncCompiler);
    edge.mount(TEMPLATES);
    const icons = this.#assets.urls.icons;
    edge.global("icon", (name: string) =>
      html`<svg class="i" aria-hidden="true"><use href="${icons}#${name}"/></svg>`.toString(),
    );
    return edge;
  }
}

/**
 * Also caches the compilation of templates included from a component: the engine would compile them again for
 * every page.
 */
function keepParts(compiler: Edge["asyncCompiler"]): void {
  const compile = compiler.compile.bind(compiler);
  const known = new Map<string, ReturnType<typeof compile>>();
  compiler.compile = (template, variables) => {
    if (!variables) return compile(template);
    const key = [template, ...variables].join();
    const part = known.get(key) ?? compile(template, variables);
    known.set(key, part);
    return part;
  };
}
