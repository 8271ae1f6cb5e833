import { pathToFileURL } from "node:url";
import { Worker } from "node:worker_threads";
import type { AgentDefinition } from "../../agents/define-agent.ts";
import { fieldsOf } from "../../agents/fields.ts";
import type { FieldsInput } from "../../agents/fields-input.ts";
import { toSlug } from "../../agents/identity.ts";
import { toJsonValue } from "../../agents/json-value.ts";
import type { FromAgent, ToAgent } from "./messages.ts";
import { forbidNetwork } from "./no-network.ts";
import { RemoteHandler } from "./remote-handler.ts";
import { fromWire, toWire } from "./wire-error.ts";

/** The main file of an agent's process: runs what the service tells it to, one job at a time. */
const {
  SVC_AGENT_MODULE: path = "",
  SVC_AGENT: slug = "",
  SVC_OFFLINE: isOffline,
  SVC_WATCHES: watches,
} = process.env;

/** An endless loop would outlive a service that is killed: this thread sees that it is gone. */
const WATCH = `
const parent = process.ppid;
setInterval(() => { if (process.ppid !== parent) process.kill(process.pid, "SIGKILL"); }, 1000);
`;

const send = (message: FromAgent): void => {
  if (process.connected) process.send!(message, undefined, undefined, () => {});
};

process.on("disconnect", () => process.exit());
if (watches) new Worker(WATCH, { eval: true, env: {} }).unref();
// As in the service's process: what nobody waits for ends nothing.
process.on("unhandledRejection", (error) => console.error("a rejected promise was not handled", error));
process.on("uncaughtException", (error) => console.error("an exception was not caught", error));

const agent = await loadAgent().catch((error: unknown) => {
  send({ type: "ready", problem: `cannot load its agent from ${path}: ${toWire(error).message}` });
  return undefined;
});
if (isOffline) forbidNetwork();
if (agent) serve(agent);

function serve(agent: AgentDefinition): void {
  let handler = new RemoteHandler(agent, send, 0);
  const aborts = new Map<number, AbortController>();
  process.on("message", (message: ToAgent) => {
    if (message.type === "ping") send({ type: "pong", rss: process.memoryUsage.rss() });
    else if (message.type === "method") void callMethod(agent, message, { handler, aborts });
    else if (message.type === "abortMethod") aborts.get(message.id)?.abort(fromWire(message.error));
    else {
      if (message.type === "start") handler = new RemoteHandler(agent, send, message.of);
      handler.take(message);
    }
  });
  send({ type: "ready" });
}

/** Calls a method beside a job's handler. */
async function callMethod(
  agent: AgentDefinition,
  { id, name, isCustom, context }: Extract<ToAgent, { type: "method" }>,
  { handler, aborts }: { handler: RemoteHandler; aborts: Map<number, AbortController> },
): Promise<void> {
  const own = new AbortController();
  aborts.set(id, own);
  try {
    const methods = (isCustom ? agent.methods.custom : agent.methods) as unknown as Record<string, Method>;
    const method = methods[name]!;
    const given =
      context.fields === undefined ? undefined : await fieldsOf(method).check(context.fields as never);
    if (given?.ok === false) throw new TypeError(`The fields of method ${name} are not valid`);
    const value = await method.run({
      ...context,
      ...(given && { fields: given.values }),
      log: handler.log,
      telemetry: (data: unknown) => handler.telemetry(data),
      signal: own.signal,
    });
    send({ type: "answer", id, value: toJsonValue(value, "The method's result") });
  } catch (error) {
    send({ type: "answer", id, error: toWire(error) });
  } finally {
    aborts.delete(id);
  }
}

interface Method {
  readonly fields?: FieldsInput;
  run(context: unknown): unknown;
}

async function loadAgent(): Promise<AgentDefinition> {
  const module = (await importFile(path)) as Record<string, unknown>;
  const exported = Object.values(module);
  const inner = (module.default as { default?: unknown } | undefined)?.default;
  const found = [...exported, inner].flatMap(agentsIn).find((one) => toSlug(one.name) === slug);
  if (found) return found;
  throw new Error(`it exports neither agent "${slug}" nor a service that hosts it`);
}

function agentsIn(value: unknown): AgentDefinition[] {
  if (Array.isArray(value)) return value.flatMap(agentsIn);
  if (typeof value !== "object" || value === null) return [];
  const { methods, name, options } = value as Partial<AgentDefinition> & { options?: { agents?: unknown } };
  if (methods && typeof name === "string") return [value as AgentDefinition];
  return Array.isArray(options?.agents) ? agentsIn(options.agents) : [];
}

async function importFile(file: string): Promise<unknown> {
  if (/\.m?js$/.test(file)) return import(pathToFileURL(file).href);
  const { createJiti } = await import("jiti");
  return createJiti(import.meta.url, { fsCache: false, interopDefault: false }).import(file);
}
