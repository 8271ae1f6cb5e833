import type { Job } from "../../core/models/job.ts";
import { messageEvent } from "../../core/models/message-event.ts";
import type { BegunEntry, RunEntry } from "../../core/models/run-entry.ts";
import type { ServiceClient } from "./service-client.ts";

/** What a line is shown with: its job, once that is known, and whether every step is shown. */
interface Shown {
  readonly job: Pick<Job, "id" | "agent_name"> | undefined;
  readonly verbose: boolean;
  readonly client: Pick<ServiceClient, "command">;
}

/** A line of a job's run log for people; `undefined` for entries shown only in detail. */
export function describeEntry(entry: RunEntry, shown: Shown): string | undefined {
  const at = entry.at.slice(11, 19);
  const where = entry.case_id ? `${entry.case_id}: ` : "";
  const text = describe(entry, shown);
  return text === undefined ? undefined : `${at}  ${where}${text}`;
}

function describe(entry: RunEntry, { job, verbose, client }: Shown): string | undefined {
  switch (entry.type) {
    case "status":
      return entry.from === null ? undefined : `${entry.to}${entry.by ? ` by ${entry.by}` : ""}`;
    case "attempt":
      return `${entry.name} failed, attempt ${entry.attempt}: ${entry.error}`;
    case "answer":
      return `answered: ${JSON.stringify(entry.answer)}${entry.by ? ` by ${entry.by}` : ""}`;
    case "mark":
      if (entry.mark === "created" || entry.mark === "started") return undefined;
      return entry.message
        ? `${entry.mark.replaceAll("_", " ")}: ${entry.message}`
        : entry.mark.replaceAll("_", " ");
    case "call":
      if (entry.error) return `${entry.name} failed: ${entry.error.message}`;
      if (entry.call === "close") return "closed";
      return verbose || entry.case_id === undefined
        ? `${entry.call.replace("_", " ")} ${entry.name}`
        : undefined;
    case "begun":
      return waitOf(entry, job, client) ?? (verbose ? `starts ${entry.name}` : undefined);
  }
}

/** A shorter sleep is over before anybody wonders, milliseconds. */
const SHORT = 60_000;

/** What a job waits for, and how to send it: a job that only waits shows nothing else. */
function waitOf(
  { at, call, name, key, until, attempt }: BegunEntry,
  job: Shown["job"],
  client: Shown["client"],
): string | undefined {
  if (call === "event" && job && name === messageEvent(job.id))
    return `waits for a message: ${client.command("chat", job.agent_name, "--thread", job.id)}`;
  if (call === "child") return `waits for its child of ${name}: ${client.command("job", "watch", key ?? "")}`;
  const end = until === undefined ? "" : ` until ${until.slice(0, 19).replace("T", " ")} UTC`;
  if (call === "event") return `waits for an event${end}: ${client.command("event", "send", name)}`;
  if (call !== "sleep" || attempt !== 1 || until === undefined) return undefined;
  return Date.parse(until) - Date.parse(at) < SHORT ? undefined : `sleeps${end}`;
}
