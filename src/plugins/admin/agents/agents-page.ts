import * as v from "valibot";
import { readAgentHealth } from "../../../core/agents/agent-health.ts";
import { toAgentResponse } from "../../../core/agents/agent-response.ts";
import type { AgentInstructions } from "../../../core/agents/instructions.ts";
import type { HostedAgent } from "../../../core/agents/registry.ts";
import { countOf } from "../../../core/base/count-of.ts";
import { seesAgent } from "../../../core/entities/in-sight.ts";
import type { RouteDefinition } from "../../../core/http/route.ts";
import type { AgentMethod } from "../../../core/models/agent-method.ts";
import type { FieldType } from "../../../core/models/agent-method-field.ts";
import type { AgentResponse } from "../../../core/models/agent-response.ts";
import { AgentSchema } from "../answers/service.ts";
import { newChatPath } from "../chat/page.ts";
import { toJobLine } from "../lists/rows.ts";
import type { AdminParts, SeenParts } from "../parts.ts";
import { withQuery } from "../query.ts";
import { resourceRoutes } from "../resource-routes.ts";
import type { Resource } from "../respond.ts";
import { offeredTo } from "../viewer.ts";
import { formatCount, formatDuration } from "../views/format.ts";
import { html } from "../views/html.ts";
import { pathTo, statusPiece, timePiece } from "../views/pieces.ts";
import { readForecast } from "./forecast.ts";
import { readParameters } from "./parameters.ts";

/** Failed jobs that an agent's page names, the newest first. */
const SHOWN_FAILURES = 5;

const PathSchema = v.object({ slug: v.pipe(v.string(), v.maxLength(500)) });

/** The agents: all of them, and each with its methods, parameters and statistics. */
export function agentRoutes(parts: AdminParts): RouteDefinition[] {
  return [
    ...resourceRoutes(parts, {
      needs: "view",
      page: ["/admin/agents", "Agents page"],
      api: [
        "/admin/api/agents",
        "List agents with their statistics",
        "For each agent the numbers of its jobs by status, their cost, and whether it is paused.",
      ],
      answer: "The agents",
      schema: v.object({ items: v.array(AgentSchema) }),
      seen: (_input, seen) => agentsResource(seen),
    }),
    ...resourceRoutes(parts, {
      needs: "view",
      page: ["/admin/agents/{slug}", "Agent page"],
      api: [
        "/admin/api/agents/{slug}",
        "Show an agent with its statistics",
        "The numbers of its jobs by status, their cost, and whether it is paused.",
      ],
      params: PathSchema,
      answer: "The agent",
      schema: AgentSchema,
      seen: ({ params }, seen) => agentResource(seen, seen.agents.get(params.slug), parts),
    }),
  ];
}

async function readAgent(parts: SeenParts, agent: HostedAgent) {
  const paused = (await parts.settings.find(agent.slug))?.paused ?? null;
  const [{ server_encrypted_parameters: _parameters, ...response }, health] = await Promise.all([
    toAgentResponse(agent, { prefix: parts.service.apiPrefix, settings: parts.settings }),
    readAgentHealth(agent, { jobs: parts.jobs, pausedAgents: paused ? [agent.slug] : [] }),
  ]);
  return { ...response, status: health.status, statistics: health.statistics, paused };
}

type AgentData = Awaited<ReturnType<typeof readAgent>>;

function agentsResource(parts: SeenParts): Resource {
  const read = () => Promise.all(parts.agents.list().map((agent) => readAgent(parts, agent)));
  return {
    page: "agents",
    fragment: "agents",
    json: async () => ({ items: await read() }),
    state: async () => ({
      agents: (await read()).map((agent) => ({
        ...toHead(agent, parts.clock()),
        facts: toStatistics(agent).map(({ label, value }) => ({ name: label, value })),
      })),
    }),
  };
}

function agentResource(
  parts: SeenParts,
  hosted: HostedAgent,
  whole: Pick<AdminParts, "parameters">,
): Resource {
  const may = offeredTo(parts.caller);
  const { sight } = parts.caller;
  return {
    page: "agent",
    fragment: "agent",
    json: () => readAgent(parts, hosted),
    state: async () => {
      const now = parts.clock();
      const where = { agent_name: hosted.slug, status: "failed" };
      const [agent, forecast, parameters, failed, schedules] = await Promise.all([
        readAgent(parts, hosted),
        readForecast(parts, hosted.slug),
        may.manageAll ? readParameters({ ...parts, parameters: whole.parameters }, hosted) : undefined,
        parts.jobs.list({ where, limit: SHOWN_FAILURES, sort: "-updated_at" }),
        parts.runner().schedules.list(),
      ]);
      const usual = forecast ? formatDuration(forecast.medianDuration) : "–";
      return {
        agent: {
          ...toHead(agent, now),
          mayPause: may.operate && (sight === undefined || seesAgent(sight, agent.slug)),
          api: `/admin/api/agents/${encodeURIComponent(agent.slug)}`,
          chatHref: may.start && hosted.definition.chats ? newChatPath(agent.slug) : "",
          figures: [
            ...toStatistics(agent),
            {
              label: "Median duration",
              value: usual,
              note: forecast ? "of the last jobs" : "no finished jobs",
              tone: "",
            },
          ],
          facts: toAbout(agent, hosted, parts.agents.versions(hosted.slug)),
          failed: failed.items.map((job) =>
            toJobLine(job, { now, currency: parts.options.currency, failed: {}, stuck: new Set() }),
          ),
          failedHref: withQuery("/admin/jobs", where),
          schedules: schedules
            .filter((one) => one.agent === hosted.slug)
            .map(({ id, cron, paused, next }) => ({
              ...{ id, cron },
              next: paused ? "paused" : timePiece(next, now).toString(),
            })),
          methods: toMethods(agent),
          hasParameters: parameters !== undefined,
          parameters: (parameters?.items ?? []).map((one) => ({
            ...one,
            state: one.source ? SOURCES[one.source] : one.isRequired ? "missing" : "not set",
            isMissing: one.source === null && one.isRequired,
            isStored: one.source === "stored",
            tags: [one.isRequired ? "required" : "", one.isSecret ? "secret" : ""].filter(
              (tag) => tag !== "",
            ),
          })),
          areUnreadable: parameters?.isUnreadable ?? false,
          parametersHref: pathTo("agents", agent.slug, "parameters"),
        },
      };
    },
  };
}

function toHead(agent: AgentData, now: Date) {
  return {
    name: agent.name,
    slug: agent.slug,
    version: agent.version,
    description: agent.description,
    status: (agent.paused ? statusPiece("awaiting", "Paused") : statusPiece(agent.status)).toString(),
    pausedNote: agent.paused
      ? html`Paused by <bdi>${agent.paused.by}</bdi> ${timePiece(agent.paused.at, now)}: new jobs wait in line, those that have started continue.`.toString()
      : "",
    pauseLabel: agent.paused ? "Resume" : "Pause",
    pauseHref: pathTo("agents", agent.slug, agent.paused ? "resume" : "pause"),
    href: pathTo("agents", agent.slug),
    startHref: pathTo("agents", agent.slug, "start"),
    jobsHref: withQuery("/admin/jobs", { agent_name: agent.slug }),
  };
}

function toStatistics({ statistics }: AgentData) {
  const { total_jobs, completed_jobs, failed_jobs } = statistics;
  const ended = completed_jobs + failed_jobs;
  return [
    { label: "Jobs", value: formatCount(total_jobs), note: "in total", tone: "" },
    { label: "Open", value: formatCount(total_jobs - ended), note: "not ended", tone: "" },
    { label: "Completed", value: formatCount(completed_jobs), note: "", tone: "" },
    {
      label: "Failed or cancelled",
      value: formatCount(failed_jobs),
      note: "",
      tone: failed_jobs > 0 ? "bad" : "",
    },
    {
      label: "Success rate",
      // Jobs that run or wait are no failures, while the rate in the API is of all jobs.
      value: ended === 0 ? "–" : `${Math.floor((1000 * completed_jobs) / ended) / 10}%`,
      note: "of ended jobs",
      tone: "",
    },
  ];
}

function toAbout(agent: AgentData, { definition, id, code }: HostedAgent, versions: readonly HostedAgent[]) {
  const older = versions.slice(1).map((one) => `${one.definition.version} (code ${one.code})`);
  const facts: [string, string | null | undefined][] = [
    ["Version that runs", `${definition.version} (code ${code})`],
    ["For older jobs", older.join(", ")],
    ["Id", id],
    ["Path", agent.api_path],
    ["Author", agent.author],
    ["Developer", agent.developer],
    ["Maintainer", agent.maintainer],
    ["Editor", agent.editor],
    ["Tags", agent.tags?.join(", ")],
    ["After a restart", INTERRUPTIONS[definition.onInterruption ?? "resume"]],
    [
      "Concurrent jobs",
      definition.maxConcurrentJobs ? countOf(definition.maxConcurrentJobs, "job") : undefined,
    ],
    ["Limits of a job", limitsText(definition.instructions)],
    ["Onboarding", agent.server_agent_onboarding_status],
  ];
  return facts.flatMap(([name, value]) => (value ? [{ name, value }] : []));
}

/** The agent's own limits; a start request may have lower ones. */
function limitsText(own: AgentInstructions | undefined): string | undefined {
  if (!own) return undefined;
  const { max_cost, max_duration, max_cases, stop_on_error, stop_on_warning } = own;
  return [
    ...(max_cost === undefined ? [] : [`cost ${max_cost}`]),
    ...(max_duration === undefined ? [] : [`duration ${formatDuration(max_duration * 1000)}`]),
    ...(max_cases === undefined ? [] : [countOf(max_cases, "case")]),
    ...(stop_on_error === undefined
      ? []
      : [stop_on_error ? "ends when a case fails" : "continues when a case fails"]),
    ...(stop_on_warning ? ["ends at the first warning"] : []),
  ].join(", ");
}

const SOURCES = { stored: "stored", environment: "from the environment", declared: "default" } as const;

const INTERRUPTIONS = { resume: "resumes", restart: "starts over", fail: "fails" } as const;

/** Kinds of fields, in the words of the person who fills them in. */
const FIELD_TYPES: Readonly<Record<FieldType, string>> = {
  CharField: "text",
  IntegerField: "whole number",
  FloatField: "number",
  BooleanField: "yes or no",
  ChoiceField: "one choice",
  MultipleChoiceField: "choices",
  DateField: "date",
  DateTimeField: "date and time",
  EmailField: "email address",
  JSONField: "JSON",
  FileField: "file",
};

function toMethods(agent: AgentData) {
  const { custom, ...rest } = agent.methods as NonNullable<AgentResponse["methods"]>;
  const all = [...Object.entries(rest), ...Object.entries(custom ?? {})] as [string, AgentMethod | null][];
  return all.flatMap(([name, method]) => (method === null ? [] : [toMethod(name, method)]));
}

function toMethod(name: string, method: AgentMethod) {
  return {
    name,
    description: method.description ?? "",
    timeout: method.timeout === null ? "" : `at most ${formatDuration(method.timeout * 1000)}`,
    fields: (method.fields ?? []).map((field) => ({
      name: field.name,
      required: field.required ? " *" : "",
      type: FIELD_TYPES[field.field_type],
      description: field.description ?? "",
      default: field.default === null ? "" : JSON.stringify(field.default),
    })),
    nodes: (method.nodes?.nodes ?? []).map((node) => node.name),
  };
}
