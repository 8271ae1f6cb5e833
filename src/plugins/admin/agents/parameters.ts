import * as v from "valibot";
import type { OpenParameters } from "../../../core/agents/parameters.ts";
import type { HostedAgent } from "../../../core/agents/registry.ts";
import type { Caller } from "../../../core/audit/caller.ts";
import { isServiceError, ServiceError, textOf } from "../../../core/base/errors.ts";
import type { RouteDefinition } from "../../../core/http/route.ts";
import { adminRoute } from "../admin-route.ts";
import { redirect } from "../answer.ts";
import { flashCookie } from "../flash.ts";
import { readForm } from "../forms/read-form.ts";
import type { AdminParts } from "../parts.ts";
import { pathTo } from "../views/pieces.ts";

const PREFIX = "p.";
const PathSchema = v.object({ slug: v.pipe(v.string(), v.maxLength(500)) });
/** New values by name; `null` removes the stored one. */
type Changes = Readonly<Record<string, string | null>>;

/** Where the value of a parameter comes from. */
const ParameterStateSchema = v.object({
  name: v.string(),
  source: v.nullable(v.picklist(["stored", "environment", "declared"])),
});

/** Sets stored parameters of an agent: by form and in the API. Values are written, never shown. */
export function parameterFormRoutes(parts: AdminParts): RouteDefinition[] {
  const about = { params: PathSchema } as const;
  return [
    adminRoute({
      ...about,
      method: "POST",
      path: "/admin/agents/{slug}/parameters",
      needs: "manage",
      summary: "Set parameters (form)",
      hidden: true,
      responses: { 303: { description: "Redirect to the agent's page" } },
      handler: async ({ params, event, caller }) => {
        const agent = parts.agents.get(params.slug);
        const form = await readForm(event);
        const to = pathTo("agents", agent.slug);
        try {
          const names = await setParameters(parts, agent, readChanges(agent, form), caller);
          const text = names.length === 0 ? "Nothing was changed." : `Changed: ${names.join(", ")}.`;
          return redirect(to, [flashCookie(parts, event, "good", text)]);
        } catch (error) {
          if (!isServiceError(error) || error.status >= 500) throw error;
          return redirect(to, [flashCookie(parts, event, "bad", textOf(error))]);
        }
      },
    }),
    adminRoute({
      ...about,
      method: "POST",
      path: "/admin/api/agents/{slug}/parameters",
      needs: "manage",
      summary: "Set stored parameters of an agent",
      description:
        "They are encrypted with the service's key for this agent only, and apply to runs that start from now on. `null` removes a stored value; names that are omitted stay unchanged.",
      body: v.object({
        parameters: v.record(v.string(), v.nullable(v.pipe(v.string(), v.maxLength(100_000)))),
      }),
      responses: {
        200: {
          description: "Where each value comes from now",
          schema: v.object({ parameters: v.array(ParameterStateSchema) }),
        },
      },
      handler: async ({ params, body, caller }) => {
        const agent = parts.agents.get(params.slug);
        await setParameters(parts, agent, body.parameters, caller);
        const { items } = await readParameters(parts, agent);
        return { parameters: items.map(({ name, source }) => ({ name, source })) };
      },
    }),
  ];
}

/** The parameters that an agent declares; values only of those that are not secret. */
export async function readParameters(parts: Pick<AdminParts, "settings" | "parameters">, agent: HostedAgent) {
  const kept = (await parts.settings.find(agent.slug))?.parameters_encrypted ?? null;
  const stored = openStored(parts, agent, kept);
  const declared = agent.definition.parameters ?? [];
  const resolved = parts.parameters.resolve(agent);
  return {
    /** Stored values that the service's key does not open. */
    isUnreadable: kept !== null && stored === undefined,
    items: declared.map((parameter) => {
      const { name } = parameter;
      const own = stored?.[name];
      return {
        name,
        description: parameter.description ?? "",
        isRequired: parameter.is_required === true,
        isSecret: parameter.is_secret !== false,
        isEnvironment: parameter.is_environment === true,
        source:
          own !== undefined
            ? ("stored" as const)
            : resolved[name] === undefined
              ? null
              : resolved[name] === parameter.value
                ? ("declared" as const)
                : ("environment" as const),
        value: parameter.is_secret === false ? (own ?? "") : "",
      };
    }),
  };
}

function openStored(
  { parameters }: Pick<AdminParts, "parameters">,
  agent: HostedAgent,
  kept: string | null,
): OpenParameters | undefined {
  if (kept === null) return {};
  try {
    return parameters.open(kept, agent);
  } catch (error) {
    if (isServiceError(error) && error.type === "invalid_parameters") return undefined;
    throw error;
  }
}

/** Stores changed values; resolves with the names of those that did change. */
async function setParameters(
  parts: AdminParts,
  agent: HostedAgent,
  changes: Changes,
  by: Caller,
): Promise<string[]> {
  const known = new Set((agent.definition.parameters ?? []).map(({ name }) => name));
  const unknown = Object.keys(changes).filter((name) => !known.has(name));
  if (unknown.length > 0)
    throw new ServiceError(
      "invalid_parameters",
      `Agent "${agent.slug}" does not declare ${unknown.join(", ")}`,
      {
        detail: `It declares ${known.size === 0 ? "none" : [...known].join(", ")}.`,
      },
    );
  let changed: string[] = [];
  await parts.settings.changeParameters(
    agent.slug,
    (kept) => {
      const before = openStored(parts, agent, kept) ?? {};
      const after = { ...before };
      for (const [name, value] of Object.entries(changes))
        if (value === null) delete after[name];
        else after[name] = value;
      changed = Object.keys(changes).filter((name) => before[name] !== after[name]);
      if (changed.length === 0) return kept;
      if (Object.keys(after).length === 0) return null;
      return parts.parameters.encrypt(JSON.stringify(after), { agent: agent.slug });
    },
    by,
  );
  return changed;
}

/** An empty field changes nothing: secrets are not shown, so theirs are empty. */
function readChanges({ definition }: HostedAgent, form: URLSearchParams): Changes {
  const changes: Record<string, string | null> = {};
  const removed = new Set(form.getAll("remove"));
  for (const { name } of definition.parameters ?? []) {
    const text = form.get(PREFIX + name);
    if (removed.has(name)) changes[name] = null;
    else if (text !== null && text !== "") changes[name] = text;
  }
  return changes;
}
