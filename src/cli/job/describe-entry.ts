import type { RunEntry } from "../../core/models/run-entry.ts";

/** A line of a job's run log for people; `undefined` for entries shown only in detail. */
export function describeEntry(entry: RunEntry, verbose: boolean): string | undefined {
  const at = entry.at.slice(11, 19);
  const where = entry.case_id ? `${entry.case_id}: ` : "";
  const text = describe(entry, verbose);
  return text === undefined ? undefined : `${at}  ${where}${text}`;
}

function describe(entry: RunEntry, verbose: boolean): string | undefined {
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
      return verbose ? `starts ${entry.name}` : undefined;
  }
}
