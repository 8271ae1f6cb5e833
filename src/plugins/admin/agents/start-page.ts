import { randomUUID } from "node:crypto";
import * as v from "valibot";
import { describeProblems, fieldsOf as readAgentFields } from "../../../core/agents/fields.ts";
import type { HostedAgent } from "../../../core/agents/registry.ts";
import type { Caller } from "../../../core/audit/caller.ts";
import { isServiceError, type ServiceError } from "../../../core/base/errors.ts";
import type { HttpEvent, RouteDefinition } from "../../../core/http/route.ts";
import { uploaderOf } from "../../../core/http/uploads.ts";
import type { AgentMethodField } from "../../../core/models/agent-method-field.ts";
import type { StoredJob } from "../../../core/models/job.ts";
import { EntityIdSchema } from "../../../core/models/scalars.ts";
import { invalidFields } from "../../../core/runs/queue/start-request.ts";
import { seenRoute } from "../admin-route.ts";
import { redirect } from "../answer.ts";
import { flashCookie } from "../flash.ts";
import { encodingOf, readFields, renderFields, toTyped } from "../forms/fields.ts";
import { readFormWithFiles } from "../forms/read-form.ts";
import { negotiate, wantsJson } from "../negotiate.ts";
import type { AdminParts, SeenParts } from "../parts.ts";
import { filterQuery, optionalText, withoutEmpty } from "../query.ts";
import { renderFragment, renderPage } from "../respond.ts";
import { formatCost, formatDuration } from "../views/format.ts";
import { pathTo } from "../views/pieces.ts";
import { type Forecast, readForecast } from "./forecast.ts";
import {
  INSTRUCTION_FIELDS,
  instructionFieldsOf,
  MISSION_FIELD,
  readInstructions,
} from "./instruction-fields.ts";

const PathSchema = v.object({ slug: v.pipe(v.string(), v.maxLength(500)) });
/** `from` is a job whose input the form begins with. */
const QuerySchema = filterQuery({ from: optionalText(EntityIdSchema) });

/** Starting a job from a form with the agent's fields. */
export function startRoutes(parts: AdminParts): RouteDefinition[] {
  const path = "/admin/agents/{slug}/start";
  return [
    seenRoute(parts, {
      method: "GET",
      path,
      needs: "start",
      summary: "Form that starts a job",
      hidden: true,
      params: PathSchema,
      responses: { 200: { description: "The page", contentType: "text/html" } },
      query: QuerySchema,
      handler: async ({ params, query, event }, seen) => {
        const agent = seen.agents.get(params.slug);
        if (negotiate(event, "page") === "json") return { agent: agent.slug, fields: fieldsOf(agent) };
        const { from } = withoutEmpty(query);
        if (from === undefined) return showForm(seen, event, { agent });
        const job = await seen.jobs.get(from, agent.slug);
        return showForm(seen, event, { agent, typed: asTyped(agent, job), from: job });
      },
    }),
    seenRoute(parts, {
      method: "POST",
      path,
      needs: "start",
      summary: "Start a job from its form",
      hidden: true,
      params: PathSchema,
      streamsBody: "multipart",
      responses: { 303: { description: "Redirect to the job's page" } },
      handler: ({ params, event, caller, actor }, seen) =>
        start(seen, event, { agent: seen.agents.get(params.slug), caller, actor }),
    }),
  ];
}

async function start(
  parts: SeenParts,
  event: HttpEvent,
  { agent, caller, actor }: { agent: HostedAgent; caller: Caller; actor: string },
): Promise<Response> {
  const typed = await readFormWithFiles(event, { files: parts.files, owner: () => uploaderOf(caller) });
  const values = readFields(typed, fieldsOf(agent));
  const instructions = readInstructions(typed);
  const problems = {
    ...(await parts.runner().checkFields(agent.slug, "job_start", values)),
    ...instructions.problems,
  };
  if (Object.keys(problems).length > 0 && wantsJson(event)) throw invalidFields(agent.slug, problems);
  if (Object.keys(problems).length > 0)
    return showForm(parts, event, { agent, typed, problems, status: 422 });
  const jobId = readJobId(typed);
  try {
    await parts.runner().start(agent.slug, {
      job_context: {
        job_id: jobId,
        started_by: actor,
        mission_name: instructions.mission || undefined,
        job_instructions: instructions.limits,
      },
      job_fields: values,
    });
  } catch (error) {
    if (!isServiceError(error) || error.status >= 500 || wantsJson(event)) throw error;
    return showForm(parts, event, { agent, typed, error, status: error.status });
  }
  const to = pathTo("jobs", jobId);
  if (negotiate(event, "page") === "fragment") {
    return new Response(null, { status: 204, headers: { "hx-redirect": to } });
  }
  return redirect(to, [flashCookie(parts, event, "good", "The job was started.")]);
}

interface FormView {
  readonly agent: HostedAgent;
  readonly typed?: URLSearchParams;
  readonly problems?: Readonly<Record<string, string>>;
  readonly error?: ServiceError;
  readonly status?: number;
  /** The job that is run again with other inputs. */
  readonly from?: StoredJob;
}

async function showForm(parts: SeenParts, event: HttpEvent, view: FormView): Promise<Response> {
  const { agent, typed, problems, error, status, from } = view;
  const forecast = await readForecast(parts, agent.slug);
  const { currency } = parts.options;
  const fields = fieldsOf(agent);
  const known = new Set([...fields, MISSION_FIELD, ...INSTRUCTION_FIELDS].map((field) => field.name));
  const others = Object.entries(problems ?? {}).filter(([name]) => !known.has(name));
  const problem = [error?.message, error?.detail, describeProblems(Object.fromEntries(others))];
  const state = {
    form: {
      action: pathTo("agents", agent.slug, "start"),
      agent: agent.definition.name,
      encoding: encodingOf(fields),
      title: from ? "Run again" : "Start a job",
      from: from?.name ?? "",
      fromHref: from ? pathTo("jobs", from.id) : "",
      agentHref: pathTo("agents", agent.slug),
      description: agent.definition.methods.job_start.description ?? agent.definition.description ?? "",
      // The id is created with the form: sending the form twice starts only one job.
      jobId: typed ? readJobId(typed) : randomUUID(),
      problem: problem.filter(Boolean).join(". "),
      fields: renderFields(fields, { id: "field", typed, problems }).toString(),
      context: renderFields([MISSION_FIELD, ...instructionFieldsOf(agent.definition)], {
        id: "limit",
        typed,
        problems,
      }).toString(),
      forecast: forecast ? toForecastText(forecast, currency) : "",
    },
  };
  if (negotiate(event, "page") === "fragment") {
    // The form shows its problems; a failed request would be noise in the browser's console.
    return renderFragment(parts, event, { template: "start", state });
  }
  return renderPage(parts, event, { template: "start", state }, { status });
}

/** The input, mission and limits of a job, as if a person had typed them. */
function asTyped(agent: HostedAgent, { job_fields, job_context }: StoredJob): URLSearchParams {
  const { job_instructions, mission_name } = job_context;
  const limits = { stop_on_error: true, ...job_instructions, mission: mission_name };
  const typed = toTyped(fieldsOf(agent), job_fields);
  for (const [name, text] of toTyped([MISSION_FIELD, ...INSTRUCTION_FIELDS], limits))
    typed.append(name, text);
  return typed;
}

function fieldsOf(agent: HostedAgent): readonly AgentMethodField[] {
  return readAgentFields(agent.definition.methods.job_start).list;
}

function readJobId(typed: URLSearchParams): string {
  const id = typed.get("job_id");
  return v.is(EntityIdSchema, id) ? id : randomUUID();
}

/** What the last jobs were like; of a single one there is no distribution, and of a few no twentieth. */
function toForecastText(forecast: Forecast, currency: string): string {
  const { jobs, medianDuration, longDuration, medianCost, highCost } = forecast;
  const took = `took ${formatDuration(medianDuration)} and cost ${formatCost(medianCost, currency)}`;
  if (jobs === 1) return `The last job ${took}.`;
  const [long, dear] = [formatDuration(longDuration), formatCost(highCost, currency)];
  const most =
    jobs < 20
      ? `, and at most ${long} and ${dear}`
      : `; one in twenty took longer than ${long} or cost more than ${dear}`;
  return `The last ${jobs} jobs ${took} in the median${most}.`;
}
