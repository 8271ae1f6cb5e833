import { withQuery } from "../query.ts";
import { formatCount } from "../views/format.ts";

/** The parts of a job's page, one of which is shown below its verdict. */
export const TAB_NAMES = ["timeline", "log", "calls", "history"] as const;
export type TabName = (typeof TAB_NAMES)[number];

/** A tab of a job's page. */
export interface TabView {
  readonly label: string;
  readonly href: string;
  readonly current: boolean;
  /** How much it has; empty where that is not known. */
  readonly count: string;
}

const LABELS: Readonly<Record<TabName, string>> = {
  timeline: "Timeline",
  log: "Log",
  calls: "Model calls",
  history: "History",
};

/** The tabs of a job's page: links, so that they work without script and can be shared. */
export function toTabs(current: TabName, calls: number): TabView[] {
  return TAB_NAMES.map((name) => ({
    label: LABELS[name],
    href: name === "timeline" ? "?" : withQuery("", { tab: name }),
    current: name === current,
    count: name === "calls" && calls > 0 ? formatCount(calls) : "",
  }));
}
