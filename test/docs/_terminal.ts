import type { ChildProcess } from "node:child_process";
import { stripVTControlCharacters } from "node:util";

/** Whether a terminal is shown what is typed and printed while a test is written. */
const isShown = process.env.SVC_SHOW !== undefined;
const PROMPT = /@@(\d+)@@/;

/** What a command printed, and its exit code. */
export interface Printed {
  readonly code: number;
  readonly output: string;
}

/** An interactive shell at a terminal: what is typed is what a person would type. */
export class Terminal {
  /** Starts one. */
  static readonly command = ["script", "-qfec", "bash --norc --noprofile --noediting -i", "/dev/null"];
  readonly #child: ChildProcess;
  readonly #listeners = new Set<() => void>();
  /** Printed since the last command was typed. */
  #output = "";
  #ended = false;

  constructor(child: ChildProcess, name: string) {
    this.#child = child;
    child.stdout!.setEncoding("utf8").on("data", (text: string) => {
      if (isShown) process.stderr.write(`[${name}] ${text}`);
      this.#output += text;
      for (const listener of this.#listeners) listener();
    });
    child.once("close", () => {
      this.#ended = true;
      for (const listener of this.#listeners) listener();
    });
  }

  /** Prepares the shell, in a folder. */
  async open(folder: string): Promise<void> {
    this.type(`stty -echo cols 200; PS1='@''@$?@''@'; PS2=; cd '${folder}'\n`);
    await this.sees(PROMPT);
  }

  /** Runs a command line to its end. */
  async run(line: string): Promise<Printed> {
    this.start(line);
    return this.finished();
  }

  /** Types a command line. */
  start(line: string): void {
    this.#output = "";
    this.type(`${line}\n`);
  }

  /** Waits for the end of the command line. */
  async finished(): Promise<Printed> {
    const [prompt, code] = await this.sees(PROMPT);
    const output = stripVTControlCharacters(this.#output.slice(0, this.#output.indexOf(prompt)));
    return { code: Number(code), output: output.replaceAll("\r\n", "\n") };
  }

  /** Ends the command line with Ctrl-C. */
  interrupt(): Promise<Printed> {
    this.type("\u0003");
    return this.finished();
  }

  type(keys: string): void {
    this.#child.stdin!.write(keys);
  }

  /** Resolves once what the command has printed matches. */
  sees(pattern: RegExp): Promise<RegExpExecArray> {
    return new Promise((resolve, reject) => {
      const look = (): void => {
        const match = pattern.exec(stripVTControlCharacters(this.#output));
        const isOver = this.#ended || (pattern !== PROMPT && PROMPT.test(this.#output));
        if (!match && !isOver) return;
        this.#listeners.delete(look);
        if (match) resolve(match);
        else reject(new Error(`It ended without ${pattern}:\n${this.#output}`));
      };
      this.#listeners.add(look);
      look();
    });
  }
}
