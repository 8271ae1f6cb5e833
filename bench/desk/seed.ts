import { hash } from "node:crypto";
import {
  type AgentDefinition,
  defineAgent,
  events,
  type JobStartContext,
  webhooks,
} from "agent-control-service";
import { CASES, DeliveryError, JOBS } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import * as v from "valibot";

const DAY = 86_400_000;
/** Groups of jobs that start together in a day. */
const GROUPS = 4;
const DAYS = 30;
/** Groups after which people answer, stop and retry. */
const LATER = 8;
/** When the last group starts. */
const END = Date.UTC(2030, 4, 20, 15, 30);

/** What becomes of jobs, with how many of a hundred have that fate. */
const FATES = {
  done: 48,
  partly: 6,
  refused: 8,
  unreachable: 6,
  stopped: 5,
  answered: 8,
  asking: 4,
  waiting: 3,
  sleeping: 2,
  held: 2,
  retried: 3,
  deleted: 2,
  parent: 3,
} as const;
type Fate = keyof typeof FATES;

const AGENTS = ["Refund desk", "Orders export", "Support triage"] as const;
const SHOP = "https://shop.example.com/api";
/** What each agent says of itself. */
const ABOUT: Readonly<Record<string, string>> = {
  "Refund desk": "Finds the order of a complaint and asks a person about the refund",
  "Orders export": "Sends orders to the accounting system",
  "Support triage": "Sorts what customers write by order and by urgency",
  "Held desk": "Asks a person before anything is sent",
};
const MODELS = ["gpt-5-mini", "claude-haiku-4-5", "gemini-3-flash"] as const;
const PEOPLE = ["ada", "ben", "cron"] as const;

/** Keys of programs and people that see a part: by agents, by workspace, what they have started, what they are asked. */
export const DESK_HOLDERS = [
  { name: "exports", role: "viewer", agents: ["orders-export", "held-desk"] },
  { name: "acme", role: "operator", workspace: "acme" },
  { name: "acme-refunds", role: "viewer", workspace: "acme", agents: ["refund-desk", "support-triage"] },
  { name: "shop", role: "starter" },
  { name: "acme-shop", role: "starter", workspace: "acme" },
  { name: "finance", role: "answerer" },
] as const;
export type DeskHolder = (typeof DESK_HOLDERS)[number]["name"];

/** The key of a holder. */
export const deskKeyOf = (name: DeskHolder): string => `svck_desk_${name}_${"k".repeat(43)}`;

/** Who starts each seventh of the jobs, and in which workspace; the others, the owner in its own workspace. */
const STARTS: readonly { readonly by?: DeskHolder; readonly workspace?: string }[] = [
  { by: "shop" },
  { by: "acme-shop", workspace: "acme" },
  { workspace: "acme" },
  { workspace: "globex" },
];
/** Who starts a job of the desk, and in which workspace; `n` is in its id. */
export const deskStartOf = (n: number) => STARTS[n % 7] ?? {};

const ASKED = ["finance", "ben", undefined] as const;

/** Starts jobs in groups of this size apart, and never by itself while the desk is filled. */
const SCHEDULE = { id: "yearly", cron: "0 3 1 1 *", agent: "orders-export", everyGroups: 20 } as const;

const FIELDS = v.object({
  fate: v.pipe(v.string(), v.description("What becomes of the order")),
  n: v.pipe(v.number(), v.description("Number of the order")),
});
type Fields = v.InferOutput<typeof FIELDS>;

/**
 * Two receivers of failed jobs: one refuses each event, so that it is a dead letter; the other has asked for an hour each
 * time, and is gone with the deployment, so that its events wait.
 */
function receivers(isDeployed: boolean) {
  const about = {
    secret: `whsec_${Buffer.alloc(24).toString("base64")}`,
    types: ["agent.job.error" as const],
  };
  const [refuses, waits] = ["crm", "books"].map((name) => ({
    ...{ name, url: `https://${name}.example.com/hooks`, ...about },
  }));
  const resolve = async (host: string) => {
    const isRefused = host.startsWith(refuses!.name);
    throw new DeliveryError(isRefused ? "does not know the event" : "is busy", {
      ...(isRefused ? { permanent: true } : { retryAfter: DAY / 24 }),
    });
  };
  return [
    // What failed on the first days is there on the last one.
    events({ maxDeadAge: (2 * DAYS * DAY) / 1000 }),
    webhooks({ webhooks: [refuses!, ...(isDeployed ? [] : [waits!])] }, resolve),
  ];
}

/** Whether a job is refused two days after its start. */
const isLate = ({ fate, n }: Fields) => fate === "refused" && n % 3 === 0;

/** Whether somebody deletes a case of a job. */
const losesCase = ({ fate, n }: Fields) => fate === "partly" && n % 4 === 2;

/** What each job does. */
async function live(
  { job, fields }: JobStartContext<Fields>,
  { first, tried }: { readonly first: string; readonly tried: Set<string> },
): Promise<string> {
  const { fate, n } = fields;
  await job.step(first, () => n);
  await ask(job, { n, isFailing: false });
  if (n % 3 === 0) await job.tag("region:eu");
  if (n % 4 === 0) await attach(job, n);
  if (isLate(fields)) await job.waitFor("ruling", { where: { n } });
  if (fate === "refused") throw new Error(`vat_id DE${100_000 + n} is not valid`);
  if (fate === "unreachable") await ask(job, { n, isFailing: true });
  if (fate === "retried") {
    const isFirst = !tried.has(job.id);
    tried.add(job.id);
    if (isFirst) throw new Error("the export was locked");
  }
  if (fate === "waiting") await job.waitFor("payment", { where: { n } });
  if (fate === "sleeping" || fate === "stopped") await job.sleep("90d");
  if (fate === "parent") await (await job.start("support-triage", { fate: "done", n })).result();
  const cases = fate === "partly" ? 4 : 1 + (n % 2);
  for (let at = 0; at < cases; at++) {
    const item = await job.openCase({ id: `${job.id}-${at}`, name: `Order HL-${n}-${at}` });
    await item.model("classify", { model: modelOf(n + at) }, () => answerOf(modelOf(n + at), n), {
      cost: () => 0.002 * (1 + (n % 5)),
    });
    if (fate === "asking" || fate === "answered" || fate === "held") {
      const assignee = ASKED[Math.floor(n / 7) % ASKED.length];
      await item.ask("refund", {
        question: `Refund ${n % 7} EUR?`,
        fields: v.object({ approved: v.boolean() }),
        ...(n % 2 === 0 && { deadline: "60d" }),
        ...(assignee && { assignTo: assignee }),
      });
    }
    if (fate === "partly" && at === 2) await item.fail(`line ${n} has no price`);
    else await item.close();
  }
  return `handled ${n}`;
}

/** A table and, of every other such job, a report that people are to see. */
async function attach(job: JobStartContext["job"], n: number): Promise<void> {
  const table = await job.step("table", ({ file }) =>
    file(`order-${n}.csv`, `order\n${"9".repeat(n % 90)}\n`),
  );
  if (n % 8 === 0) await job.artifact("report", table, { title: `Report of order ${n}` });
}

const modelOf = (n: number) => MODELS[n % MODELS.length]!;

function ask(job: JobStartContext["job"], { n, isFailing }: { n: number; isFailing: boolean }) {
  const model = modelOf(n);
  const call = () => {
    if (isFailing) throw new Error(`connect ECONNREFUSED 10.0.0.${n % 9}:443`);
    return answerOf(model, n);
  };
  return job.model(isFailing ? "reach" : "triage", { model }, call, { cost: () => 0.001 * (1 + (n % 9)) });
}

/** As OpenAI answers. */
const answerOf = (model: string, n: number) => ({
  ...{ model, choices: [{ message: { role: "assistant", content: `It is order ${n}.` } }] },
  usage: { prompt_tokens: 100 + n, completion_tokens: 20, prompt_tokens_details: { cached_tokens: n % 50 } },
});

/** The agents; those of held jobs make another first step after a deployment. */
function agentsOf(heldStep: string, tried: Set<string>): AgentDefinition[] {
  const agent = (name: string, first: string) =>
    defineAgent({
      ...{ name, version: "3.1.0", description: ABOUT[name] },
      parameters: [
        { name: "SHOP_URL", description: "Address of the shop's API", is_secret: false, value: SHOP },
        { name: "SHOP_TOKEN", description: "Token of the shop's API" },
      ],
      instructions: { stop_on_error: false },
      budget: { month: 0.7, day: 1000 },
      methods: { job_start: { fields: FIELDS, run: (context) => live(context, { first, tried }) } },
    });
  return [...AGENTS.map((name) => agent(name, "look up")), agent("Held desk", heldStep)];
}

/** A service with the jobs of thirty days. */
export interface Desk extends AsyncDisposable {
  readonly server: TestServer;
  /** Jobs that were started by their fate. */
  readonly started: Readonly<Record<Fate, number>>;
  /** Jobs that a schedule has started. */
  readonly scheduled: number;
  /** Cases that were deleted alone. */
  readonly deletedCases: number;
  /** Events that were sent to it. */
  readonly events: number;
  /** The time of its clock, milliseconds. */
  now(): number;
  /** Stops its clock, a minute from now: nothing that the service has kept from before is current then. */
  stopClock(): void;
}

/**
 * Fills a folder with so many jobs of thirty days and of all fates, over HTTP and with a clock that is moved: each run
 * of it makes the same jobs. Then it deploys other code, so that some are held.
 */
export async function fillDesk(dataDir: string, jobs = 6500): Promise<Desk> {
  let [now, setAt] = [END - DAYS * DAY, Date.now()];
  let stopped: number | undefined;
  const read = () => stopped ?? now + Date.now() - setAt;
  const set = (to: number): void => {
    [now, setAt] = [Math.max(to, read()), Date.now()];
  };
  const keys = DESK_HOLDERS.map((one) => ({ ...one, sha256: hash("sha256", deskKeyOf(one.name), "hex") }));
  const { everyGroups, ...schedule } = SCHEDULE;
  const schedules = [{ ...schedule, fields: { fate: "done", n: 1 } }];
  /** Which jobs have failed once. */
  const tried = new Set<string>();
  const open = (heldStep: string, isDeployed: boolean) =>
    testServer({
      plugins: receivers(isDeployed),
      ...{
        agents: agentsOf(heldStep, tried),
        access: { keys },
        schedules,
        dataDir,
        store: undefined,
        startTimer: undefined,
        suspendAfter: 0,
      },
      ...{ build: heldStep, logLevel: "error", maxQueuedJobs: 10_000, shutdownGrace: 0 },
      // What was deleted on the first days is there on the last one.
      deletedRetention: "keep",
      clock: () => new Date(read()),
    });
  const fates = Array.from({ length: jobs }, (_, n) => deskFateOf(n));
  const before = await open("look up", false);
  const groups = DAYS * GROUPS;
  const later = Array.from({ length: groups }, (): (() => Promise<void>)[] => []);
  for (let group = 0; group < groups; group++) {
    const from = Math.round((group * jobs) / groups);
    const until = Math.round(((group + 1) * jobs) / groups);
    const numbers = Array.from({ length: until - from }, (_, at) => from + at);
    const ends = await Promise.all(numbers.map((n) => begin(before, n, fates[n]!)));
    const due = group + LATER < groups ? group + LATER : group;
    for (const end of ends) if (end) later[due]!.push(end);
    await Promise.all(later[group]!.map((end) => end()));
    if (group % everyGroups === 0) await runSchedule(before);
    if (group < groups - 1) set(END - ((groups - 2 - group) * DAY) / GROUPS);
  }
  set(END + DAY / 48);
  await before[Symbol.asyncDispose]();
  const server = await open("look up again", true);
  const started = countFates(fates);
  await until(async () => {
    const { total } = await server.service
      .get(JOBS)
      .list({ where: { status: "awaiting", stop_reason: "code_changed" }, limit: 0 });
    return total === started.held;
  });
  const stopClock = () => {
    stopped ??= read() + 60_000;
  };
  const countOf = (has: (fields: Fields) => boolean) => fates.filter((fate, n) => has({ fate, n })).length;
  const counts = {
    ...{
      scheduled: Math.ceil(groups / everyGroups),
      deletedCases: countOf(losesCase),
      events: countOf(isLate),
    },
  };
  return {
    server,
    started,
    ...counts,
    now: read,
    stopClock,
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

/** The fate of a job, by its number: the same in each run, and spread over the time. */
export const deskFateOf = (n: number): Fate => NAMES[(n * 37) % NAMES.length]!;
const NAMES = (Object.entries(FATES) as [Fate, number][]).flatMap(([fate, share]) =>
  Array.from({ length: share }, () => fate),
);

function countFates(fates: readonly Fate[]): Record<Fate, number> {
  const counts = Object.fromEntries(Object.keys(FATES).map((fate) => [fate, 0])) as Record<Fate, number>;
  for (const fate of fates) counts[fate]++;
  return counts;
}

/** Starts a job; the result does with it later what people do. */
async function begin(server: TestServer, n: number, fate: Fate): Promise<(() => Promise<void>) | undefined> {
  const id = `job-${n}`;
  const agent = fate === "held" ? "held-desk" : toSlug(AGENTS[n % AGENTS.length]!);
  const jobs = server.service.get(JOBS);
  const send = async (path: string, json?: object, method = "POST") => {
    const response = await server.request(path, { ...(json && { json }), method });
    if (!response.ok) throw new Error(`${path}: ${await response.text()}`);
  };
  const untilIn = (status: string) => until(async () => (await jobs.find(id))?.status === status);
  const untilSuspended = () => until(async () => Boolean((await jobs.find(id))?.suspended));
  const { by, workspace } = deskStartOf(n);
  const started = await server.request(`/agents/${agent}/jobs`, {
    json: {
      job_context: {
        ...{ job_id: id, mission_name: `Order HL-${n}`, started_by: PEOPLE[n % PEOPLE.length] },
        ...(workspace && { workspace_id: workspace }),
      },
      job_fields: { fate, n },
      ...(n % 10 < 7 && { tags: [`customer:c${n % 17}`] }),
    },
    ...(by && { key: deskKeyOf(by) }),
  });
  if (!started.ok) throw new Error(`${id}: ${await started.text()}`);
  if (isLate({ fate, n })) {
    await untilSuspended();
    return async () => {
      await server.sendEvent("ruling", { n });
      await untilIn("failed");
    };
  }
  switch (fate) {
    case "refused":
    case "unreachable":
      await untilIn("failed");
      return undefined;
    case "waiting":
    case "sleeping":
      await untilSuspended();
      return undefined;
    case "asking":
    case "held":
      await untilIn("awaiting");
      return undefined;
    case "stopped":
      await untilSuspended();
      return async () => {
        await send(`/admin/api/jobs/${id}/stop`);
        await untilIn("cancelled");
      };
    case "answered":
      await untilIn("awaiting");
      return async () => {
        for (let at = 0; at < 1 + (n % 2); at++) {
          const item = `${id}-${at}`;
          await until(async () => (await server.service.get(CASES).find(item))?.status === "awaiting");
          await send(`/admin/api/cases/${item}/answer`, { answer: { approved: n % 3 > 0 } });
        }
        await untilIn("completed");
      };
    case "retried":
      await untilIn("failed");
      return async () => {
        await send(`/jobs/${id}/retry`, { from: "last_step" });
        await untilIn("completed");
      };
    default:
      await untilIn("completed");
      if (fate === "deleted") await send(`/admin/api/jobs/${id}`, undefined, "DELETE");
      if (losesCase({ fate, n })) await send(`/admin/api/cases/${id}-1`, undefined, "DELETE");
      return undefined;
  }
}

/** Has the schedule start a job that ends before the clock is moved. */
async function runSchedule(server: TestServer): Promise<void> {
  const response = await server.request(`/schedules/${SCHEDULE.id}/run`, { method: "POST" });
  if (!response.ok) throw new Error(await response.text());
  const { id } = (await response.json()) as { id: string };
  await until(async () => (await server.service.get(JOBS).find(id))?.status === "completed");
}

const toSlug = (name: string) => name.toLowerCase().replaceAll(" ", "-");

async function until(isSo: () => Promise<boolean>): Promise<void> {
  for (let left = 24_000; left > 0; left--) {
    if (await isSo()) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  throw new Error("A job of the desk does not get there");
}
