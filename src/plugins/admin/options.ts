import * as v from "valibot";
import { atLeast, checkOptions, wholeAtLeast } from "../../core/base/check-options.ts";

/** Options of the admin interface. */
export interface AdminOptions {
  /** Name shown in the corner and in page titles. @default "Agent control" */
  readonly title?: string;
  /** Currency sign shown before costs. @default "$" */
  readonly currency?: string;
  /** Log lines kept for the console page. @default 2000 */
  readonly consoleLines?: number;
  /** Log lines kept with each job, 0 for none. @default 500 */
  readonly jobLogLines?: number;
  /** Maximum duration of a session, hours. @default 12 */
  readonly sessionHours?: number;
  /** Minutes of inactivity after which a session ends, 0 for no such limit. @default 30 */
  readonly sessionIdleMinutes?: number;
}

const OptionsSchema = v.object({
  title: v.optional(v.string(), "Agent control"),
  currency: v.optional(v.string(), "$"),
  consoleLines: v.optional(
    v.pipe(
      wholeAtLeast(0),
      v.transform((lines) => Math.max(100, lines)),
    ),
    2000,
  ),
  jobLogLines: v.optional(wholeAtLeast(0), 500),
  sessionHours: v.optional(atLeast(0), 12),
  sessionIdleMinutes: v.optional(atLeast(0), 30),
});

export type ResolvedAdminOptions = Readonly<v.InferOutput<typeof OptionsSchema>>;

/** Fills in the defaults; throws if an option is invalid. */
export function resolveAdminOptions(options: AdminOptions): ResolvedAdminOptions {
  return checkOptions(OptionsSchema, options, { of: 'of plugin "admin"' });
}
