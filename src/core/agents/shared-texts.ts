import { type NamesOf, unknownOption } from "../base/refuse-unknown.ts";
import type { AgentDefinition } from "./define-agent.ts";

type Prompt = NonNullable<AgentDefinition["prompts"]>[number];
type Resource = NonNullable<AgentDefinition["resources"]>[number];

const PROMPT_NAMES: NamesOf<Prompt> = { name: true, description: true, arguments: true, text: true };
const RESOURCE_NAMES: NamesOf<Resource> = {
  ...{ uri: true, name: true, description: true, mimeType: true, content: true },
};

/** What is wrong with the prompts of an agent; `undefined` if they are valid. */
export function problemOfPrompts(prompts: unknown): string | undefined {
  return problemIn(prompts, (one: Prompt) => {
    const unknown = unknownOption(one, PROMPT_NAMES);
    if (unknown !== undefined) return `.${unknown}`;
    for (const name of ["name", "description", "text"] as const)
      if (typeof one[name] !== "string" || one[name] === "") return ` needs ${name}, a text`;
    for (const [name, description] of Object.entries(one.arguments ?? {})) {
      if (typeof description !== "string" || description === "")
        return `.arguments.${name} must be a text that describes it`;
      // A placeholder that is misspelled leaves its argument without one.
      if (!one.text.includes(`{${name}}`)) return `: the text has no {${name}}, which arguments name`;
    }
    return undefined;
  });
}

/** What is wrong with the resources of an agent; `undefined` if they are valid. */
export function problemOfResources(resources: unknown): string | undefined {
  return problemIn(resources, (one: Resource) => {
    const unknown = unknownOption(one, RESOURCE_NAMES);
    if (unknown !== undefined) return `.${unknown}`;
    if (typeof one.name !== "string" || one.name === "") return " needs name, a text";
    if (typeof one.uri !== "string" || !URL.canParse(one.uri))
      return ' needs uri, such as "docs://policy/refunds"';
    if (typeof one.content !== "string" && !(one.content instanceof Uint8Array))
      return " needs content, a text or bytes";
    for (const name of ["description", "mimeType"] as const)
      if (one[name] !== undefined && typeof one[name] !== "string") return `.${name} must be a text`;
    return undefined;
  });
}

/** The text of a prompt with the arguments that a person has given. */
export function fillPrompt(
  { text, arguments: declared = {} }: Prompt,
  given: Readonly<Record<string, string>>,
) {
  return text.replace(/\{([^{}]+)\}/g, (whole, name: string) =>
    Object.hasOwn(declared, name) ? given[name]! : whole,
  );
}

function problemIn<T>(list: unknown, problemOf: (one: T) => string | undefined): string | undefined {
  if (list === undefined) return undefined;
  if (!Array.isArray(list)) return " must be a list";
  for (const [at, one] of list.entries()) {
    const problem = typeof one === "object" && one !== null ? problemOf(one) : " must be an object";
    if (problem !== undefined) return `[${at}]${problem}`;
  }
  return undefined;
}
