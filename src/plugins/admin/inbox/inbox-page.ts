import { countOf } from "../../../core/base/count-of.ts";
import type { StoredCase } from "../../../core/models/case.ts";
import { isAsking } from "../answer-links/answer-links.ts";
import { linksView } from "../answer-links/links-view.ts";
import { readShownFiles } from "../files/shown-files.ts";
import { pagerOf } from "../lists/page-of.ts";
import type { SeenParts } from "../parts.ts";
import { withQuery } from "../query.ts";
import { offeredTo } from "../viewer.ts";
import { formatCount } from "../views/format.ts";
import { duePiece, pathTo } from "../views/pieces.ts";
import { kindOfQuestion, type OpenQuestion, withJobs } from "./alike.ts";
import { isHeld, toAskView } from "./ask-view.ts";
import { type InboxFilter, readInbox } from "./read-inbox.ts";

/** Updates of a case that are shown beside its question. */
const EVIDENCE = 8;
/** People and roles that have a link of their own. */
const MOST_TABS = 12;

export interface InboxPage extends InboxFilter {
  readonly limit: number;
  readonly skip: number;
  readonly brief?: "1" | undefined;
  /** Name of the one who reads. */
  readonly name?: string | undefined;
  /** Case whose question is open beside the list. @default that of the first question */
  readonly question?: string | undefined;
}

/** The list of questions, and one of them beside it. `ask` replaces its form, as after a refused answer. */
export async function inboxState(parts: SeenParts, page: InboxPage, ask?: string) {
  const { limit, skip, question, name, brief: _, ...filter } = page;
  const now = parts.clock();
  const { items, total } = await readInbox(parts, { ...filter, limit, skip });
  const listed = await withJobs(parts, items);
  const selected = await findSelected(parts, listed, question);
  const path = (query: Partial<InboxPage>) =>
    withQuery("/admin/inbox", { ...filter, skip: skip || undefined, ...query });
  return {
    summary:
      total === 0 ? "No open questions here." : `${countOf(total, "open question")}, the most urgent first.`,
    api: withQuery("/admin/api/inbox", { ...filter, limit: 100, brief: 1 }),
    now: now.toISOString(),
    back: path({}),
    isOpened: question !== undefined,
    tabs: await assignees(parts, page),
    rows: listed.map(({ item, job }) => ({
      id: item.id,
      href: path({ question: item.id }),
      isSelected: item.id === selected?.item.id,
      question: item.question?.question ?? item.name,
      name: item.name,
      agent: job?.agent_name ?? "",
      isHeld: isHeld(job),
      due: duePiece(item.question?.deadline, now).toString(),
      assigned: item.question?.assigned_to ?? "",
      agree: item.question?.approvers
        ? `${item.question.approvals?.length ?? 0} of ${item.question.approvers}`
        : "",
    })),
    ask: ask ?? (selected ? await renderAsk(parts, selected, listed) : ""),
    gone: ask === undefined && question !== undefined && !selected ? pathTo("cases", question) : "",
    ...pagerOf({ limit, skip, total }, path),
  };
}

/** Links to the questions of each person and role, those of the reader first; none where nothing is assigned. */
async function assignees(parts: SeenParts, { name, assigned_to, job_id }: InboxPage) {
  const [counts, { total }] = await Promise.all([
    parts.cases.countBy("assigned_to", { where: { status: "awaiting", job_id, assigned_to: { gte: "" } } }),
    parts.cases.list({ where: { status: "awaiting", job_id }, limit: 0 }),
  ]);
  const others = Object.keys(counts).filter((one) => one !== name && counts[one]! > 0);
  if (others.length === 0 && !counts[name ?? ""] && assigned_to === undefined) return [];
  const all = {
    label: "All",
    href: withQuery("/admin/inbox", { job_id }),
    count: formatCount(total),
    isCurrent: assigned_to === undefined,
  };
  const listed =
    assigned_to === undefined || assigned_to === name || others.includes(assigned_to) ? [] : [assigned_to];
  return [
    all,
    ...[...(name === undefined ? [] : [name]), ...others.sort(), ...listed]
      .slice(0, MOST_TABS)
      .map((one) => ({
        label: one === name ? "Mine" : one,
        href: withQuery("/admin/inbox", { job_id, assigned_to: one }),
        count: formatCount(counts[one] ?? 0),
        isCurrent: one === assigned_to,
      })),
  ];
}

/** The question that is shown: the named one, wherever it is in the list, or the first. */
async function findSelected(
  parts: SeenParts,
  listed: readonly OpenQuestion[],
  caseId: string | undefined,
): Promise<OpenQuestion | undefined> {
  if (caseId === undefined) return listed[0];
  const { items } = await parts.cases.list({ where: { id: caseId, status: "awaiting" }, limit: 1 });
  return (await withJobs(parts, items))[0];
}

async function renderAsk(
  parts: SeenParts,
  selected: OpenQuestion,
  listed: readonly OpenQuestion[],
): Promise<string> {
  const { item, job } = selected;
  const evidence = await readEvidence(parts, item);
  const files = await readShownFiles(parts, item);
  const view = toAskView(item, { now: parts.clock(), caller: parts.caller, job, evidence, files });
  const { links, ...beside } = await besideQuestion(parts, selected, listed);
  return parts.renderer.render("fragments/ask", { ask: { ...view, ...beside }, links });
}

/** What else can be done beside the answer to a question of the inbox: the next one, equal ones, a link for one person. */
export async function besideQuestion(
  parts: SeenParts,
  selected: OpenQuestion,
  listed: readonly OpenQuestion[],
) {
  const { item } = selected;
  const kind = kindOfQuestion(selected);
  const alike = listed.some((one) => one.item.id !== item.id && kindOfQuestion(one) === kind);
  const mayLink = offeredTo(parts.caller).operateAll;
  const links = mayLink && isAsking(item) ? await linksView(parts, item) : undefined;
  return { alike, isInList: listed.length > 1, links };
}

/** The newest updates of a case that say something. */
export async function readEvidence(parts: Pick<SeenParts, "cases">, item: StoredCase) {
  return (await parts.cases.updates(item.id, EVIDENCE)).filter(({ payload }) => payload);
}
