import { randomUUID } from "node:crypto";
import type { CliContext } from "./context.ts";

/**
 * Text from agents must not control the terminal: control characters except tab and line feed are escaped the
 * way JSON escapes them, so that JSON stays JSON.
 */
export function printable(text: string): string {
  return text.replace(/[^\P{Cc}\t\n]/gu, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** The context of commands that print what agents wrote: no control character reaches the terminal but our own colors. */
export function withPrintable(context: CliContext): CliContext {
  const { paint, write } = context;
  // Replaces the escape character of a color; nobody can guess it.
  const mark = randomUUID();
  return {
    ...context,
    print: (line) => context.print(printable(line).replaceAll(mark, "\u001b")),
    ...(write && { write: (text: string) => write(printable(text)) }),
    ...(paint && {
      paint: {
        ...paint,
        print: (style, text) => paint.print(style, printable(text)).replaceAll("\u001b", mark),
      },
    }),
  };
}
