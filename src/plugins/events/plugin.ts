import { randomBytes } from "node:crypto";
import { andThen, type MaybePromise } from "../../core/base/maybe-promise.ts";
import type { Fetch } from "../../core/delivery/post-json.ts";
import type { Change } from "../../core/entities/change.ts";
import { isIn } from "../../core/models/job-state.ts";
import type { Plugin, PluginContext } from "../../core/service/plugin.ts";
import {
  AGENT_SETTINGS,
  AGENTS,
  ATTENTION,
  AUDIT,
  CLOCK,
  CONTROL_SYSTEM,
  EVENTS,
  OPTIONS,
  PARAMETERS,
  REDACTOR,
  ROUTER,
  SERVICE_STATE,
  STORE,
} from "../../core/service/tokens.ts";
import type { Transaction } from "../../core/store/store.ts";
import { AttentionNotices } from "./attention-notices.ts";
import { ATTENTION_NOTICE_TABLE } from "./attention-table.ts";
import { ControlLink, SERVICE_STREAM } from "./control-link.ts";
import { CONTROL, createControlTarget } from "./control-target.ts";
import { Dispatcher } from "./dispatcher.ts";
import { LaneClaims } from "./lane-claims.ts";
import { MessageIds } from "./message-ids.ts";
import { fetchOnboarding } from "./onboarding.ts";
import { type EventsOptions, resolveEventsOptions } from "./options.ts";
import { Outbox } from "./outbox.ts";
import { laneOf, OUTBOX_LANE_TABLE, OUTBOX_TABLE } from "./outbox-table.ts";
import { pruneOutbox } from "./prune.ts";
import { registrationEvents } from "./registration.ts";
import { eventRoutes } from "./routes.ts";
import { type StreamEvent, toEvent } from "./to-events.ts";

/** Time that deliveries in progress get when the service closes, milliseconds. */
const CLOSE_GRACE = 2000;
const PRUNE_EVERY = 60_000;
const HINT = "outbox";
const CHANGES = ["job:changed", "job:finished", "case:opened", "case:changed"] as const;

/**
 * Reports events to the control system: every event is stored with the change that caused it, and sent in
 * order per job, at least once. Without an account nothing is sent to it.
 */
export function events(options: EventsOptions = {}, fetch: Fetch = globalThis.fetch): Plugin {
  return {
    name: "events",
    tables: [OUTBOX_TABLE, OUTBOX_LANE_TABLE, ATTENTION_NOTICE_TABLE],
    async setup(context) {
      const link = await createLink(context, resolveEventsOptions(options), fetch);
      context.provide(EVENTS, () => link);
      context.provide(CONTROL_SYSTEM, () => link);
      for (const route of eventRoutes(link)) context.get(ROUTER).add(route);
    },
  };
}

async function createLink(
  context: PluginContext,
  options: ReturnType<typeof resolveEventsOptions>,
  fetch: Fetch,
): Promise<ControlLink> {
  const { get, log, hooks, onClose, participate } = context;
  const [store, clock, redactor] = [get(STORE), get(CLOCK), get(REDACTOR)];
  const { account } = get(OPTIONS);
  const own = randomBytes(4).toString("hex");
  const ids = new MessageIds(clock, () => own);
  const outbox = new Outbox({ store, clock, redactor, ids, audit: get(AUDIT), log });
  const newest = await store.table("Outbox").list({ sort: "-time", limit: 1 });
  if (newest.items[0]) ids.follow(newest.items[0].id);

  const dispatcher = new Dispatcher({
    outbox,
    claims: store.isShared ? new LaneClaims(store, options.timeout) : undefined,
    tell: (lane) => store.hints.tell(HINT, [lane]),
    options,
    redactor,
    clock,
    random: Math.random,
    log,
    headersFor: (stream) => link.headersFor(stream),
  });
  const registration = {
    state: get(SERVICE_STATE),
    options: get(OPTIONS),
    agents: get(AGENTS),
    settings: get(AGENT_SETTINGS),
    parameters: get(PARAMETERS),
  };
  const register = async (): Promise<string | undefined> => {
    const events = await registrationEvents(registration);
    if (events.length === 0) return undefined;
    // What an earlier start could not send is out of date.
    const stale = await store.table("Outbox").list({
      where: { lane: laneOf(CONTROL, SERVICE_STREAM) },
      limit: 10_000,
    });
    const old = stale.items.filter(({ type }) => type === "server.register" || type === "agent.register");
    await store.transaction(async (tx) => {
      for (const { id } of old) await tx.remove("Outbox", id);
      for (const event of events) await link.record(tx, event, SERVICE_STREAM);
    });
    link.wake(SERVICE_STREAM);
    return clock().toISOString();
  };
  const record = (change: Change, tx: Transaction): MaybePromise<void> => {
    if (change.kind === "job:erased") return link.detach(tx, change.job.id);
    const found = toEvent(change, tx);
    return found && andThen(found, (one) => recordEvent(one, tx));
  };
  const recordEvent = async ({ event, stream }: StreamEvent, tx: Transaction): Promise<void> =>
    void (await link.record(tx, event, stream));
  const link: ControlLink = new ControlLink({
    ...{ store, outbox, dispatcher, ids, account, log, register },
    onFirstTarget: () => {
      participate(record, [...CHANGES, "budget:reached", "job:erased"]);
      listen();
    },
  });
  const notices = new AttentionNotices({
    ...{ store, clock, log },
    read: () => get(ATTENTION).read(),
    record: (tx, event) => link.record(tx, event, SERVICE_STREAM),
    wake: () => link.wake(SERVICE_STREAM),
  });
  const listening: (() => void)[] = [];
  // Without a target, nobody is notified of what happens.
  const listen = (): void => {
    for (const kind of CHANGES) {
      listening.push(
        hooks.on(kind, (change) => link.wake("job" in change ? change.job.id : change.case.job_id)),
      );
    }
    listening.push(
      hooks.on("budget:reached", () => link.wake(SERVICE_STREAM)),
      hooks.on("job:finished", ({ job }) => {
        if (job.status === "failed") notices.lookSoon();
      }),
      hooks.on("job:changed", ({ job }) => {
        if (isIn(job, "held")) notices.lookSoon();
      }),
    );
  };
  if (account) {
    const parts = { ...registration, account, fetch, log };
    link.addTarget(createControlTarget(account, fetch, (slug) => fetchOnboarding(slug, parts)));
  }

  onClose(() => dispatcher.close(CLOSE_GRACE));
  if (store.isShared) {
    onClose(
      store.hints.on((hint) => {
        if (hint !== "all" && hint.topic === HINT) for (const lane of hint.ids) dispatcher.hear(lane);
      }),
    );
  }
  onClose(() => {
    for (const stop of listening) stop();
  });
  onClose(
    hooks.on("service:ready", () =>
      dispatcher.during(
        link
          .register()
          .catch((error: unknown) => log.error("this server could not be registered", { error })),
      ),
    ),
  );
  onClose(() => notices.close());
  onClose(
    hooks.on("service:ready", () => {
      if (link.hasTargets) notices.start();
    }),
  );
  const prune = (): Promise<void> =>
    pruneOutbox(outbox, options, { clock, log, dropped: (count) => link.noteDropped(count) });
  const timer = setInterval(() => void dispatcher.during(prune()), PRUNE_EVERY);
  timer.unref();
  onClose(() => clearInterval(timer));
  return link;
}
