import { groupLogs, lastLogLines } from "../aws/logs.ts";
import type { Context } from "./context.ts";
import type { Service } from "./service-types.ts";
import { findOwnService } from "./services.ts";

/** What the service writes, line by line. */
export async function* serviceLogs(
  context: Context,
  options: { readonly since: Date; readonly follow: boolean },
): AsyncIterable<string> {
  const service = await findOwnService(context);
  if (service === undefined) return;
  yield* groupLogs(context, [groupOf(service, "application")], options);
}

/** The last lines of both logs: App Runner's events, and what the service wrote. */
export async function failureLog(context: Context, service: Service | undefined): Promise<string[]> {
  if (service === undefined) return [];
  return lastLogLines(context, [groupOf(service, "service"), groupOf(service, "application")]);
}

function groupOf({ ServiceName, ServiceId }: Service, kind: "service" | "application"): string {
  return `/aws/apprunner/${ServiceName}/${ServiceId}/${kind}`;
}
