import * as v from "valibot";
import { readIdempotencyKey } from "../../../core/http/idempotency-key.ts";
import type { RouteDefinition } from "../../../core/http/route.ts";
import { JobSchema } from "../../../core/models/job.ts";
import { type Schedule, ScheduleSchema } from "../../../core/models/schedule.ts";
import { button, type Confirm } from "../actions/confirms.ts";
import { type Pair, seenPair } from "../actions/forms.ts";
import { seenRoute } from "../admin-route.ts";
import { SchedulesSchema } from "../answers/service.ts";
import type { AdminParts, SeenParts } from "../parts.ts";
import { resourceRoutes } from "../resource-routes.ts";
import type { Resource } from "../respond.ts";
import { formatCount, toLabel } from "../views/format.ts";
import { html } from "../views/html.ts";
import { linkPiece, pathTo, statusPiece, timePiece } from "../views/pieces.ts";

const PathSchema = v.object({ id: v.string() });

/** The schedules, and what a person can do with them. */
export function scheduleRoutes(parts: AdminParts): RouteDefinition[] {
  return [
    ...resourceRoutes(parts, {
      needs: "view",
      page: ["/admin/schedules", "Schedules page"],
      api: [
        "/admin/api/schedules",
        "List the schedules",
        "When each starts jobs, what came of it last, and whether it is paused: those whose jobs the caller sees all.",
      ],
      answer: "The schedules, in the order in which the service declares them",
      schema: SchedulesSchema,
      seen: (_input, seen) => schedulesResource(seen),
    }),
    ...Object.entries(ACTS).flatMap(([action, { act, confirm }]) =>
      seenPair(parts, "schedules", {
        action,
        needs: "operate",
        act,
        confirm: async ({ runner }, id) => confirm(await runner().schedules.show(id)),
      }),
    ),
    seenRoute(parts, {
      method: "POST",
      path: "/admin/api/schedules/{id}/run",
      needs: "operate",
      summary: "Start a job of a schedule now",
      description:
        "Its planned times are unchanged. With an `Idempotency-Key` header, repeating the request returns the same job and starts nothing.",
      params: PathSchema,
      status: 202,
      responses: { 202: { description: "The job, stored and queued", schema: JobSchema } },
      handler: async ({ params, caller, event }, { jobs, runner }) =>
        jobs.show(await runner().schedules.run(params.id, caller, readIdempotencyKey(event))),
    }),
    seenRoute(parts, {
      method: "POST",
      path: "/admin/api/schedules/{id}/pause",
      needs: "operate",
      summary: "Pause a schedule",
      description: "It starts no job until it is resumed.",
      params: PathSchema,
      responses: { 200: { description: "The schedule", schema: ScheduleSchema } },
      handler: ({ params, caller }, { runner }) => runner().schedules.pause(params.id, caller),
    }),
    seenRoute(parts, {
      method: "POST",
      path: "/admin/api/schedules/{id}/resume",
      needs: "operate",
      summary: "Resume a paused schedule",
      description: "From now on: times that were planned during the pause are not caught up.",
      params: PathSchema,
      responses: { 200: { description: "The schedule", schema: ScheduleSchema } },
      handler: ({ params, caller }, { runner }) => runner().schedules.resume(params.id, caller),
    }),
  ];
}

interface ScheduleAct {
  readonly act: Pair<SeenParts>["act"];
  readonly confirm: (schedule: Schedule) => Confirm;
}

const ACTS: Readonly<Record<string, ScheduleAct>> = {
  run: {
    act: async ({ runner }, id, { caller }) => {
      const job = await runner().schedules.run(id, caller);
      return { text: "The job was started.", path: pathTo("jobs", job.id) };
    },
    confirm: ({ id, agent }) =>
      toConfirm(id, "run", {
        title: "Start a job of this schedule now?",
        lines: [
          `A job of agent "${agent}" starts with the fields of schedule "${id}". The planned times are unchanged.`,
        ],
        label: "Start the job",
      }),
  },
  pause: {
    act: async ({ runner }, id, { caller }) => {
      await runner().schedules.pause(id, caller);
      return "The schedule is paused.";
    },
    confirm: ({ id }) =>
      toConfirm(id, "pause", {
        title: "Pause this schedule?",
        lines: [
          `"${id}" starts no jobs until it is resumed, also over restarts. Jobs that it has started continue.`,
          "Times that are planned during the pause are not caught up.",
        ],
        label: "Pause",
      }),
  },
  resume: {
    act: async ({ runner }, id, { caller }) => {
      await runner().schedules.resume(id, caller);
      return "The schedule was resumed.";
    },
    confirm: ({ id }) =>
      toConfirm(id, "resume", {
        title: "Resume this schedule?",
        lines: [
          `"${id}" starts jobs from now on. Times that were planned during the pause are not caught up.`,
        ],
        label: "Resume",
      }),
  },
};

function toConfirm(
  id: string,
  action: string,
  { title, lines, label }: { title: string; lines: readonly string[]; label: string },
): Confirm {
  return {
    ...{ title, subject: "", lines, fields: "", back: "/admin/schedules" },
    action: pathTo("schedules", id, action),
    buttons: [button(label, {})],
  };
}

function schedulesResource({ runner, clock }: SeenParts): Resource {
  const read = () => runner().schedules.list();
  return {
    page: "schedules",
    fragment: "schedules",
    json: async () => ({ items: await read() }),
    state: async () => {
      const schedules = await read();
      const now = clock();
      return {
        total: formatCount(schedules.length),
        rows: schedules.map((schedule) => toRow(schedule, now)),
      };
    },
  };
}

function toRow({ id, agent, cron, timezone, paused, next, last, last_job, problem }: Schedule, now: Date) {
  return {
    ...{ id, cron, timezone, paused, problem: problem ?? "" },
    agent: linkPiece(pathTo("agents", agent), agent).toString(),
    next: paused ? "" : timePiece(next, now).toString(),
    last: last
      ? timePiece(last.at, now).toString()
      : html`<span class="faint">${last_job ? "not by plan" : "never"}</span>`.toString(),
    outcome: last ? toLabel(last.outcome).toLowerCase() : "",
    job: last_job ? linkPiece(pathTo("jobs", last_job.id), "Show").toString() : "",
    status: last_job ? statusPiece(last_job.status).toString() : "",
    runHref: pathTo("schedules", id, "run"),
    steerHref: pathTo("schedules", id, paused ? "resume" : "pause"),
  };
}
