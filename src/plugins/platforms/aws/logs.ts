import type { AwsContext } from "./aws-context.ts";

interface LogEvent {
  readonly timestamp?: number;
  readonly message?: string;
  readonly eventId?: string;
}

const EVERY = 3000;

/** Lines of the given groups from a time on; with `follow` it continues until the command ends. */
export async function* groupLogs(
  context: AwsContext,
  groups: readonly string[],
  { since, follow }: { readonly since: Date; readonly follow: boolean },
): AsyncIterable<string> {
  let from = since.getTime();
  const seen = new Set<string>();
  for (;;) {
    const events = (await Promise.all(groups.map((group) => readEvents(context, group, from)))).flat();
    for (const event of events.sort((a, b) => (a.timestamp ?? 0) - (b.timestamp ?? 0))) {
      const id = event.eventId ?? `${event.timestamp}${event.message}`;
      if (seen.has(id)) continue;
      seen.add(id);
      from = Math.max(from, event.timestamp ?? 0);
      yield event.message?.trimEnd() ?? "";
    }
    if (!follow) return;
    await context.tools.sleep(EVERY);
  }
}

const TWENTY_MINUTES = 1_200_000;

/** The last lines, for the report of a failure. Logs that cannot be read are no further failure. */
export async function lastLogLines(context: AwsContext, groups: readonly string[]): Promise<string[]> {
  const since = new Date(context.tools.now().getTime() - TWENTY_MINUTES);
  const lines: string[] = [];
  try {
    for await (const line of groupLogs(context, groups, { since, follow: false })) lines.push(line);
  } catch {
    return lines.slice(-20);
  }
  return lines.slice(-20);
}

async function readEvents({ aws }: AwsContext, logGroupName: string, startTime: number): Promise<LogEvent[]> {
  const events: LogEvent[] = [];
  const pages = aws.pages<{ events?: LogEvent[] }>(
    "cloudwatch-logs",
    "FilterLogEvents",
    { logGroupName, startTime },
    /ResourceNotFoundException/,
  );
  for await (const page of pages) events.push(...(page.events ?? []));
  return events;
}
