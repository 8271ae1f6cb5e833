import * as v from "valibot";
import {
  isKeepTime,
  KEPT_STATUSES,
  RETENTION_RULE,
  type RetentionPolicy,
  toKeepTime,
} from "../../core/agents/retention-policy.ts";
import { withFolder } from "../../core/audit/audit-folder.ts";
import { option } from "../../core/base/option.ts";
import { countDue, type DueCount } from "../../core/retention/due-jobs.ts";
import { eraseDeleted } from "../../core/retention/erase-deleted.ts";
import { sweep } from "../../core/retention/sweep.ts";
import { defineCommand } from "../command.ts";
import type { CliContext } from "../context.ts";
import { UsageError } from "../errors.ts";
import { CONNECTION_FLAGS, connectToAdmin } from "../events/connection.ts";
import { renderTable } from "../table.ts";
import { FOLDER_FLAGS, readDataFolder } from "./data-folder.ts";
import { encryptionKeysOf } from "./encryption-keys.ts";

const time = (status: string) =>
  option.ruled(
    v.check((value: string) => isKeepTime(value), RETENTION_RULE),
    `how long to keep ${status} jobs after they end (default: SERVICE_RETENTION_…)`,
    "time",
  );

const flags = v.object({
  dryRun: option.flag("only show what would be removed"),
  completed: time("completed"),
  failed: time("failed"),
  cancelled: time("cancelled"),
  agent: option.text("only this agent's jobs", "slug"),
  ...FOLDER_FLAGS,
  ...CONNECTION_FLAGS,
});
type PruneFlags = v.InferOutput<typeof flags>;

const KEEP_ALL: RetentionPolicy = { completed: null, failed: null, cancelled: null };

/** `svc store prune`: removes expired jobs, or lists them. */
export const prune = defineCommand({
  usage: "prune",
  summary: "Remove expired jobs from the data folder of a stopped service, or show what would be removed",
  flags,
  examples: [
    "svc store prune --dry-run --completed 30d --failed 90d",
    "svc store prune --completed 30d --agent invoice-audit",
    "svc store prune --dry-run --url https://agents.example.com",
  ],
  async run({ flags, context }) {
    if (flags.url !== undefined) {
      if (!flags.dryRun) {
        throw new UsageError(
          "A running service removes expired jobs by itself, according to its options",
          "Use --dry-run to see what is due, and set retention in createServer.",
        );
      }
      const client = await connectToAdmin(flags, context);
      const { due } = await client.get<{ due: DueCount[] }>("/admin/api/retention");
      return tell(due, flags, context);
    }
    const policy = readPolicy(flags, context);
    const policyOf = (agent: string) =>
      flags.agent === undefined || flags.agent === agent ? policy : KEEP_ALL;
    const [folder, keys] = [readDataFolder(flags, context), encryptionKeysOf(context)];
    return withFolder(folder, keys, async ({ store, ledger, audit }) => {
      const now = new Date();
      const due = [
        ...(await countDue(store, policyOf, now)),
        ...(await countDue(store, policyOf, now, "DeletedJob")),
      ];
      if (!flags.dryRun) {
        const by = { kind: "system", says: "svc store prune" } as const;
        await sweep(
          {
            ...{ store, ledger, policyOf, isOver: () => false },
            note: (unit, { agent, ...after }) =>
              audit.write(unit, {
                by,
                action: "retention.remove",
                target: { kind: "agent", id: agent },
                after,
              }),
          },
          now,
        );
        const parts = { store, ledger, policyOf, deletedKeep: null, isOver: () => false };
        await eraseDeleted(parts, now);
      }
      return tell(due, flags, context);
    });
  },
});

function readPolicy(given: PruneFlags, { env }: CliContext): RetentionPolicy {
  const policy: Record<string, number | null> = {};
  for (const status of KEPT_STATUSES) {
    const variable = `SERVICE_RETENTION_${status.toUpperCase()}`;
    const value = given[status] ?? (env[variable]?.trim() || "keep");
    if (!isKeepTime(value)) throw new UsageError(`${variable} ${RETENTION_RULE}`);
    policy[status] = toKeepTime(value);
  }
  if (Object.values(policy).every((one) => one === null)) {
    throw new UsageError(
      "No retention time is set",
      "For example, use svc store prune --dry-run --completed 30d. To use the times of a running service: svc store prune --dry-run --url http://127.0.0.1:8000.",
    );
  }
  return policy as RetentionPolicy;
}

function tell(due: readonly DueCount[], { json, dryRun }: PruneFlags, context: CliContext): number {
  const jobs = due.reduce((sum, one) => sum + one.jobs, 0);
  if (json) {
    context.print(JSON.stringify({ jobs, due, removed: !dryRun }, null, 2));
    return 0;
  }
  if (due.length > 0) {
    const rows = due.map(({ agent, status, jobs, oldest, before }) => [
      agent,
      status,
      String(jobs),
      oldest.slice(0, 19).replace("T", " "),
      before.slice(0, 19).replace("T", " "),
    ]);
    context.print(
      renderTable(["agent", "status", "jobs", "oldest ended", "ended before"], rows, context.paint?.print),
    );
  }
  context.print(`${jobs} ${jobs === 1 ? "job" : "jobs"} ${dryRun ? "would be removed" : "removed"}`);
  return 0;
}
