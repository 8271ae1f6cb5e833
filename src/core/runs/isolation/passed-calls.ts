import { toSlug } from "../../agents/identity.ts";
import { toJsonValue } from "../../agents/json-value.ts";
import type {
  CaseHandle,
  ChildHandle,
  JobHandle,
  StartableAgent,
  WaitOptions,
} from "../../agents/run-context.ts";
import { readStartFields } from "../replay/child-handle.ts";
import { readWait } from "../replay/event-wait.ts";
import { toPlain } from "./to-plain.ts";
import { fromWire, toWire, type WireError } from "./wire-error.ts";

/** A call of a handle that is passed from an agent's process to the handle in the service's. */
interface PassedCall {
  /** Checks what it is called with before JSON would change that; what is sent in its place. */
  readonly send?: (args: never, handleId: string) => readonly unknown[];
  /** The handle that it gives. */
  readonly gives?: "case" | "child";
  /** Calls with the same text are one: each gets what the first one got. */
  readonly once?: (args: never) => string;
}

/** What a handle's calls return that are made in the service's process: not those that need a function of the agent. */
type Passed<Handle, Own extends keyof Handle> = {
  readonly [Name in Exclude<keyof Handle, Own> as Handle[Name] extends (...args: never) => Promise<unknown>
    ? Name
    : never]: PassedCall;
};

/** All that is passed. A call that a handle gets does not compile without its line here, and works with it. */
const JOB: Passed<JobHandle, "step" | "model" | "file"> = {
  openCase: { gives: "case", once: ([{ id }]: [{ id: string }]) => id },
  // What is missing is refused, and not omitted.
  tag: { send: (args: readonly unknown[]) => args.map((tag) => tag ?? null) },
  sleep: {},
  start: {
    gives: "child",
    send: ([agent, fields = {}, options = {}]: [string | StartableAgent, object?, object?]) => {
      const slug = typeof agent === "string" ? agent : toSlug(agent.name);
      return [slug, readStartFields(slug, fields), toPlain(options)];
    },
  },
  waitFor: {
    send: ([name, options = {}]: [string, WaitOptions?]) => {
      readWait({ name, options });
      return [name, options];
    },
  },
  artifact: {},
  read: {},
};

const CASE: Passed<CaseHandle, "step" | "model" | "ask"> = {
  update: {
    send: (args: [{ name?: string }]) => {
      toJsonValue(args[0], `The update "${args[0].name ?? "update"}"`);
      return args;
    },
  },
  close: { send: (args: [object?], id) => withDelivery(args, args[0], id) },
  fail: { send: (args: [Error | string, object?], id) => withDelivery(args, args[1], id) },
  artifact: {},
  read: {},
};

const CHILD: Passed<ChildHandle, never> = { result: { once: () => "" }, stop: { once: () => "" } };

export const PASSED: Readonly<Record<"job" | "case" | "child", Readonly<Record<string, PassedCall>>>> = {
  job: JOB,
  case: CASE,
  child: CHILD,
};

function withDelivery(
  args: readonly unknown[],
  delivery: object | undefined,
  id: string,
): readonly unknown[] {
  toJsonValue(delivery, `The delivery of case "${id}"`);
  return args;
}

/** An argument on its way: JSON, an error, or nothing; `dates` names those of its members that are times. */
export interface SentArgument {
  readonly json?: unknown;
  readonly dates?: readonly string[];
  readonly error?: WireError;
}

/** An argument as it is sent. Throws where a time is none. */
export function toSent(value: unknown): SentArgument {
  if (value instanceof Error) return { error: toWire(value) };
  if (typeof value !== "object" || value === null) return value === undefined ? {} : { json: value };
  const times = Object.entries(value).filter(([, one]) => one instanceof Date) as [string, Date][];
  if (times.length === 0) return { json: value };
  const texts = Object.fromEntries(times.map(([name, time]) => [name, time.toISOString()]));
  return { json: { ...value, ...texts }, dates: Object.keys(texts) };
}

/** What was sent. */
export function fromSent({ json, dates = [], error }: SentArgument): unknown {
  if (error) return fromWire(error);
  if (dates.length === 0) return json;
  const members = json as Record<string, string>;
  return { ...members, ...Object.fromEntries(dates.map((name) => [name, new Date(members[name]!)])) };
}
