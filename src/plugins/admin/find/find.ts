import * as v from "valibot";
import { countOf } from "../../../core/base/count-of.ts";
import type { StoredCase } from "../../../core/models/case.ts";
import { shownStateOf } from "../../../core/models/job-state.ts";
import { countTags } from "../../../core/models/tags.ts";
import { readOpen } from "../inbox/read-inbox.ts";
import type { SeenParts } from "../parts.ts";
import { withQuery } from "../query.ts";
import type { SavedViews } from "../saved-views/saved-views.ts";
import { isFor, PAGES } from "../shell.ts";
import { labelOf, pathTo } from "../views/pieces.ts";

/** Where a search leads to. */
export const FoundSchema = v.object({
  kind: v.picklist(["Page", "Agent", "Saved view", "Tag", "Job", "Question", "Case"]),
  label: v.string(),
  /** What tells it apart from others of the same name; may be empty. */
  about: v.string(),
  href: v.string(),
});
type Found = v.InferOutput<typeof FoundSchema>;

interface Listed {
  readonly items: readonly unknown[];
  readonly total: number;
}

/** Results of each kind that are shown. */
const MOST = 6;

const OTHER_PAGES = [
  { href: "/admin/deleted", label: "Deleted jobs", needs: "view" },
  { href: "/admin/deleted-cases", label: "Deleted cases", needs: "view" },
  { href: "/admin/sessions", label: "Sessions", needs: "manage" },
  { href: "/admin/help", label: "Keyboard", needs: "nothing", asks: true },
] as const;

/** Pages, agents, saved views, jobs, questions and cases whose name or id has the text in it; without text, pages. */
export async function find(
  parts: SeenParts & { readonly views: SavedViews },
  text: string,
): Promise<Found[]> {
  const search = text.trim();
  const pages = pagesOf(parts).filter(({ label }) => has(label, search));
  if (search === "") return pages;
  const [views, tagged, jobs, questions, cases] = await Promise.all([
    // They name what their makers look for: for people who see everything.
    parts.caller.sight === undefined ? parts.views.list() : [],
    parts.jobs.countBy("tags", { where: { tags: { contains: search } } }),
    parts.jobs.list({ search, sort: "-created_at", limit: MOST }),
    findQuestions(parts, search),
    parts.cases.list({ search, sort: "-created_at", limit: MOST }),
  ]);
  const agents = parts.agents.list().map(({ slug, definition }) => ({ slug, name: definition.name }));
  return [
    ...pages.slice(0, MOST),
    ...agents
      .filter(({ slug, name }) => has(name, search) || has(slug, search))
      .slice(0, MOST)
      .map(
        ({ slug, name }) =>
          ({ kind: "Agent", label: name, about: slug, href: pathTo("agents", slug) }) as const,
      ),
    ...views
      .filter(({ name }) => has(name, search))
      .slice(0, MOST)
      .map(
        ({ name, query }) =>
          ({ kind: "Saved view", label: name, about: "", href: `/admin/jobs?${query}` }) as const,
      ),
    ...countTags(tagged)
      .filter(([tag]) => has(tag, search))
      .slice(0, MOST)
      .map(
        ([tag, count]) =>
          ({
            kind: "Tag",
            label: tag,
            about: countOf(count, "job"),
            href: withQuery("/admin/jobs", { tag }),
          }) as const,
      ),
    ...jobs.items.map(
      (job) =>
        ({
          kind: "Job",
          label: job.name,
          about: `${job.id} · ${labelOf(shownStateOf(job))}`,
          href: pathTo("jobs", job.id),
        }) as const,
    ),
    ...more("jobs", search, jobs),
    ...questions.map(
      ({ id, name, question }) =>
        ({
          kind: "Question",
          label: question?.question ?? name,
          about: name,
          href: withQuery("/admin/inbox", { question: id }),
        }) as const,
    ),
    ...cases.items.map(
      ({ id, name, status }) =>
        ({
          kind: "Case",
          label: name,
          about: `${id} · ${labelOf(status)}`,
          href: pathTo("cases", id),
        }) as const,
    ),
    ...more("cases", search, cases),
  ];
}

/** Leads to the list with all that a search finds, where only the newest are shown. */
function more(of: "jobs" | "cases", search: string, { items, total }: Listed): Found[] {
  if (total <= items.length) return [];
  const kind = of === "jobs" ? "Job" : "Case";
  const label = `All ${countOf(total, kind.toLowerCase())}`;
  return [{ kind, label, about: `with “${search}”`, href: withQuery(`/admin/${of}`, { search }) }];
}

/** The most urgent questions whose id, name or text has the text in it. */
async function findQuestions(parts: SeenParts, search: string): Promise<StoredCase[]> {
  const found: StoredCase[] = [];
  for await (const portion of readOpen(parts)) {
    for (const item of portion) {
      const { id, name, question } = item;
      if (![id, name, question?.question ?? ""].some((one) => has(one, search))) continue;
      found.push(item);
      if (found.length === MOST) return found;
    }
  }
  return found;
}

function pagesOf({ extensions, caller }: SeenParts): Found[] {
  const own = [...PAGES, ...OTHER_PAGES]
    .filter((page) => isFor(caller, page))
    .map(({ href, label }) => ({ label, href }));
  const shown = isFor(caller, { needs: "view" }) ? [...extensions.pages] : [];
  const others = shown.map(([path, { title }]) => ({
    label: title,
    href: `/admin/x/${path}`,
  }));
  return [...own, ...others].map((page) => ({ kind: "Page", about: "", ...page }));
}

function has(text: string, search: string): boolean {
  return text.toLowerCase().includes(search.toLowerCase());
}
