import type * as v from "valibot";
import {
  FILES_SORT,
  type FileOfJob,
  type ListedOrigin,
  listFiles,
} from "../../../core/entities/all-files.ts";
import { behindCursor, cursorQuery, toCursor } from "../../../core/http/cursor.ts";
import { filesQuery } from "../../../core/http/files-query.ts";
import type { RouteDefinition } from "../../../core/http/route.ts";
import { type FileGroup, groupOf } from "../../../core/models/file-kind.ts";
import { agentOptions } from "../lists/agent-options.ts";
import { DEFAULT_LIMIT, moment } from "../lists/list-query.ts";
import type { AdminParts, SeenParts } from "../parts.ts";
import { filterQuery, optionalText, withoutEmpty, withQuery } from "../query.ts";
import { resourceRoutes } from "../resource-routes.ts";
import type { Resource } from "../respond.ts";
import { formatBytes } from "../views/format.ts";
import { pathTo, timePiece } from "../views/pieces.ts";
import { startOf, ZoneSchema } from "../zones.ts";
import { contentPath, viewPath } from "./file-views.ts";

const PATH = "/admin/files";
/** Bytes up to which a picture is its own thumbnail. */
const LARGEST_THUMB = 2 * 1024 * 1024;

const { limit, search, agent_name, job_id, kind, origin } = filesQuery;
const QuerySchema = filterQuery({
  limit,
  after: optionalText(cursorQuery.after.wrapped),
  search: optionalText(search.wrapped),
  agent_name: optionalText(agent_name.wrapped),
  job_id: optionalText(job_id.wrapped),
  kind: optionalText(kind.wrapped),
  origin: optionalText(origin.wrapped),
  since: optionalText(moment),
  until: optionalText(moment),
  /** In which the days of `since` and `until` begin. @default UTC */
  zone: optionalText(ZoneSchema),
});
type Query = v.InferOutput<typeof QuerySchema>;

const KINDS: readonly (readonly [FileGroup | "", string])[] = [
  ["", "Any type"],
  ["picture", "Pictures"],
  ["pdf", "PDF"],
  ["text", "Text"],
  ["data", "Tables and data"],
  ["recording", "Audio and video"],
  ["page", "Web pages"],
  ["other", "Other"],
];
const ORIGINS: readonly (readonly [ListedOrigin | "", string])[] = [
  ["", "All"],
  ["artifact", "Artifacts"],
  ["step", "Made"],
  ["field", "Input"],
  ["answer", "Answers"],
];
/** What is shown in place of a picture. */
const LABELS: Readonly<Record<FileGroup, string>> = {
  ...{ picture: "IMG", pdf: "PDF", recording: "AV", data: "DATA", text: "TXT", page: "HTML", other: "FILE" },
};

/** The files of all jobs that the reader sees, to be found again. */
export function galleryRoutes(parts: AdminParts): RouteDefinition[] {
  return resourceRoutes(parts, {
    needs: "view",
    page: [PATH, "Page of the files of all jobs"],
    query: QuerySchema,
    answer: "The files",
    seen: ({ query }, seen) => galleryResource(seen, query),
  });
}

function galleryResource(seen: SeenParts, given: Query): Resource {
  const { after, limit, zone, since, until, refresh: _, ...filter } = withoutEmpty(given);
  const at = (day: string | undefined) => (day === undefined ? undefined : startOf(day, zone));
  const read = () =>
    listFiles(seen, seen.caller.sight, {
      ...{ ...filter, limit, since: at(since), until: at(until) },
      after: behindCursor({ sort: FILES_SORT }, after).after,
    });
  const named = { ...filter, since, until, zone: since || until ? zone : undefined };
  const size = limit === DEFAULT_LIMIT ? undefined : limit;
  const to = (changes: Readonly<Record<string, string | undefined>>) =>
    withQuery(PATH, { ...named, limit: size }, changes);
  return {
    ...{ page: "gallery", fragment: "gallery" },
    json: async () => {
      const { items, next } = await read();
      return { items: items.map(toItem), next_cursor: next ? toCursor(FILES_SORT, next) : null };
    },
    state: async () => {
      const { items, next } = await read();
      const now = seen.clock();
      return {
        tabs: ORIGINS.map(([value, label]) => ({
          ...{ label, current: (filter.origin ?? "") === value, href: to({ origin: value || undefined }) },
        })),
        ...{ path: PATH, search: filter.search ?? "", since: since ?? "", until: until ?? "" },
        kept: [
          { name: "origin", value: filter.origin ?? "" },
          { name: "job_id", value: filter.job_id ?? "" },
        ].filter(({ value }) => value !== ""),
        selects: [
          {
            ...{ name: "agent_name", label: "Agent" },
            options: agentOptions(seen, filter.agent_name).map((one) => ({
              ...one,
              selected: one.value === (filter.agent_name ?? ""),
            })),
          },
          {
            ...{ name: "kind", label: "Type" },
            options: KINDS.map(([value, label]) => ({
              ...{ value, label, selected: value === (filter.kind ?? "") },
            })),
          },
        ],
        job: filter.job_id ? { id: filter.job_id, href: to({ job_id: undefined }) } : undefined,
        narrowed: since !== undefined || until !== undefined,
        filtered: Object.values(named).some((value) => value !== undefined),
        rows: items.map((one) => toCard(one, now)),
        first: after === undefined ? "" : to({}),
        next: next ? to({ after: toCursor(FILES_SORT, next) }) : "",
      };
    },
  };
}

function toItem({ file, job }: FileOfJob) {
  return { ...file, job_id: job.id, agent_name: job.agent_name };
}

function toCard({ file, job }: FileOfJob, now: Date) {
  const group = groupOf(file);
  return {
    name: file.title ?? file.name,
    file: file.title === undefined ? "" : file.name,
    tag: file.artifact ?? "",
    about: formatBytes(file.size),
    label: /\.([a-z0-9]{1,5})$/i.exec(file.name)?.[1]?.toUpperCase() ?? LABELS[group],
    picture:
      group === "picture" && file.size > 0 && file.size <= LARGEST_THUMB
        ? contentPath(job.id, file, true)
        : "",
    href: viewPath(job.id, file),
    job: job.name,
    jobHref: pathTo("jobs", job.id),
    created: timePiece(file.created_at, now).toString(),
  };
}
