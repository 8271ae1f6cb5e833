import { pollUntil } from "../cloud/poll.ts";
import type { Context } from "./context.ts";
import type { GoogleApi } from "./google.ts";
import type { Operation } from "./service-types.ts";

const EVERY = 2000;

/** Follows a long-running operation to its end; a failed one resolves too, its `error` says why. */
export async function waitForOperation(
  context: Context,
  api: GoogleApi,
  operation: Operation,
): Promise<Operation> {
  if (operation.done) return operation;
  const google = await context.google();
  return pollUntil({
    tools: context.tools,
    every: EVERY,
    read: () => google.get<Operation>(api, `/${versionOf(api)}/${operation.name}`),
    done: (read) => read.done === true,
  });
}

function versionOf(api: GoogleApi): string {
  return api === "run" ? "v2" : "v1";
}
