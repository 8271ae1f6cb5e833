import { escapeHtml } from "./escape-html.ts";

type State = Readonly<Record<string, unknown>>;

/** A template as the build compiles it; `locals` are the variables of the loop that includes it. */
export type Template = (
  template: TemplateEngine,
  state: State,
  context: object,
  ...locals: unknown[]
) => string;

/** Templates by name; those that are included inside a loop also by name and variables. */
export type Templates = Readonly<Record<string, Template>>;

/**
 * Renders templates that the build has compiled with edge.js: the engine itself is not installed with the package. The
 * methods below `render` have the names that edge.js gives to what compiled templates call.
 */
export class TemplateEngine {
  readonly #templates: Templates;
  readonly #shared: State;

  /** @param shared what every template has, besides what it is rendered with */
  constructor(templates: Templates, shared: State = {}) {
    this.#templates = templates;
    this.#shared = shared;
  }

  render(name: string, state: State): string {
    return this.compilePartial(name)(this, { ...this.#shared, ...state }, {});
  }

  escape(value: unknown): string {
    return escapeHtml(String(value));
  }

  loop(list: unknown, each: (value: unknown, key: unknown) => void): void {
    if (Array.isArray(list)) for (const [at, value] of list.entries()) each(value, at);
    else if (typeof list === "object" && list !== null)
      for (const [key, value] of Object.entries(list)) each(value, key);
  }

  compilePartial(name: string, ...locals: string[]): Template {
    const template = this.#templates[[name, ...locals].join()];
    if (template === undefined) throw new Error(`There is no template "${name}"`);
    return template;
  }

  compileComponent(name: string): Template {
    return this.compilePartial(name);
  }

  getComponentState(props: State, slots: object): State {
    return { ...this.#shared, ...props, $slots: slots, $props: props };
  }
}
