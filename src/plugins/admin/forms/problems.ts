import type { ServiceError } from "../../../core/errors.ts";

/**
 * Problems by field name out of an error's detail, which names each field: `"amount must be a number; file is missing."`.
 */
export function readProblems(error: ServiceError, names?: readonly string[]): Record<string, string> {
  const problems: Record<string, string> = {};
  for (const part of (error.detail ?? "").replace(/\.$/, "").split("; ")) {
    const [name, problem] = splitName(part, names);
    if (name !== undefined)
      Object.defineProperty(problems, name, { value: problem, enumerable: true, configurable: true });
  }
  return problems;
}

function splitName(part: string, names: readonly string[] | undefined): [string | undefined, string] {
  if (names) {
    const name = names.find((one) => part.startsWith(`${one} `) || part.startsWith(`${one}: `));
    return [name, name === undefined ? "" : part.slice(name.length).replace(/^:? /, "")];
  }
  const match = /^([A-Za-z_][\w.-]*):? (is |must |has |should )/.exec(part);
  return match ? [match[1], part.slice(match[1]!.length).replace(/^:? /, "")] : [undefined, ""];
}
