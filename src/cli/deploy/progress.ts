import type { DeployEvent } from "../../deploy/events.ts";
import type { CliContext } from "../context.ts";
import { PLAIN } from "../paint.ts";
import { cut, duration } from "./terminal.ts";

/** Shows the progress that the engine reports. */
export interface Progress {
  show(event: DeployEvent): void;
  /** Clears the live area of the screen, before a question or at the end. */
  clear(): void;
}

const FRAMES = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const MARKS = { done: "✓", skipped: "-", failed: "✗" } as const;
const STYLES = { done: "green", skipped: "dim", failed: "red" } as const;

/** A live tree on a terminal; plain lines elsewhere, such as in CI. */
export function createProgress(context: CliContext, options: { verbose: boolean; quiet: boolean }): Progress {
  if (options.quiet) return { show: () => undefined, clear: () => undefined };
  return context.terminal ? liveTree(context, options.verbose) : plainLines(context, options.verbose);
}

function plainLines(context: CliContext, verbose: boolean): Progress {
  let title = "";
  return {
    show(event) {
      if (event.type === "step") {
        title = event.title;
        context.note(`… ${title}`);
      } else if (event.type === "end") context.note(endLine(context, title, event));
      else if (event.type === "notice") for (const line of noticeLines(context, event)) context.note(line);
      else if (event.type === "output" && verbose) context.note(`  | ${event.line}`);
    },
    clear: () => undefined,
  };
}

function liveTree(context: CliContext, verbose: boolean): Progress {
  const paint = context.paint?.note ?? PLAIN;
  const terminal = context.terminal!;
  let active: { title: string; begun: number; message: string } | undefined;
  let frame = 0;
  let shown = false;
  let timer: NodeJS.Timeout | undefined;

  function clear(): void {
    if (shown) terminal.write("\r\u001b[2K");
    shown = false;
  }
  function draw(): void {
    if (!active) return;
    clear();
    const spent = performance.now() - active.begun;
    const time = spent > 2000 ? ` ${duration(spent)}` : "";
    const message = active.message === "" ? "" : `  ${active.message}`;
    const line = `${FRAMES[frame++ % FRAMES.length]} ${active.title}${paint("dim", `${time}${message}`)}`;
    terminal.write(cut(line, terminal.columns() - 1));
    shown = true;
  }
  function say(line: string): void {
    clear();
    context.note(line);
    draw();
  }
  function stop(): void {
    clearInterval(timer);
    timer = undefined;
    clear();
  }

  return {
    show(event) {
      if (event.type === "step") {
        active = { title: event.title, begun: performance.now(), message: "" };
        timer ??= setInterval(draw, 80);
        timer.unref();
        draw();
      } else if (event.type === "end") {
        const title = active?.title ?? "";
        active = undefined;
        stop();
        context.note(endLine(context, title, event));
      } else if (event.type === "report" && active) active.message = event.message;
      else if (event.type === "output") {
        if (verbose) say(`  ${paint("dim", `│ ${event.line}`)}`);
        else if (active && event.line.trim() !== "") active.message = event.line.trim();
      } else if (event.type === "notice") for (const line of noticeLines(context, event)) say(line);
    },
    clear: stop,
  };
}

function endLine(context: CliContext, title: string, event: DeployEvent & { type: "end" }): string {
  const paint = context.paint?.note ?? PLAIN;
  const { outcome, note, ms } = event;
  const time = outcome === "skipped" ? "" : ` ${duration(ms)}`;
  const text = `${paint(STYLES[outcome], MARKS[outcome])} ${title}`;
  return `${text}${paint("dim", `${time}${note ? `  ${note}` : ""}`)}`;
}

function noticeLines(context: CliContext, event: DeployEvent & { type: "notice" }): string[] {
  const paint = context.paint?.note ?? PLAIN;
  const mark = event.level === "warning" ? paint("yellow", "! Warning:") : "i";
  return [`${mark} ${event.message}`, ...(event.fix ? [`  ${event.fix}`] : [])];
}
