import { styleText } from "node:util";

type Style = "bold" | "dim" | "red" | "green" | "yellow" | "cyan";

/** Colors a text, or returns it as it is where there are no colors. */
export type Paint = (style: Style, text: string) => string;

export const PLAIN: Paint = (_style, text) => text;

/**
 * Colors for one stream: on a terminal, unless `NO_COLOR` is set; anywhere if `FORCE_COLOR` is, and nowhere if that is 0.
 * See https://no-color.org and https://force-color.org.
 */
export function createPaint(
  stream: { readonly isTTY?: boolean },
  env: Readonly<Record<string, string | undefined>>,
): Paint {
  const { FORCE_COLOR, NO_COLOR, TERM } = env;
  const isForced = FORCE_COLOR !== undefined && !["0", "false"].includes(FORCE_COLOR);
  const isWanted = FORCE_COLOR === undefined && !NO_COLOR && stream.isTTY === true && TERM !== "dumb";
  if (!isForced && !isWanted) return PLAIN;
  return (style, text) => styleText(style, text, { validateStream: false });
}

const STYLES: Readonly<Record<string, Style>> = {
  completed: "green",
  available: "green",
  delivered: "green",
  in_progress: "cyan",
  awaiting: "yellow",
  held: "yellow",
  cancelling: "yellow",
  waiting: "yellow",
  retrying: "yellow",
  failed: "red",
  dead: "red",
  cancelled: "dim",
  stopped: "dim",
};

/** A status in the color that the admin interface gives it. */
export function paintStatus(paint: Paint, status: string): string {
  const style = STYLES[status.trim()];
  return style === undefined ? status : paint(style, status);
}
