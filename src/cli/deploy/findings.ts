import type { Finding } from "../../deploy/platform.ts";
import type { Paint } from "../paint.ts";
import { pad } from "./terminal.ts";

const MARKS = { ok: ["green", "✓"], warning: ["yellow", "!"], error: ["red", "✗"] } as const;

/** Findings, one per line, each with what to do about it. */
export function findingLines(findings: readonly Finding[], paint: Paint): string[] {
  const width = Math.max(0, ...findings.map(({ subject }) => subject.length)) + 2;
  return findings.flatMap(({ level, subject, message, fix }) => {
    const [style, mark] = MARKS[level];
    const line = `${paint(style, mark)} ${pad(subject, width)}${message}`;
    return fix === undefined || level === "ok"
      ? [line]
      : [line, `  ${" ".repeat(width)}${paint("bold", "→")} ${fix}`];
  });
}
