import { hash, randomUUID } from "node:crypto";
import * as v from "valibot";
import { countOf } from "../../../core/base/count-of.ts";
import type { RouteDefinition } from "../../../core/http/route.ts";
import { type Case, CaseSchema, type StoredCase } from "../../../core/models/case.ts";
import { isTerminal } from "../../../core/models/entity-status.ts";
import type { StoredJob } from "../../../core/models/job.ts";
import type { AnsweredQuestion } from "../../../core/models/keyed-request.ts";
import { keyOf } from "../../../core/models/question-key.ts";
import type { RunEntry } from "../../../core/models/run-entry.ts";
import { EntityIdSchema } from "../../../core/models/scalars.ts";
import type { AskingCase } from "../../../core/runs/questions/open-questions.ts";
import { seenRoute } from "../admin-route.ts";
import { redirect } from "../answer.ts";
import { viewPath } from "../files/file-views.ts";
import { renderMarkdown } from "../files/markdown.ts";
import { type Flash, flashCookie } from "../flash.ts";
import { readForm } from "../forms/read-form.ts";
import { toAskView } from "../inbox/ask-view.ts";
import type { AdminParts, SeenParts } from "../parts.ts";
import { withQuery } from "../query.ts";
import { resourceRoutes } from "../resource-routes.ts";
import type { Resource } from "../respond.ts";
import { offeredTo } from "../viewer.ts";
import { AttemptCounter } from "../views/attempts.ts";
import { formatCost } from "../views/format.ts";
import { renderJson } from "../views/json-tree.ts";
import { jobPiece, pathTo } from "../views/pieces.ts";
import { SHOWN_ENTRIES } from "../views/waterfall.ts";
import { renderResult } from "../views/work.ts";

const PathSchema = v.object({ id: EntityIdSchema });
const AgentPathSchema = v.object({ slug: v.pipe(v.string(), v.maxLength(500)) });
/** Turns that the page shows, the newest. */
const SHOWN_TURNS = 50;

/** A thread of a chat: its page, and messages into it, which answer the question that the page shows. */
export function chatRoutes(parts: AdminParts): RouteDefinition[] {
  return [
    ...resourceRoutes(parts, {
      needs: "view",
      page: ["/admin/jobs/{id}/chat", "Chat page"],
      api: [
        "/admin/api/jobs/{id}/chat",
        "Show the newest turns of a thread",
        "Messages, answers, tool calls and open questions of a chat, oldest first.",
      ],
      params: PathSchema,
      answer: "The turns, oldest first",
      schema: v.array(CaseSchema),
      seen: async ({ params }, seen) => chatResource(seen, await readThread(seen, params.id)),
    }),
    seenRoute(parts, {
      method: "POST",
      path: "/admin/jobs/{id}/chat",
      needs: "start",
      summary: "Send a message to a thread with its form",
      hidden: true,
      params: PathSchema,
      responses: { 303: { description: "Redirect to the thread" } },
      handler: async ({ params, event, caller: by }, seen) => {
        const form = await readForm(event);
        const { content, id: key } = readMessage(form);
        const path = chatPath(params.id);
        if (content === "") return redirect(path);
        const { agent_name } = await readThread(seen, params.id);
        const message = { content, key, seen: form.get("seen") ?? "", by, via: "admin" };
        const { answered } = await seen.threads.send(agent_name, params.id, message);
        const note = answered && noteOf(answered);
        return redirect(path, note === undefined ? [] : [flashCookie(parts, event, note.kind, note.text)]);
      },
    }),
    ...resourceRoutes(parts, {
      needs: "start",
      page: ["/admin/agents/{slug}/chat", "Page that starts a thread"],
      params: AgentPathSchema,
      answer: "The page",
      seen: ({ params }, seen) => newThread(seen, seen.threads.agent(params.slug)),
    }),
    seenRoute(parts, {
      method: "POST",
      path: "/admin/agents/{slug}/chat",
      needs: "start",
      summary: "Start a thread with its first message",
      hidden: true,
      params: AgentPathSchema,
      responses: { 303: { description: "Redirect to the thread" } },
      handler: async ({ params, event, actor }, seen) => {
        const { content, id } = readMessage(await readForm(event));
        const slug = seen.threads.agent(params.slug);
        if (content === "") return redirect(newChatPath(slug));
        const options = { startedBy: actor, idempotencyKey: id };
        const { jobId } = await seen.threads.start(slug, { message: content }, options);
        return redirect(chatPath(jobId), [flashCookie(parts, event, "good", "The thread was started.")]);
      },
    }),
  ];
}

/** Where a thread is shown as a conversation. */
export function chatPath(jobId: string): string {
  return pathTo("jobs", jobId, "chat");
}

/** Where a thread is started. */
export function newChatPath(slug: string): string {
  return pathTo("agents", slug, "chat");
}

/** The message of a form, with an id that it has each time the same form is sent. */
function readMessage(form: URLSearchParams): { readonly content: string; readonly id: string | undefined } {
  const content = form.get("content")?.trim() ?? "";
  const of = form.get("sheet") ?? "";
  const id = of === "" ? undefined : hash("sha256", `${of}\n${content}`, "base64url");
  return { content, id: id && `form-${id}` };
}

/** What a person must know of a message that was about a question. */
function noteOf({ again, agreed, before }: AnsweredQuestion): Pick<Flash, "kind" | "text"> | undefined {
  if (again === "") return { kind: "bad", text: "The message was not sent: the agent asks something first." };
  if (again !== undefined) return { kind: "bad", text: `The message was not sent: ${again}` };
  if (agreed !== undefined) return { kind: "good", text: agreed };
  return before === undefined ? undefined : { kind: "bad", text: before };
}

function newThread(parts: SeenParts, slug: string): Resource {
  const { name } = parts.agents.get(slug).definition;
  const none = {
    live: "/admin/api/live",
    api: "",
    jobHref: "",
    newHref: "",
    status: "",
    id: "",
    earlier: "",
    seen: "",
    turns: [],
  };
  const about = { title: name, name, agentHref: pathTo("agents", slug), action: newChatPath(slug) };
  return {
    page: "chat",
    fragment: "chat",
    json: () => ({ agent: slug }),
    state: () => ({ chat: { ...none, ...about, sheet: randomUUID(), hasEnded: false } }),
  };
}

async function readThread(parts: SeenParts, id: string): Promise<StoredJob> {
  return (await parts.threads.find(id)) ?? parts.jobs.get(id);
}

function chatResource(parts: SeenParts, job: StoredJob): Resource {
  const query = { where: { job_id: job.id }, sort: "-created_at", limit: SHOWN_TURNS };
  return {
    page: "chat",
    fragment: "chat-change",
    json: async (): Promise<Case[]> => (await parts.cases.listWithUpdates(query, 20)).items.reverse(),
    state: async () => {
      const { items, total } = await parts.cases.list(query);
      const entries = await parts.jobs.logEnds(job.id, SHOWN_ENTRIES);
      const { definition } = parts.agents.of(job) ?? parts.agents.get(job.agent_name);
      const counter = new AttemptCounter();
      const counted = entries.map(({ entry }) => ({ entry, attempts: counter.add(entry) }));
      const turns = items.reverse().map((item) => toTurn(parts, job, item, counted));
      return {
        chat: {
          title: `${definition.name}: ${items[0]?.name ?? "thread"}`,
          name: definition.name,
          agentHref: pathTo("agents", job.agent_name),
          newHref: offeredTo(parts.caller).start ? newChatPath(job.agent_name) : "",
          jobHref: pathTo("jobs", job.id),
          id: job.id,
          status: jobPiece(job).toString(),
          live: withQuery("/admin/api/live", { job: job.id }),
          api: `/admin/api/jobs/${encodeURIComponent(job.id)}/chat`,
          action: chatPath(job.id),
          sheet: randomUUID(),
          seen: seenIn(items),
          hasEnded: isTerminal(job.status),
          earlier: total > SHOWN_TURNS ? countOf(total - SHOWN_TURNS, "earlier message") : "",
          turns: await Promise.all(turns),
        },
      };
    },
  };
}

/** The question that the page shows last: the next message may answer it. */
function seenIn(items: readonly StoredCase[]): string {
  const asking = items.findLast(({ status, question }) => status === "awaiting" && question);
  return asking ? keyOf(asking as AskingCase) : "";
}

/** A line of a job's log, with the attempts that its run had made of its call. */
interface CountedEntry {
  readonly entry: RunEntry;
  readonly attempts: number;
}

async function toTurn(parts: SeenParts, job: StoredJob, item: StoredCase, entries: readonly CountedEntry[]) {
  const { currency } = parts.options;
  const steps = entries.flatMap(({ entry, attempts }) => {
    if (entry.type !== "call" || entry.call !== "step" || entry.case_id !== item.id) return [];
    const tries = attempts > 1 ? countOf(attempts, "attempt") : "";
    const cost = entry.cost ? formatCost(entry.cost, currency) : "";
    return [
      {
        name: entry.name,
        kind: entry.kind ?? "step",
        note: [tries, cost].filter(Boolean).join(", "),
        error: entry.error?.message ?? "",
        input: entry.input === undefined ? "" : renderJson(entry.input),
        result: renderResult(entry, (file) => viewPath(job.id, file)),
      },
    ];
  });
  const delivery = item.final_delivery as { message?: string; answer?: string } | null;
  const isAsking = item.status === "awaiting" && item.question;
  const ask = isAsking ? toAskView(item, { now: parts.clock(), caller: parts.caller, job }) : undefined;
  return {
    href: pathTo("cases", item.id),
    message: delivery?.message ?? (await messageOf(item, entries)),
    steps,
    stepCount: countOf(steps.length, "step"),
    ask: ask ? await parts.renderer.render("fragments/ask", { ask }) : "",
    answer: delivery?.answer ? renderMarkdown(delivery.answer).toString() : "",
    error: item.status === "failed" ? (item.last_error ?? "The answer failed.") : "",
    isOpen: !isTerminal(item.status) && !ask,
  };
}

/** The message of a turn without an answer: it came with an event, or with the job. */
async function messageOf(item: StoredCase, entries: readonly CountedEntry[]): Promise<string> {
  let last: string | undefined;
  for (const { entry } of entries) {
    if (entry.type !== "call") continue;
    if (entry.call === "event")
      last = (entry.result as { data?: { content?: string } } | null)?.data?.content;
    if (entry.call === "open_case" && entry.result === item.id) return last ?? item.name;
  }
  return item.name;
}
