import { spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

const FRONT = new URL("front.mjs", import.meta.url).href;

/** What a command left behind. */
export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Someone at a terminal in the folder of a project. */
export class User {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** All that was printed to them. */
  printed = "";

  constructor(cwd: string, env: Readonly<Record<string, string>>) {
    this.cwd = cwd;
    this.env = env;
  }

  /** Runs the installed command to its end. */
  svc(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Ended> {
    return this.#run(process.execPath, ["--import", FRONT, "node_modules/.bin/svc", ...args], env);
  }

  /** Types lines into a shell, whose path has the commands of the project. */
  shell(lines: string): Promise<Ended> {
    const PATH = `${join(this.cwd, "node_modules/.bin")}:${this.env.PATH}`;
    return this.#run("bash", ["-e", "-c", lines], { PATH, NODE_OPTIONS: `--import=${FRONT}` });
  }

  #run(program: string, args: readonly string[], env: Readonly<Record<string, string>>): Promise<Ended> {
    const child = spawn(program, args, { cwd: this.cwd, env: { ...this.env, ...env }, stdio: "pipe" });
    child.stdin.end();
    const told = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"] as const)
      child[name].setEncoding("utf8").on("data", (text: string) => {
        told[name] += text;
        this.printed += text;
      });
    return new Promise((resolve, reject) => {
      child.once("error", reject);
      child.once("close", (code) => resolve({ code, ...told }));
    });
  }

  write(file: string, text: string): void {
    mkdirSync(dirname(join(this.cwd, file)), { recursive: true });
    writeFileSync(join(this.cwd, file), text);
  }
}
