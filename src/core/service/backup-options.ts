import * as v from "valibot";
import { OptionsError } from "../base/check-options.ts";
import { type Duration, isDuration, toMilliseconds } from "../base/duration.ts";
import { type NamesOf, unknownOption } from "../base/refuse-unknown.ts";
import type { StorageLike } from "../storage/open-storage.ts";

/** When backups are made, and where they are kept. */
export interface BackupOptions {
  /** A `Storage` of unstorage, or one of its drivers, such as those of `agent-control-service/storage`. */
  readonly storage: StorageLike;
  /** Time from one backup to the next. Variable `SERVICE_BACKUP_EVERY`. @default "1h" */
  readonly every?: Duration;
  /**
   * How long backups are kept: all of the last day, before that the newest of each day, and the newest five in any
   * case. Variable `SERVICE_BACKUP_KEEP`.
   * @default "30d"
   */
  readonly keep?: Duration;
}

export interface ResolvedBackup {
  /** The storage, or its URL. */
  readonly to: StorageLike | string;
  /** Milliseconds. */
  readonly every: number;
  readonly keep: number;
}

const NAMES: NamesOf<BackupOptions> = { storage: true, every: true, keep: true };

const SECOND = 1000;
const DAY = 24 * 3_600_000;

const timeSchema = (least: number, rule: string) =>
  v.pipe(v.custom<Duration>(isDuration, rule), v.transform(toMilliseconds), v.minValue(least, rule));
const every = timeSchema(SECOND, 'must be a duration of a second or more, such as "1h"');
const keep = timeSchema(DAY, 'must be a duration of a day or more, such as "30d"');

/** Backups as the option or the variables want them; `undefined` where neither does. */
export function resolveBackup(
  option: StorageLike | BackupOptions | undefined,
  variables: {
    readonly url?: string | undefined;
    readonly every?: string | undefined;
    readonly keep?: string | undefined;
  },
): ResolvedBackup | undefined {
  const given = option === undefined || "storage" in option ? option : { storage: option };
  const unknown = given && unknownOption(given, NAMES);
  if (unknown !== undefined) throw new OptionsError(`Cannot use option backup: ${unknown}`);
  const to = given?.storage ?? variables.url;
  if (to === undefined) {
    if (variables.every === undefined && variables.keep === undefined) return undefined;
    throw new OptionsError("SERVICE_BACKUP_EVERY and SERVICE_BACKUP_KEEP need SERVICE_BACKUP_URL");
  }
  if (typeof to === "object" && !("getKeys" in to))
    throw new OptionsError("backup.storage must be a storage of unstorage or one of its drivers");
  return {
    to,
    every: check(every, given?.every ?? variables.every ?? "1h", "backup.every (SERVICE_BACKUP_EVERY)"),
    keep: check(keep, given?.keep ?? variables.keep ?? "30d", "backup.keep (SERVICE_BACKUP_KEEP)"),
  };
}

function check(schema: typeof every, value: unknown, name: string): number {
  const result = v.safeParse(schema, value);
  if (result.success) return result.output;
  throw new OptionsError(`Option ${name} ${result.issues[0].message}`);
}
