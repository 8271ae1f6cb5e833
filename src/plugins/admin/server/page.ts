import { countOf } from "../../../core/base/count-of.ts";
import type { RouteDefinition } from "../../../core/http/route.ts";
import { VERSION } from "../../../core/http/service-state.ts";
import type { BackupState } from "../../../core/store/backup/backups.ts";
import type { ShippingHealth } from "../../../core/store/store.ts";
import { ServiceSchema } from "../answers/service.ts";
import { readControlView } from "../deliveries/control-view.ts";
import { storePiece, troubleOf } from "../pages/cards.ts";
import type { AdminParts } from "../parts.ts";
import { resourceRoutes } from "../resource-routes.ts";
import type { Resource } from "../respond.ts";
import { readRetention, retentionFacts } from "../retention/routes.ts";
import { formatBytes, formatCount, formatDuration, toLabel } from "../views/format.ts";
import { statusPiece } from "../views/pieces.ts";
import { readConfiguration } from "./configuration.ts";
import { instanceFact, readInstances } from "./instances.ts";

/** The service itself: version, configuration, dependencies. */
export function serverRoutes(parts: AdminParts): RouteDefinition[] {
  return resourceRoutes(parts, {
    needs: "view",
    page: ["/admin/server", "Server page"],
    api: [
      "/admin/api/server",
      "Show the service, its configuration, store and plugins",
      "What runs, with which settings, over which store; secrets are not shown.",
    ],
    answer: "The service",
    schema: ServiceSchema,
    resource: () => serverResource(parts),
  });
}

function serverResource(parts: AdminParts): Resource {
  return {
    page: "server",
    fragment: "server",
    json: () => readServer(parts),
    state: () => serverState(parts),
  };
}

async function readServer(parts: AdminParts) {
  const { state, store, hub } = parts;
  const memory = process.memoryUsage();
  const control = parts.control();
  const configuration: ReturnType<typeof readConfiguration> = {
    ...readConfiguration(parts.service),
    port: state.info().port,
  };
  return {
    info: state.info(),
    uptime: state.uptime(),
    process: { pid: process.pid, node: process.version, rss: memory.rss, heap_used: memory.heapUsed },
    configuration,
    store: { ...(await store.stats()), health: store.health() },
    plugins: parts.plugins(),
    instances: await readInstances(parts),
    backup: parts.backups() ?? null,
    live: { open_pages: hub.listeners },
    retention: await readRetention(parts),
    schedules: await parts.runner().schedules.list(),
    control_system: control ? await readControlView(control) : null,
  };
}

async function serverState(parts: AdminParts): Promise<Record<string, unknown>> {
  const data = await readServer(parts);
  const { info, store } = data;
  const control = data.control_system;
  return {
    left: [
      {
        title: "Service",
        status: statusPiece(parts.state.closing ? "degraded" : "healthy").toString(),
        facts: [
          { name: "Address", value: parts.state.publicUrl ?? `${info.host}:${info.port}` },
          { name: "Environment", value: info.environment },
          { name: "Version", value: VERSION },
          { name: "Started", value: toUtc(info.created_at) },
          { name: "Up for", value: formatDuration(data.uptime * 1000) },
          { name: "Process", value: `${data.process.pid}, Node.js ${data.process.node}` },
          {
            name: "Memory",
            value: `${formatBytes(data.process.rss)}, heap ${formatBytes(data.process.heap_used)}`,
          },
          { name: "Open pages", value: formatCount(data.live.open_pages) },
        ],
      },
      {
        title: "Configuration",
        status: "",
        facts: Object.entries(data.configuration).map(([name, value]) => ({
          name,
          value: value === null || value === "" ? "–" : (toUnit(name, value) ?? String(value)),
        })),
      },
    ],
    right: [
      {
        title: "Store",
        status: storePiece(store.health).toString(),
        facts: [
          { name: "Kind", value: store.database },
          ...(store.health.error ? [{ name: "Trouble", value: store.health.error }] : []),
          ...(store.bytes === undefined ? [] : [{ name: "On disk", value: formatBytes(store.bytes) }]),
          ...Object.entries(store.tables).map(([name, count]) => ({
            name: `${toLabel(splitWords(name))}s`,
            value: formatCount(count),
          })),
          { name: "Reads", value: formatCount(store.reads) },
          { name: "Writes", value: formatCount(store.writes) },
          ...Object.entries(store.details ?? {}).map(([name, value]) => detailFact(name, value)),
        ],
      },
      ...(store.health.shipping ? [shippingCard(store.health.shipping)] : []),
      ...(data.backup ? [backupCard(data.backup)] : []),
      ...(data.instances.length > 0
        ? [{ title: "Instances", status: "", facts: data.instances.map(instanceFact) }]
        : []),
      ...(control
        ? [
            {
              title: "Deliveries",
              status: statusPiece(control.status, control.label).toString(),
              facts: control.facts,
            },
          ]
        : []),
      { title: "Retention", status: "", facts: retentionFacts(data.retention) },
      {
        title: "Plugins",
        status: "",
        facts: data.plugins.map(({ name, setupTime, dependsOn }) => ({
          name,
          value: `${formatDuration(setupTime)}${dependsOn.length > 0 ? `, after ${dependsOn.join(", ")}` : ""}`,
        })),
      },
    ],
  };
}

function shippingCard(shipping: ShippingHealth) {
  const { lag, groups, bytes, last_at, error, restored, set_aside } = shipping;
  const isWell = troubleOf(shipping) === undefined;
  return {
    title: "Storage",
    status: statusPiece(isWell ? "healthy" : "degraded").toString(),
    facts: [
      ...(error === null ? [] : [{ name: "Trouble", value: error }]),
      { name: "Last shipped", value: last_at === null ? "–" : toUtc(last_at) },
      { name: "On this disk only", value: `${countOf(groups, "group")}, ${formatBytes(bytes)}` },
      { name: "Since", value: lag === 0 ? "–" : formatDuration(lag * 1000) },
      ...(restored === null
        ? []
        : [
            {
              name: "Restored",
              value: `${restored.as_of === null ? "" : `as of ${toUtc(restored.as_of)}, `}${restored.may_lack ? "later writes may be missing" : "with everything that had been shipped"}`,
            },
          ]),
      ...set_aside.map((folder) => ({ name: "Set aside, not shipped", value: folder })),
    ],
  };
}

function backupCard({ last, lag, every, error }: BackupState) {
  return {
    title: "Backup",
    status: statusPiece(error === null ? "healthy" : "unhealthy").toString(),
    facts: [
      ...(error === null ? [] : [{ name: "Trouble", value: error }]),
      { name: "Last", value: last === null ? "–" : toUtc(last.made_at) },
      ...(lag === null ? [] : [{ name: "Not in it", value: `the last ${formatDuration(lag * 1000)}` }]),
      ...(last === null ? [] : [{ name: "Size", value: formatBytes(last.bytes) }]),
      { name: "Every", value: formatDuration(every * 1000) },
    ],
  };
}

/** A setting that is a number of something, with its unit. */
function toUnit(name: string, value: string | number | boolean): string | undefined {
  if (typeof value !== "number" || name === "port") return undefined;
  if (name === "bodyLimit") return formatBytes(value);
  return SECONDS.has(name) ? formatDuration(value * 1000) : formatCount(value);
}

const SECONDS: ReadonlySet<string> = new Set(["stopGrace", "shutdownGrace", "pluginTimeout"]);

function toUtc(timestamp: string): string {
  return `${timestamp.slice(0, 19).replace("T", " ")} UTC`;
}

/** A figure of the store's implementation, with its unit. */
function detailFact(name: string, value: string | number | boolean | null) {
  const label = toLabel(splitWords(name));
  if (typeof value !== "number") return { name: label, value: String(value ?? "–") };
  if (name.endsWith("bytes")) return { name: label, value: formatBytes(value) };
  return { name: NUMBERS[name] ?? label, value: formatCount(value) };
}

/** Figures that name a thing, and count none. */
const NUMBERS: Readonly<Record<string, string>> = {
  last_write: "Number of the last write",
  bucket_slot: "Number of the last slot in the bucket",
};

/** `lastCompaction` → `last compaction`. */
function splitWords(name: string): string {
  return name.replace(
    /([a-z])([A-Z])/g,
    (_, before: string, after: string) => `${before} ${after.toLowerCase()}`,
  );
}
