import { assertStillIn } from "../../core/access/assert-still-in.ts";
import { providerOf } from "../../core/access/provider-of.ts";
import { Seal } from "../../core/base/seal.ts";
import type { ControlSystem } from "../../core/delivery/control-system.ts";
import type { Cases } from "../../core/entities/cases.ts";
import type { Participant } from "../../core/entities/change.ts";
import type { Jobs } from "../../core/entities/jobs.ts";
import { H3_APP } from "../../core/service/app.ts";
import type { Plugin, PluginContext } from "../../core/service/plugin.ts";
import {
  ACCESS,
  AGENT_SETTINGS,
  AGENTS,
  ATTENTION,
  AUDIT,
  BACKUPS,
  BUDGETS,
  CASES,
  CLIENTS,
  CLOCK,
  CONTROL_SYSTEM,
  FILES,
  GATE,
  JOB_FEED,
  JOBS,
  KEYS,
  OPTIONS,
  PARAMETERS,
  PEOPLE,
  PLUGINS,
  REDACTOR,
  RETENTION,
  REVOKED_TOKENS,
  ROUTER,
  RUNNER,
  SEEN,
  SERVICE_STATE,
  SESSIONS,
  SIGN_IN_LINK,
  SIGNING_KEYS,
  STORE,
  STREAMS,
  THREADS,
} from "../../core/service/tokens.ts";
import type { Store } from "../../core/store/store.ts";
import { ANSWER_LINK_TABLE } from "./answer-links/answer-link-table.ts";
import { AnswerLinks } from "./answer-links/answer-links.ts";
import { Assets } from "./assets.ts";
import { BULK_SELECTION_TABLE, BULK_TABLE } from "./bulk/bulk-table.ts";
import { BulkOperations } from "./bulk/operations.ts";
import { ConsoleBuffer } from "./console/buffer.ts";
import { guardAdmin } from "./errors.ts";
import { ADMIN, Extensions } from "./extension.ts";
import { countRecentFailures } from "./failures/count-recent.ts";
import { forgetLog, JobLog } from "./job-log/job-log.ts";
import { JOB_LOG_TABLE } from "./job-log/job-log-table.ts";
import { LiveHub } from "./live/hub.ts";
import { type AdminOptions, type ResolvedAdminOptions, resolveAdminOptions } from "./options.ts";
import { Wellness } from "./pages/well.ts";
import type { AdminParts } from "./parts.ts";
import { Renderer } from "./renderer.ts";
import { adminRoutes } from "./routes.ts";
import { SAVED_VIEW_TABLE } from "./saved-views/saved-view-table.ts";
import { SavedViews } from "./saved-views/saved-views.ts";
import { createVerifier } from "./session/verifier.ts";
import { LINK_TABLE, SESSION_TABLE } from "./session-table.ts";
import { Sessions } from "./sessions.ts";
import { OneTimeLinks } from "./sign-in-links.ts";

/**
 * The admin interface under `/admin`. Every service has it unless `admin: false`; add one with options to the
 * plugins to replace it.
 *
 * @example
 * createServer({ agents, plugins: [admin({ title: "Invoices" })] });
 */
export function admin(options: AdminOptions = {}): Plugin {
  return {
    name: "admin",
    dependsOn: ["events"],
    tables: [
      SAVED_VIEW_TABLE,
      SESSION_TABLE,
      LINK_TABLE,
      ANSWER_LINK_TABLE,
      BULK_TABLE,
      BULK_SELECTION_TABLE,
      JOB_LOG_TABLE,
    ],
    async setup(context) {
      const parts = await createParts(context, resolveAdminOptions(options));
      context.provide(ADMIN, () => parts.extensions);
      context.provide(SESSIONS, () => createVerifier(parts), { byDefault: true });
      context.provide(SIGN_IN_LINK, () => parts.links);
      guardAdmin(context.get(H3_APP), parts);
      const router = context.get(ROUTER);
      for (const route of adminRoutes(parts, context.get(STREAMS))) router.add(route);
    },
  };
}

/** A third-party events plugin need not provide a link that can be inspected. */
function findControl(context: PluginContext): ControlSystem | undefined {
  try {
    return context.get(CONTROL_SYSTEM);
  } catch {
    return undefined;
  }
}

/** See `AdminParts`. */
async function newestChange(
  { jobs, cases }: { readonly jobs: Jobs; readonly cases: Cases },
  { store, jobLog }: { readonly store: Store; readonly jobLog: JobLog },
  jobIds: readonly string[],
): Promise<string> {
  const query = { sort: "-updated_at", limit: 1 };
  const [[job], [item]] = await Promise.all([jobs.ids(query), cases.ids(query)]);
  const [changedJob, changedCase] = await Promise.all([
    job === undefined ? undefined : jobs.find(job),
    item === undefined ? undefined : cases.find(item),
  ]);
  const lines = await Promise.all(jobIds.map((id) => store.log("Run").last(id)));
  const logged = await Promise.all(jobIds.map((id) => jobLog.mark(id)));
  return JSON.stringify([job, changedJob?.updated_at, item, changedCase?.updated_at, jobIds, lines, logged]);
}

async function createParts(context: PluginContext, options: ResolvedAdminOptions): Promise<AdminParts> {
  const clock = context.get(CLOCK);
  const state = context.get(SERVICE_STATE);
  const jobs = context.get(JOBS);
  const cases = context.get(CASES);
  const { hooks, log } = context;
  const runner = () => context.get(RUNNER);
  const assets = await Assets.load();
  const clients = context.get(CLIENTS);
  const { signIn } = context.get(OPTIONS).access;
  const identity = providerOf(signIn);
  const seal = new Seal(context.get(KEYS).rsaPrivateKeys, "sign-in");
  const sessions = new Sessions({
    people: context.get(PEOPLE),
    provider: identity,
    access: context.get(ACCESS),
    keys: context.get(KEYS),
    hours: options.sessionHours,
    idleMinutes: options.sessionIdleMinutes,
    clock,
    clients,
    state,
    store: context.get(STORE),
    log,
  });
  await sessions.load();
  const jobLog = new JobLog({
    hooks,
    store: context.get(STORE),
    most: options.jobLogLines,
    onStored: (id) => hub.touch(id),
    onError: (error) => log.warn("log lines of jobs could not be stored with them", { error }),
  });
  const forget: Participant = (change, tx) =>
    change.kind === "job:erased" ? forgetLog(tx, change.job.id) : undefined;
  context.participate(forget, ["job:erased"]);
  const newest: AdminParts["newest"] = (ids, seen = { jobs, cases }) =>
    newestChange(seen, { store: context.get(STORE), jobLog }, ids);
  const hub: LiveHub = new LiveHub({
    hooks,
    newest,
    countQuestions: async () => (await cases.countBy("status")).awaiting ?? 0,
    countFailures: () => countRecentFailures({ jobs, clock, attention: context.get(ATTENTION) }),
    onError: (error) => log.error("open pages could not be notified of a change", { error }),
  });
  const console = new ConsoleBuffer(hooks, options.consoleLines);
  const wellness = new Wellness({ jobs, store: context.get(STORE) }, hub, clock);
  const access = context.get(ACCESS);
  const people = context.get(PEOPLE);
  const bulk = new BulkOperations({
    ...{ runner, clock, log },
    assertStillIn: (by) => assertStillIn({ access, people }, by),
    store: context.get(STORE),
    redactor: context.get(REDACTOR),
  });
  for (const part of [hub, console, bulk, sessions, jobLog, wellness]) context.onClose(() => part.close());
  return {
    options,
    access,
    people,
    revoked: context.get(REVOKED_TOKENS),
    isShared: () => access.isUsed || signIn !== undefined,
    service: context.get(OPTIONS),
    state,
    jobs,
    files: context.get(FILES),
    cases,
    seen: (caller) => context.get(SEEN)(caller),
    agents: context.get(AGENTS),
    audit: context.get(AUDIT),
    signing: context.get(SIGNING_KEYS),
    retention: context.get(RETENTION),
    budgets: context.get(BUDGETS),
    attention: context.get(ATTENTION),
    backups: context.get(BACKUPS),
    settings: context.get(AGENT_SETTINGS),
    parameters: context.get(PARAMETERS),
    store: context.get(STORE),
    clients,
    gate: context.get(GATE),
    log,
    redactor: context.get(REDACTOR),
    clock,
    plugins: context.get(PLUGINS),
    runner,
    threads: context.get(THREADS),
    feed: context.get(JOB_FEED),
    control: () => findControl(context),
    assets,
    renderer: new Renderer(assets),
    sessions,
    provider: identity && { identity, seal },
    programSeal: new Seal(context.get(KEYS).rsaPrivateKeys, "sign-in of programs"),
    links: new OneTimeLinks(context.get(STORE), clock),
    views: new SavedViews(context.get(STORE), clock),
    answerLinks: new AnswerLinks({ store: context.get(STORE), cases, clock }),
    extensions: new Extensions(),
    hub,
    newest,
    wellness,
    console,
    jobLog,
    bulk,
  };
}
