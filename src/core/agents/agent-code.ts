import { hash } from "node:crypto";
import type { AgentDefinition } from "./define-agent.ts";

/**
 * The fingerprint of an agent's code: of its version, of the source of its functions, and of `build`, which
 * covers what these call. It is informational only: it never decides whether a record matches.
 */
export function fingerprintOfAgent({ version, methods }: AgentDefinition, build: string): string {
  const { custom, ...own } = methods;
  const sources = Object.entries({ ...own, ...custom }).map(([name, method]) => [name, String(method?.run)]);
  return hash("sha256", JSON.stringify([version, sources, build]), "hex").slice(0, 12);
}

/** Whether the source of an agent's `job_start` has the name of `job.read` and `item.read` in it. What that calls is not searched. */
export function mentionsRead({ methods }: AgentDefinition): boolean {
  return /\bread\b/.test(String(methods.job_start?.run));
}
