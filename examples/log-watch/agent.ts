import { mkdir, writeFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { type CaseHandle, defineAgent, isDuration, type JobHandle } from "agent-control-service";
import * as v from "valibot";
import { assess, groupIncidents, type Incident } from "./incidents.ts";
import type { LogEntry } from "./log-entry.ts";
import { type Offsets, readNewLines } from "./read-new-lines.ts";
import { renderReport } from "./report.ts";

const LOGS = fileURLToPath(new URL("./logs", import.meta.url));

/** Watches a folder of log files: one case per incident, a report at the end. */
export const logWatch = defineAgent({
  name: "Log Watch",
  version: "1.0.0",
  description: "Reads log files, groups what went wrong into incidents and reports them",
  tags: ["example", "operations"],
  methods: {
    job_start: {
      description: "Check a folder of logs once, or repeatedly",
      fields: v.object({
        folder: v.pipe(v.optional(v.string(), LOGS), v.description("Folder with .log files")),
        rounds: v.pipe(
          v.optional(v.pipe(v.number(), v.integer(), v.minValue(1)), 1),
          v.description("How often"),
        ),
        interval: v.pipe(
          v.optional(v.string(), "5m"),
          v.guard(isDuration, "must be a duration such as 5m"),
          v.description("Time between two rounds"),
        ),
        report: v.pipe(v.optional(v.string(), "reports"), v.description("Folder for the report")),
      }),
      nodes: [
        { name: "collect", type: "intermediary_delivery", description: "What was seen, where and when" },
        { name: "assess", type: "validation", description: "How bad it is" },
        { name: "close", type: "delivery", description: "The incident as reported" },
      ],
      async run({ job, fields, log }) {
        const folder = resolve(fields.folder);
        const entries: LogEntry[] = [];
        const tracked = new Map<string, Tracked>();
        let offsets: Offsets = {};
        let unknown: string[] = [];
        for (let round = 1; round <= fields.rounds; round++) {
          if (round > 1) await job.sleep(fields.interval);
          const fresh = await job.step(`read, round ${round}`, () => readNewLines(folder, offsets));
          offsets = fresh.offsets;
          unknown = [...unknown, ...fresh.unknown];
          entries.push(...fresh.entries);
          log.info("logs read", { round, entries: fresh.entries.length });
          for (const incident of groupIncidents(entries)) await track(job, tracked, incident);
        }

        for (const { item, incident } of tracked.values()) await close(item, incident);
        const incidents = groupIncidents(entries);
        const file = resolve(fields.report, `log-watch-${job.id}.md`);
        await job.step("write the report", async () => {
          await mkdir(dirname(file), { recursive: true });
          await writeFile(file, renderReport(incidents, entries.length, unknown));
        });
        const count = (severity: string) => incidents.filter((one) => assess(one) === severity).length;
        return {
          message: `Entries: ${entries.length}; incidents: ${incidents.length}, critical: ${count("critical")}`,
          report: file,
          critical: count("critical"),
          major: count("major"),
          minor: count("minor"),
          unknown,
        };
      },
    },
  },
});

interface Tracked {
  readonly item: CaseHandle;
  /** Its last known state. */
  readonly incident: Incident;
}

/** One case per incident; each round adds what is new to it. */
async function track(job: JobHandle, tracked: Map<string, Tracked>, incident: Incident): Promise<void> {
  const known = tracked.get(incident.id);
  if (known?.incident.count === incident.count) return;
  const item =
    known?.item ??
    (await job.openCase({
      id: incident.id,
      name: incident.title.slice(0, 120),
      description: `First seen ${incident.first} in ${incident.files.join(", ")}`,
    }));
  tracked.set(incident.id, { item, incident });
  const { samples, count, first, last, peak } = incident;
  await item.update({ name: "collect", payload: { count, first, last, peak, samples } });
  await item.update({ name: "assess", payload: { severity: assess(incident) } });
}

async function close(item: CaseHandle, incident: Incident): Promise<void> {
  const { title, count, first, last, files } = incident;
  await item.close({ severity: assess(incident), title, count, first, last, files });
}
