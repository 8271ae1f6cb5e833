import { createHash } from "node:crypto";
import type { HttpEvent } from "../../core/http/route.ts";
import type { OwnAddress } from "../../core/http/same-origin.ts";
import { VERSION } from "../../core/http/service-state.ts";
import { readCookie } from "./cookies.ts";
import { countRecentFailures } from "./failures/count-recent.ts";
import type { Flash } from "./flash.ts";
import type { AdminParts } from "./parts.ts";
import { SESSION_COOKIE } from "./sessions.ts";
import { readTimes, type TimeSetting, zoneOf } from "./times.ts";
import { html } from "./views/html.ts";

export const THEME_COOKIE = "svc-theme";

/** What every page has around its content. */
export interface Shell {
  readonly title: string;
  readonly environment: string;
  readonly version: string;
  readonly path: string;
  readonly theme: string;
  readonly otherTheme: string;
  readonly otherThemeLabel: string;
  readonly times: TimeSetting;
  /** What the buttons that change it show and send. */
  readonly timesLabel: string;
  readonly otherTimes: TimeSetting["form"];
  readonly zoneLabel: string;
  readonly otherZone: TimeSetting["zone"];
  readonly signedIn: boolean;
  /** Differs from session to session, and says nothing about one. */
  readonly session: string;
  readonly tick: number;
  readonly assets: AdminParts["assets"]["urls"];
  readonly nav: readonly NavItem[];
  readonly flash: Flash | undefined;
}

interface NavItem {
  readonly href: string;
  readonly label: string;
  readonly icon: string;
  readonly current: boolean;
  readonly badge: string;
  readonly rule?: boolean;
}

/** Pages of the navigation. */
export const PAGES = [
  ["/admin/", "Dashboard", "dashboard"],
  ["/admin/jobs", "Jobs", "jobs"],
  ["/admin/cases", "Cases", "cases"],
  ["/admin/inbox", "Inbox", "inbox"],
  ["/admin/failures", "Failures", "close"],
  ["/admin/agents", "Agents", "agents"],
  ["/admin/models", "Models", "models"],
  ["/admin/schedules", "Schedules", "schedules"],
  ["/admin/events", "Events", "events"],
  ["/admin/console", "Console", "console"],
  ["/admin/deliveries", "Deliveries", "deliveries"],
  ["/admin/audit", "Audit log", "audit"],
  ["/admin/server", "Server", "server"],
] as const;

const NEXT_THEME = { "": "dark", dark: "light", light: "" } as const;
const THEME_LABELS = { "": "Theme: system", dark: "Theme: dark", light: "Theme: light" } as const;

/** Builds the frame of a page. */
export async function createShell(parts: AdminParts, event: HttpEvent, flash?: Flash): Promise<Shell> {
  const path = event.url.pathname;
  const theme = readTheme(event, parts);
  const times = readTimes(event, parts);
  const session = readCookie(event, parts, SESSION_COOKIE);
  const [{ awaiting = 0 }, failures] = await Promise.all([
    parts.cases.countBy("status"),
    countRecentFailures(parts),
  ]);
  const badges: Readonly<Record<string, number>> = {
    "/admin/inbox": awaiting,
    "/admin/failures": failures,
  };
  return {
    title: parts.options.title,
    environment: parts.service.environment,
    version: VERSION,
    path: path + event.url.search,
    theme,
    otherTheme: NEXT_THEME[theme],
    otherThemeLabel: THEME_LABELS[theme],
    times,
    timesLabel: `Times: ${times.form}`,
    otherTimes: times.form === "relative" ? "absolute" : "relative",
    zoneLabel: `Zone: ${zoneOf(times)}`,
    otherZone: times.zone === "local" ? "utc" : "local",
    signedIn: session !== undefined,
    session:
      session === undefined ? "" : createHash("sha256").update(session).digest("base64url").slice(0, 12),
    tick: parts.hub.tick,
    assets: parts.assets.urls,
    nav: [
      ...PAGES.map(([href, label, icon]) => item(path, { href, label, icon, badge: badges[href] ?? 0 })),
      ...(parts.extensions.pages.size > 0 ? [RULE] : []),
      ...[...parts.extensions.pages].map(([at, { title }]) =>
        item(path, { href: `/admin/x/${at}`, label: title, icon: "page", badge: 0 }),
      ),
    ],
    flash,
  };
}

/** The color theme that the user chose; empty if the system decides. */
export function readTheme(event: HttpEvent, own: OwnAddress): keyof typeof NEXT_THEME {
  const theme = readCookie(event, own, THEME_COOKIE);
  return theme === "dark" || theme === "light" ? theme : "";
}

const RULE: NavItem = { href: "", label: "", icon: "", current: false, badge: "", rule: true };

function item(
  path: string,
  { href, label, icon, badge }: { href: string; label: string; icon: string; badge: number },
): NavItem {
  const root = href === "/admin/";
  const current = root ? path === "/admin" || path === href : path === href || path.startsWith(`${href}/`);
  const mark = badge > 0 ? html`<span class="count alert">${badge}</span>`.toString() : "";
  return { href, label, icon, current, badge: mark };
}
