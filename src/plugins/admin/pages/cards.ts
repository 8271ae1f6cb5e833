import { countOf } from "../../../core/base/count-of.ts";
import type { AttentionItem } from "../../../core/models/attention.ts";
import type { ShippingHealth, StoreHealth } from "../../../core/store/store.ts";
import { readControlView } from "../deliveries/control-view.ts";
import type { AdminParts } from "../parts.ts";
import { formatBytes, formatCount, formatDuration } from "../views/format.ts";
import type { Html } from "../views/html.ts";
import { statusPiece } from "../views/pieces.ts";

interface Fact {
  readonly name: string;
  readonly value: string;
  readonly tone?: string;
}

/** A card at the dashboard's side. */
export interface CardView {
  readonly title: string;
  readonly status: string;
  readonly facts: readonly Fact[];
  readonly html: string;
}

/** What a service that is not well has. */
const PROBLEMS: readonly AttentionItem["kind"][] = ["store", "backup", "deliveries"];

/** The cards with the health of the service's dependencies, then those of plugins. */
export async function readCards(
  parts: AdminParts,
  attention: readonly AttentionItem[],
): Promise<{ cards: CardView[]; health: HealthView }> {
  const link = parts.control();
  const control = link ? await readControlView(link) : undefined;
  const cards = [
    await storeCard(parts),
    queueCard(parts),
    ...(control
      ? [
          {
            title: "Deliveries",
            status: statusPiece(control.status, control.label).toString(),
            facts: control.facts,
            html: "",
          },
        ]
      : []),
  ];
  const problems = attention.filter(({ kind }) => PROBLEMS.includes(kind));
  return { health: toHealth(parts, problems, cards), cards: await pluginCards(parts) };
}

/** The health of the service in one line; the cards are behind it, and open where something is wrong. */
export interface HealthView {
  readonly isWell: boolean;
  /** `degraded` where no problem is worse than a warning. */
  readonly status: "healthy" | "degraded" | "unhealthy";
  readonly text: string;
  readonly cards: readonly CardView[];
}

function toHealth(
  { runner, service, state }: AdminParts,
  problems: readonly AttentionItem[],
  cards: readonly CardView[],
): HealthView {
  const { running, queued } = runner().load();
  const { pausedAgents, drainedUntil } = runner();
  const paused = pausedAgents.length;
  const text = [
    state.closing
      ? "The service is closing"
      : problems.length > 0
        ? countOf(problems.length, "problem")
        : "The service is well",
    `${formatCount(running)} of ${countOf(service.maxConcurrentJobs, "slot")} in use`,
    queued > 0 ? `${formatCount(queued)} queued` : "",
    drainedUntil === undefined ? "" : "new jobs wait for a deployment",
    paused > 0 ? `${countOf(paused, "agent")} paused` : "",
    `up for ${formatDuration(state.uptime() * 1000)}`,
  ];
  const isWell = problems.length === 0 && !state.closing;
  const isBad = state.closing || problems.some(({ severity }) => severity === "bad");
  return {
    isWell,
    status: isWell ? "healthy" : isBad ? "unhealthy" : "degraded",
    text: text.filter(Boolean).join(" · "),
    cards,
  };
}

/** Whether the store can write, and its storage has all that it acknowledged. */
export function storePiece(health: StoreHealth): Html {
  const isDegraded = health.shipping !== undefined && troubleOf(health.shipping) !== undefined;
  return statusPiece(health.writable ? (isDegraded ? "degraded" : "healthy") : "unhealthy");
}

/** What is wrong with what a store ships. */
export function troubleOf({ error, set_aside, restored }: ShippingHealth): string | undefined {
  if (error !== null) return error;
  if (set_aside.length > 0) return `${countOf(set_aside.length, "folder")} set aside`;
  return restored?.may_lack ? "restored, later writes may be missing" : undefined;
}

async function storeCard({ store }: AdminParts): Promise<CardView> {
  const stats = await store.stats();
  const health = store.health();
  const trouble = health.shipping && troubleOf(health.shipping);
  return {
    title: "Store",
    status: storePiece(health).toString(),
    html: "",
    facts: [
      { name: "Kind", value: stats.database },
      {
        name: "Holds",
        value: `${countOf(stats.tables.Job ?? 0, "job")}, ${countOf(stats.tables.Case ?? 0, "case")}`,
      },
      ...(stats.bytes === undefined ? [] : [{ name: "On disk", value: formatBytes(stats.bytes) }]),
      { name: "Writes", value: formatCount(stats.writes) },
      ...(trouble === undefined ? [] : [{ name: "Storage", value: trouble, tone: "warn" }]),
    ],
  };
}

function queueCard({ runner, service, state }: AdminParts): CardView {
  const { running, queued } = runner().load();
  const status = state.closing ? "degraded" : running > 0 ? "busy" : "available";
  return {
    title: "Runs",
    status: statusPiece(status).toString(),
    html: "",
    facts: [
      { name: "Running", value: `${formatCount(running)} of ${formatCount(service.maxConcurrentJobs)}` },
      { name: "Queued", value: formatCount(queued) },
      { name: "Up for", value: formatDuration(state.uptime() * 1000) },
    ],
  };
}

/** A failing card shows its failure, and does not affect the others. */
function pluginCards({ extensions, log, redactor }: AdminParts): Promise<CardView[]> {
  return Promise.all(
    extensions.cards.map(async (card) => {
      try {
        return { title: card.title, status: "", facts: [], html: redactor.text(String(await card.render())) };
      } catch (error) {
        log.error("a dashboard card could not be rendered", { card: card.title, error });
        const fact = { name: "Error", value: "This card could not be rendered; see the log.", tone: "bad" };
        return { title: card.title, status: "", facts: [fact], html: "" };
      }
    }),
  );
}
