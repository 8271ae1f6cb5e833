import { withQuery } from "../query.ts";
import { formatCount } from "../views/format.ts";

/** The parts of a job's page, one of which is shown below its verdict. */
export const TAB_NAMES = ["timeline", "log", "calls", "history"] as const;
export type TabName = (typeof TAB_NAMES)[number];

const LABELS: Readonly<Record<TabName, string>> = {
  timeline: "Timeline",
  log: "Log",
  calls: "Model calls",
  history: "History",
};

/** The tabs of a job's page: links, so that they work without script and can be shared. */
export function toTabs(current: TabName, calls: number) {
  return TAB_NAMES.map((name) => ({
    label: LABELS[name],
    href: name === "timeline" ? "?" : withQuery("", { tab: name }),
    current: name === current,
    // How much it has, where that is known.
    count: name === "calls" && calls > 0 ? formatCount(calls) : "",
  }));
}
