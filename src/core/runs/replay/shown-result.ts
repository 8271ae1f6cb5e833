import { isLongerThan } from "../../agents/json-value.ts";
import { isRecord } from "../../base/is-record.ts";

/** Characters of JSON up to which a case shows a step's result whole. */
const LONGEST = 16 * 1024;
const BEGINNING = 1000;

/**
 * What a case shows of a step's result in its history: of a long one only the beginning, as the job's log has it whole.
 * Secrets are taken out before it is cut: a part of one would not be found.
 */
export function toShown(result: unknown, redact: (text: string) => string): Record<string, unknown> {
  if (isLongerThan(LONGEST, result)) {
    const json = JSON.stringify(result);
    return { shortened: true, length: json.length, beginning: redact(json).slice(0, BEGINNING) };
  }
  return isRecord(result) ? result : { result };
}
