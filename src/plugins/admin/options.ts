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

export type ResolvedAdminOptions = Required<AdminOptions>;

/** Fills in omitted options. */
export function resolveAdminOptions(options: AdminOptions): ResolvedAdminOptions {
  return {
    title: options.title ?? "Agent control",
    currency: options.currency ?? "$",
    consoleLines: Math.max(100, options.consoleLines ?? 2000),
    jobLogLines: Math.max(0, options.jobLogLines ?? 500),
    sessionHours: options.sessionHours ?? 12,
    sessionIdleMinutes: options.sessionIdleMinutes ?? 30,
  };
}
