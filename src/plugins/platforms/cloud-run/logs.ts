import type { Context } from "./context.ts";

interface LogEntry {
  readonly insertId?: string;
  readonly timestamp?: string;
  readonly severity?: string;
  readonly textPayload?: string;
  readonly jsonPayload?: Readonly<Record<string, unknown>>;
}

const EVERY = 3000;

/** Log lines of the service from a time on; with `follow` it continues until the command ends. */
export async function* serviceLogs(
  context: Context,
  { since, follow }: { readonly since: Date; readonly follow: boolean },
): AsyncIterable<string> {
  const filter = `resource.type="cloud_run_revision" AND resource.labels.service_name="${context.target.serviceName}" AND resource.labels.location="${context.target.region}"`;
  let from = since.toISOString();
  let seen = new Set<string>();
  for (;;) {
    const entries = await readEntries(context, `${filter} AND timestamp>="${from}"`, "timestamp asc");
    for (const entry of entries) {
      const id = entry.insertId ?? `${entry.timestamp}${textOf(entry)}`;
      if (seen.has(id)) continue;
      seen.add(id);
      yield lineOf(entry);
    }
    const last = entries.at(-1)?.timestamp;
    if (last !== undefined && last > from) {
      from = last;
      seen = new Set(
        entries.filter((entry) => entry.timestamp === last).map((entry) => entry.insertId ?? ""),
      );
    }
    if (!follow) return;
    await context.tools.sleep(EVERY);
  }
}

/**
 * The last lines of a revision, for the report of its failure. Unreadable logs do not count as another
 * failure.
 */
export async function lastLogLines(context: Context, revision: string): Promise<string[]> {
  const filter = `resource.type="cloud_run_revision" AND resource.labels.service_name="${context.target.serviceName}" AND resource.labels.revision_name="${revision}"`;
  try {
    return (await readEntries(context, filter, "timestamp desc", 20)).reverse().map(lineOf);
  } catch {
    return [];
  }
}

/** Lines of a remote build; unreadable logs never fail a deployment. */
export async function buildLogLines(
  context: Context,
  buildId: string,
  since: string | undefined,
): Promise<LogEntry[]> {
  const after = since === undefined ? "" : ` AND timestamp>"${since}"`;
  try {
    return await readEntries(
      context,
      `resource.type="build" AND resource.labels.build_id="${buildId}"${after}`,
      "timestamp asc",
    );
  } catch {
    return [];
  }
}

async function readEntries(
  context: Context,
  filter: string,
  orderBy: string,
  pageSize = 500,
): Promise<LogEntry[]> {
  const google = await context.google();
  const { entries = [] } = await google.send<{ entries?: LogEntry[] }>(
    "logging",
    "POST",
    "/v2/entries:list",
    {
      body: { resourceNames: [`projects/${context.project}`], filter, orderBy, pageSize },
      idempotent: true,
    },
  );
  return entries;
}

export function textOf(entry: LogEntry): string {
  if (entry.textPayload !== undefined) return entry.textPayload;
  const { message, msg } = entry.jsonPayload ?? {};
  return typeof message === "string"
    ? message
    : typeof msg === "string"
      ? msg
      : JSON.stringify(entry.jsonPayload ?? {});
}

function lineOf(entry: LogEntry): string {
  return [entry.timestamp, entry.severity, textOf(entry)].filter(Boolean).join(" ");
}
