import { groupLogs, lastLogLines } from "../aws/logs.ts";
import type { Context } from "./context.ts";
import type { Service } from "./service-types.ts";
import { findOwnService } from "./services.ts";

const TWENTY_MINUTES = 1_200_000;

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
  const since = new Date(context.tools.now().getTime() - TWENTY_MINUTES);
  return lastLogLines(context, [groupOf(service, "service"), groupOf(service, "application")], since);
}

function groupOf({ ServiceName, ServiceId }: Service, kind: "service" | "application"): string {
  return `/aws/apprunner/${ServiceName}/${ServiceId}/${kind}`;
}
