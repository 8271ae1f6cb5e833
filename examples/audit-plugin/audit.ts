import { randomUUID } from "node:crypto";
import {
  ADMIN,
  defineCommand,
  definePlugin,
  defineRoute,
  html,
  ROUTER,
  STORE,
} from "agent-control-service/plugin";
import type { TableSpec } from "agent-control-service/store";
import * as v from "valibot";

/** A change of a job that a person made. */
const JobChangeSchema = v.object({
  id: v.string(),
  at: v.string(),
  by: v.string(),
  what: v.string(),
  job: v.string(),
});
type JobChange = v.InferOutput<typeof JobChangeSchema>;

declare module "agent-control-service/store" {
  interface Tables {
    JobChange: JobChange;
  }
}
declare module "agent-control-service/plugin" {
  interface ServiceHooks {
    "audit:noted": { by: string; job: string };
  }
}

const CHANGES: TableSpec<JobChange> = {
  name: "JobChange",
  version: 1,
  entity: true,
  index: ({ at, by }) => ({ at: Date.parse(at), by }),
  facets: ["by"],
  sorted: ["at"],
};

/** Records who changed which job: a table, a page, a card, a route and a command. */
export const audit = definePlugin({
  name: "audit",
  engines: ">=0.1.0",
  dependsOn: ["admin"],
  options: v.strictObject({
    most: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1)), 100),
  }),
  tables: [CHANGES],
  hooks: ["audit:noted"],
  setup({ options, get, hooks, participate }) {
    // In the transaction of the change: one is never stored without the other.
    participate(async (change, tx) => {
      if (change.kind !== "job:changed" && change.kind !== "job:deleted") return;
      const { job, by } = change;
      if (by === undefined) return;
      const what = change.kind === "job:deleted" ? "deleted" : `${change.previous.status} → ${job.status}`;
      await tx.insert("JobChange", { id: randomUUID(), at: new Date().toISOString(), by, what, job: job.id });
    });
    // After it is stored.
    hooks.on("job:changed", ({ job, by }) => {
      if (by !== undefined) hooks.emit("audit:noted", { by, job: job.id });
    });

    const newest = async () => {
      const { items } = await get(STORE).table("JobChange").list({ sort: "-at", limit: options.most });
      return items;
    };
    const admin = get(ADMIN);
    admin.addPage({
      path: "audit",
      title: "Audit",
      json: async () => ({ items: await newest() }),
      render: async () => html`<div class="panel scroll"><table aria-label="Changes by people"><thead><tr>
        <th scope="col">When, UTC</th><th scope="col">Who</th><th scope="col">What</th><th scope="col">Job</th></tr></thead>
        <tbody>${(await newest()).map(
          ({ at, by, what, job }) =>
            html`<tr><td>${at.slice(0, 16).replace("T", " ")}</td><td>${by}</td><td>${what}</td><td><a href="/admin/jobs/${job}">${job}</a></td></tr>`,
        )}</tbody></table></div>`,
    });
    admin.addCard({
      title: "Audit",
      render: async () => {
        const counts = Object.values(await get(STORE).table("JobChange").countBy("by"));
        const changes = counts.reduce((sum, count) => sum + count, 0);
        return html`<p>Changes: ${changes}, by people: ${counts.length}. <a href="/admin/x/audit">Show them</a></p>`;
      },
    });
    get(ROUTER).add(
      defineRoute({
        method: "GET",
        path: "/changes",
        auth: "key",
        needs: "view",
        summary: "Changes that people made",
        tag: "Audit",
        responses: { 200: { description: "The newest first", schema: v.array(JobChangeSchema) } },
        handler: newest,
      }),
    );
  },
  commands: [
    defineCommand({
      usage: "changes",
      summary: "List the changes of jobs that people made",
      connects: true,
      flags: v.object({ json: v.optional(v.pipe(v.boolean(), v.description("print JSON")), false) }),
      async run({ connect, flags, print }) {
        const service = await connect();
        const changes = await service.get<JobChange[]>("/changes");
        if (flags.json) return print(JSON.stringify(changes, null, 2));
        for (const { at, by, what, job } of changes) print(`${at}  ${by}  ${what}  ${job}`);
      },
    }),
  ],
});
