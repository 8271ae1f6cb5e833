import type { AgentResponse } from "../../core/models/agent-response.ts";
import { UsageError } from "../errors.ts";
import { readFields } from "../job/read-fields.ts";
import type { ServiceClient } from "../job/service-client.ts";
import { finish, flatten, LAST_WAIT, readOutcome } from "./outcome.ts";
import type { Target } from "./target.ts";
import { type Findings, isExpired, type Outcome, type Scenario, TrialJob } from "./trial.ts";

export interface OwnAgentsOptions {
  /** The controller file. */
  readonly file: string;
  readonly cwd: string;
  /** Slugs of the agents to test. @default all that can be started without inputs */
  readonly agents: readonly string[];
  readonly fields: readonly string[];
  /** Jobs of each agent started per round. */
  readonly jobs: number;
}

/** How jobs of a scenario end without kills, by path; what differs between two of them is omitted. */
type Expected = ReadonlyMap<string, string>;

/** The agents of a service: their jobs must end as they do without kills. */
export class OwnAgents implements Target {
  readonly file: string;
  readonly cwd: string;
  readonly #options: OwnAgentsOptions;
  #scenarios: readonly Scenario[] = [];
  readonly #expected = new Map<string, Expected>();

  constructor(options: OwnAgentsOptions) {
    this.file = options.file;
    this.cwd = options.cwd;
    this.#options = options;
  }

  get agents(): readonly string[] {
    return this.#scenarios.map(({ slug }) => slug);
  }

  async prepare(client: ServiceClient): Promise<void> {
    this.#scenarios = await chooseScenarios(client, this.#options);
    for (const scenario of this.#scenarios)
      this.#expected.set(scenario.slug, await runUndisturbed(client, scenario));
  }

  jobsOf(round: number): TrialJob[] {
    return this.#scenarios.flatMap((scenario) =>
      Array.from(
        { length: this.#options.jobs },
        (_, n) => new TrialJob(`r${round}-${scenario.slug}-${n + 1}`, scenario),
      ),
    );
  }

  check(job: TrialJob, outcome: Outcome, findings: Findings): void {
    if ([...outcome.log.values()].some(isExpired)) {
      findings.expired.push(job.label);
      return;
    }
    const difference = firstDifference(this.#expected.get(job.scenario.slug)!, flatten(outcome));
    if (difference) findings.wrong.push(`${job.label}: ${difference}`);
  }
}

/** The agents to test: those that are named, else all that can be started without inputs. */
async function chooseScenarios(client: ServiceClient, options: OwnAgentsOptions): Promise<Scenario[]> {
  const agents = await client.get<AgentResponse[]>("/agents");
  const unknown = options.agents.find((slug) => !agents.some((agent) => agent.slug === slug));
  if (unknown !== undefined) {
    throw new UsageError(
      `There is no agent "${unknown}"`,
      `Agents: ${agents.map(({ slug }) => slug).join(", ")}.`,
    );
  }
  const used = new Set<string>();
  const scenarios = agents
    .filter(({ slug }) => options.agents.length === 0 || options.agents.includes(slug))
    .map((agent): Scenario & { isReady: boolean } => {
      const declared = agent.methods?.job_start.fields ?? [];
      const own = options.fields.filter((text) => declared.some(({ name }) => text.split(/:?=/)[0] === name));
      for (const text of own) used.add(text);
      const fields = readFields(own, declared);
      const isReady = declared.every((one) => !one.required || one.default !== null || one.name in fields);
      return { slug: agent.slug, fields, isReady };
    });
  const unused = options.fields.find((text) => !used.has(text));
  if (unused !== undefined) throw new UsageError(`No tested agent has the field of --field ${unused}`);
  const missing = scenarios.find(({ isReady, slug }) => !isReady && options.agents.includes(slug));
  if (missing)
    throw new UsageError(`Agent "${missing.slug}" needs inputs`, "Set them with --field name=value.");
  const ready = scenarios.filter(({ isReady }) => isReady);
  if (ready.length > 0) return ready;
  throw new UsageError("No agent can be started without inputs", "Set them with --field name=value.");
}

/** Two jobs without kills show an agent's expected outcome, and what differs between runs anyway. */
async function runUndisturbed(client: ServiceClient, scenario: Scenario): Promise<Expected> {
  const run = async (id: string) => {
    const job = new TrialJob(id, scenario);
    await client.post(`/agents/${scenario.slug}/jobs`, job.body);
    if (await finish(client, job, LAST_WAIT)) return flatten(await readOutcome(client, id));
    throw new UsageError(
      `A job of agent "${scenario.slug}" does not end within ${LAST_WAIT} s, even without kills`,
      "Choose other agents with --agent, or give it less work with --field.",
    );
  };
  const first = await run(`undisturbed-a-${scenario.slug}`);
  const second = await run(`undisturbed-b-${scenario.slug}`);
  return new Map([...first].filter(([place, value]) => second.get(place) === value));
}

function firstDifference(expected: Expected, found: ReadonlyMap<string, string>): string | undefined {
  for (const [place, value] of expected) {
    const other = found.get(place);
    if (other !== value) return `${place} is ${other ?? "missing"}, without kills it is ${value}`;
  }
  return undefined;
}
