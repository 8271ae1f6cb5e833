import { createHash } from "node:crypto";
import type { Caller } from "../../core/audit/caller.ts";
import { mayCall, type RouteNeeds } from "../../core/http/rights.ts";
import type { HttpEvent } from "../../core/http/route.ts";
import type { OwnAddress } from "../../core/http/same-origin.ts";
import { VERSION } from "../../core/http/service-state.ts";
import { readCookie } from "./cookies.ts";
import { readDensity } from "./density.ts";
import { countRecentFailures } from "./failures/count-recent.ts";
import type { Flash } from "./flash.ts";
import type { CommonParts } from "./parts.ts";
import { SESSION_COOKIE } from "./sessions.ts";
import { readTimes, zoneOf } from "./times.ts";
import { offeredTo, viewerOf } from "./viewer.ts";
import { html } from "./views/html.ts";

export const THEME_COOKIE = "svc-theme";

interface PageLink extends RouteNeeds {
  readonly href: string;
  readonly label: string;
  readonly icon: string;
  /** Whether it shows something to people who see questions only. */
  readonly asks?: boolean;
  /** Whether it is of use only where several people or programs have access. */
  readonly isForMany?: boolean;
}

/** Pages of the navigation, with what their routes need. */
export const PAGES: readonly PageLink[] = [
  { href: "/admin/", label: "Dashboard", icon: "dashboard", needs: "view", narrows: true },
  { href: "/admin/jobs", label: "Jobs", icon: "jobs", needs: "view", narrows: true },
  { href: "/admin/cases", label: "Cases", icon: "cases", needs: "view", narrows: true },
  { href: "/admin/inbox", label: "Inbox", icon: "inbox", needs: "view", narrows: true, asks: true },
  { href: "/admin/files", label: "Files", icon: "files", needs: "view", narrows: true },
  { href: "/admin/failures", label: "Failures", icon: "close", needs: "view", narrows: true },
  { href: "/admin/agents", label: "Agents", icon: "agents", needs: "view", narrows: true },
  { href: "/admin/models", label: "Models", icon: "models", needs: "view", narrows: "agents" },
  { href: "/admin/schedules", label: "Schedules", icon: "schedules", needs: "view", narrows: true },
  { href: "/admin/events", label: "Events", icon: "events", needs: "view" },
  { href: "/admin/console", label: "Console", icon: "console", needs: "operate" },
  { href: "/admin/deliveries", label: "Deliveries", icon: "deliveries", needs: "view" },
  { href: "/admin/access", label: "Access", icon: "people", needs: "manage", isForMany: true },
  { href: "/admin/audit", label: "Audit log", icon: "audit", needs: "manage" },
  { href: "/admin/server", label: "Server", icon: "server", needs: "view" },
];

/** Whether a page shows a caller something. */
export function isFor(caller: Caller, page: Pick<PageLink, "needs" | "narrows" | "asks">): boolean {
  return mayCall(caller, page) && (caller.sight?.askedOf === undefined || page.asks === true);
}

const NEXT_THEME = { "": "dark", dark: "light", light: "" } as const;
const THEME_LABELS = { "": "Theme: system", dark: "Theme: dark", light: "Theme: light" } as const;

/** What every page has around its content. */
export async function createShell(parts: CommonParts, event: HttpEvent, flash?: Flash) {
  const path = event.url.pathname;
  const theme = readTheme(event, parts);
  const times = readTimes(event, parts);
  const density = readDensity(event, parts);
  const session = readCookie(event, parts, SESSION_COOKIE);
  const viewer = viewerOf(event);
  const pages = PAGES.filter(
    (page) =>
      isFor(viewer, page) && (!page.isForMany || parts.isShared() || isWithin(placeOf(path), page.href)),
  );
  const badges = await readBadges(parts, viewer);
  const extensions = mayCall(viewer, { needs: "view" }) ? [...parts.extensions.pages] : [];
  return {
    title: parts.options.title,
    environment: parts.service.environment,
    version: VERSION,
    path: path + event.url.search,
    theme,
    otherTheme: NEXT_THEME[theme],
    otherThemeLabel: THEME_LABELS[theme],
    density,
    otherDensity: density === "compact" ? "comfortable" : "compact",
    times,
    // What the buttons that change it show and send.
    timesLabel: `Times: ${times.form}`,
    otherTimes: times.form === "relative" ? "absolute" : "relative",
    zoneLabel: `Zone: ${zoneOf(times)}`,
    otherZone: times.zone === "local" ? "utc" : "local",
    signedIn: session !== undefined,
    // Whether the reader may see who is signed in.
    managesAll: offeredTo(viewer).manageAll,
    // Differs from session to session, and says nothing about one.
    session:
      session === undefined ? "" : createHash("sha256").update(session).digest("base64url").slice(0, 12),
    // The number of all changes says how much happens that others may not see.
    tick: viewer.sight === undefined ? parts.hub.tick : 0,
    assets: parts.assets.urls,
    nav: [
      ...pages.map(({ href, label, icon }) => item(path, { href, label, icon, badge: badges[href] ?? 0 })),
      ...(extensions.length > 0 ? [RULE] : []),
      ...extensions.map(([at, { title }]) =>
        item(path, { href: `/admin/x/${at}`, label: title, icon: "page", badge: 0 }),
      ),
    ],
    flash,
  };
}

/** Numbers beside pages: of what the caller sees, and nothing for who sees nothing. */
async function readBadges(parts: CommonParts, viewer: Caller): Promise<Readonly<Record<string, number>>> {
  if (!mayCall(viewer, { needs: "view", narrows: true })) return {};
  const { cases, jobs } = parts.seen(viewer);
  const seesFailures = PAGES.some((page) => page.href === "/admin/failures" && isFor(viewer, page));
  const [{ awaiting = 0 }, failures] = await Promise.all([
    cases.countBy("status"),
    seesFailures ? countRecentFailures({ jobs, clock: parts.clock, attention: parts.attention }) : 0,
  ]);
  return { "/admin/inbox": awaiting, "/admin/failures": failures };
}

/** The color theme that the user chose; empty if the system decides. */
export function readTheme(event: HttpEvent, own: OwnAddress): keyof typeof NEXT_THEME {
  const theme = readCookie(event, own, THEME_COOKIE);
  return theme === "dark" || theme === "light" ? theme : "";
}

/** Pages below one of the navigation that have another path. */
const BELOW: readonly (readonly [RegExp, string])[] = [
  [/^\/admin\/cases\/[^/]+\/alike$/, "/admin/inbox"],
  [/^\/admin\/(?:deleted|bulk)(?:\/|$)/, "/admin/jobs"],
  [/^\/admin\/deleted-cases(?:\/|$)/, "/admin/cases"],
  [/^\/admin\/sessions(?:\/|$)/, "/admin/access"],
];

/** Where a path belongs in the navigation. */
function placeOf(path: string): string {
  return BELOW.find(([pattern]) => pattern.test(path))?.[1] ?? path;
}

function isWithin(at: string, href: string): boolean {
  if (href === "/admin/") return at === "/admin" || at === href;
  return at === href || at.startsWith(`${href}/`);
}

const RULE = { href: "", label: "", icon: "", current: false, badge: "", rule: true };

function item(
  path: string,
  { href, label, icon, badge }: { href: string; label: string; icon: string; badge: number },
) {
  const current = isWithin(placeOf(path), href);
  const mark = badge > 0 ? html`<span class="count alert">${badge}</span>`.toString() : "";
  return { href, label, icon, current, badge: mark };
}
