import { AsyncLocalStorage } from "node:async_hooks";
import { isTerminal } from "../../core/models/entity-status.ts";
import { H3_APP } from "../../core/service/app.ts";
import type { PluginContext } from "../../core/service/plugin.ts";
import { AGENTS, EVENTS, STORE, TRACES } from "../../core/service/tokens.ts";
import { genAiSpan } from "./gen-ai.ts";
import { type JobPlace, JobTraces } from "./job-traces.ts";
import type { FinishedSpan } from "./otel-exporter.ts";
import {
  newSpanId,
  newTraceId,
  readTraceContext,
  type SpanPlace,
  spanIdOf,
  toTraceHeaders,
} from "./trace-context.ts";
import type { TraceSampler } from "./trace-sampler.ts";

/**
 * Spans of requests, jobs, cases and steps. Those of jobs are built from stored data, with ids derived from
 * the ids of job, case and call: a run that continues in another process continues its trace.
 */
export function traceEverything(
  context: PluginContext,
  sampler: TraceSampler,
  send: (span: FinishedSpan) => void,
): void {
  const { get, hooks, log, onClose } = context;
  const traces = new JobTraces(get(STORE), sampler);
  const current = new AsyncLocalStorage<SpanPlace>();
  const later = (work: Promise<void>): void => {
    work.catch((error: unknown) => log.warn("a span was lost", { error }));
  };

  traceRequests(context, { current, sampler, send });
  context.participate((change, tx) => {
    if (change.kind === "job:erased") return traces.forget(tx, change.job.id);
    if (change.kind !== "job:created") return undefined;
    const parent = current.getStore();
    return parent && traces.keep(tx, change.job.id, parent);
  });
  get(EVENTS).addHeaders(async (stream) => {
    // A message is sent without its trace context rather than delayed.
    const place = await traces.ofStream(stream).catch(() => undefined);
    return place && toTraceHeaders(place);
  });

  context.provide(TRACES, () => async ({ jobId, caseId, position }) => {
    const place = await traces.find(jobId);
    return toTraceHeaders({ ...place, spanId: spanIdOfCall(jobId, caseId, position) });
  });

  const nameOf = (slug: string): string => get(AGENTS).find(slug)?.definition.name ?? slug;
  const jobSpan = async (job: Parameters<typeof traces.find>[0], make: (place: JobPlace) => FinishedSpan) => {
    const place = await traces.find(job);
    if (place.sampled) send(make(place));
  };
  onClose(
    hooks.on("job:finished", ({ job }) =>
      later(
        jobSpan(job.id, ({ traceId, spanId, parentId }) => ({
          name: `invoke_agent ${nameOf(job.agent_name)}`,
          kind: "internal",
          traceId,
          spanId,
          parentId,
          start: Date.parse(job.created_at),
          end: Date.parse(job.finished_at ?? job.updated_at),
          attributes: {
            "svc.job.id": job.id,
            "svc.job.status": job.status,
            "svc.agent.slug": job.agent_name,
            "svc.agent.id": get(AGENTS).find(job.agent_name)?.id,
            "svc.workspace.id": job.job_context.workspace_id,
            "svc.mission.id": job.job_context.mission_id,
            "svc.job.cost": job.total_cost,
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": nameOf(job.agent_name),
            "gen_ai.agent.id": job.agent_name,
            ...(job.agent_version && { "gen_ai.agent.version": job.agent_version }),
            "gen_ai.conversation.id": job.id,
            "error.type": job.status === "failed" ? (job.stop_reason ?? "failed") : undefined,
          },
          error: job.status === "failed" ? (job.error ?? "failed") : undefined,
        })),
      ),
    ),
  );
  onClose(
    hooks.on("case:changed", ({ case: item, previous }) => {
      if (!isTerminal(item.status) || isTerminal(previous.status)) return;
      later(
        jobSpan(item.job_id, ({ traceId, spanId }) => ({
          name: `case ${item.name}`,
          kind: "internal",
          traceId,
          spanId: spanIdOf("case", item.job_id, item.id),
          parentId: spanId,
          start: Date.parse(item.created_at),
          end: Date.parse(item.finished_at ?? item.updated_at),
          attributes: {
            "svc.job.id": item.job_id,
            "svc.case.id": item.id,
            "svc.case.status": item.status,
            "svc.case.cost": item.total_cost,
            "error.type": item.status === "failed" ? "failed" : undefined,
          },
          error: item.status === "failed" ? (item.last_error ?? "failed") : undefined,
        })),
      );
    }),
  );
  onClose(
    hooks.on("run:entry", ({ job_id, entry }) => {
      if (entry.type !== "call" || !["step", "ask", "sleep", "child", "event"].includes(entry.call)) return;
      const own = genAiSpan(entry);
      later(
        jobSpan(job_id, ({ traceId, spanId }) => ({
          name: own?.name ?? `${entry.call} ${entry.name}`,
          kind: own?.kind ?? "internal",
          traceId,
          spanId: spanIdOfCall(job_id, entry.case_id, entry.position),
          parentId: entry.case_id === undefined ? spanId : spanIdOf("case", job_id, entry.case_id),
          start: Date.parse(entry.started_at ?? entry.at),
          end: Date.parse(entry.at),
          attributes: {
            "svc.job.id": job_id,
            "svc.case.id": entry.case_id,
            "svc.call.position": entry.position,
            "svc.call.attempts": entry.attempts,
            "svc.call.cost": entry.cost,
            "error.type": entry.error?.name,
            ...(own && { "svc.call.name": entry.name, ...own.attributes }),
            // What dashboards group the calls of a conversation by.
            ...(own && { "gen_ai.conversation.id": job_id }),
          },
          error: entry.error?.message,
        })),
      );
    }),
  );
}

function spanIdOfCall(jobId: string, caseId: string | undefined, position: number): string {
  return spanIdOf("call", jobId, caseId ?? "", position);
}

interface RequestTracing {
  readonly current: AsyncLocalStorage<SpanPlace>;
  readonly sampler: TraceSampler;
  readonly send: (span: FinishedSpan) => void;
}

/**
 * One span per request, below the caller's span if there is one; it is the parent of a job that the request
 * starts.
 */
function traceRequests(context: PluginContext, { current, sampler, send }: RequestTracing): void {
  context.get(H3_APP).use(async (event, next) => {
    const caller = readTraceContext(event.req.headers);
    const traceId = caller?.traceId ?? newTraceId();
    const spanId = newSpanId();
    const place = { traceId, spanId, sampled: sampler(traceId, caller?.sampled), state: caller?.state };
    if (!place.sampled) return current.run(place, next);
    const start = Date.now();
    let status = 500;
    try {
      const answer = await current.run(place, next);
      status = answer instanceof Response ? answer.status : (event.res.status ?? 200);
      return answer;
    } catch (error) {
      status = (error as { status?: number }).status ?? 500;
      throw error;
    } finally {
      const { method } = event.req;
      const route = event.context.matchedRoute?.route;
      send({
        name: route === undefined ? method : `${method} ${route}`,
        kind: "server",
        traceId,
        spanId,
        parentId: caller?.spanId,
        start,
        end: Date.now(),
        attributes: {
          "http.request.method": method,
          "http.route": route,
          "url.path": event.url.pathname,
          "http.response.status_code": status,
          "url.scheme": event.url.protocol.slice(0, -1),
          "server.address": event.url.hostname,
          "server.port": Number(event.url.port) || undefined,
          "error.type": status >= 500 ? String(status) : undefined,
        },
        error: status >= 500 ? `responded with ${status}` : undefined,
      });
    }
  });
}
