import { groupLogs, lastLogLines } from "../aws/logs.ts";
import type { Context } from "./context.ts";
import { findOwnService } from "./services.ts";

/** What the service writes, line by line. */
export async function* serviceLogs(
  context: Context,
  options: { readonly since: Date; readonly follow: boolean },
): AsyncIterable<string> {
  const group = await logGroup(context);
  if (group !== undefined) yield* groupLogs(context, [group], options);
}

/** The last lines of the service, for the report of a failure. */
export async function failureLog(context: Context): Promise<string[]> {
  const group = await logGroup(context).catch(() => undefined);
  if (group === undefined) return [];
  return lastLogLines(context, [group]);
}

async function logGroup(context: Context): Promise<string | undefined> {
  const service = await findOwnService(context);
  return service?.activeConfigurations?.[0]?.primaryContainer?.awsLogsConfiguration?.logGroup;
}
